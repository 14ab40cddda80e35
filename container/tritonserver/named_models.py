"""Which model a line of tritonserver's output is about, by the Triton names that it holds.

A name counts where tritonserver writes names: behind the serving repository's path or that of an
archive's copy, in quotes, as that of an instance (`dense_0_0`), before a version; anywhere that of
a step or of a model with a dot in its name. A model may be called `model`, and the word is in many
lines.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from ensemble_tools import LAYOUT_PREFIX, parse_published

#: A change this much before the repository was listed, in seconds, may have been missed: the
#: kernel's times of files go by its ticks.
_TICK_S = 0.02
#: A model's name, and what follows it in a step's.
_NAME = r"(?P<name>(?:[\w-]|=_)(?:[\w.-]|=_|=[0-9a-f]{2}|=-)*)"
#: What stands before and behind a name where tritonserver writes one.
_NAMED = re.compile(
    rf"(?P<before>::|['\"]|: |(?<![\w.-])){_NAME}(?P<behind>['\"]|:\d| \(|)", re.ASCII
)
_NUMBER = re.compile(r"_\d+$")


class NamedModels:
    """The models published in a serving repository."""

    def __init__(self, serving: Path) -> None:
        self._serving = serving
        copies = rf"{re.escape(str(serving.parent / LAYOUT_PREFIX))}\w+/"
        path = rf"(?:{re.escape(str(serving))}(?:::|/)|{copies}){_NAME}"
        self._behind_path = re.compile(path, re.ASCII)
        self._published: frozenset[str] = frozenset()
        self._as_of = 0

    def find(self, message: str, printed: bool = False) -> str:
        """The SageMaker name of the first model that the words name; "" if none. Never raises.

        printed: a model may have printed them, about another one: only a path counts.
        """
        led_to = self._behind_path.search(message)
        if led_to or printed:
            return _model_of(led_to["name"]) if led_to else ""
        for match in _NAMED.finditer(message):
            name = match["name"].rstrip(".")
            if "." in name or "=" in name or (match["before"] and match["behind"]):
                for published in _readings(name):
                    if self._is_published(published):
                        return _model_of(published)
        return ""

    def _is_published(self, name: str) -> bool:
        if name not in self._published:
            with contextlib.suppress(OSError):
                self._list_if_changed()
        return name in self._published

    def _list_if_changed(self) -> None:
        changed_at = os.stat(self._serving).st_mtime_ns
        if changed_at != self._as_of:
            is_old = time.time_ns() - changed_at > _TICK_S * 1e9
            self._as_of = changed_at if is_old else 0
            self._published = frozenset(os.listdir(self._serving))


def _readings(name: str) -> tuple[str, str, str]:
    """The name, or that of which it is an instance: newer versions write two numbers behind it."""
    once = _NUMBER.sub("", name)
    return name, once, _NUMBER.sub("", once)


def _model_of(published: str) -> str:
    try:
        return parse_published(published)[0]
    except ValueError:
        return ""
