"""Change an endpoint, or remove it with all that `up` made: one change at a time.

Autoscaling, SageMaker's maintenance, another `up`, or the first try of a call whose answer was lost
may be changing the endpoint. Meanwhile SageMaker refuses other changes, DeleteEndpoint too ("Cannot
update in-progress endpoint"). Each change waits for the one under way.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from merlin_deploy.account import Account
from merlin_deploy.archives.aliases import read_place
from merlin_deploy.config.sections import Config
from merlin_deploy.desired import VARIANT, Members, make_log_group
from merlin_deploy.endpoint.resources import (
    end_scaling,
    find_alarms,
    find_target,
    remove_alarms,
    remove_configs,
)
from merlin_deploy.endpoint.state import (
    CHANGING,
    Description,
    Job,
    call_patiently,
    describe,
    describe_config,
    desired_count,
    find_deployed,
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


def take_down(job: Job) -> None:
    """The endpoint first, since it costs most; then what led to it. Raises DeployError."""
    account, name = job.account, job.name
    # First of all: it refuses an endpoint that `up` did not make.
    deployed = find_deployed(account, name)
    if find_target(account, name) is not None:
        end_scaling(account, name)
        job.say("autoscaling: ended")
    if deployed is not None:
        delete_endpoint(job)
    alarms = [alarm["AlarmName"] for alarm in find_alarms(account, name)]
    remove_alarms(account, alarms, job.say)
    remove_configs(account, name, (), job.say)


def list_what_stays(config: Config) -> tuple[str, ...]:
    """What `up` did not make, each with its cost and the command that removes it."""
    place, name = read_place(config.endpoint.archives), config.endpoint.name
    return (
        "what stays, and costs until you remove it:",
        f"  archives   aws s3 rm --recursive s3://{place.bucket}/{place.prefix}",
        f"  image      {config.endpoint.image}, in ECR",
        f"  logs       aws logs delete-log-group --log-group-name {make_log_group(name)}",
        f"and for nothing: the role {config.endpoint.role}",
    )
