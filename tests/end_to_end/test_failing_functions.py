"""Functions of a workflow that fail, and what they do to their process, in every form.

`part`, `filter` and `own` are compiled in part, and so is that of `predictor`, which is run with it
in one process. `whole` is run by NVTabular, `executor` by Merlin's
executor, which asks `whole` first.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.contract.test_contract_warm import interpreters
from tests.support.container import ROOT, Container, running, until

PYTHON = ROOT / ".venv-merlin/bin/python"
PROGRAM = ROOT / "tests/support/failing_export.py"
#: Which operator each form names.
OPERATORS = {
    "part": "the workflow's LambdaOp of 'mode'",
    "filter": "the workflow's Filter of 'mode', 'price'",
    "own": "the workflow's Recency of 'mode'",
    "predictor": "the workflow's LambdaOp of 'mode'",
    "whole": "the workflow's LambdaOp",
    "executor": "the workflow's LambdaOp",
}
COLUMNS = {"part": ("mode", "price"), "later": ("mode", "price", "weight")}
COLUMNS |= dict.fromkeys(("filter", "own", "predictor"), COLUMNS["part"])
LINES = PROGRAM.read_text().splitlines()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    directory = tmp_path_factory.mktemp("failing")
    command: list[str | Path] = [PYTHON, "-W", "ignore", PROGRAM, directory / "exports"]
    subprocess.run(command, check=True, capture_output=True, cwd=directory)
    with running(directory / "work", SERVE_MODEL_ROOT=str(directory)) as container:
        for export in (directory / "exports").iterdir():
            loaded = container.load(export.name, export)
            assert loaded.status_code == 200, loaded.text
        yield container


def ask(served: Container, name: str, mode: int, price: float = 1.0) -> httpx.Response:
    """The container's answer to two rows alike."""
    values = {"mode": ("INT64", mode), "price": ("FP64", price), "weight": ("FP64", price)}
    return served.invoke(
        name,
        {
            "inputs": [
                {"name": column, "datatype": kind, "shape": [2], "data": [value, value]}
                for column, (kind, value) in values.items()
                if column in COLUMNS.get(name, ("mode",))
            ]
        },
    )


def answered(served: Container, name: str, mode: int) -> float:
    """The function's first number."""
    answer = ask(served, name, mode)
    assert answer.status_code == 200, answer.text
    outputs = {output["name"]: output["data"] for output in answer.json()["outputs"]}
    return float(outputs["score" if name == "predictor" else "mode"][0])


def line_of(code: str) -> int:
    (line,) = [number for number, line in enumerate(LINES, 1) if line.strip() == code]
    return line


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_whose_fault_it_can_be(name: str, served: Container) -> None:
    """400 where the request may be at fault, 500 where none can be; the place is named alike.

    A value that a function refuses may be the caller's before the model has answered anybody; a
    lacking name or module is not, whatever else was answered.
    """
    if name != "executor":  # which answers nothing
        answered(served, name, 0)
    said = rf"{re.escape(OPERATORS[name])} failed in fail \(failing_export.py:%d\): %s"
    for mode, status, line, raised in (
        (1, 400, 'raise ValueError(f"mode {mode} is not welcome")', "ValueError: mode 1 is not .*"),
        (
            3,
            500,
            "import nowhere_to_be_found  # type: ignore[import-not-found]  # noqa: F401",
            "ModuleNotFoundError: No module.*",
        ),
        (5, 500, "os.no_such_function()  # type: ignore[attr-defined]", "AttributeError: mod.*"),
        (6, 400, 'eval("1 +")', r"SyntaxError: invalid syntax \(<string>, line 1\)"),
    ):
        answer = ask(served, name, mode)
        assert answer.status_code == status, answer.text
        told = answer.json()["error"]
        assert "site-packages" not in told
        assert "Traceback" not in told
        assert re.search(said % (line_of(line), raised) + "$", told), told
    answer = ask(served, name, 4)
    assert answer.status_code == 500
    assert answer.json()["error"].startswith(f"the model {name} failed: {OPERATORS[name]} failed ")


@pytest.mark.parametrize("name", ["part", "whole"])
def test_words_of_any_length(name: str, served: Container) -> None:
    """The sentence is bounded, also where the words are no text that Triton takes."""
    answer = ask(served, name, 8)
    assert answer.status_code == 400
    told = answer.json()["error"]
    assert f"{OPERATORS[name]} failed in fail (failing_export.py:" in told
    assert "): ValueError: column 'price': long long long" in told
    assert len(told) < 800
    assert "): Unspeakable: (it has no words" in ask(served, "part", 7).json()["error"]
    assert "RecursionError: maximum recursion depth" in ask(served, name, 9).json()["error"]


def test_a_predictor_runs_in_the_functions_process(served: Container) -> None:
    """It is forked from the interpreter that has PyTorch and pandas."""
    found = {process.command[1] for process in interpreters(served)}
    assert "torch-pandas" in found
    assert "torch" not in found


def test_the_log_has_the_code(served: Container) -> None:
    """The lines that no caller is shown."""
    ask(served, "part", 2)
    until(lambda: 'raise KeyError("weekday")' in served.log, "the log has the code", served)


def test_what_a_function_puts_out_is_of_no_use(served: Container) -> None:
    """No line of the user's failed: the function is named."""
    told = ask(served, "part", 11).json()["error"]
    line = line_of("def moody(column: Any) -> Any:")
    assert f"'mode' failed in moody (failing_export.py:{line}): ValueError: If using" in told


def test_a_function_fails_where_nvtabular_answers_whole(served: Container) -> None:
    """What one function puts out is not its schema's; the other fails, and is named."""
    answer = ask(served, "later", 40, price=13.0)
    assert answer.status_code == 400
    assert "the workflow's LambdaOp of 'weight' failed in count (" in answer.json()["error"]


@pytest.mark.parametrize("name", ["part", "predictor", "whole"])
def test_what_a_function_does_to_its_process(name: str, served: Container) -> None:
    """It is done in both forms, and stays done: as in Merlin's own step."""
    answered(served, name, 30)
    until(lambda: "| the function says hello" in served.log, "the log has what is printed", served)
    assert answered(served, name, 31) != answered(served, name, 31)  # np.random
    assert answered(served, name, 38) == 38.0  # a thread that fails
    assert answered(served, name, 33) == float("inf")
    answered(served, name, 32)  # np.seterr
    assert "FloatingPointError: divide by zero" in ask(served, name, 33).json()["error"]
    answered(served, name, 34)  # os.chdir
    assert answered(served, name, 35) == len("/")
    answered(served, name, 36)  # warnings are errors
    assert answered(served, name, 0) == 0.0


@pytest.mark.parametrize("name", ["part", "predictor", "whole"])
@pytest.mark.parametrize("mode", [20, 21, 22])
def test_a_function_that_ends_its_process(mode: int, name: str, served: Container) -> None:
    """The request is refused, as any that a model dies of, and the next is answered."""
    answer = ask(served, name, mode)
    assert answer.status_code in (400, 500), answer.text
    assert "its process ended twice under this request" in answer.json()["error"]
    assert answered(served, name, 0) == 0.0
