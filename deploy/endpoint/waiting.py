"""Waiting for an endpoint, with what happens meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from deploy.aws.account import Account, Say
from deploy.errors import DeploymentFailed

#: Of EndpointStatus: those that pass by themselves.
CHANGING = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"})
#: Between two looks, in seconds: the first ones soon, for an endpoint that is quick.
_FIRST_S, _MOST_S, _GROWTH = 0.5, 10.0, 1.3
Endpoint = Mapping[str, Any]


def describe(account: Account, endpoint_name: str) -> Endpoint | None:
    """DescribeEndpoint; None where there is none."""
    return account.find("sagemaker", "DescribeEndpoint", EndpointName=endpoint_name)


def wait_until_settled(
    account: Account, endpoint_name: str, say: Say, timeout_s: float
) -> Endpoint | None:
    """The endpoint once its status does not change any more; None once it is gone.

    Raises DeploymentFailed after timeout_s: the endpoint goes on changing.
    """
    start, told = time.monotonic(), ""
    for pause in _pauses():
        endpoint = describe(account, endpoint_name)
        words = "gone" if endpoint is None else _in_words(endpoint)
        if words != told:
            say(f"{time.monotonic() - start:5.0f} s  {words}")
            told = words
        if endpoint is None or endpoint["EndpointStatus"] not in CHANGING:
            return endpoint
        if time.monotonic() - start > timeout_s:
            raise DeploymentFailed(
                f"the endpoint {endpoint_name} is {endpoint['EndpointStatus']} after "
                f"{timeout_s:.0f} s (--timeout); it goes on: the same command waits on"
            )
        time.sleep(pause)
    raise AssertionError("the pauses have no end")


def _pauses() -> Iterator[float]:
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
