"""The event stream's encoder, read by botocore's own decoder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer, EventStreamMessage
from hypothesis import given, settings
from hypothesis import strategies as st

from merlin_simulator.api.wire import PART_BYTES, exception, payload_parts
from tests.support.examples import examples


def _decoded(data: bytes, cuts: Sequence[int] = ()) -> list[EventStreamMessage]:
    """The messages in data, when it arrives in the pieces that end at cuts."""
    buffer = EventStreamBuffer()
    for piece in _pieces(data, cuts):
        buffer.add_data(piece)
    return list(buffer)


def _pieces(data: bytes, cuts: Sequence[int]) -> Iterator[bytes]:
    ends = sorted({min(cut, len(data)) for cut in cuts} | {len(data)})
    for start, end in zip([0, *ends], ends, strict=False):
        yield data[start:end]


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(0, 3000)))
def test_any_parts_arrive_whole_however_they_are_cut(parts: list[bytes], cuts: list[int]) -> None:
    """Any bytes, in any pieces: the same bytes, as PayloadPart events, one per part with bytes."""
    encoded = b"".join(message for part in parts for message in payload_parts(part))
    messages = _decoded(encoded, cuts)
    assert [message.payload for message in messages] == [part for part in parts if part]
    assert all(message.headers == _PART for message in messages)


_PART = {
    ":event-type": "PayloadPart",
    ":content-type": "application/octet-stream",
    ":message-type": "event",
}


@settings(max_examples=examples(10))
@given(st.integers(0, 3), st.integers(-2, 2))
def test_a_large_part_is_split(parts: int, beside: int) -> None:
    """No event holds more than PART_BYTES, and nothing is lost at the seams."""
    data = bytes(range(256)) * (max(0, parts * PART_BYTES + beside) // 256 + 1)
    data = data[: max(0, parts * PART_BYTES + beside)]
    payloads = [message.payload for message in _decoded(b"".join(payload_parts(data)))]
    assert b"".join(payloads) == data
    assert all(0 < len(payload) <= PART_BYTES for payload in payloads)
    assert len(payloads) == -(-len(data) // PART_BYTES)


def test_no_data_is_no_event() -> None:
    """An empty part of the container's answer is nothing to tell."""
    assert list(payload_parts(b"")) == []


@given(st.dictionaries(st.sampled_from(["Message", "ErrorCode"]), st.text(max_size=2048)))
def test_an_exception_carries_its_members(body: dict[str, str]) -> None:
    """An exception message has the exception's name and its members as JSON."""
    (message,) = _decoded(exception("ModelStreamError", body))
    assert message.headers[":exception-type"] == "ModelStreamError"
    assert message.headers[":message-type"] == "exception"
    assert json.loads(message.payload) == body
    assert message.to_response_dict()["status_code"] == 400


def test_a_changed_bit_is_noticed() -> None:
    """The checksums cover headers and payload: botocore refuses any bit that was changed there."""
    (message,) = payload_parts(b"some bytes")
    for place in range(12, len(message)):
        for bit in range(8):
            changed = bytearray(message)
            changed[place] ^= 1 << bit
            with pytest.raises(ChecksumMismatch):
                _decoded(bytes(changed))
