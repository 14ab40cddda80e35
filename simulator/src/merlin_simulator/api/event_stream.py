"""The encoder of application/vnd.amazon.eventstream, for the runtime API's streams. No I/O.

A message is a prelude (the message's length, the headers' length, a checksum of both), headers, a
payload, and a checksum of everything before it; all numbers are big-endian. A header is its name
(one byte of length), a type, and a value (two bytes of length). Source: AWS, "Event stream
encoding"; decoded in the tests by botocore.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from zlib import crc32

#: The media type of a stream.
MEDIA_TYPE = "application/vnd.amazon.eventstream"
#: Payload bytes of one PayloadPart. Decoders take 16 MiB and more (botocore: 24 MiB); a larger part
#: of the container's answer becomes several, which callers must expect anyway.
PART_BYTES = 1024 * 1024

_PRELUDE = struct.Struct(">II")
_CHECKSUM = struct.Struct(">I")
_STRING = 7  # the header type for text
_STRING_LENGTH = struct.Struct(">BH")


def payload_parts(data: bytes) -> Iterator[bytes]:
    """One PayloadPart event for each PART_BYTES of data, or what is left; none without data."""
    headers = {
        ":event-type": "PayloadPart",
        ":content-type": "application/octet-stream",
        ":message-type": "event",
    }
    for start in range(0, len(data), PART_BYTES):
        yield _message(headers, data[start : start + PART_BYTES])


def exception(name: str, body: Mapping[str, str]) -> bytes:
    """The message that ends a stream which failed: one of the model's exceptions, its members."""
    headers = {
        ":exception-type": name,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return _message(headers, json.dumps(dict(body)).encode())


def _message(headers: Mapping[str, str], payload: bytes) -> bytes:
    head = b"".join(_header(name, value) for name, value in headers.items())
    around = _PRELUDE.size + 2 * _CHECKSUM.size
    prelude = _PRELUDE.pack(around + len(head) + len(payload), len(head))
    whole = b"".join((prelude, _CHECKSUM.pack(crc32(prelude)), head, payload))
    return whole + _CHECKSUM.pack(crc32(whole))


def _header(name: str, value: str) -> bytes:
    named, valued = name.encode(), value.encode()
    return bytes([len(named)]) + named + _STRING_LENGTH.pack(_STRING, len(valued)) + valued
