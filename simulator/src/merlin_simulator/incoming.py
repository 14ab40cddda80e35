"""What of HTTP reaches an application: strict messages, from the same origin."""

from __future__ import annotations

import ipaddress
import json
import re
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httptools
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from merlin_simulator.addresses import ANY_ADDRESS

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


if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+?)\.?(?P<port>:\d{0,5})?", re.I)
#: Of AWS's services, those that are played; a bucket or an account may stand before them.
_AWS = re.compile(
    r"(?:[a-z0-9._-]+\.)?"
    r"(?:s3|sagemaker|sagemaker-runtime|application-autoscaling|autoscaling|monitoring|ecr|iam|sts|logs)"
    r"(?:[.-][a-z0-9-]+){0,2}\.amazonaws\.com"
)
#: Of names that lead here wherever they are asked, and of private networks (host.docker.internal):
#: nobody can register them.
_NOBODYS = ("localhost", "internal")
#: Of browsers: the page is ours; or there is none, since a person typed the address.
_OWN_SITES = (None, "same-origin", "none")
_DEFAULT_PORT = re.compile(r":(?:80|443)?$")


class Hosts:
    """The names that a server has. host: what it listens at; urls: told to callers besides."""

    def __init__(self, host: str, *urls: str | None) -> None:
        hostnames = [urlsplit(url).hostname or "" for url in urls if url]
        self._names = {name.lower() for name in (host, *hostnames) if name not in ANY_ADDRESS}
        self._any_address = host in ANY_ADDRESS
        if self._any_address:
            self._names.add(socket.gethostname().lower())

    def __contains__(self, host: str) -> bool:
        """Whether a `Host` header names it, or a bucket of it."""
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = match["name"].lower()
        address = _address(name)
        if address is not None:
            return address.is_loopback or self._any_address or str(address) in self._names
        if self._any_address and "." not in name:  # a service's in a Docker network
            return True
        known = (*_NOBODYS, *self._names)
        is_known = any(name == it or name.endswith(f".{it}") for it in known)
        return is_known or _AWS.fullmatch(name) is not None


def find_refusal(
    hosts: Hosts, host: str | None, origin: Iterable[str], site: Iterable[str]
) -> str | None:
    """Why a request is not let in, as a sentence; None where it is.

    host: its header, None where there is none, as of HTTP/1.0. origin, site: values of `Origin` and
    `Sec-Fetch-Site`.
    """
    if host is not None and host not in hosts:
        return (
            f"The host {host[:80]!r} is none of this simulator's: ask for localhost, or for the "
            "host that it listens at (--host)."
        )
    for page in origin:
        if not _is_same(page, host):
            return f"A page of {page[:80]!r} may not ask this simulator: only its own pages may."
    for relation in site:
        if relation not in _OWN_SITES:
            return (
                "A page of another site may not ask this simulator, nor lead to it: "
                "type the address into the browser."
            )
    return None


class SameOriginApp:
    """An ASGI application behind find_refusal: what is refused reaches nothing of it."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            why = find_refusal(
                self._hosts,
                headers.get("host"),
                headers.getlist("origin"),
                headers.getlist("sec-fetch-site"),
            )
            if why is not None:
                answer = Response(_body(why), 403, _HEADERS, media_type=_MEDIA_TYPE)
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


def make_same_origin(app: WSGIApplication, hosts: Hosts) -> WSGIApplication:
    """A WSGI application behind find_refusal."""

    def guarded(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        origin, site = (
            [environ[name]] if name in environ else []
            for name in ("HTTP_ORIGIN", "HTTP_SEC_FETCH_SITE")
        )
        why = find_refusal(hosts, environ.get("HTTP_HOST"), origin, site)
        if why is None:
            return app(environ, start_response)
        body = _body(why)
        headers = [("Content-Type", _MEDIA_TYPE), ("Content-Length", str(len(body)))]
        start_response("403 Forbidden", [*headers, *_HEADERS.items()])
        return [body]

    return guarded


_MEDIA_TYPE = "application/json"
_HEADERS = {"X-Amzn-ErrorType": "AccessDeniedException", "X-Content-Type-Options": "nosniff"}


def _body(why: str) -> bytes:
    return json.dumps({"__type": "AccessDeniedException", "message": why}).encode()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None


def _is_same(origin: str, host: str | None) -> bool:
    """Whether a page's origin is the host that is asked; by either scheme, for proxies with TLS."""
    scheme, _, authority = origin.lower().partition("://")
    if host is None or scheme not in ("http", "https"):
        return False
    return _DEFAULT_PORT.sub("", authority) == _DEFAULT_PORT.sub("", host.lower())
