"""uvicorn's HTTP protocol, strict where a request could be read in two ways (RFC 9112)."""

from __future__ import annotations

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: Of HTTP, those that are spoken.
_VERSIONS = ("1.1", "1.0")
#: A request's line and headers, in bytes: one who sends no end of them is not listened to.
_LARGEST_HEAD = 1024 * 1024


class _Refused(Exception):
    """Ends the parser: what it reads is answered with a 400, and the connection ends."""


class StrictProtocol(HttpToolsProtocol):
    """Offers no upgrades, and passes over the wish for one (RFC 9110 7.8).

    The parser takes what follows the head of such a request for another protocol's bytes: its body
    was lost, or was read as a request. So the head is read again without the wish.
    """

    _hosts = _head_size = 0
    _in_head = False

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        self._unset_keepalive_if_required()
        try:
            self._feed(memoryview(data))
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def _feed(self, data: memoryview) -> None:
        while True:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as wish:
                data = data[wish.args[0] :]
            head = self._head_without_upgrade()
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
            self.parser.feed_data(head)

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    # -- httptools' callbacks

    def on_message_begin(self) -> None:
        """A head begins."""
        self._hosts, self._head_size, self._in_head = 0, 0, True
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A piece of the target."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; a trailer is none (RFC 9110 6.5.1)."""
        self._count(len(name) + len(value))
        if self._in_head:
            self._hosts += name.lower() == b"host"
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is whole."""
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            return  # it is read again without it
        version = self.parser.get_http_version()
        if self.parser.should_upgrade() or version not in _VERSIONS or self._hosts > 1:
            raise _Refused
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The body is whole."""
        if not self._in_head:
            super().on_message_complete()

    def _count(self, size: int) -> None:
        self._head_size += size
        if self._head_size > _LARGEST_HEAD:
            raise _Refused
