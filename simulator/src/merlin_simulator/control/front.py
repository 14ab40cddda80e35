"""The one port: each request goes to the service that it is meant for.

The signature's service name says which, and X-Amz-Target beside it. The runtime API is signed as
SageMaker is, and is known by its paths. Signatures are read, not checked. What is not signed is
curl's at the runtime API, a browser's at the page, or S3's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import parse_qs

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from merlin_simulator.control.aws_errors import make_error
from merlin_simulator.control.caller import signed

#: What X-Amz-Target begins with, for the services that are carried out here.
_TARGETS = {
    "SageMaker": "sagemaker",
    "AnyScaleFrontendService": "application-autoscaling",
    "GraniteServiceVersion20100801": "monitoring",
    "AmazonEC2ContainerRegistry_V20150921": "ecr",
}
#: Services whose older clients send no target: they are known by the signature.
_BY_SIGNATURE = frozenset({"monitoring"})
#: How the names of calls begin that change nothing.
_READS = ("Get", "List", "Describe")
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
        if _changes_by_a_link(scope):
            await _refuse_link(headers)(scope, receive, send)
            return
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


def _changes_by_a_link(scope: Scope) -> bool:
    """Whether a GET would change something: clients of AWS post, an image of any page does not."""
    if scope["method"] not in ("GET", "HEAD"):
        return False
    actions = parse_qs(scope["query_string"].decode("latin-1")).get("Action", ())
    return not all(action.startswith(_READS) for action in actions)


def _refuse_link(headers: Headers) -> Response:
    words = "A GET changes nothing here: send the call as a POST, as AWS's clients do."
    answer = make_error(headers, None, 400, "InvalidAction", words)
    return Response(answer.body, answer.status, answer.headers)


def _is_own(scope: Scope, service: str | None) -> bool:
    path: str = scope["path"]
    if path.startswith("/endpoints/"):
        return service in (None, "sagemaker")
    if service is not None:
        return False
    return path.startswith(_PAGES) or (path == "/" and scope["method"] == "GET")
