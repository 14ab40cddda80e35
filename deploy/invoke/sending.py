"""A request sent as boto3 sends it: once, so that what is measured and told is one answer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from urllib3.exceptions import HTTPError

from deploy.aws.account import Account
from deploy.aws.refusals import FOREIGN
from deploy.errors import Unreachable
from deploy.invoke.bodies import Body
from deploy.invoke.refusals import Asked, refusal_of_invocation

#: A request waits up to 60 s for a cold archive, and 60 more for its answer (the container's
#: contract and InvokeEndpoint, both AWS's).
_READ_S = 130.0


@dataclass(frozen=True)
class Answer:
    """variant: InvokedProductionVariant."""

    content: bytes
    content_type: str
    variant: str


@dataclass(frozen=True)
class Streamed:
    """parts come while they are read; reading them raises DeployError."""

    parts: Iterator[bytes]
    content_type: str
    variant: str


def send(account: Account, asked: Asked, body: Body) -> Answer:
    """One InvokeEndpoint. Raises DeployError."""
    with _in_sentences(account, asked):
        answer = _client(account).invoke_endpoint(**_members(asked, body))
        content = answer["Body"].read()
    return Answer(content, answer.get("ContentType", ""), answer.get("InvokedProductionVariant"))


def stream(account: Account, asked: Asked, body: Body) -> Streamed:
    """One InvokeEndpointWithResponseStream, which knows no TargetModel. Raises DeployError."""
    with _in_sentences(account, asked):
        members = _members(asked, body)
        answer = _client(account).invoke_endpoint_with_response_stream(**members)
    return Streamed(
        _parts(account, asked, answer["Body"]),
        answer.get("ContentType", ""),
        answer.get("InvokedProductionVariant"),
    )


def _client(account: Account) -> Any:
    return account.client("sagemaker-runtime", attempts=1, read_s=_READ_S)


def _members(asked: Asked, body: Body) -> dict[str, Any]:
    target = {} if asked.target_model is None else {"TargetModel": asked.target_model}
    return {
        "EndpointName": asked.endpoint_name,
        "ContentType": body.content_type,
        "Body": body.content,
        **target,
    }


def _parts(account: Account, asked: Asked, events: Any) -> Iterator[bytes]:
    with _in_sentences(account, asked), contextlib.closing(events):
        for event in events:
            if "PayloadPart" in event:
                yield event["PayloadPart"]["Bytes"]


@contextlib.contextmanager
def _in_sentences(account: Account, asked: Asked) -> Iterator[None]:
    try:
        yield
    except HTTPError as error:  # botocore's event streams let urllib3's own pass
        raise Unreachable(f"{asked}: the answer broke off ({error}); ask again") from error
    except FOREIGN as error:
        raise refusal_of_invocation(error, asked, account.region) from error
