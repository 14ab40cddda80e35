"""What is printed says what was found, and the exit code says the same."""

from __future__ import annotations

import io
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ensemble_tools.answers.exchange import Refusal, TensorAnswer, TensorRequest
from tests.unit.verification.answers import answer
from verification.__main__ import DIFFERENT, EQUAL, MISUSED, choose_exit_code, main
from verification.comparing.comparison import Agreement, Comparison, Names, compare
from verification.reports.json_report import to_json
from verification.reports.progress import Progress
from verification.reports.report import Cost, Outcome, Report, Timing, WorkflowReport
from verification.reports.text_report import format_table, write_text_lines
from verification.serving.asking import extract_sentence, name_another_python
from verification.serving.memory import Memory, measure

ONE = answer(click=np.array([1.0, 2.0], dtype=np.float32))
OTHER = answer(click=np.array([1.0, 2.5], dtype=np.float32))
SAME = compare(ONE, ONE)
REFUSED = compare(Refusal("no such row"), Refusal("in ensemble: no such row"))


def report(*found: Comparison) -> Report:
    outcomes = tuple(
        Outcome(TensorRequest(f"request {number}", ONE.tensors, rows=2), one)
        for number, one in enumerate(found, 1)
    )
    return Report("archive", "pure ensemble", ("a reason",), ("a note",), (), 0.0, outcomes, ())


def printed(one: Report) -> str:
    return "\n".join(write_text_lines(one))


def test_equal() -> None:
    """All equal: said so, exit code 0."""
    one = report(SAME, SAME, REFUSED)
    assert choose_exit_code(one) == EQUAL
    text = printed(one)
    assert "EQUAL: 2 of 3 requests" in text
    assert "1 refused by both" in text
    assert "because: a reason" in text
    assert "note: a note" in text
    assert "executor: no such row" in text
    assert "serving form: in ensemble: no such row" in text


def test_a_line_of_several_archives_says_each_thing_once() -> None:
    """Of equal forms the first and how many more; else those that differ alone."""
    worse = replace(SAME, verdict=Agreement.DIFFERENT)
    request = TensorRequest("request", ONE.tensors, rows=2)
    equal = replace(report(SAME), outcomes=(Outcome(request, SAME, SAME),))
    assert equal.summary == f"{equal.conclusions[0]} (2 comparisons, all equal)"
    assert report(SAME).summary == report(SAME).conclusions[0]
    one_differs = replace(report(SAME), outcomes=(Outcome(request, SAME, worse),))
    assert one_differs.summary == one_differs.conclusions[1]
    assert one_differs.summary.startswith("DIFFERENT")


@pytest.mark.parametrize("verdict", [one for one in Agreement if one.is_failure])
def test_one_failure_is_enough(verdict: Agreement) -> None:
    """Whatever else is equal."""
    one = report(SAME, Comparison(verdict), SAME)
    assert choose_exit_code(one) == DIFFERENT
    assert "DIFFERENT: 1 of 3 requests" in printed(one)


def test_different_is_shown() -> None:
    """The row has the largest difference; the first place stands below the table."""
    text = printed(report(compare(ONE, OTHER)))
    assert "different" in text
    assert "0.5 (relative 2.5e-01)" in text
    assert "2.0 from the executor, 2.5 from the serving form" in text


@pytest.mark.parametrize("found", [(), (REFUSED,), (compare(Refusal("no"), ONE),)])
def test_nothing_compared_is_no_success(found: tuple[Comparison, ...]) -> None:
    """Refusals alone prove nothing, and neither does nothing at all."""
    assert choose_exit_code(report(*found)) == DIFFERENT
    assert "NOT VERIFIED" in printed(report(*found))


def test_a_long_capture_is_folded() -> None:
    """Requests of one good result are counted after the twentieth; those that differ stay, and so
    do edge ones. A sentence of many requests names the first of them.
    """
    near = compare(ONE, OTHER, 0.5)
    differs = compare(ONE, OTHER)
    one = report(*[SAME] * 67, differs, *[near] * 21, *[REFUSED] * 25)
    edge = Outcome(TensorRequest("an edge", ONE.tensors, ordinary=False), SAME)
    text = printed(replace(one, outcomes=(*one.outcomes, edge)))
    rows = [line for line in text.splitlines() if re.match(r"(request \d+|an edge) .*  ", line)]
    assert len(rows) == 20 + 1 + 20 + 25 + 1
    assert "\n47 requests more: equal\n" in text
    assert "\n1 request more: within tolerance, largest difference 0.5 (relative 2.5e-01)\n" in text
    assert "request 109; and 5 more:" in text
    assert len(json.loads(to_json(one))["requests"]) == 114
    both = tuple(replace(outcome, compiled=SAME) for outcome in report(*[SAME] * 22).outcomes)
    assert "\n2 requests more: equal, compiled equal\n" in printed(replace(one, outcomes=both))


def test_costs_are_a_table() -> None:
    """Times in ms, memory in MiB, of both forms."""
    mib = 1024 * 1024
    costs = (
        Cost("executor", 5.25, Memory(3, 1200 * mib, 800 * mib), Timing(100, 0.0085, 0.01)),
        Cost("pure ensemble", 2.5, Memory(2, 700 * mib, None), None),
    )
    text = printed(replace(report(SAME), costs=costs, timed="5 rows"))
    assert "8.50 ms" in text
    assert "1200 MiB" in text
    assert "5.25 s" in text
    assert "100 requests `5 rows`" in text


COMPILED = Names("the executor", "the compiled form")
ALONE = Names("NVTabular", "the compiled workflow")


def compiled_report(of_form: Comparison, alone: Comparison) -> Report:
    """One request, equal but for the compiled form, and the compiled workflow asked alone."""
    request = TensorRequest("request 1", ONE.tensors, rows=2)
    workflows = (
        WorkflowReport("0_w", {"Categorify": 2}, "", (Outcome(request, alone),)),
        WorkflowReport("1_w", not_compiled="the category file x is missing"),
    )
    outcomes = (Outcome(request, SAME, of_form),)
    costs = (
        Cost("executor", 5.0, None, None),
        Cost("pure ensemble", 4.0, None, None),
        Cost("pure ensemble, compiled", 1.0, None, None),
    )
    return replace(report(SAME), outcomes=outcomes, workflows=workflows, costs=costs)


@pytest.mark.parametrize("of_form", [ONE, OTHER])
@pytest.mark.parametrize("alone", [ONE, OTHER])
def test_compiled_form(of_form: TensorAnswer, alone: TensorAnswer) -> None:
    """It is one more form, and each workflow one more thing that may differ."""
    one = compiled_report(
        compare(ONE, of_form, names=COMPILED), compare(ONE, alone, names=ALONE, bit_for_bit=True)
    )
    equal = [True, of_form is ONE, alone is ONE]
    assert choose_exit_code(one) == (EQUAL if all(equal) else DIFFERENT)
    assert [found.is_equal for found in one.findings] == equal
    words = ["EQUAL" if same else "DIFFERENT" for same in equal]
    assert [text.partition(":")[0] for text in one.conclusions] == words
    text = printed(one)
    assert "compiled: 0_w: numpy  (2 Categorify)" in text
    assert "not compiled: 1_w: the category file x is missing" in text
    assert ": compiled form, 1 of 1 requests" in text
    assert ": 0_w alone, 1 of 1 requests" in text
    costs = [line for line in text.splitlines() if line.startswith("pure ensemble")]
    assert costs[0].endswith("  0")
    assert costs[1].endswith("  0" if of_form is ONE else "  0.5 (relative 2.5e-01)")
    assert ("2.0 from the executor, 2.5 from the compiled form" in text) == (of_form is OTHER)
    assert ("0_w alone, request 1:" in text) == (alone is OTHER)
    found = json.loads(to_json(one))
    assert found["equal"] == all(equal)
    assert found["requests"][0]["result"] == "equal"
    assert found["requests"][0]["compiled"]["failure"] == (of_form is OTHER)
    assert [row["compiled"] for row in found["workflows"]] == [True, False]
    assert found["workflows"][0]["requests"][0]["failure"] == (alone is OTHER)
    assert found["workflows"][1]["reason"] == "the category file x is missing"


def test_a_workflow_that_answers_nothing() -> None:
    """Alone it may refuse what is generated, as NVTabular does: the executor was asked all the same."""  # noqa: E501  # one sentence
    one = compiled_report(replace(SAME, names=COMPILED), replace(REFUSED, names=ALONE))
    assert choose_exit_code(one) == EQUAL
    assert "NOT COMPARED: 0_w alone, neither form answers" in printed(one)


def test_json_is_json() -> None:
    """Numbers that JSON cannot say are texts; the verdict is there as such."""
    nan = answer(click=np.array([np.nan, 2.0], dtype=np.float32))
    found = json.loads(to_json(report(SAME, compare(ONE, nan))))
    assert found["equal"] is False
    assert [one["result"] for one in found["requests"]] == ["equal", "different"]
    assert found["requests"][1]["outputs"][0]["largest_absolute_difference"] == "inf"
    assert found["requests"][0]["inputs"] == {"click": "FP32 [2]"}


def test_terminals_are_not_obeyed() -> None:
    """A name from an archive moves no cursor."""
    one = replace(report(SAME), archive="a\x1b[2Jb")
    assert "\x1b" not in printed(one)


def test_table_is_aligned() -> None:
    """Every column begins at one place."""
    lines = list(format_table(("a", "b"), [("long cell", "1"), ("x", "2")]))
    assert {line.index(one) for line, one in zip(lines, "b-12", strict=True) if one != "-"} == {11}


def stub(processes: Path, number: int, model: Path, pss: str) -> None:
    entry = processes / str(number)
    entry.mkdir(parents=True)
    command = f"/x/triton_python_backend_stub\0{model}/1/model.py\0serve_1\0"
    (entry / "cmdline").write_text(command)
    (entry / "status").write_text("Name: stub\nVmRSS:\t    2048 kB\n")
    if pss:
        (entry / "smaps_rollup").write_text(f"00-ff ---p\nRss: 2048 kB\nPss: {pss} kB\n")


def test_memory_of_some_models(tmp_path: Path) -> None:
    """Only the stubs of the models that are asked for; no PSS where the kernel has none."""
    processes, serving = tmp_path / "proc", tmp_path / "serving"
    stub(processes, 1, serving / "a", "1024")
    stub(processes, 2, serving / "a.step", "512")
    stub(processes, 3, serving / "other", "512")
    stub(processes, 4, tmp_path / "elsewhere" / "a", "512")
    (processes / "5").mkdir()
    (processes / "5/cmdline").write_text("")
    found = measure(serving, ("a", "a.step"), processes)
    assert found == Memory(2, 4096 * 1024, 1536 * 1024)
    stub(processes, 6, serving / "b", "")
    assert measure(serving, ("b",), processes) == Memory(1, 2048 * 1024, None)


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ("unexpected inference input 'a'", "unexpected inference input 'a'"),
        (
            "Failed to process the request(s), message: ValueError: no\n\nAt:\n  x(1)",
            "Failed to process the request(s), message: ValueError: no",
        ),
        (
            "m: Traceback (most recent call last):\n  File x\n    f()\nKeyError: 'a'\n",
            "KeyError: 'a'",
        ),
        (
            "Traceback (most recent call last):\n  File x\nx.XError: bad\nStack:\n  [bt] (1)\n",
            "x.XError: bad",
        ),
        ("m failed: bad\nStack trace:\n  [bt] (1) x\n", "m failed: bad"),
        ("Error: - Failed, Traceback: ['  File x\\n']", "Error: - Failed"),
        ("", ""),
    ],
)
def test_refusals_in_a_sentence(message: str, sentence: str) -> None:
    """Of what Triton and the models say, the part that says what was wrong."""
    assert extract_sentence(message) == sentence


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_progress_on_a_terminal() -> None:
    """The line is there while it lasts, and cleared after."""
    import asyncio

    terminal = Terminal()
    progress = Progress(terminal)
    progress.tell("loading")
    async with progress.shown():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert "loading … 0 s" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


async def test_no_progress_elsewhere() -> None:
    """A file gets no line."""
    stream = io.StringIO()
    async with Progress(stream).shown():
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["x", "--batches", "0"],
        ["x", "--python", "/gone/python"],
        ["x", "--python", "/tmp"],
        ["x", "--batches", "1,a"],
        ["x", "--seed", "-1"],
        ["x", "--tolerance", "nan"],
        ["x", "--tolerance", "-1"],
        ["x", "--format", "yaml"],
    ],
)
def test_misuse(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line is exit code 2 and a sentence."""
    with pytest.raises(SystemExit) as caught:
        main(arguments, {})
    assert caught.value.code == MISUSED
    assert "python -m ensemble_tools verify: error: " in capsys.readouterr().err


def test_help_suffices(capsys: pytest.CaptureFixture[str]) -> None:
    """Every result, every exit code and every heeded variable stands in it."""
    with pytest.raises(SystemExit) as caught:
        main(["--help"], {})
    assert caught.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for verdict in Agreement:
        assert verdict.value in text
    for code in (0, 1, 2, 130):
        assert f" {code} " in text
    assert "SERVE_BACKEND_PYTHON" in text


def test_no_executor_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive that is served as delivered has nothing to compare: a sentence, exit code 0."""
    (tmp_path / "m/1").mkdir(parents=True)
    (tmp_path / "m/1/model.py").touch()
    (tmp_path / "m/config.pbtxt").write_text('backend: "python"')
    assert main([str(tmp_path)], {}) == EQUAL
    out = capsys.readouterr().out
    assert "served as delivered" in out
    assert len(out.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["nowhere"], {}, "nowhere: there is no such file or directory"),
        (["nowhere", "--requests", "none.json"], {}, "none.json: there is no such file"),
        (["nowhere"], {"SERVE_LOAD_TIMEOUT": "soon"}, "SERVE_LOAD_TIMEOUT is 'soon'"),
    ],
)
def test_errors_are_one_sentence(
    arguments: list[str],
    environment: dict[str, str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the file or the variable in it; exit code 1."""
    assert main(arguments, environment) == DIFFERENT
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert said in err
    assert err.count(os.linesep) == 1


@pytest.mark.parametrize(
    "found",
    [
        "m needs xgboost, which the models' Python does not have (no); install it there or set "
        "SERVE_BACKEND_PYTHON to an interpreter that has it; or build the image on another base",
        "m failed to load: ModuleNotFoundError: No module named 'cv2'; install "
        "opencv-python-headless into the Python that runs models",
    ],
)
def test_a_library_that_lacks_is_in_another_python(found: str) -> None:
    """verify is given one by --python; what a container is told to do is left out."""
    assert name_another_python(found) == (
        f"{found.partition('; ')[0]}; name a Python that has it with --python: in a checkout "
        ".venv-frameworks/bin/python, which `make setup` makes"
    )
    assert name_another_python("m failed to load: no; see it") == "m failed to load: no; see it"


def test_a_module_of_the_archives_own_is_in_no_python_of_ours() -> None:
    beside = ", or put it into the archive beside the executor's model.py"
    lacking = "No module named 'ours'"
    assert name_another_python(
        f"{lacking}; install it into the Python that runs models{beside}"
    ) == (f"{lacking}; name a Python that has it with --python{beside}")
