"""The one port: each request goes to the service that it is meant for.

The signature's service name says which, and X-Amz-Target beside it. The runtime API is signed as
SageMaker is, and is known by its paths. Signatures are read, not checked. What is not signed is
curl's at the runtime API, a browser's at the page, or S3's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from simulator.control.caller import signed

#: What X-Amz-Target begins with, for the services that are carried out here.
_TARGETS = {
    "SageMaker": "sagemaker",
    "AnyScaleFrontendService": "application-autoscaling",
    "GraniteServiceVersion20100801": "monitoring",
    "AmazonEC2ContainerRegistry_V20150921": "ecr",
}
#: Services whose older clients send no target: they are known by the signature.
_BY_SIGNATURE = frozenset({"monitoring"})
_PAGES = ("/simulator", "/metrics")


class Api(Protocol):
    """A service that is carried out here."""

    async def answer(self, scope: Scope, receive: Receive, send: Send, region: str) -> None:
        """Answer one request of this service."""
        ...


class Front:
    """apis: the services carried out here, by signing name; own: runtime API and page."""

    def __init__(self, own: ASGIApp, apis: Mapping[str, Api], moto: ASGIApp, region: str) -> None:
        self._own, self._apis, self._moto, self._region = own, apis, moto, region

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._own(scope, receive, send)
            return
        headers = Headers(scope=scope)
        caller = signed(headers, scope["query_string"].decode("latin-1"))
        service = _TARGETS.get(headers.get("x-amz-target", "").rpartition(".")[0], "")
        if not service and caller is not None and caller.service in _BY_SIGNATURE:
            service = caller.service
        if service in self._apis:
            region = caller.region if caller else self._region
            await self._apis[service].answer(scope, receive, send, region)
        elif _is_own(scope, caller.service if caller else None):
            await self._own(scope, receive, send)
        else:
            await self._moto(scope, receive, send)


def _is_own(scope: Scope, service: str | None) -> bool:
    path: str = scope["path"]
    if path.startswith("/endpoints/"):
        return service in (None, "sagemaker")
    if service is not None:
        return False
    return path.startswith(_PAGES) or (path == "/" and scope["method"] == "GET")
