"""The log of this process, in a file, for as long as a test lasts."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from container.logs.setup import LogFormat, configure
from container.logs.sink import Sink

WAIT_S = 60.0


@dataclass(frozen=True)
class Written:
    """What was logged so far."""

    sink: Sink
    path: Path

    def configure(self, level: str = "info", log_format: LogFormat = "text") -> None:
        """As `serve` does."""
        configure(level, self.sink, log_format)

    @property
    def text(self) -> str:
        assert self.sink.flush(WAIT_S)
        return self.path.read_text()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Written]:
    """Where the lines go; logging is as before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with (tmp_path / "log").open("wb") as file:
        written = Written(Sink(file.fileno()), tmp_path / "log")
        written.configure()
        yield written
        written.sink.close()
        assert written.sink.flush(WAIT_S)
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)
