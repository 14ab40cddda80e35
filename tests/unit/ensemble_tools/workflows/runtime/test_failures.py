"""An operator's failure is told in one sentence: which operator, which column, which line."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ensemble_tools.workflows.runtime.failures import (
    OperatorFailed,
    describe_error,
    failed_node,
    log_failure,
)

PACKAGES = "/venv/lib/python3.11/site-packages"
UDF = """
class UDF:
    def __init__(self, f):
        self.f = f

    def transform(self, names, frame):
        made = {}
        for col in names:
            made[col] = self.f(frame[col])
        return self.framed(made)

    def framed(self, made):
        raise ValueError("all of it is nothing")
"""


def defined(source: str, path: str) -> Any:
    """What source defines, as if it stood in a file at that path."""
    module: dict[str, Any] = {}
    exec(compile(source, path, "exec"), module)
    return types.SimpleNamespace(**module)


def function_of(body: str, path: str = "/home/ann/etl.py") -> Callable[[Any], Any]:
    made: Callable[[Any], Any] = defined(f"\n\ndef weekday(c):\n    {body}\n", path).weekday
    return made


def said(transform: Callable[[], Any], columns: tuple[str, ...] = ("ts",)) -> str:
    """What is said of a LambdaOp of these columns that does that."""
    try:
        transform()
    except Exception as error:
        return str(OperatorFailed("LambdaOp", columns, error))
    raise AssertionError("nothing failed")


def of_lambda(function: Callable[[Any], Any], *columns: str) -> str:
    operator = defined(UDF, f"{PACKAGES}/merlin/dag/ops/udf.py").UDF(function)
    frame = {name: name for name in columns}
    return said(partial(operator.transform, columns, frame), columns)


def test_the_operator_the_column_and_the_line() -> None:
    """The column is the one that the function was called with, the file has no path."""
    function = function_of("assert c != 'b', f'{c} is wrong'; return c")
    expected = "the workflow's LambdaOp of 'b' failed in weekday (etl.py:4): AssertionError: b is "
    assert of_lambda(function, "a", "b", "c") == f"{expected}wrong"


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/tmp/ipykernel_7/123.py", "weekday (123.py:4)"),
        ("C:\\work\\etl.py", "weekday (etl.py:4)"),
        ("<ipython-input-3-abc>", "weekday (<ipython-input-3-abc>:4)"),
        (f"{PACKAGES}/ours/etl.py", "weekday (etl.py:4)"),
        ("/usr/lib/python3/dist-packages/ours.py", "weekday (ours.py:4)"),
    ],
)
def test_where_functions_come_from(path: str, place: str) -> None:
    """Notebooks, files of any machine, and packages that an image has."""
    assert f"'ts' failed in {place}: KeyError: 1" in of_lambda(function_of("{}[1]", path), "ts")


def test_the_line_is_yours_where_a_library_fails() -> None:
    """The last one that is neither pandas' nor Python's."""
    pandas = function_of("{}[1]", f"{PACKAGES}/pandas/core/x.py")
    ours = defined("\ndef weekday(c):\n    return f(c)\n", "/a/etl.py")
    ours.weekday.__globals__["f"] = pandas
    assert "failed in weekday (etl.py:3): KeyError: 1" in of_lambda(ours.weekday, "ts")
    assert "'ts' failed in weekday: KeyError: 1" in of_lambda(pandas, "ts")


def test_what_a_function_put_out_is_of_no_use() -> None:
    """No line of it failed: its first one is named."""
    assert "'ts' failed in weekday (etl.py:3): ValueError: all" in of_lambda(
        function_of("return c"), "ts"
    )


def test_what_a_function_that_is_called_alone_put_out_is_of_no_use() -> None:
    """No frame of the operator's says which function it was."""
    failed = OperatorFailed("LambdaOp", ("a",), ValueError("nothing"), function_of("return 5"))
    expected = "the workflow's LambdaOp of 'a' failed in weekday (etl.py:3): ValueError: nothing"
    assert str(failed) == expected


def test_an_operator_of_your_own() -> None:
    own = defined("\n\ndef transform():\n    return {}['x']\n", "/a/recency.py")
    assert said(own.transform, ("ts", "id")) == (
        "the workflow's LambdaOp of 'ts', 'id' failed in transform (recency.py:4): KeyError: 'x'"
    )


class Silent(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def fails(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError(), "ValueError"),
        (ValueError("two\n  lines"), "ValueError: two lines"),
        (ValueError("a\udce4"), "ValueError: a\\udce4"),
        (Silent(), "Silent: (it has no words: its __str__ failed)"),
        (
            RuntimeError('Traceback (most recent call last):\n File "x", line 1\n  f()\nE: no\n'),
            "RuntimeError: E: no",
        ),
        (ValueError("x" * 1_000_000), f"ValueError: {'x' * 400}…"),
    ],
)
def test_the_words_of_any_exception(error: Exception, words: str) -> None:
    """One line of bounded length, which Triton can send; of a traceback its last line."""
    assert said(fails(error)).endswith(f": {words}")


def test_many_long_names() -> None:
    """The sentence stays one that can be read."""
    columns = tuple(f"{n}{'c' * 1000}" for n in range(100))
    sentence = said(fails(ValueError("x" * 9_999)), columns)
    assert len(sentence) < 1_200
    assert ", … failed in fail (test_failures.py:" in sentence


def test_the_node_at_which_merlins_executor_fails() -> None:
    """The innermost one: each runs those above it."""
    executor = defined(
        "def _run_node_transform(node, inner):\n    return inner()\n",
        f"{PACKAGES}/merlin/dag/executors.py",
    )
    run = vars(executor)["_run_node_transform"]
    with pytest.raises(KeyError, match="x") as caught:
        run("outer", lambda: run("inner", fails(KeyError("x"))))
    assert failed_node(caught.value) == "inner"
    assert str(OperatorFailed("Filter", ("a",), caught.value)).endswith(": KeyError: 'x'")
    with pytest.raises(ValueError, match="no") as elsewhere:
        fails(ValueError("no"))()
    assert failed_node(elsewhere.value) is None


def test_the_log_has_the_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    """With the lines of code that nobody else is shown."""
    with pytest.raises(ValueError, match="no") as caught:
        fails(ValueError("no"))()
    log_failure(caught.value)
    assert "raise error\nValueError: no\n" in capfd.readouterr().err


@pytest.mark.parametrize("path", ["pandas/_libs/tslib.pyx", "mtrand.pyx", "pyarrow/array.pxi"])
def test_a_compiled_modules_source_is_not_the_users(path: str) -> None:
    """Cython's frames have their path in the package alone."""
    parse = defined("def parse(c):\n    raise ValueError('no date')\n", path).parse
    module: dict[str, Any] = {"parse": parse}
    exec(compile("\n\ndef weekday(c):\n    return parse(c)\n", "etl.py", "exec"), module)
    assert of_lambda(module["weekday"], "ts") == (
        "the workflow's LambdaOp of 'ts' failed in weekday (etl.py:4): ValueError: no date"
    )


def test_an_error_is_told_in_what_triton_sends() -> None:
    """UTF-8, on one line, of bounded length."""
    assert describe_error(ValueError("no\n  date: \udce4")) == r"ValueError: no date: \udce4"
    assert len(describe_error(KeyError("long" * 9_000))) < 450
    assert describe_error(StopIteration()) == "StopIteration"
