"""What people see: a terminal is given text, whoever wrote it; amounts in a few characters."""

from __future__ import annotations

import io
import sys

import pytest

from merlin_deploy.terminal import (
    progress_on,
    say,
    say_beside,
    show_bytes,
    show_duration,
    show_ms,
    sparkline,
    tell_bytes,
)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (show_bytes(999), "999 bytes"),
        (show_bytes(8_800_000), "8.8 MB"),
        (show_bytes(1_234_000_000_000_000), "1,234 TB"),
        (show_bytes(999_700), "1,000 kB"),
        (show_ms(4.321), "4.32 ms"),
        (show_ms(12_345), "12.3 s"),
        (show_duration(59), "59 s"),
        (show_duration(7200), "2 h"),
        (show_duration(259_200), "3 d"),
    ],
)
def test_words(shown: str, words: str) -> None:
    """With three digits, in the unit that people would take."""
    assert shown == words


def test_sparkline_shows_every_request() -> None:
    """The largest is the highest; one request among thousands is still seen."""
    assert sparkline([0, 1, 500, 1000]) == "▁▂▅█"
    assert sparkline([0, 0]) == "▁▁"


def test_sparkline_fits_a_line() -> None:
    """A day has 60 blocks, in which every minute is counted."""
    assert len(sparkline([1] * 1440)) == 60
    assert sparkline([0] * 1439 + [1])[-1] == "█"


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
        tell_bytes(tell, HOSTILE, 1, 2)
    assert capsys.readouterr().err == f"{SHOWN}: 1 bytes of 2 bytes\n"


class Terminal(io.StringIO):
    """One that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_elsewhere_than_on_a_terminal_there_is_now_and_then_a_line() -> None:
    """No more than one in five seconds, whatever happens."""
    now, written = [0.0], io.StringIO()
    with progress_on(written, lambda: now[0]) as tell:
        for second in range(12):
            now[0] = float(second)
            tell_bytes(tell, "a: uploading", second, 12)
    assert (
        written.getvalue()
        == "a: uploading: 5 bytes of 12 bytes\na: uploading: 10 bytes of 12 bytes\n"
    )


def test_a_bar_leaves_nothing_on_the_terminal() -> None:
    """Its length is the share that is done."""
    written = Terminal()
    with progress_on(written, lambda: 0.0) as tell:
        tell("2 of 4 layers", 2.25 / 4)
    assert "[#############-----------] 2 of 4 layers" in written.getvalue()
    assert written.getvalue().rpartition("\r")[0].rpartition("\r")[2].isspace()


def test_a_bar_makes_room_for_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line begins where the terminal's does, and the bar is drawn again below it."""
    written = Terminal()
    monkeypatch.setattr(sys, "stderr", written)
    with progress_on(sys.stderr, lambda: 0.0) as tell:
        tell("a: uploading", 0.5)
        say_beside("b: is there")
    before, line, after = written.getvalue().partition("\rb: is there\n")
    assert line
    assert before.rpartition("\r")[2].isspace()
    assert "[############------------] a: uploading" in after
