"""A failure of a workflow's function is told alike in every form, and by whose fault it can be."""

from __future__ import annotations

import pytest

from serve.triton.messages import Verdict, find_failure_cause, judge, speaks_of_values
from serve.triton.workflow_failures import is_never_the_callers, speaks_of_columns

PACKAGES = "/venv/lib/python3.11/site-packages"
MODEL = "/work/serving/m/1/model.py"
EXECUTOR = (f"{PACKAGES}/merlin/dag/executors.py", "_run_node_transform")
UDF = (f"{PACKAGES}/merlin/dag/ops/udf.py", "transform")
FILTER = (f"{PACKAGES}/nvtabular/ops/filter.py", "transform")
CYTHON = ("pandas/_libs/tslib.pyx", "array_to_datetime")
PANDAS = (f"{PACKAGES}/pandas/core/series.py", "apply")
YOURS = ("/home/ann/etl.py", "weekday")
TORCHSCRIPT = ("code/__torch__.py", "forward")
OWN = ("/tmp/ipykernel_1/5.py", "transform")
PART = "the workflow's LambdaOp of 'ts', 'a: b' failed in weekday (etl.py:12): "


def lines(*frames: tuple[str, str]) -> list[str]:
    return [
        f'  File "{file}", line 12, in {name}\n    f("a \'secret\'")\n' for file, name in frames
    ]


def workflows(*frames: tuple[str, str], raised: str = "ValueError", text: str = "no date") -> str:
    """What Merlin's workflow step says."""
    return f"Error: <class '{raised}'> - {text}, Traceback: {lines((MODEL, 'execute'), *frames)}"


def executors(*frames: tuple[str, str], raised: str = "ValueError: no date") -> str:
    """What Merlin's executor says."""
    listed = "".join(lines((MODEL, "execute"), *frames))
    return f"Traceback (most recent call last):\n{listed}{raised}\n"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            workflows(EXECUTOR, UDF, YOURS, PANDAS),
            "the workflow's LambdaOp failed in weekday (etl.py:12): ValueError: no date",
        ),
        (
            workflows(EXECUTOR, EXECUTOR, FILTER, YOURS, raised="a.b.Odd", text="x"),
            "the workflow's Filter failed in weekday (etl.py:12): Odd: x",
        ),
        (
            workflows(EXECUTOR, OWN),
            "the workflow's operator failed in transform (5.py:12): ValueError: no date",
        ),
        (
            workflows(EXECUTOR, UDF, YOURS, PANDAS, CYTHON),
            "the workflow's LambdaOp failed in weekday (etl.py:12): ValueError: no date",
        ),
        (workflows(YOURS), "ValueError: no date"),
        (executors(EXECUTOR, TORCHSCRIPT), "ValueError: no date"),
        (workflows(EXECUTOR, UDF, PANDAS), "ValueError: no date"),
        (
            executors(EXECUTOR, UDF, YOURS),
            "the graph's LambdaOp failed in weekday (etl.py:12): ValueError: no date",
        ),
        (
            executors(EXECUTOR, raised=f"RuntimeError: {workflows(EXECUTOR, UDF, YOURS)}"),
            "the workflow's LambdaOp failed in weekday (etl.py:12): ValueError: no date",
        ),
        (executors(raised=f"RuntimeError: {PART}ValueError: no"), f"{PART}ValueError: no"),
        (executors(PANDAS), "ValueError: no date"),
        (f"{PART}ValueError: /home/ann/x.csv", f"{PART}ValueError: …/x.csv"),
        (
            workflows(EXECUTOR, UDF, YOURS, text="x" * 50_000),
            f"the workflow's LambdaOp failed in weekday (etl.py:12): ValueError: {'x' * 388}…",
        ),
    ],
)
def test_one_sentence_in_every_form(message: str, cause: str) -> None:
    """Which operator, in which function, at which line; no code, no path, bounded."""
    assert find_failure_cause(message) == cause
    assert find_failure_cause(f"in ensemble 'm', {message}") == cause


@pytest.mark.parametrize(
    "before", ["", PART, f"RuntimeError: {PART}", "the graph's Filter failed: "]
)
@pytest.mark.parametrize(
    ("raised", "never"),
    [
        ("ModuleNotFoundError: No module named 'x'", True),
        ("ImportError: cannot import name 'x' from 'y'", True),
        ("NameError: name 'x' is not defined", True),
        ("UnboundLocalError: x", True),
        ("AttributeError: module 'pandas' has no attribute 'x'", True),
        ("AttributeError: partially initialized module 'a' has no attribute 'x'", True),
        ("SyntaxError: invalid syntax (etl.py, line 3)", True),
        ("IndentationError: unexpected indent (etl.py, line 3)", True),
        ("SyntaxError: invalid syntax (<unknown>, line 1)", False),
        ("AttributeError: 'Series' object has no attribute 'x'", False),
        ("ValueError: NameError: name 'x' is not defined", False),
        ("KeyError: 'ImportError: x'", False),
        ("MyNameError: x", False),
    ],
)
def test_what_no_request_can_bring_about(before: str, raised: str, never: bool) -> None:
    """A lacking name or module; but a function may read the request as code."""
    assert is_never_the_callers(before + raised) is never


@pytest.mark.parametrize(
    ("raised", "of_columns"),
    [
        ("ValueError: x", True),
        ("ValueError", True),
        ("ValueError:", True),
        ("ZeroDivisionError: x", True),
        ("OverflowError: x", True),
        ("ParserError: Unknown string format: x", True),
        ("OutOfBoundsDatetime: x", True),
        ("IntCastingNaNError: x", True),
        ("UnicodeDecodeError: x", True),
        ("KeyError: 'weekday'", False),
        ("TypeError: x", False),
        ("RuntimeError: x", False),
    ],
)
def test_what_a_function_fails_at(raised: str, of_columns: bool) -> None:
    """By the class of its exception; that of another model's says nothing."""
    assert speaks_of_columns(PART + raised) is speaks_of_values(PART + raised) is of_columns
    assert not speaks_of_columns(raised)


@pytest.mark.parametrize(
    "message",
    [workflows(EXECUTOR, UDF, YOURS), f"{PART}ValueError: no", "NVTabular: KeyError: 'x'"],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_workflow_fails_whatever_the_status(status: int, message: str) -> None:
    """tritonserver 2.36 answers 400 to all that a model hands over."""
    assert judge(status, message, ["m"]) is Verdict.MODEL
    assert judge(status, f"in ensemble 'm', {message}", ["m"]) is Verdict.MODEL
