"""Extracts tritonserver's refusal of an argument, without the list of all that it takes.

error: creating server: Invalid argument - unable to find 'libtritoncache_x.so' for cache.

.../tritonserver: unrecognized option '--nonsense=3'
Usage: tritonserver [options]
  --help
<400 lines more, headings at the margin>
Bad option: "--log-verbose".
Invalid option value. Got abc

No I/O.
"""

from __future__ import annotations

import re

_USAGE = b"Usage: tritonserver "
#: Lines of that list: empty ones, indented ones, headings.
_LISTED = re.compile(rb"\s.*|[A-Z][\w /-]*:|", re.DOTALL)
#: What opens tritonserver's APIs is no matter of a log: the value of such an option.
_OPENING = re.compile(rb"(--[\w-]*restricted[\w-]*=)[^'\"\s]+")
#: The words in front of the list: getopt's, behind the program's path.
_REFUSED = re.compile(rb".*?: ((?:unrecognized option|invalid option|option) .*)")


#: The last words of a server that could not be made of its arguments.
_NOT_MADE = re.compile(rb"error: (creating server: [^\r\n]*)")


class StartOutput:
    """Takes the lines of one start. `refusal`: the words for an argument that was refused.

    has_added: with arguments that are not the container's, which are why no server can be made.
    """

    def __init__(self, *, has_added: bool = False) -> None:
        self._has_added = has_added
        self._listing, self._said = False, list[str]()
        self._last = b""

    @property
    def refusal(self) -> str:
        """Empty as long as none was."""
        return " ".join(self._said)

    def keep(self, data: bytes) -> bytes:
        """Whole lines -> those of them that are no part of the list."""
        data = _OPENING.sub(lambda it: it[1] + "…".encode(), data)
        if self._has_added and (not_made := _NOT_MADE.search(data)):
            self._said.append(not_made[1].decode(errors="replace"))
        if not self._listing and _USAGE not in data:
            self._last = data.rstrip(b"\n").rpartition(b"\n")[2] or self._last
            return data
        return b"".join(line for line in data.splitlines(keepends=True) if self._is_kept(line))

    def _is_kept(self, line: bytes) -> bool:
        bare = line.rstrip(b"\r\n")
        if not self._listing:
            if bare.startswith(_USAGE):
                self._listing = True
                if refused := _REFUSED.fullmatch(self._last):
                    self._said.append(refused[1].decode(errors="replace"))
            self._last = bare
            return not self._listing
        if _LISTED.fullmatch(bare):
            return False
        self._said.append(bare.decode(errors="replace"))
        return True
