"""examples/tenants: the stand-in for IAM lets through what the policies allow, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from examples.tenants.iam import Decision, decide
from examples.tenants.rights import Principal, Rights
from examples.tenants.signatures import Request

ENDPOINT = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/shops"
KEYS = Credentials("ASIAONE", "secret", "token")
TARGET = {"X-Amzn-SageMaker-Target-Model": "shop-a/1.tar.gz"}
INVOKE = "/endpoints/shops/invocations"


def allow(action: str, like: str | None = None) -> dict[str, Any]:
    condition = {} if like is None else {"StringLike": {"sagemaker:TargetModel": like}}
    return {
        "Effect": "Allow",
        "Action": [action],
        "Resource": [ENDPOINT],
        "Condition": condition,
    }


def rights(*statements: Mapping[str, Any]) -> Rights:
    one = Principal("arn:one", KEYS, [{"Statement": list(statements)}])
    two = replace(one, credentials=Credentials("ASIATWO", "another"))
    return Rights({"ASIAONE": one, "ASIATWO": two})


def sign(
    path: str, headers: Mapping[str, str], keys: Credentials = KEYS, body: bytes = b"{}"
) -> Request:
    """As boto3 does."""
    made = AWSRequest("POST", f"http://localhost:80{path}", data=body, headers={**headers})
    SigV4Auth(keys, "sagemaker", "us-east-1").add_auth(made)
    sent = {name.lower(): value for name, value in made.headers.items()}
    return Request("POST", path, {"host": "localhost", **sent}, body)


def refused(rights: Rights, request: Request) -> str | None:
    refusal = rights.refuse(request)
    return None if refusal is None else refusal.name


def test_what_a_policy_allows_goes_on() -> None:
    """By action, endpoint and target model."""
    invoke = rights(allow("sagemaker:InvokeEndpoint", "shop-a/*"))
    assert refused(invoke, sign(INVOKE, TARGET)) is None
    for path, headers in (
        (INVOKE, {"X-Amzn-SageMaker-Target-Model": "shop-b/1.tar.gz"}),
        (INVOKE, {}),
        ("/endpoints/others/invocations", TARGET),
        (f"{INVOKE}-response-stream", TARGET),
        ("/", {"X-Amz-Target": "SageMaker.DeleteEndpoint"}),
    ):
        assert refused(invoke, sign(path, headers)) == "AccessDeniedException"


def test_other_calls_are_told_by_their_target() -> None:
    """sagemaker's operations have their name in a header, and the endpoint in the body."""
    delete = rights(allow("sagemaker:DeleteEndpoint"))
    headers = {"X-Amz-Target": "SageMaker.DeleteEndpoint"}
    assert refused(delete, sign("/", headers, body=b'{"EndpointName": "Shops"}')) is None
    for body in (b'{"EndpointName": "others"}', b"{}", b"[]", b"no JSON"):
        assert refused(delete, sign("/", headers, body=body)) == "AccessDeniedException"


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"body": b'{"other": 1}'}, "InvalidSignatureException"),
        ({"path": "/endpoints/shops/invocations-response-stream"}, "InvalidSignatureException"),
        ({"method": "PUT"}, "InvalidSignatureException"),
        ({"headers": {}}, "UnrecognizedClientException"),
    ],
)
def test_what_was_changed_after_it_was_signed(change: dict[str, Any], name: str) -> None:
    """Is signed by nobody."""
    everything = rights(allow("sagemaker:*"))
    signed = sign(INVOKE, TARGET)
    assert refused(everything, signed) is None
    assert refused(everything, replace(signed, **change)) == name


def test_another_target_model_than_was_signed() -> None:
    """The header is one of those that are signed."""
    signed = sign(INVOKE, TARGET)
    other = {**signed.headers, "x-amzn-sagemaker-target-model": "shop-b/1.tar.gz"}
    changed = replace(signed, headers=other)
    assert refused(rights(allow("sagemaker:*")), changed) == "InvalidSignatureException"


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        (Credentials("ASIAONE", "guessed", "token"), "InvalidSignatureException"),
        (Credentials("ASIAONE", "secret", "another"), "InvalidSignatureException"),
        (Credentials("ASIAONE", "secret"), "InvalidSignatureException"),
        (Credentials("ASIATWO", "secret", "token"), "InvalidSignatureException"),
        (Credentials("ASIANOBODY", "secret", "token"), "UnrecognizedClientException"),
    ],
)
def test_who_is_not_who_they_say(keys: Credentials, name: str) -> None:
    """Neither by another's secret nor by another's session."""
    assert refused(rights(allow("sagemaker:*")), sign(INVOKE, TARGET, keys)) == name


def test_what_one_policy_denies_no_other_allows() -> None:
    """A deny wins over all; without an allow nothing is."""
    wide, narrow = allow("sagemaker:*"), {**allow("sagemaker:InvokeEndpoint"), "Effect": "Deny"}
    policies = [{"Statement": [wide]}, {"Statement": [narrow]}]
    assert decide(policies, "sagemaker:InvokeEndpoint", ENDPOINT, {}) is Decision.DENIED
    assert decide(policies, "sagemaker:DescribeEndpoint", ENDPOINT, {}) is Decision.ALLOWED
    assert decide([], "sagemaker:DescribeEndpoint", ENDPOINT, {}) is Decision.NOT_ALLOWED
