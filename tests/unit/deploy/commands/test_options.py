"""What a terminal is given is text, whoever wrote it."""

from __future__ import annotations

import sys

import pytest

from deploy.terminal import Bytes, progress_on, say, say_beside

#: Clears the screen, sets the window's title, turns the line around; C1's CSI; half a character.
HOSTILE = "a\x1b[2J\x1b]0;pwned\x07b\u202ec\x9b31m\udcff\tend"
SHOWN = "a\\x1b[2J\\x1b]0;pwned\\x07b\\u202ec\\x9b31m\\udcff\tend"


def test_what_is_said_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """A reason, an alarm's name, a line of a log, a name in an archive."""
    say(HOSTILE)
    say_beside(HOSTILE)
    assert tuple(capsys.readouterr()) == (f"{SHOWN}\n", f"{SHOWN}\n")


def test_progress_moves_no_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    """Where it is told in lines."""
    moments = iter([0.0, 10.0, 10.0])
    with progress_on(sys.stderr, lambda: next(moments)) as tell:
        tell(Bytes(HOSTILE, 1, 2))
    assert capsys.readouterr().err == f"{SHOWN}: 1 bytes of 2 bytes\n"
