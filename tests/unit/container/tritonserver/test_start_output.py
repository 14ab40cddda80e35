"""What tritonserver says of an argument that it refuses; its list of all arguments is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.tritonserver.start_output import StartOutput

LIST = b"""Usage: tritonserver [options]
  --help
\tPrint usage

Server:
  --id <string>
\tIdentifier for this server.
Rate Limiter:
  --rate-limit <string>
\tThis must be "execution_count" or "off".
"""
BEFORE = b'W1124 22:25:53.6 6072 x.cc:273] "no CUDA"\n'


@pytest.mark.parametrize(
    ("before", "behind", "refusal"),
    [
        (
            b"/opt/t: unrecognized option '--nonsense=3'\n",
            b"",
            "unrecognized option '--nonsense=3'",
        ),
        (
            b"/opt/t: option '--id' requires an argument\n",
            b"",
            "option '--id' requires an argument",
        ),
        (
            b"",
            b'Bad option: "--log-verbose".\nInvalid option value. Got abc\n',
            'Bad option: "--log-verbose". Invalid option value. Got abc',
        ),
    ],
)
@given(cuts=st.sets(st.integers(0, 40), max_size=6))
def test_the_words_are_kept(before: bytes, behind: bytes, refusal: str, cuts: set[int]) -> None:
    """However many lines come at a time."""
    lines = (BEFORE + before + LIST + behind).splitlines(keepends=True)
    output, kept = StartOutput(), b""
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(lines)], strict=True):
        kept += output.keep(b"".join(lines[start:end]))
    assert kept == BEFORE + before + behind
    assert output.refusal == refusal


def test_what_opens_its_apis_is_not_said() -> None:
    """An option of that kind that is misspelt has its value hidden, here and in the log."""
    output = StartOutput()
    kept = output.keep(b"/t: unrecognized option '--http-restricted-apis=all:k=hunter2'\n" + LIST)
    assert output.refusal == "unrecognized option '--http-restricted-apis=…'"
    assert b"hunter2" not in kept


def test_what_it_says_at_other_starts() -> None:
    """All is kept, words about an option, too, where the list does not follow."""
    output = StartOutput()
    data = BEFORE + b"/opt/t: unrecognized option '--x'\n\n  indented\n" + BEFORE
    assert output.keep(data) == data
    assert output.refusal == ""


@pytest.mark.parametrize("has_added", [True, False])
def test_a_server_that_cannot_be_made(has_added: bool) -> None:
    """It is the fault of an operator's arguments, where there are any."""
    output = StartOutput(has_added=has_added)
    line = b"error: creating server: Invalid argument - unable to find 'libtritoncache_x.so'\n"
    assert output.keep(BEFORE + line) == BEFORE + line
    said = "creating server: Invalid argument - unable to find 'libtritoncache_x.so'"
    assert output.refusal == (said if has_added else "")
