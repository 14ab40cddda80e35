"""Change an endpoint: one change at a time, whoever makes it. Each waits for the one under way.

Autoscaling, SageMaker's maintenance, another `up`, or the first try of a call whose answer was lost
may be changing the endpoint. Meanwhile SageMaker refuses other changes, DeleteEndpoint too ("Cannot
update in-progress endpoint").
"""

from __future__ import annotations

import time
from collections.abc import Callable

from deploy.aws.account import Account
from deploy.desired.monitoring import VARIANT
from deploy.desired.requests import Members
from deploy.endpoint.resources import end_scaling, has_scaling
from deploy.endpoint.state import (
    CHANGING,
    Endpoint,
    describe,
    pauses,
    wait_until_settled,
    with_patience,
)
from deploy.errors import DeploymentFailed, InProgress, NotThere
from deploy.terminal import Say


def update_endpoint(
    account: Account,
    name: str,
    config_name: str,
    deployment: Members | None,
    say: Say,
    *,
    keep_count: bool,
    timeout_s: float,
) -> None:
    """UpdateEndpoint; keep_count: the instances are as many as autoscaling has made of them.

    SageMaker refuses another instance type while the variant is a scalable target
    (endpoint-scaling-update in its guide), so the target goes for that time; `up` brings it back.
    """

    def update() -> None:
        if has_scaling(account, name) and _changes_type(account, name, config_name):
            say("another instance type: autoscaling is taken away until the update is done")
            end_scaling(account, name)
        with_patience(
            lambda: account.change(
                "sagemaker",
                "UpdateEndpoint",
                EndpointName=name,
                EndpointConfigName=config_name,
                RetainAllVariantProperties=keep_count,
                **({} if deployment is None else {"DeploymentConfig": deployment}),
            ),
            NotThere,
        )

    _once_idle(
        account,
        name,
        update,
        lambda endpoint: endpoint["EndpointConfigName"] == config_name,
        say,
        timeout_s,
    )


def scale_endpoint(account: Account, name: str, count: int, say: Say, timeout_s: float) -> None:
    """UpdateEndpointWeightsAndCapacities, to a number of instances."""

    def is_so(endpoint: Endpoint) -> bool:
        variants = endpoint.get("ProductionVariants") or [{}]
        return bool(variants[0].get("DesiredInstanceCount") == count)

    def scale() -> None:
        account.change(
            "sagemaker",
            "UpdateEndpointWeightsAndCapacities",
            EndpointName=name,
            DesiredWeightsAndCapacities=[{"VariantName": VARIANT, "DesiredInstanceCount": count}],
        )

    _once_idle(account, name, scale, is_so, say, timeout_s)


def delete_endpoint(account: Account, name: str, say: Say, timeout_s: float) -> None:
    """Until it is gone."""
    if account.dry_run:
        account.remove("sagemaker", "DeleteEndpoint", EndpointName=name)
        return
    start = time.monotonic()
    for pause in pauses():
        endpoint = describe(account, name)
        if endpoint is not None and endpoint["EndpointStatus"] in CHANGING:
            if endpoint["EndpointStatus"] != "Deleting":
                say(f"the endpoint {name} is {endpoint['EndpointStatus']}, and cannot be deleted")
            endpoint = wait_until_settled(account, name, say, timeout_s)
        if endpoint is None:
            return
        if time.monotonic() - start > timeout_s:
            raise DeploymentFailed(
                f"the endpoint {name} is not deleted after {timeout_s:.0f} s (--timeout); the same "
                "command goes on"
            )
        try:
            account.remove("sagemaker", "DeleteEndpoint", EndpointName=name)
            say(f"endpoint {name}: is deleted")
        except InProgress:
            time.sleep(pause)


def _once_idle(
    account: Account,
    name: str,
    change: Callable[[], None],
    is_so: Callable[[Endpoint], bool],
    say: Say,
    timeout_s: float,
) -> None:
    """Change it; where it is in a change, wait for its end, and change it unless it is so then."""
    start = time.monotonic()
    for pause in pauses():
        try:
            change()
            return
        except InProgress:
            if time.monotonic() - start > timeout_s:
                raise
        say(f"the endpoint {name} is in another change: this waits until it is done")
        endpoint = wait_until_settled(account, name, say, timeout_s)
        if endpoint is None:
            raise DeploymentFailed(f"the endpoint {name} was deleted meanwhile; `up` makes it anew")
        if is_so(endpoint):
            return
        time.sleep(pause)


def _changes_type(account: Account, name: str, config_name: str) -> bool:
    endpoint = describe(account, name) or {}
    names = (endpoint.get("EndpointConfigName", ""), config_name)
    return len({_instance_type(account, one) for one in names}) > 1


def _instance_type(account: Account, config_name: str) -> str | None:
    found = account.find("sagemaker", "DescribeEndpointConfig", EndpointConfigName=config_name)
    return None if found is None else str(found["ProductionVariants"][0]["InstanceType"])
