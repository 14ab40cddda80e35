"""`verify` says that equal forms are equal, that others are not, and leaves nothing behind.

The archives of small Python models stand for executors here: two archives with the same model name
are two forms of one thing, equal or not.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from container.settings.reading import read_settings
from ensemble_tools import Namespace, ServingPlan, plan_archive, read_repository
from ensemble_tools import __main__ as command
from ensemble_tools.signals import INTERRUPTED
from ensemble_tools.workflows.runtime.operations.scaling import Normalize
from tests.end_to_end.conftest import EXAMPLES, ended_late
from tests.support.captures import make_record, write_capture
from tests.support.clock import Clock
from tests.support.container import ROOT, SHARED_MEMORY, until
from tests.support.models import (
    PythonModel,
    adder,
    hanging,
    identity,
    killing,
    raising,
    unwilling,
    write_archive,
)
from tests.support.signals import as_in_front, interrupt
from tests.support.temporary import left_empty, running_from
from verification.__main__ import DIFFERENT, EQUAL, MISUSED, choose_exit_code
from verification.comparing.comparison import Agreement
from verification.comparing.forms import COMPILED, EXECUTOR, SERVED, Forms, read_forms
from verification.errors import FormUnusable
from verification.reports.progress import Progress
from verification.reports.report import Report
from verification.requests.request_bodies import make_binary
from verification.requests.request_file import read_requests
from verification.run import Task, verify

PROGRAM_TIMEOUT_S = 800.0
PROGRAM = (sys.executable, "-m", "ensemble_tools")

SQUEAMISH = PythonModel("""
class TritonPythonModel(Each):
    def answer(self, request, values):
        if (values < 0).any():
            raise ValueError("negative numbers")
        return respond(request, values)
""")
RANDOM = PythonModel("""
class TritonPythonModel(Each):
    def answer(self, request, values):
        return respond(request, np.random.default_rng().permutation(np.arange(20.0)))
""")
OTHER_RANDOM = PythonModel(RANDOM.source.replace("arange(20.0)", "arange(20.0) + 1"))


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary directories are made, but that of the test, which is there before it."""
    before = regions()
    with left_empty(monkeypatch) as directory:
        yield directory
    assert regions() <= before


def regions() -> set[str]:
    """Shared memory that this process made; other tests' is not ours."""
    return {path.name for path in SHARED_MEMORY.glob(f"serve_{os.getpid()}_*")}


def run(task: Task) -> Report:
    return asyncio.run(verify(task, read_settings({}), os.environ, Progress()))


def forms_of(tmp_path: Path, executor: PythonModel, served: PythonModel) -> Forms:
    """Two archives with one model each, as if they were an executor and its serving form."""
    first, second = (
        read_repository(write_archive(tmp_path / name, {"m": model}))
        for name, model in ((EXECUTOR, executor), (SERVED, served))
    )
    return Forms(
        first,
        plan_archive(first, None, Namespace(EXECUTOR)),
        plan_archive(second, None, Namespace(SERVED)),
    )


def compared(tmp_path: Path, executor: PythonModel, served: PythonModel) -> Report:
    return run(Task(forms_of(tmp_path, executor, served), batches=(1, 5), timing=False))


def verdicts(report: Report) -> set[Agreement]:
    return {outcome.comparison.verdict for outcome in report.outcomes}


def program(*arguments: str | Path, **options: str) -> subprocess.CompletedProcess[str]:
    """`python -m verification`, as a user's terminal runs it."""
    return subprocess.run(
        [sys.executable, "-m", "verification", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **options},
        capture_output=True,
        text=True,
        timeout=PROGRAM_TIMEOUT_S,
        check=False,
    )


def test_dense_export_is_equal(tmp_path: Path) -> None:
    """The whole program on a real export: exit code 0, every answer equal, times and memory.

    A plan reads what it printed: the figures of the form that a container serves.
    """
    done = program(EXAMPLES / "dense/repository", "--format", "json")
    assert done.returncode == EQUAL, done.stdout + done.stderr
    assert all(line.startswith("[") for line in done.stderr.splitlines()), done.stderr
    found = json.loads(done.stdout)
    assert found["equal"] is True
    assert found["served_as"] == "pure ensemble"
    results = {one["request"]: one["result"] for one in found["requests"]}
    assert [results[title] for title in ("1 row", "5 rows", "100 rows")] == ["equal"] * 3
    compiled = {one["request"]: one["compiled"]["result"] for one in found["requests"]}
    assert compiled == results
    executor, ensemble, numpy = found["costs"]
    assert numpy["form"] == "pure ensemble, compiled"
    assert executor["processes"] == ensemble["processes"] + 1 == numpy["processes"] + 1
    assert executor["resident_bytes"] > ensemble["resident_bytes"] + 200e6
    assert ensemble["resident_bytes"] > numpy["resident_bytes"] + 200e6
    (workflow,) = found["workflows"]
    assert (workflow["model"], workflow["compiled"]) == ("0_transformworkflowtriton", True)
    assert workflow["operators"]["Categorify"] == 1
    alone = {one["request"]: one["result"] for one in workflow["requests"]}
    assert {alone[title] for title in alone if title != "no rows"} == {"equal"}
    assert "unseen categories: huge ids" in alone
    assert "NaN and infinities" in alone
    assert 0 < ensemble["p50_s"] < 10
    assert executor["timed_requests"] == 100


@pytest.mark.thorough
def test_ragged_export_with_given_requests(tmp_path: Path) -> None:
    """Captured ones are asked, and nothing else; --compile off compares NVTabular alone."""
    path = EXAMPLES / "ragged/request.json"
    (request,) = read_requests(path)
    body = make_binary(request)
    write_capture(
        tmp_path, [make_record(path.read_bytes()), make_record(body.content, body.content_type)]
    )
    options = ("--requests", tmp_path, "--skip-timing", "--compile", "off")
    done = program(EXAMPLES / "ragged/repository", *options)
    assert done.returncode == EQUAL, done.stdout + done.stderr
    assert "EQUAL: 2 of 2 requests" in done.stdout
    assert "line 2 of 00-00-000.jsonl" in done.stdout
    assert "compiled" not in done.stdout


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """plain: a workflow of HashBucket, Clip, LogOp, FillMedian and Normalize; dropna: of Dropna."""
    destination = tmp_path_factory.mktemp("numbers")
    program = ROOT / "tests/support/numbers_export.py"
    subprocess.run(
        [ROOT / ".venv-merlin/bin/python", program, destination], check=True, capture_output=True
    )
    return destination


@pytest.mark.thorough
def test_healthy_export_without_rows(numbers: Path) -> None:
    """A request without rows is answered as Merlin answers it, also by the compiled workflow."""
    done = program(numbers / "plain", "--skip-timing", "--format", "json")
    assert done.returncode == EQUAL, done.stdout + done.stderr
    found = json.loads(done.stdout)
    (workflow,) = found["workflows"]
    for requests in (found["requests"], workflow["requests"]):
        results = {one["request"]: one["result"] for one in requests}
        assert results["no rows"] == "equal"
        assert {*results.values()} == {"equal", "both_refuse"}


@pytest.mark.thorough
def test_refused_by_design(numbers: Path, tmp_path: Path) -> None:
    """What a compiled workflow refuses by design is named as that, and is no failure."""
    tensors = [
        {"name": name, "datatype": kind, "shape": [2], "data": data}
        for name, kind, data in (("price", "FP32", [1.0, 2.0]), ("age", "FP64", [1.0, 2.0]))
    ]
    missing = [tensors[0], {**tensors[1], "data": [float("nan")] * 2}]
    requests = tmp_path / "requests.json"
    requests.write_text(json.dumps([{"inputs": tensors}, {"inputs": missing}]))
    options = ("--requests", requests, "--skip-timing")
    done = program(numbers / "dropna", *options)
    assert done.returncode == EQUAL, done.stdout + done.stderr
    assert "EQUAL: compiled form, 1 of 2 requests" in done.stdout
    assert "; 1 refused by design" in done.stdout
    assert "the compiled form: refused by design: every row has a missing value" in done.stdout
    assert "alone" not in done.stdout


def test_wrong_forms_are_seen() -> None:
    """A real ensemble that is wired wrongly, and a compiled workflow that computes other numbers.

    Both load and answer; verify says that each is wrong, and the workflow alone as well.
    """
    forms = read_forms(EXAMPLES / "dense/repository")
    assert forms is not None
    assert forms.served is not None
    served = swapped(forms.served, "user_id", "item_id")
    report = run(
        Task(replace(forms, served=served, compiled=shifted(forms.compiled)), timing=False)
    )
    assert choose_exit_code(report) == DIFFERENT
    ordinary = [one for one in report.outcomes if one.request.ordinary]
    assert {one.comparison.verdict for one in ordinary} == {Agreement.DIFFERENT}
    assert all("values differ, the first at [0]" in one.comparison.details[0] for one in ordinary)
    assert {one.compiled.verdict for one in ordinary if one.compiled} == {Agreement.DIFFERENT}
    (workflow,) = report.workflows
    assert workflow.outcomes[0].comparison.verdict is Agreement.DIFFERENT
    details = workflow.outcomes[0].comparison.details
    assert any("from NVTabular" in detail and "from the compiled" in detail for detail in details)
    assert first_words(report) == ["DIFFERENT"] * 3


def first_words(report: Report) -> list[str]:
    """Of the conclusions: the served form's, the compiled one's, the workflow's."""
    return [conclusion.partition(":")[0] for conclusion in report.conclusions]


def shifted(made: ServingPlan | None) -> ServingPlan:
    """The plan whose compiled workflow does not divide by the standard deviation."""
    assert made is not None
    models = []
    for model in made.models:
        if model.compiled is not None:
            program = model.compiled.program
            steps = tuple(
                replace(step, operation=replace(step.operation, std=0.0))
                if isinstance(step.operation, Normalize)
                else step
                for step in program.steps
            )
            assert steps != program.steps
            compiled = replace(model.compiled, program=replace(program, steps=steps))
            model = replace(model, compiled=compiled)
        models.append(model)
    return replace(made, models=tuple(models))


@pytest.mark.thorough
def test_archive_without_an_executor(tmp_path: Path) -> None:
    """A Triton ensemble of Merlin's is compared with itself after its workflow is compiled."""
    source, made = EXAMPLES / "ragged/repository", tmp_path / "made"
    arguments = ["rewrite", str(source), str(made), "--name", "shop", "--compile", "off"]
    assert command.main(arguments) == 0
    done = program(made, "--batches", "5")
    assert done.returncode == EQUAL, done.stdout + done.stderr
    assert "EQUAL: compiled form, " in done.stdout
    assert "EQUAL: shop.0_transformworkflowtriton alone, " in done.stdout
    assert "as delivered, compiled" in done.stdout
    assert "executor" not in done.stdout


def swapped(made: ServingPlan, first: str, second: str) -> ServingPlan:
    """The plan whose first step is given each column in the place of the other."""
    *steps, entry = made.models
    assert entry.config_text is not None
    config = text_format.Parse(entry.config_text, pb.ModelConfig())
    fed = config.ensemble_scheduling.step[0].input_map
    fed[first], fed[second] = fed[second], fed[first]
    entry = replace(entry, config_text=text_format.MessageToString(config))
    return replace(made, models=(*steps, entry))


def test_equal_models(tmp_path: Path) -> None:
    """Every kind of request, edge ones too, is equal between a model and itself."""
    report = compared(tmp_path, identity, identity)
    assert verdicts(report) == {Agreement.EQUAL}
    assert choose_exit_code(report) == EQUAL


def test_other_numbers(tmp_path: Path) -> None:
    """A small difference is one, unless the tolerance covers it."""
    forms = forms_of(tmp_path, identity, adder(1e-4))
    report = run(Task(forms, batches=(5,), timing=False))
    assert Agreement.DIFFERENT in verdicts(report)
    assert choose_exit_code(report) == DIFFERENT
    report = run(Task(forms, batches=(5,), timing=False, tolerance=1e-3))
    assert Agreement.WITHIN_TOLERANCE in verdicts(report)
    assert choose_exit_code(report) == EQUAL


def test_a_compiled_form_that_differs(tmp_path: Path) -> None:
    """Each form is judged by its own answers: that with NVTabular is equal all the same."""
    archive = read_repository(write_archive(tmp_path / COMPILED, {"m": adder(1.0)}))
    compiled = plan_archive(archive, None, Namespace(COMPILED))
    forms = replace(forms_of(tmp_path, identity, identity), compiled=compiled)
    report = run(Task(forms, batches=(5,), timing=False))
    assert verdicts(report) == {Agreement.EQUAL}
    ordinary = [one.compiled for one in report.outcomes if one.request.ordinary and one.compiled]
    assert {one.verdict for one in ordinary} == {Agreement.DIFFERENT}
    assert first_words(report) == ["EQUAL", "DIFFERENT"]
    assert choose_exit_code(report) == DIFFERENT


def test_serving_form_refuses(tmp_path: Path) -> None:
    """What only the executor answers is a failure, with the serving form's own words."""
    report = compared(tmp_path, identity, SQUEAMISH)
    assert verdicts(report) == {Agreement.EQUAL, Agreement.ONLY_EXECUTOR}
    assert choose_exit_code(report) == DIFFERENT
    details = [detail for one in report.outcomes for detail in one.comparison.details]
    assert any("negative numbers" in detail for detail in details)


def test_executor_refuses(tmp_path: Path) -> None:
    """What only the serving form answers is a note."""
    report = compared(tmp_path, SQUEAMISH, identity)
    assert verdicts(report) == {Agreement.EQUAL, Agreement.ONLY_SERVED}
    assert choose_exit_code(report) == EQUAL


def test_both_refuse(tmp_path: Path) -> None:
    """Nothing is proved then."""
    report = compared(tmp_path, raising, raising)
    assert verdicts(report) == {Agreement.BOTH_REFUSE}
    assert choose_exit_code(report) == DIFFERENT


def test_chance(tmp_path: Path) -> None:
    """Answers that differ each time are compared in distribution; other values are still seen."""
    assert verdicts(compared(tmp_path / "a", RANDOM, RANDOM)) == {Agreement.SAME_DISTRIBUTION}
    assert verdicts(compared(tmp_path / "b", RANDOM, OTHER_RANDOM)) == {Agreement.DIFFERENT}


async def test_hanging(clock: Clock, tmp_path: Path) -> None:
    """A form that never answers is waited for once, and the program ends all the same."""
    marker = tmp_path / "marker"
    task = Task(forms_of(tmp_path, identity, hanging(marker)), batches=(1, 5), timing=False)
    verifying = verify(task, read_settings({}), os.environ, Progress())
    report = await ended_late(verifying, marker, clock)
    assert [one.comparison.verdict for one in report.outcomes] == [
        Agreement.UNDECIDED,
        *[Agreement.NOT_ASKED] * (len(report.outcomes) - 1),
    ]
    assert "`served` gave no answer within 30 s" in report.outcomes[0].comparison.details[0]
    assert choose_exit_code(report) == DIFFERENT


def test_dying(tmp_path: Path) -> None:
    """A process that dies is no refusal: it proves nothing."""
    report = compared(tmp_path, identity, killing)
    assert verdicts(report) == {Agreement.UNDECIDED}


def test_that_does_not_load(tmp_path: Path) -> None:
    """The reason is the model's own; there is no container whose log could be looked at."""
    with pytest.raises(FormUnusable, match=r"no weights in /nowhere/weights\.bin") as caught:
        compared(tmp_path, identity, unwilling)
    assert "the log" not in str(caught.value)


@pytest.mark.parametrize(
    "moment",
    [
        *(0.0, 0.6, 2.5),
        *(pytest.param(it, marks=pytest.mark.thorough) for it in (0.1, 0.3, 0.9, 1.2, 1.5, 6.0)),
    ],
)
def test_interrupted_at_any_time(moment: float, temporary: Path, tmp_path: Path) -> None:
    """Ctrl-C while it imports, reads, starts processes, loads and asks: it ends."""
    command = [*PROGRAM, "verify", str(EXAMPLES / "dense/repository")]
    interrupt(command, moment, tmp_path / "said")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_interrupted_while_it_loads(
    number: signal.Signals, code: int, temporary: Path, tmp_path: Path
) -> None:
    """Ctrl-C, and again: no process, no shared memory, no directory stays."""
    with as_in_front(), (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "verification", EXAMPLES / "dense/repository"],
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: len(running_from(temporary)) >= 2, "tritonserver and a stub run")
        process.send_signal(number)
        process.send_signal(number)
        assert process.wait(120) == code, (tmp_path / "log").read_text()
    finally:
        process.kill()
        process.wait()
    assert all(line.startswith("[") for line in (tmp_path / "log").read_text().splitlines())
    assert not list(SHARED_MEMORY.glob(f"serve_{process.pid}_*"))


def test_python_that_is_none(tmp_path: Path) -> None:
    """--python is used, and refused with a sentence where it is no interpreter."""
    done = program(EXAMPLES / "dense/repository", "--python", tmp_path / "nothing")
    assert done.returncode == MISUSED
    assert "nothing': there is no such program; expected a Python" in done.stderr.splitlines()[-1]
