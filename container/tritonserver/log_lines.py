"""Parses a line of tritonserver's output: its level, whose it is, and what it says. No I/O.

    W1123 05:22:23.712047 28664 model.py:38] "logger \\"quoted\\" words\\nsecond"      (2.51)
    W1123 05:22:23.481513 28927 model.py:38] logger "quoted" words                    (2.36)
    2024-11-23T05:22:23Z W 28664 model.py:38] "…"                (2.51, --log-format=ISO8601)

A line without such a head is a model's: Python stubs inherit tritonserver's output, and what they
print says nowhere who printed it. tritonserver's own tables and configs have no heads either; they
stand below a head that says nothing, or ends with a colon, up to an empty line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from container.logs.values import bounded

TRITONSERVER, MODEL = "tritonserver", "model"
_LEVELS = {"I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}
_HEAD = re.compile(
    r"(?:(?P<level>[IWEF])\d{4} \d\d:\d\d:[\d.]+|\d{4}-\d\d-\d\dT[\d:]{8}Z (?P<iso>[IWEF]))"
    r" +\d+ (?P<at>[^\s:\]]+:\d+)\] ?(?P<words>.*)",
    re.DOTALL,
)
#: What tritonserver prints without a head: that there is no GPU to measure; when a signal ends it,
#: that, and the stack below it.
_HEADLESS = re.compile(r"Error: Failed to initialize NVML|Signal \(\d+\) received\.| *\d+# ")


@dataclass(frozen=True)
class TritonLine:
    """A line of tritonserver's log."""

    level: str
    source: str
    #: The source file and line, where the line says them.
    logger: str
    #: Empty where it is unknown.
    model: str
    message: str


#: The model that words name, or "". Anybody may have printed them unless they stand below a head.
FindModel = Callable[[str, bool], str]


def no_model(_: str, __: bool) -> str:
    """Finds no model's name in any words."""
    return ""


class TritonLines:
    """Reads one line after the other."""

    def __init__(self, find_model: FindModel = no_model) -> None:
        self.find_model = find_model
        self._above: re.Match[str] | None = None

    def read(self, line: str) -> TritonLine | None:
        """The line, without its end; None for one that says nothing. Never raises."""
        head = _HEAD.fullmatch(line)
        message = _unquote(head["words"]) if head else line
        block = self._above
        if head or not message.strip():
            ends_open = head is not None and (not message.strip() or message.rstrip().endswith(":"))
            self._above = head if ends_open else None
        if not message.strip():
            return None
        message = bounded(message.rstrip())
        above = head or block
        if above is None:
            source = TRITONSERVER if _HEADLESS.match(line) else MODEL
            return TritonLine("INFO", source, "", self.find_model(message, True), message)
        at = above["at"]
        source = MODEL if at.partition(":")[0].endswith(".py") else TRITONSERVER
        level = _LEVELS[above["level"] or above["iso"]]
        return TritonLine(level, source, at, self.find_model(message, False), message)


def _unquote(message: str) -> str:
    """The text in the quotes of newer versions, its escapes read."""
    if len(message) < 2 or not message.startswith('"') or not message.endswith('"'):
        return message
    try:
        return str(json.loads(message, strict=False))
    except ValueError:
        return message
