"""Which headers go to tritonserver and back, and where JSON ends and binary begins. No I/O.

Compressed bodies are inflated here: tritonserver takes what they inflate to into its memory,
however much that is (2 MB of gzip can be 2 GB), and some versions died of sizes that did not fit.

SageMaker carries the v2 protocol's binary extension under a media type of its own, with the length
of the JSON part as a parameter; Triton wants that length in a header of its own.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

from serve.errors import BadRequest, BodyTooLarge
from serve.triton.access import HTTP_HEADER
from serve.triton.connection import Headers

#: Pieces of a body that are smaller than this are put together, up to so many bytes: each costs a
#: hundred bytes beside its own.
_SMALL_PIECE, _PUT_TOGETHER = 4 * 1024, 64 * 1024

#: The most bytes that a compressed body may inflate to, where no setting says otherwise.
MOST_INFLATED = 64 * 1024 * 1024
#: Of them, in one step: a tenth of a millisecond.
_INFLATED_AT_ONCE = 64 * 1024
_PART = 64 * 1024
#: Each costs a state of its own, and may be of twenty bytes.
_MOST_MEMBERS = 100
#: The first byte of each gzip member.
_GZIP = b"\x1f"

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

_COMPRESSIONS = frozenset({b"gzip", b"deflate"})  # tritonserver's, http_server.cc
_UNCOMPRESSED = frozenset({b"", b"identity"})
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
    if content_type is not None and _read_media_type(content_type) == BINARY_MEDIA_TYPE:
        size = read_json_header_size(content_type)
        _check_size(size, sum(map(len, body)))
        return forwarded, size
    return forwarded, None


def write_headers(forwarded: Headers, json_size: int | None) -> Headers:
    """What an inference is sent with. json_size: as of read_headers."""
    if json_size is None:
        return [*forwarded, (b"content-type", b"application/json")]
    return [
        *forwarded,
        (b"content-type", b"application/octet-stream"),
        (HEADER_LENGTH, b"%d" % json_size),
    ]


def _accepted(value: bytes) -> Headers:
    """What a caller takes, in tritonserver's own words, or nothing.

    tritonserver dies of weights that no double holds, such as `gzip;q=1e999` (std::stod).
    """
    for item in value.lower().split(b","):
        name, *parameters = (part.strip() for part in item.split(b";"))
        if name in _COMPRESSIONS and not any(map(_REFUSED.fullmatch, parameters)):
            return [(ACCEPT_ENCODING, name)]
    return []


def keep_piece(pieces: list[bytes], piece: bytes) -> None:
    """Put a body's next piece to those before it; many small ones become few."""
    if pieces and len(piece) < _SMALL_PIECE:
        last: object = pieces[-1]
        if isinstance(last, bytearray) and len(last) < _PUT_TOGETHER:
            last += piece  # in its place: a caller may send each byte in a chunk of its own
            return
        pieces.append(bytearray(piece))  # type: ignore[arg-type] # joined and written alike
        return
    pieces.append(piece)


def is_compressed(headers: Headers) -> bool:
    """Whether the body must be inflated, which can take a while.

    Raises BadRequest for a compression that is not tritonserver's.
    """
    encoding = None
    for name, value in headers:  # once: the hot path
        if name == b"content-encoding":
            encoding = encoding or value
    if encoding is None or encoding in _UNCOMPRESSED:
        return False
    if encoding in _COMPRESSIONS:
        return True
    shown = repr(encoding.decode("latin-1")[:40])
    raise BadRequest("the header Content-Encoding", shown, "gzip, deflate or identity")


def inflated(
    body: Iterable[bytes], most: int = MOST_INFLATED, grown: Callable[[int], object] | None = None
) -> Generator[None, None, list[bytes]]:
    """A compressed body as it was before, in steps. zlib finds out whether it is gzip or deflate.

    most: bytes it may have then, a Limit if a setting says it. grown: told how many there are,
    before they are kept; what it raises ends it. Raises BadRequest, also for a body that ends too
    early, and BodyTooLarge.
    """
    pieces: list[bytes] = []
    size = 0
    try:
        for piece in _inflated(body):
            size += len(piece)
            if size > most:
                raise BodyTooLarge("more once it is inflated", most)
            if grown is not None:
                grown(size)
            pieces.append(piece)
            yield
    except zlib.error as error:
        raise BadRequest(
            "the body", f"no valid compressed data ({error})", "gzip or deflate"
        ) from error
    if not size:
        raise BadRequest(
            "the body", "nothing once it is inflated", "an inference request of the v2 protocol"
        )
    return pieces


def _inflated(body: Iterable[bytes]) -> Iterator[bytes]:
    """One compressed stream, or several gzip members one after the other (RFC 1952 2.2)."""
    inflater, members = _make_inflater(), 1
    for part in _parts(body):
        left = part
        while left:
            if inflater.eof and not left.startswith(_GZIP):
                raise BadRequest("the body", "bytes behind its compressed data", "none")
            if inflater.eof:
                inflater, members = _make_inflater(), members + 1
            if members > _MOST_MEMBERS:
                raise BadRequest("the body", f"more than {_MOST_MEMBERS} gzip members", "one")
            yield inflater.decompress(left, _INFLATED_AT_ONCE)
            left = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
    while not inflater.eof:
        piece = inflater.decompress(b"", _INFLATED_AT_ONCE)
        if not piece:
            raise BadRequest("the body", "compressed data that end too early", "all of them")
        yield piece


def _make_inflater() -> zlib._Decompress:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)


def _parts(body: Iterable[bytes]) -> Iterator[bytes]:
    """In small parts: what zlib has not looked at yet is copied at each step."""
    for piece in body:
        for start in range(0, len(piece), _PART):
            yield piece[start : start + _PART]


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


def _read_media_type(content_type: bytes) -> bytes:
    return content_type.partition(b";")[0].strip().lower()


def _read_parameters(content_type: bytes) -> Iterator[tuple[bytes, bytes]]:
    for parameter in content_type.split(b";")[1:]:
        name, _, value = parameter.partition(b"=")
        yield name.strip().lower(), value.strip().strip(b'"')
