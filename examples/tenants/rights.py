"""Stands in for IAM: what a request wants to do, and whether whoever signed it may. No I/O.

On AWS nobody writes this: SageMaker asks IAM before it looks at a request. The local control plane
reads signatures and does not check them, so the story checks them here, by the policies that
`python -m deploy policy` printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from botocore.credentials import Credentials

from examples.control_plane import ACCOUNT, REGION
from examples.tenants.iam import Decision, Policy, decide
from examples.tenants.signatures import Request, is_signed_by

#: The two calls of sagemaker-runtime, by their paths.
_RUNTIME = {
    "invocations": "InvokeEndpoint",
    "invocations-response-stream": "InvokeEndpointWithResponseStream",
}
_RUNTIME_PATH = re.compile(r"/endpoints/(?P<name>[^/]+)/(?P<call>[a-z-]+)")
_TARGET_HEADER, _TARGET_KEY = "x-amzn-sagemaker-target-model", "sagemaker:TargetModel"
_WHY = {
    Decision.NOT_ALLOWED: "because no identity-based policy allows the {action} action",
    Decision.DENIED: "with an explicit deny in an identity-based policy",
}


@dataclass(frozen=True)
class Principal:
    """Who may sign: a session of a role, and the policies of that role."""

    arn: str
    credentials: Credentials
    policies: Sequence[Policy]


@dataclass(frozen=True)
class Refusal:
    """A 403 in AWS's words."""

    name: str
    message: str


@dataclass(frozen=True)
class _Wish:
    """An action on a resource, and what conditions may ask about."""

    action: str
    resource: str
    keys: Mapping[str, str] = field(default_factory=dict)


class Rights:
    """principals: by access key id."""

    def __init__(self, principals: Mapping[str, Principal]) -> None:
        self._principals = principals

    def refuse(self, request: Request) -> Refusal | None:
        """None: it may go on.

        1. Nobody whom we know has signed it.
        2. It is said to be signed by somebody, and is not.
        3. By that one's policies.
        """
        # 1.
        principal = self._principals.get(request.access_key_id or "")
        if principal is None:
            return Refusal(
                "UnrecognizedClientException",
                "The security token included in the request is invalid.",
            )
        # 2.
        if not is_signed_by(request, principal.credentials):
            return Refusal(
                "InvalidSignatureException",
                "The request signature we calculated does not match the signature you provided.",
            )
        # 3.
        wish = _read_wish(request)
        decision = decide(principal.policies, wish.action, wish.resource, wish.keys)
        if decision is Decision.ALLOWED:
            return None
        why = _WHY[decision].format(action=wish.action)
        return Refusal(
            "AccessDeniedException",
            f"User: {principal.arn} is not authorized to perform: {wish.action} on resource: "
            f"{wish.resource} {why}",
        )


def _read_wish(request: Request) -> _Wish:
    """Of sagemaker-runtime by its path, of sagemaker by X-Amz-Target."""
    found = _RUNTIME_PATH.fullmatch(urlsplit(request.path).path)
    if found is not None and found["call"] in _RUNTIME:
        target = request.headers.get(_TARGET_HEADER)
        return _Wish(
            f"sagemaker:{_RUNTIME[found['call']]}",
            _endpoint_arn(unquote(found["name"])),
            {} if target is None else {_TARGET_KEY: target},
        )
    operation = request.headers.get("x-amz-target", "").rpartition(".")[2]
    try:
        name = json.loads(request.body).get("EndpointName")
    except (ValueError, AttributeError):
        name = None
    resource = _endpoint_arn(name) if isinstance(name, str) else "*"
    return _Wish(f"sagemaker:{operation or request.method}", resource)


def _endpoint_arn(name: str) -> str:
    """SageMaker's ARNs have names in lower case."""
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:endpoint/{name.lower()}"
