"""Why tritonserver could not read a model's config: it answers a load without the reason. No I/O.

    … Poll failed for model directory '/repository::name': unexpected platform 'x' for name     2.36
    … "Poll failed for model directory '/repository::name': unexpected platform 'x' for name"   2.51

protobuf's own words stand in a line above, where the text is none:

    [libprotobuf ERROR …] Error parsing text-format inference.ModelConfig: 2:14: no field named "x".
"""

from __future__ import annotations

import re
from collections import OrderedDict

_FAILED = b"Poll failed for model directory '"
_POLL = re.compile(r"Poll failed for model directory '(?P<name>[^']*)': (?P<why>.*?)\"?\s*$")
_PARSER = "Error parsing text-format inference.ModelConfig: "
#: What is said where the text itself is wrong.
_TEXT = "failed to read text proto"
#: Of models, the last ones; and of characters.
_MOST, _LONGEST = 64, 1000


class UnreadConfigs:
    """Takes tritonserver's output, whole lines at a time; `take` tells of one model."""

    def __init__(self) -> None:
        self._reasons: OrderedDict[str, str] = OrderedDict()
        self._parsers_words = ""

    def keep(self, data: bytes) -> None:
        """Note what it says of configs."""
        if _PARSER.encode() not in data and _FAILED not in data:
            return
        for line in data.decode(errors="replace").split("\n"):
            _, marker, message = line.partition(_PARSER)
            if marker:
                self._parsers_words = message.strip()[:_LONGEST]
            elif poll := _POLL.search(line):
                self._note(poll["name"].rpartition("::")[2], poll["why"][:_LONGEST])

    def take(self, name: str) -> str:
        """Why the config of the Triton model was not read, told once; empty if unknown."""
        return self._reasons.pop(name, "")

    def _note(self, name: str, why: str) -> None:
        if why.startswith(_TEXT) and self._parsers_words:
            why = self._parsers_words
        self._parsers_words = ""
        self._reasons.pop(name, None)
        self._reasons[name] = why
        if len(self._reasons) > _MOST:
            self._reasons.popitem(last=False)
