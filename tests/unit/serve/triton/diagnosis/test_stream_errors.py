"""Errors inside a stream: no code and no path reaches a caller, wherever its pieces end."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from serve.triton.diagnosis.stream_errors import StreamErrors

_RAISED = (
    "Failed to process the request(s) for model 't_0_0', message: KeyError: 'x'\n\nAt:\n"
    "  /work/serving/t/1/model.py(39): execute\n"
)
_FORMATTED = (
    "Traceback (most recent call last):\n"
    '  File "/work/serving/t/1/model.py", line 42, in execute\n    y = secret(x)\nGone: no more\n'
)


def _event(**said: object) -> bytes:
    return b"data: " + json.dumps(said, separators=(",", ":")).encode() + b"\n\n"


def _through(pieces: Iterable[bytes]) -> tuple[bytes, list[str]]:
    errors = StreamErrors()
    passed = b"".join([errors.pass_on(piece) for piece in pieces])
    return passed + errors.end(), errors.told


_WORDS = _event(model_name="t", text_output='data: {"error":"mine')
_ODD = b'data: {"error"}\n\ndat\n\n: {"error":"\r\n\ndata: {"error":7}\n\n'
_WHOLE = b"".join(
    [
        _WORDS,
        _event(error=_RAISED),
        _WORDS,
        _event(error=_FORMATTED),
        _event(error="plain words of /a/model"),
        _ODD,
        _WORDS,
        _event(error="the prompt is too long"),
    ]
)
_TOLD = b"".join(
    [
        _WORDS,
        _event(error="KeyError: 'x'"),
        _WORDS,
        _event(error="Gone: no more"),
        _event(error="plain words of \u2026/model"),
        _ODD,
        _WORDS,
        _event(error="the prompt is too long"),
    ]
)


@pytest.mark.parametrize("size", [1, 2, 7, 17, 64, 1000, len(_WHOLE)])
def test_wherever_pieces_end(size: int) -> None:
    """The same is passed on; the log is told what was left out, on one line."""
    pieces = [_WHOLE[start : start + size] for start in range(0, len(_WHOLE), size)]
    passed, told = _through(pieces)
    assert passed == _TOLD
    assert len(told) == 3
    assert "model.py(39)" in told[0]
    assert "secret(x)" in told[1]
    assert not any("\n" in line for line in told)


def test_whole_pieces_pass_at_once() -> None:
    """What is no error waits for nothing, though its line is not whole."""
    errors = StreamErrors()
    for piece in (_WORDS, _WORDS[:20], _WORDS[20:], b"x", b"data"):
        assert errors.pass_on(piece) == piece
    assert errors.pass_on(b"\ndata: {") == b"\n"
    assert errors.end() == b"data: {"


@pytest.mark.parametrize("size", [1000, 10**6])
def test_a_long_error(size: int) -> None:
    """Its code is left out, and what comes behind it is not."""
    whole = _event(error=_FORMATTED.replace("secret", "s" * 100_000)) + _WORDS
    passed, told = _through(whole[start : start + size] for start in range(0, len(whole), size))
    expected = "it did not say why in its last words; see the log"
    assert passed == _event(error=expected) + _WORDS
    assert len(told[0]) < 66_000


def test_a_stream_that_ends_inside_an_error() -> None:
    """It is told what had come."""
    passed, _ = _through([_event(error=_RAISED)[:-2]])
    assert passed + b"\n\n" == _event(error="KeyError: 'x'")
    passed, _ = _through([_event(error=_FORMATTED)[:-30]])
    assert b"secret" not in passed
