"""Who asks for what: service, region and operation, as a request's own head says it. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

_SCOPE = re.compile(
    r"Credential=[^/,\s]+/\d{8}/(?P<region>[\w-]{1,32})/(?P<service>[\w-]+)/aws4_request"
)


@dataclass(frozen=True)
class Signed:
    """The service's signing name and the region in a signature."""

    service: str
    region: str


@dataclass(frozen=True)
class Call:
    """One call of a service: its operation and members, and the region it is signed for."""

    operation: str
    members: Mapping[str, Any]
    region: str


def signed(headers: Mapping[str, str], query: str) -> Signed | None:
    """By signature version 4, in the header or in a presigned URL; None: it is not signed so.

    headers: by lower-case name.
    """
    match = _SCOPE.search(headers.get("authorization", ""))
    if match is None and "X-Amz-Credential" in query:
        credential = parse_qs(query).get("X-Amz-Credential", [""])[0]
        match = _SCOPE.search(f"Credential={credential}")
    return None if match is None else Signed(match["service"], match["region"])


def operation_of(headers: Mapping[str, str]) -> str:
    """The operation in X-Amz-Target, after its prefix; "" without one."""
    return headers.get("x-amz-target", "").rpartition(".")[2]
