"""What one load came to, and how long its stages took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: In the order of a load. tables: of compiled workflows, a part of publish.
STAGES = ("read", "decide", "room", "publish", "tables", "tritonserver")


@dataclass(frozen=True)
class Stage:
    """One of STAGES: when it began, by time.monotonic, and its seconds."""

    name: str
    began: float
    seconds: float


@dataclass
class LoadRecord:
    """Filled while a load goes its way."""

    model_name: str
    target_model: str = ""
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    stages: list[Stage] = field(default_factory=list)
    result: str = ""  # loaded, refused or failed
    sentence: str = ""
    under_way: str = ""  # the stage that was begun last

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """The block is that stage, however it ends."""
        began, self.under_way = time.monotonic(), name
        try:
            yield
        finally:
            self.stages.append(Stage(name, began, time.monotonic() - began))

    def timed(self, name: str, work: Callable[_P, _T]) -> Callable[_P, _T]:
        """Wraps a function: its calls are that stage."""

        def call(*arguments: _P.args, **named: _P.kwargs) -> _T:
            with self.stage(name):
                return work(*arguments, **named)

        return call
