"""Who has signed a request: AWS's signature version 4, calculated once more. No I/O."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>\w+)/\d{8}/(?P<region>[\w-]+)/(?P<service>[\w-]+)"
    r"/aws4_request, SignedHeaders=(?P<headers>[\w;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)


@dataclass(frozen=True)
class Request:
    """As it came. path: with its query; headers: by lower-case name."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def access_key_id(self) -> str | None:
        """Whose signature it is said to be; None: it has none."""
        found = _AUTHORIZATION.fullmatch(self.headers.get("authorization", ""))
        return None if found is None else found["key"]


def is_signed_by(request: Request, credentials: Credentials) -> bool:
    """Whether its signature is the one that these credentials make."""
    found = _AUTHORIZATION.fullmatch(request.headers.get("authorization", ""))
    if found is None or found["key"] != credentials.access_key:
        return False
    if request.headers.get("x-amz-security-token") != credentials.token:
        return False
    again = AWSRequest(
        request.method,
        f"http://{request.headers.get('host', '')}{request.path}",
        headers={name: request.headers.get(name, "") for name in found["headers"].split(";")},
        data=request.body,
    )
    again.context["timestamp"] = request.headers.get("x-amz-date", "")
    auth = SigV4Auth(credentials, found["service"], found["region"])
    words = auth.string_to_sign(again, auth.canonical_request(again))
    return hmac.compare_digest(auth.signature(words, again), found["signature"])
