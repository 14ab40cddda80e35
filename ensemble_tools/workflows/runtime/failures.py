"""Why an operator that runs in pandas failed: one sentence of bounded length, without code.

    the workflow's LambdaOp of 'ts' failed in weekday (etl.py:12): ValueError: no date: 'x'

The line is the last in the user's own code, as its code objects name it: those of a function that
was pickled by value name the file that it was written in. Nothing here is run before it fails.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

#: How the sentence begins, and the word behind the operator: who serves the model knows it by them.
BEGINNING, FAILED = "the workflow's ", " failed"

_MOST_COLUMNS, _LONGEST_NAME, _LONGEST_WORDS = 5, 60, 400
#: Of an exception's words, in characters: how many are looked at.
_LOOKED_AT = 20_000
_MERLINS = ("merlin", "nvtabular")
#: Packages that functions call; other packages may be the user's.
_LIBRARIES = (*_MERLINS, "cudf", "dask", "dateutil", "numba", "numpy", "nvtx", "pandas", "pyarrow")
_PACKAGE = re.compile(r"[\\/](?:site|dist)-packages[\\/](\w+)")
#: A compiled module's source, by its path in the package: pandas/_libs/tslib.pyx, or mtrand.pyx.
_CYTHON = re.compile(r"(?:(\w+)[\\/].*|\w+)\.p(?:yx|xi|xd)$")
#: Python's own modules, and what has no file.
_PYTHONS = re.compile(
    r"[\\/]lib[\\/]python3\.\d+[\\/](?!(?:site|dist)-packages)|<(?:frozen|__array)"
)
#: Where the classes lie that stand for Merlin's (pandas_operators.py).
_RUNTIME = os.path.dirname(__file__)
#: Where merlin-core runs an operator.
_EXECUTOR = ("_run_node_transform", "node")
_TRACEBACK = "Traceback (most recent call last)"


class OperatorFailed(Exception):
    """An operator's own code raised, so that NVTabular would fail in the same way."""

    def __init__(
        self, operator: str, columns: Sequence[str], error: Exception, function: Any = None
    ) -> None:
        """error: as it was caught; what is above its first frame is none of the operator's.

        function: the operator's, where no frame of the operator says which.
        """
        frames = list(_frames(error.__traceback__))[1:]
        column = _at_work(frames, columns)
        names = columns if column is None else (column,)
        location = _locate(frames, function)
        super().__init__(
            f"{BEGINNING}{describe_operator(operator, names)}{FAILED}{location}: "
            f"{describe_error(error)}"
        )


def failed_node(error: Exception) -> Any:
    """The node at which merlin-core's executor failed, with its frame as the error's first; None
    where it was at none."""
    rest, innermost = error.__traceback__, None
    while rest is not None:
        name, node = _EXECUTOR
        if rest.tb_frame.f_code.co_name == name and node in rest.tb_frame.f_locals:
            innermost = rest
        rest = rest.tb_next
    if innermost is None:
        return None
    error.__traceback__ = innermost
    return innermost.tb_frame.f_locals[_EXECUTOR[1]]


def log_failure(error: BaseException) -> None:
    """The traceback, with its code, into the log of the model's process."""
    traceback.print_exception(type(error), error, error.__traceback__)
    sys.stderr.flush()


@dataclass(frozen=True)
class _Frame:
    frame: FrameType
    line: int

    @property
    def code(self) -> CodeType:
        return self.frame.f_code

    @property
    def package(self) -> str:
        """The installed package that it is of, or stands for; empty for what lies elsewhere."""
        file = self.code.co_filename
        if os.path.dirname(file) == _RUNTIME:
            return _MERLINS[0]
        if cython := _CYTHON.match(file):
            return cython[1] or "numpy"
        match = _PACKAGE.search(file)
        return match[1] if match else ""

    @property
    def is_yours(self) -> bool:
        """Neither Python's nor an installed package's."""
        return not self.package and not _PYTHONS.search(self.code.co_filename)


def _frames(rest: TracebackType | None) -> Iterator[_Frame]:
    while rest is not None:
        yield _Frame(rest.tb_frame, rest.tb_lineno)
        rest = rest.tb_next


def _at_work(frames: Sequence[_Frame], columns: Sequence[str]) -> str | None:
    """The column that LambdaOp has just called its function with (merlin.dag.ops.udf.UDF)."""
    for frame in frames:
        column = frame.frame.f_locals.get("col") if frame.package in _MERLINS else None
        if isinstance(column, str) and column in columns:
            return column
    return None


def describe_operator(operator: str, columns: Sequence[str]) -> str:
    """Its name and the first of its columns, of bounded length."""
    shown = [repr(_cut(name, _LONGEST_NAME)) for name in columns[:_MOST_COLUMNS]]
    names = ", ".join(shown) + (", …" if len(columns) > _MOST_COLUMNS else "")
    return f"{_cut(operator, _LONGEST_NAME)} of {names}" if names else operator


def describe_error(error: BaseException) -> str:
    """Its class and its words on one line; of words with a traceback in them the last line."""
    try:
        text = str(error)[:_LOOKED_AT]
    except Exception:
        text = "(it has no words: its __str__ failed)"
    if _TRACEBACK in text:
        text = text.rstrip().rpartition("\n")[2]
    text = _cut(" ".join(text.split()), _LONGEST_WORDS)
    return f"{_cut(type(error).__name__, _LONGEST_NAME)}: {text}".rstrip(": ")


def _locate(frames: Sequence[_Frame], function: Any) -> str:
    """The line in the user's code; else the function of a library that the operator called."""
    yours = [frame for frame in frames if frame.is_yours]
    if yours:
        return _show(yours[-1].code, yours[-1].line)
    foreign = [frame for frame in frames if frame.package not in _MERLINS]
    installed = [frame for frame in foreign if frame.package and frame.package not in _LIBRARIES]
    if installed:
        return _show(installed[0].code, installed[0].line)
    function = next(filter(None, map(_function, frames)), function)
    code = getattr(function, "__code__", None)
    if code is not None and not (_PACKAGE.search(code.co_filename)):
        return _show(code, code.co_firstlineno)  # what it put out was nothing to go on with
    name = getattr(function, "__name__", None)
    return f" in {_cut(name, _LONGEST_NAME)}" if isinstance(name, str) else ""


def _function(frame: _Frame) -> Any:
    """The function that LambdaOp and Filter call."""
    operator = frame.frame.f_locals.get("self")
    return getattr(operator, "f", None) if frame.package in _MERLINS else None


def _show(code: CodeType, line: int) -> str:
    """The file's name: the path is that of another machine, or of this container."""
    file = re.split(r"[\\/]", code.co_filename)[-1]
    return f" in {_cut(code.co_name, _LONGEST_NAME)} ({_cut(file, _LONGEST_NAME)}:{line})"


def _cut(text: str, longest: int) -> str:
    """A text that Triton can send: UTF-8, and not more than that many characters of it."""
    plain = text[:longest].encode("utf-8", "backslashreplace").decode()
    return plain if len(text) <= longest else f"{plain}…"
