"""Compressed bodies: which ones are, and what they inflate to, within bounds. No I/O.

They are inflated here: tritonserver takes what they inflate to into its memory, however much that
is (2 MB of gzip can be 2 GB), and some versions died of sizes that did not fit.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterable, Iterator

from serve.errors import BadRequest, BodyTooLarge
from serve.triton.connection import Headers

#: The most bytes that a compressed body may inflate to, where no setting says otherwise.
MOST_INFLATED = 64 * 1024 * 1024
#: Of them, in one step: a tenth of a millisecond.
_INFLATED_AT_ONCE = 64 * 1024
_PART = 64 * 1024
#: Each costs a state of its own, and may be of twenty bytes.
_MOST_MEMBERS = 100
#: The first byte of each gzip member.
_GZIP = b"\x1f"

COMPRESSIONS = frozenset({b"gzip", b"deflate"})  # tritonserver's, http_server.cc
_UNCOMPRESSED = frozenset({b"", b"identity"})


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
    if encoding in COMPRESSIONS:
        return True
    shown = repr(encoding.decode("latin-1")[:40])
    raise BadRequest("the header Content-Encoding", shown, "gzip, deflate or identity")


def inflate(
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
        for piece in _inflate_members(body):
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


def inflate_whole(body: Iterable[bytes], most: int) -> list[bytes]:
    """The same without a pause, for a thread."""
    steps = inflate(body, most)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            pieces: list[bytes] = end.value
            return pieces


def _inflate_members(body: Iterable[bytes]) -> Iterator[bytes]:
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
