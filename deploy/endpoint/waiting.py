"""Waiting for an endpoint, with what happens meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from deploy.aws.account import Account, Say
from deploy.errors import DeployError, DeploymentFailed, NoAnswer

#: Of EndpointStatus: those that pass by themselves.
CHANGING = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"})
#: AWS's reads lag behind its writes (CreateEndpoint in its reference): so long, in seconds, is
#: looked again for what was made or changed a moment ago.
PATIENCE_S = 15.0
#: Between two looks, in seconds: the first ones soon, for an endpoint that is quick.
_FIRST_S, _MOST_S, _GROWTH = 0.2, 10.0, 1.3
#: So long, in seconds, a network may be gone while an endpoint is waited for.
_BLIND_S = 300.0
Endpoint = Mapping[str, Any]
_Found = TypeVar("_Found")


def describe(account: Account, endpoint_name: str) -> Endpoint | None:
    """DescribeEndpoint; None where there is none."""
    return account.find("sagemaker", "DescribeEndpoint", EndpointName=endpoint_name)


def wait_until_settled(
    account: Account, endpoint_name: str, say: Say, timeout_s: float, *, appears: bool = False
) -> Endpoint | None:
    """The endpoint once its status does not change any more; None once it is gone.

    appears: it was made a moment ago, and may not be seen yet. A network that is gone for some
    minutes ends nothing. Raises DeploymentFailed after timeout_s: the endpoint goes on changing.
    """
    start, told, seen = time.monotonic(), "", time.monotonic()
    for pause in pauses():
        try:
            endpoint = describe(account, endpoint_name)
        except NoAnswer as error:
            if time.monotonic() - seen > min(_BLIND_S, timeout_s):
                raise
            say(str(error))
            time.sleep(pause)
            continue
        seen = time.monotonic()
        if endpoint is None and appears and seen - start < PATIENCE_S:
            time.sleep(pause)
            continue
        appears = False
        words = "gone" if endpoint is None else _in_words(endpoint)
        if words != told:
            say(f"{seen - start:5.0f} s  {words}")
            told = words
        if endpoint is None or endpoint["EndpointStatus"] not in CHANGING:
            return endpoint
        if seen - start > timeout_s:
            raise DeploymentFailed(
                f"the endpoint {endpoint_name} is {endpoint['EndpointStatus']} after "
                f"{timeout_s:.0f} s (--timeout); it goes on: the same command waits on"
            )
        time.sleep(pause)
    raise AssertionError("the pauses have no end")


def with_patience(call: Callable[[], _Found], *refusals: type[DeployError]) -> _Found:
    """What a call answers, asked again for some seconds while it is refused in one of these ways.

    Raises the last refusal.
    """
    start = time.monotonic()
    for pause in pauses():
        try:
            return call()
        except refusals:
            if time.monotonic() - start > PATIENCE_S:
                raise
        time.sleep(pause)
    raise AssertionError("the pauses have no end")


def pauses() -> Iterator[float]:
    """Between two looks, in seconds, without end."""
    pause = _FIRST_S
    while True:
        yield pause
        pause = min(_MOST_S, pause * _GROWTH)


def _in_words(endpoint: Endpoint) -> str:
    """Status, and how many instances there are of how many."""
    words = [str(endpoint["EndpointStatus"])]
    for variant in endpoint.get("ProductionVariants", ()):
        now, then = variant.get("CurrentInstanceCount"), variant.get("DesiredInstanceCount")
        if then is not None:
            words.append(f"{now or 0} of {then} instances")
        words += [one["Status"] for one in variant.get("VariantStatus", ())]
    if reason := endpoint.get("FailureReason"):
        words.append(f"({reason})")
    return "  ".join(words)
