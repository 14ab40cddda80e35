"""Change an endpoint: one change at a time, whoever makes it. Each waits for the one under way.

Autoscaling, SageMaker's maintenance, another `up`, or the first try of a call whose answer was lost
may be changing the endpoint. Meanwhile SageMaker refuses other changes, DeleteEndpoint too ("Cannot
update in-progress endpoint").
"""

from __future__ import annotations

import time
from collections.abc import Callable

from merlin_deploy.aws.account import Account
from merlin_deploy.desired.monitoring import VARIANT
from merlin_deploy.desired.requests import Members
from merlin_deploy.endpoint.resources import end_scaling, find_target
from merlin_deploy.endpoint.state import (
    CHANGING,
    Description,
    Job,
    call_patiently,
    describe,
    describe_config,
    desired_count,
    pauses,
    variant_of,
    wait_until_settled,
)
from merlin_deploy.errors import DeploymentFailed, InProgress, NotThere


def update_endpoint(
    job: Job, config_name: str, deployment: Members | None, *, keep_count: bool
) -> None:
    """UpdateEndpoint; keep_count: keep as many instances as autoscaling has made.

    SageMaker refuses another instance type while the variant is a scalable target
    (endpoint-scaling-update in its guide), so autoscaling ends before; `up` brings it back.
    """
    account, name = job.account, job.name

    def update() -> None:
        if find_target(account, name) is not None and _changes_type(account, name, config_name):
            job.say("another instance type: autoscaling is taken away until the update is done")
            end_scaling(account, name)
        call_patiently(
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

    _change_once_idle(
        job, update, lambda endpoint: bool(endpoint["EndpointConfigName"] == config_name)
    )


def scale_endpoint(job: Job, count: int) -> None:
    """UpdateEndpointWeightsAndCapacities, to a number of instances."""

    def scale() -> None:
        job.account.change(
            "sagemaker",
            "UpdateEndpointWeightsAndCapacities",
            EndpointName=job.name,
            DesiredWeightsAndCapacities=[{"VariantName": VARIANT, "DesiredInstanceCount": count}],
        )

    _change_once_idle(job, scale, lambda endpoint: desired_count(endpoint) == count)


def delete_endpoint(job: Job) -> None:
    """Return once it is gone."""
    account, name = job.account, job.name
    if account.dry_run:
        account.remove("sagemaker", "DeleteEndpoint", EndpointName=name)
        return
    start = time.monotonic()
    for pause in pauses():
        endpoint = describe(account, name)
        if endpoint is not None and endpoint["EndpointStatus"] in CHANGING:
            if endpoint["EndpointStatus"] != "Deleting":
                job.say(
                    f"the endpoint {name} is {endpoint['EndpointStatus']}, and cannot be deleted"
                )
            endpoint = wait_until_settled(job)
        if endpoint is None:
            return
        if time.monotonic() - start > job.timeout_s:
            raise DeploymentFailed(
                f"the endpoint {name} is not deleted after {job.timeout_s:.0f} s (--timeout); the "
                "same command goes on"
            )
        try:
            account.remove("sagemaker", "DeleteEndpoint", EndpointName=name)
            job.say(f"endpoint {name}: is deleted")
        except InProgress:
            time.sleep(pause)


def deleted_meanwhile(endpoint_name: str) -> DeploymentFailed:
    """Another call deleted the endpoint during this one."""
    return DeploymentFailed(
        f"the endpoint {endpoint_name} was deleted meanwhile; `up` makes it anew"
    )


def _change_once_idle(
    job: Job, change: Callable[[], None], is_done: Callable[[Description], bool]
) -> None:
    """Wait for another change's end and try again; is_done: that change may have been this one."""
    start = time.monotonic()
    for pause in pauses():
        try:
            change()
            return
        except InProgress:
            if time.monotonic() - start > job.timeout_s:
                raise
        job.say(f"the endpoint {job.name} is in another change: this waits until it is done")
        endpoint = wait_until_settled(job)
        if endpoint is None:
            raise deleted_meanwhile(job.name)
        if is_done(endpoint):
            return
        time.sleep(pause)


def _changes_type(account: Account, endpoint_name: str, config_name: str) -> bool:
    endpoint = describe(account, endpoint_name) or {}
    configs = (endpoint.get("EndpointConfigName", ""), config_name)
    types = {variant_of(describe_config(account, name)).get("InstanceType") for name in configs}
    return len(types) > 1
