"""Which requests are let in: those of programs, and of this simulator's own pages.

A browser lets every page of the web send requests to this machine. It says whose page it is:
`Origin` (Fetch, 3.2), and `Sec-Fetch-Site` (W3C, Fetch Metadata) where there is no origin, as for
images and links. A page of a name that its owner points at this machine (DNS rebinding) is known by
`Host` alone. Programs send neither of the first two, and ask for an address that they were given.
"""

from __future__ import annotations

import ipaddress
import json
import re
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

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
_ANY_ADDRESS = ("0.0.0.0", "::", "")
#: Of browsers: the page is ours; or there is none, since a person typed the address.
_OWN_SITES = (None, "same-origin", "none")
_DEFAULT_PORT = re.compile(r":(?:80|443)?$")


class Hosts:
    """The names that a server has. host: what it listens at; urls: told to callers besides."""

    def __init__(self, host: str, *urls: str | None) -> None:
        told = [urlsplit(url).hostname or "" for url in urls if url]
        self._names = {name.lower() for name in (host, *told) if name not in _ANY_ADDRESS}
        self._any_address = host in _ANY_ADDRESS
        if self._any_address:
            self._names.add(socket.gethostname().lower())

    def __contains__(self, host: str) -> bool:
        """Whether a `Host` header names it, or a bucket of it."""
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found["name"].lower()
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
