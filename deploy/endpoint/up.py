"""`up`: make an endpoint what its configuration says; leave alone what is right already.

Every step looks first, so the next call finishes one that was cut off or refused.
"""

from __future__ import annotations

import time
from contextlib import suppress

from deploy.aws.account import Account
from deploy.desired.monitoring import HISTORY_TAG, STEP_TAG
from deploy.desired.requests import Members, Wanted
from deploy.endpoint.changes import delete_endpoint, scale_endpoint, update_endpoint
from deploy.endpoint.resources import bring_alarms, bring_scaling, prune
from deploy.endpoint.state import (
    FAILED,
    IN_SERVICE,
    PATIENCE_S,
    Deployed,
    Endpoint,
    History,
    bring_tags,
    digest_of,
    find_settled,
    pauses,
    wait_until_settled,
    with_patience,
    write_history,
)
from deploy.errors import AlreadyThere, DeployError, DeploymentFailed, NotThere
from deploy.terminal import Say

_STREAMS, _LINES = 2, 15


def find_last_lines(account: Account, endpoint_name: str) -> list[str]:
    """Of the instances that wrote last; nothing where there is no log, or no right to read it."""
    group = f"/aws/sagemaker/Endpoints/{endpoint_name}"
    try:
        found = account.find(
            "logs",
            "DescribeLogStreams",
            logGroupName=group,
            orderBy="LastEventTime",
            descending=True,
            limit=_STREAMS,
        )
        lines = []
        for stream in (found or {}).get("logStreams", ()):
            name = stream["logStreamName"]
            events = account.ask(
                "logs", "GetLogEvents", logGroupName=group, logStreamName=name, limit=_LINES
            )
            lines += [f"{name}: {event['message'].rstrip()}" for event in events["events"]]
    except DeployError:
        return []
    return lines


def bring_up(account: Account, wanted: Wanted, say: Say, *, keep: int, timeout_s: float) -> None:
    """All of it. keep: former configurations that stay for `rollback`. Raises DeployError."""
    name = wanted.endpoint_name
    deployed = find_settled(account, name, say, timeout_s)
    if deployed is not None and deployed.status == FAILED:
        say(f"the endpoint {name} is Failed ({_reason(deployed.description)}): it is made anew")
        delete_endpoint(account, name, say, timeout_s)
        deployed = None
    _ensure_config(account, wanted, say)
    # An update may ask for its alarms.
    bring_alarms(account, name, wanted.alarms, say)
    if deployed is None:
        _create(account, wanted, say)
    elif deployed.config_name != wanted.config_name:
        _update(account, wanted, deployed, say, keep, timeout_s)
    else:
        say(f"the endpoint {name} has {wanted.config_name} already")
        _bring_count(account, wanted, deployed, say, timeout_s)
        bring_tags(account, deployed, {**_tags_of(wanted), STEP_TAG: ""})
    if account.dry_run:
        bring_scaling(account, name, wanted.target, wanted.policy, say)
        return
    end_in_service(
        account, name, wanted.config_name, wanted.target, wanted.policy, say, timeout_s=timeout_s
    )
    prune(account, name, say)


def end_in_service(
    account: Account,
    name: str,
    config_name: str,
    target: Members | None,
    policy: Members | None,
    say: Say,
    *,
    timeout_s: float,
) -> None:
    """Wait until the endpoint serves by a configuration, then bring its autoscaling.

    Raises DeploymentFailed. What was there before serves on then, and autoscaling, which an update
    may have taken away, is brought all the same.
    """
    endpoint = _taken(account, name, config_name, say, timeout_s)
    if endpoint["EndpointStatus"] == IN_SERVICE and endpoint["EndpointConfigName"] == config_name:
        bring_scaling(account, name, target, policy, say)
        return
    for line in find_last_lines(account, name):
        say(f"  {line}")
    if endpoint["EndpointStatus"] == IN_SERVICE:
        try:
            bring_scaling(account, name, target, policy, say)
        except DeployError as error:
            say(f"autoscaling: {error}")
    raise DeploymentFailed(_failure(name, endpoint, config_name))


def _taken(account: Account, name: str, config_name: str, say: Say, timeout_s: float) -> Endpoint:
    """The endpoint once it is settled; an update of a moment ago may not be seen yet."""
    start = time.monotonic()
    for pause in pauses():
        endpoint = wait_until_settled(account, name, say, timeout_s, appears=True)
        if endpoint is None:
            raise DeploymentFailed(f"the endpoint {name} was deleted meanwhile; `up` makes it anew")
        stale = (
            endpoint["EndpointStatus"] == IN_SERVICE
            and endpoint["EndpointConfigName"] != config_name
            and "FailureReason" not in endpoint
        )
        if not stale or time.monotonic() - start > PATIENCE_S:
            return endpoint
        time.sleep(pause)
    raise AssertionError("the pauses have no end")


def _failure(name: str, endpoint: Endpoint, config_name: str) -> str:
    if endpoint["EndpointStatus"] == IN_SERVICE:
        return (
            f"the endpoint {name} did not take {config_name} ({_reason(endpoint)}) and serves "
            f"{endpoint['EndpointConfigName']} as before; correct what it says, then `up` again"
        )
    return (
        f"the endpoint {name} is {endpoint['EndpointStatus']} ({_reason(endpoint)}); correct what "
        "it says, then `up` again, or `down`"
    )


def _reason(endpoint: Endpoint) -> str:
    return str(endpoint.get("FailureReason") or "SageMaker gives no reason").rstrip(".")


def _ensure_model(account: Account, wanted: Wanted, say: Say) -> None:
    """Its name says its content: one that is there is right."""
    name = wanted.model_name
    if account.find("sagemaker", "DescribeModel", ModelName=name) is None:
        with suppress(AlreadyThere):
            account.change("sagemaker", "CreateModel", **wanted.model, Tags=list(wanted.tags))
        say(f"model {name}: created")


def _ensure_config(account: Account, wanted: Wanted, say: Say) -> None:
    """With its model."""
    _ensure_model(account, wanted, say)
    name = wanted.config_name
    if account.find("sagemaker", "DescribeEndpointConfig", EndpointConfigName=name) is None:
        with suppress(AlreadyThere):
            with_patience(
                lambda: account.change(
                    "sagemaker",
                    "CreateEndpointConfig",
                    **wanted.endpoint_config,
                    Tags=list(wanted.tags),
                ),
                NotThere,
            )
        say(f"endpoint configuration {name}: created")


def _create(account: Account, wanted: Wanted, say: Say) -> None:
    history = write_history(History((digest_of(wanted.config_name),)))
    # Somebody else's `up` may be first: what it made is looked at next.
    with suppress(AlreadyThere):
        with_patience(
            lambda: account.change(
                "sagemaker",
                "CreateEndpoint",
                EndpointName=wanted.endpoint_name,
                EndpointConfigName=wanted.config_name,
                Tags=[*wanted.tags, {"Key": HISTORY_TAG, "Value": history}],
            ),
            NotThere,
        )
    say(f"endpoint {wanted.endpoint_name}: is created, which takes minutes on AWS")


def _update(
    account: Account, wanted: Wanted, deployed: Deployed, say: Say, keep: int, timeout_s: float
) -> None:
    newest = digest_of(wanted.config_name)
    history = deployed.history.with_newest(deployed.digest, newest, keep)
    # First, so that what is cut off here has lost nothing that `rollback` needs.
    noted = {HISTORY_TAG: write_history(history), STEP_TAG: ""}
    bring_tags(account, deployed, {**_tags_of(wanted), **noted})
    say(f"endpoint {wanted.endpoint_name}: {deployed.config_name} → {wanted.config_name}")
    update_endpoint(
        account,
        wanted.endpoint_name,
        wanted.config_name,
        wanted.deployment,
        say,
        keep_count=wanted.target is not None,
        timeout_s=timeout_s,
    )


def _bring_count(
    account: Account, wanted: Wanted, deployed: Deployed, say: Say, timeout_s: float
) -> None:
    """Without autoscaling the count is the configuration's, whoever has changed it."""
    count = wanted.endpoint_config["ProductionVariants"][0]["InitialInstanceCount"]
    if wanted.target is not None or deployed.desired_count in (count, None):
        return
    say(f"instances: {deployed.desired_count} → {count}")
    scale_endpoint(account, wanted.endpoint_name, count, say, timeout_s)


def _tags_of(wanted: Wanted) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in wanted.tags}
