"""Which headers go to tritonserver and back, and where JSON ends and binary begins. No I/O.

SageMaker carries the v2 protocol's binary extension under a media type of its own, with the length
of the JSON part as a parameter; Triton wants that length in a header of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from serve.errors import BadRequest
from serve.invoke.compressed_bodies import COMPRESSIONS
from serve.triton.access import HTTP_HEADER
from serve.triton.connection import Headers

BINARY_MEDIA_TYPE = b"application/vnd.sagemaker-triton.binary+json"
HEADER_SIZE_PARAMETER = b"json-header-size"
HEADER_LENGTH = b"inference-header-content-length"
ACCEPT_ENCODING = b"accept-encoding"

#: RFC 9110 7.6.1, and what this hop sets for itself. The caller's Content-Type never reaches
#: tritonserver: a body of 5 MB as `application/x-www-form-urlencoded`, which `curl -d` sends, kills
#: it (seen on 2.51), since its HTTP library parses such bodies itself.
_NOT_FORWARDED = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"host",
        b"content-length",
        b"expect",
        b"content-type",
        b"content-encoding",
        HEADER_LENGTH,
        HTTP_HEADER.encode(),
    }
)
_NOT_RETURNED = (_NOT_FORWARDED | {b"server", b"date"}) - {b"content-encoding"}

#: A weight that says no (RFC 9110 12.4.2).
_REFUSED = re.compile(rb"q\s*=\s*0(\.0*)?")
_DIGITS = re.compile(rb"[0-9]{1,18}")


def read_headers(headers: Headers, body: Sequence[bytes]) -> tuple[Headers, int | None]:
    """Those of an inference that tritonserver is to have, and how many bytes of JSON begin it.

    headers: the caller's, names in lower case. body: its pieces, inflated. None where all of it is
    JSON. Raises BadRequest when the media type gives a size of the JSON part that is malformed or
    larger than the body.
    """
    content_type = None
    forwarded = []
    for header in headers:  # once: the hot path
        name = header[0]
        if name == b"content-type":
            content_type = content_type or header[1]
        elif name == b"connection":
            return read_headers(_drop_hop_headers(headers), body)
        elif name == ACCEPT_ENCODING:
            forwarded += _accepted(header[1])
        elif name not in _NOT_FORWARDED:
            forwarded.append(header)
    if content_type is not None and read_media_type(content_type) == BINARY_MEDIA_TYPE:
        size = read_json_header_size(content_type)
        _check_size(size, sum(map(len, body)))
        return forwarded, size
    return forwarded, None


def write_headers(forwarded: Headers, json_size: int | None) -> Headers:
    """The headers that an inference is sent with. json_size: as of read_headers."""
    if json_size is None:
        return [*forwarded, (b"content-type", b"application/json")]
    return [
        *forwarded,
        (b"content-type", b"application/octet-stream"),
        (HEADER_LENGTH, b"%d" % json_size),
    ]


def _accepted(value: bytes) -> Headers:
    """The compression that a caller takes, in tritonserver's own words, or nothing.

    tritonserver dies of weights that no double holds, such as `gzip;q=1e999` (std::stod).
    """
    for item in value.lower().split(b","):
        name, *parameters = (part.strip() for part in item.split(b";"))
        if name in COMPRESSIONS and not any(map(_REFUSED.fullmatch, parameters)):
            return [(ACCEPT_ENCODING, name)]
    return []


def make_response_headers(headers: Headers) -> Headers:
    """The headers that tritonserver's answer goes back with, content-length left to the sender."""
    content_type, size = b"application/json", None
    returned = []
    for header in headers:  # once: the hot path
        name, value = header
        if name == b"content-type":
            content_type = value
        elif name == HEADER_LENGTH:
            size = value
        elif name == b"connection":
            return make_response_headers(_drop_hop_headers(headers))
        elif name not in _NOT_RETURNED:
            returned.append(header)
    if size is not None:
        content_type = BINARY_MEDIA_TYPE + b";" + HEADER_SIZE_PARAMETER + b"=" + size
    return [(b"content-type", content_type), *returned]


def read_json_header_size(content_type: bytes) -> int:
    """The value of the parameter json-header-size, in bytes; raises BadRequest."""
    values = [
        value for name, value in _read_parameters(content_type) if name == HEADER_SIZE_PARAMETER
    ]
    if len(values) != 1 or not _DIGITS.fullmatch(values[0]):
        shown = ", ".join(value.decode("latin-1")[:40] for value in values) or "none"
        raise BadRequest(
            "the Content-Type's json-header-size",
            repr(shown),
            "one whole number: the bytes of JSON in front of the binary tensors",
        )
    return int(values[0])


def _check_size(size: int, length: int) -> None:
    if size > length:
        raise BadRequest(
            "the Content-Type's json-header-size",
            f"{size}, more than the {length} bytes of the body",
            "the number of bytes of JSON at the front of the body",
        )


def _drop_hop_headers(headers: Headers) -> Headers:
    """Without Connection and what it names (RFC 9110 7.6.1)."""
    values = [value for name, value in headers if name == b"connection"]
    named = {name.strip().lower() for value in values for name in value.split(b",")}
    return [header for header in headers if header[0] not in named | {b"connection"}]


def read_media_type(content_type: bytes) -> bytes:
    """A Content-Type without its parameters, in lower case."""
    return content_type.partition(b";")[0].strip().lower()


def _read_parameters(content_type: bytes) -> Iterator[tuple[bytes, bytes]]:
    for parameter in content_type.split(b";")[1:]:
        name, _, value = parameter.partition(b"=")
        yield name.strip().lower(), value.strip().strip(b'"')
