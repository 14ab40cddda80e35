"""How large a request may be beside its body, and what is said of bytes that are none."""

from __future__ import annotations

import logging

import httptools

from serve.errors import BadRequest, HeadTooLarge

_log = logging.getLogger(__name__)

#: A request's line and headers: all of it, one of them, in bytes, and how many there may be.
LARGEST_HEAD, LARGEST_LINE, MOST_HEADERS = 64 * 1024, 16 * 1024, 256
#: The body of what is no invocation, in bytes. A load's is some hundred.
LARGEST_OTHER_BODY = 64 * 1024
#: Requests that a caller may send ahead of their answers, on one connection.
MOST_AHEAD = 100


class BesideBody:
    """What comes with a body and is none of it: the sizes of chunks, their extensions, trailers.

    Nobody needs it: it is counted and not kept. Its bounds are those of a head.
    """

    __slots__ = ("_body_size", "_fed", "_trailer_bytes", "_trailers")

    def __init__(self) -> None:
        self._body_size = -1
        self._fed = self._trailers = self._trailer_bytes = 0

    def too_much_fed(self, size: int, body_size: int) -> bool:
        """So many bytes have come; the body has that many now. Where it has grown all is well."""
        if body_size > self._body_size:
            self._body_size, self._fed = body_size, 0
        else:
            self._fed += size
        return self._fed > LARGEST_HEAD

    def trailer_too_much(self, size: int) -> bool:
        """A trailer of so many bytes has come."""
        self._trailers += 1
        self._trailer_bytes += size
        return (
            size > LARGEST_LINE
            or self._trailers > MOST_HEADERS
            or self._trailer_bytes > LARGEST_HEAD
        )


def has_path(url: bytes) -> bool:
    """Not so of CONNECT's `host:port`, nor of `http://host`, which a caller may write as well."""
    try:
        return httptools.parse_url(url).path is not None
    except httptools.HttpParserInvalidURLError:
        return False


def head_without_upgrade(
    parser: httptools.HttpRequestParser, url: bytes, headers: list[tuple[bytes, bytes]]
) -> bytes:
    """The head that was parsed last, less its wish to speak another protocol."""
    version = parser.get_http_version().encode()
    lines = [b"%b %b HTTP/%b" % (parser.get_method(), url, version)]
    lines += [b"%b: %b" % header for header in headers if header[0] != b"upgrade"]
    return b"\r\n".join([*lines, b"", b""])


def no_request(error: httptools.HttpParserError) -> BadRequest:
    """The error for bytes that the parser does not take."""
    if not isinstance(error, httptools.HttpParserCallbackError):
        return BadRequest("the request", f"no HTTP/1.1 ({error})", "a request of HTTP/1.1")
    _log.error("a request could not be read for a reason that was not foreseen", exc_info=error)
    return BadRequest("the request", "what cannot be read", "a request of HTTP/1.1")


def head_too_large() -> HeadTooLarge:
    """The error for a head over its bounds."""
    return HeadTooLarge(
        "more",
        f"at most {LARGEST_HEAD} bytes, {LARGEST_LINE} in a line, and {MOST_HEADERS} headers",
    )
