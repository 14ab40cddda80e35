"""`up`, `rollback` and `down`: each step looks first, so the next call finishes what was cut off.

Autoscaling, SageMaker's maintenance, another `up`, or the first try of a call whose answer was lost
may be changing the endpoint. Meanwhile SageMaker refuses other changes, DeleteEndpoint too ("Cannot
update in-progress endpoint"). Each change waits for the one under way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from merlin_deploy.account import Account
from merlin_deploy.archives.aliases import read_store
from merlin_deploy.config.sections import Config
from merlin_deploy.desired import (
    HISTORY_TAG,
    STEP_TAG,
    VARIANT,
    Desired,
    Members,
    make_log_group,
    make_policy,
    make_target,
)
from merlin_deploy.endpoint.resources import (
    apply_alarms,
    apply_scaling,
    end_scaling,
    find_alarms,
    find_target,
    remove_alarms,
    remove_configs,
    remove_unused_configs,
)
from merlin_deploy.endpoint.state import (
    CHANGING,
    FAILED,
    IN_SERVICE,
    PATIENCE_S,
    Deployed,
    Description,
    History,
    Job,
    call_patiently,
    describe,
    describe_config,
    desired_count,
    digest_of,
    find_deployed,
    find_settled,
    no_endpoint,
    pauses,
    require_deployed,
    set_tags,
    variant_of,
    wait_until_settled,
    write_history,
)
from merlin_deploy.errors import (
    AlreadyThere,
    DeployError,
    DeploymentFailed,
    InProgress,
    NoAnswer,
    NotThere,
    Refused,
)

#: Of the containers' log: so many streams, and lines of each.
_STREAMS, _LINES = 2, 15


def bring_up(job: Job, desired: Desired, *, keep: int) -> None:
    """keep: how many former configurations stay for `rollback`. Raises DeployError."""
    account, name, say = job.account, job.name, job.say
    deployed = find_settled(job)
    if deployed is not None and deployed.status == FAILED:
        say(f"the endpoint {name} is Failed ({_reason(deployed.description)}): it is made anew")
        _delete_endpoint(job)
        deployed = None
    _create_model(job, desired)
    _create_config(job, desired)
    # Before the endpoint: an update may name them as those that end it.
    apply_alarms(account, name, desired.alarms, say)
    tags = {tag["Key"]: tag["Value"] for tag in desired.tags}
    if deployed is None:
        _create_endpoint(job, desired)
    elif deployed.config_name != desired.config_name:
        _update(job, desired, deployed, tags, keep)
    else:
        say(f"the endpoint {name} has {desired.config_name} already")
        _apply_count(job, desired, deployed)
        set_tags(account, deployed, {**tags, STEP_TAG: ""})
    _finish(job, desired.config_name, desired.target, desired.policy)
    if not account.dry_run:
        remove_unused_configs(account, name, say)


def roll_back(job: Job, config: Config) -> None:
    """Go one step back; a second call goes one more, but first finishes one that was cut off.

    Autoscaling and alarms stay those of CONFIG.toml. Raises DeployError.
    """
    account, name = job.account, job.name
    deployed = _require_serving(job)
    digest = deployed.unfinished_step or _step_before(deployed, name)
    config_name = f"{name}-{digest}"
    if config_name != deployed.config_name:
        _require_config(account, config_name)
        # First: the next call finishes one that is cut off afterwards, and goes no step further.
        set_tags(account, deployed, {STEP_TAG: digest})
        job.say(f"endpoint {name}: {deployed.config_name} → {config_name}")
        _update_endpoint(job, config_name, None, keep_count=config.autoscaling is not None)
    _finish(job, config_name, make_target(config), make_policy(config))
    # Tried again if no answer comes: whoever calls again after an error would go one step too far.
    call_patiently(
        lambda: set_tags(account, require_deployed(account, name), {STEP_TAG: ""}), NoAnswer
    )


def _require_serving(job: Job) -> Deployed:
    deployed = find_settled(job)
    if deployed is None:
        raise no_endpoint(job.account, job.name)
    if deployed.status == FAILED:
        raise Refused(f"the endpoint {job.name} is Failed, and can only be made anew: `up` does it")
    return deployed


def _step_before(deployed: Deployed, name: str) -> str:
    digest = deployed.history.before(deployed.digest)
    if digest is None:
        raise Refused(
            f"the endpoint {name} has no configuration before {deployed.config_name}; `up` with a "
            "changed CONFIG.toml makes a new one"
        )
    return digest


def _require_config(account: Account, config_name: str) -> None:
    """Raises Refused if the configuration or its model was deleted."""
    config = describe_config(account, config_name)
    if config is None:
        raise _deleted(f"configuration {config_name}")
    model = variant_of(config)["ModelName"]
    if account.find("sagemaker", "DescribeModel", ModelName=model) is None:
        raise _deleted(f"model {model}")


def _deleted(what: str) -> Refused:
    return Refused(
        f"the {what}, which the endpoint had before, was deleted; `up` with the CONFIG.toml of "
        "that time makes it again"
    )


def _finish(job: Job, config_name: str, target: Members | None, policy: Members | None) -> None:
    """Wait until the endpoint serves by this configuration, then apply its autoscaling.

    If the endpoint did not take it, the former configuration still serves: autoscaling, which an
    update may have taken away, is applied all the same. Raises DeploymentFailed then.
    """
    account, name = job.account, job.name
    if account.dry_run:
        apply_scaling(account, name, target, policy, job.say)
        return
    endpoint = _wait_until_seen(job, config_name)
    is_serving = endpoint["EndpointStatus"] == IN_SERVICE
    if is_serving and endpoint["EndpointConfigName"] == config_name:
        apply_scaling(account, name, target, policy, job.say)
        return
    for line in _read_last_log_lines(account, name):
        job.say(f"  {line}")
    if not is_serving:
        raise DeploymentFailed(
            f"the endpoint {name} is {endpoint['EndpointStatus']} ({_reason(endpoint)}); correct "
            "what it says, then `up` again, or `down`"
        )
    try:
        apply_scaling(account, name, target, policy, job.say)
    except DeployError as error:
        job.say(f"autoscaling: {error}")
    raise DeploymentFailed(
        f"the endpoint {name} did not take {config_name} ({_reason(endpoint)}) and serves "
        f"{endpoint['EndpointConfigName']} as before; correct what it says, then `up` again"
    )


def _read_last_log_lines(account: Account, endpoint_name: str) -> list[str]:
    """Lines of the instances that wrote last; none without a log, or the right to read it."""
    group = make_log_group(endpoint_name)
    lines: list[str] = []
    with suppress(DeployError):
        answer = account.find(
            "logs",
            "DescribeLogStreams",
            logGroupName=group,
            orderBy="LastEventTime",
            descending=True,
            limit=_STREAMS,
        )
        for stream in (answer or {}).get("logStreams", ()):
            name = stream["logStreamName"]
            events = account.ask(
                "logs", "GetLogEvents", logGroupName=group, logStreamName=name, limit=_LINES
            )
            lines += [f"{name}: {event['message'].rstrip()}" for event in events["events"]]
    return lines


def _wait_until_seen(job: Job, config_name: str) -> Description:
    """The settled endpoint; AWS may not show an update of a moment ago yet."""
    start = time.monotonic()
    for pause in pauses():
        endpoint = wait_until_settled(job, appears=True)
        if endpoint is None:
            raise _deleted_meanwhile(job.name)
        is_stale = (
            endpoint["EndpointStatus"] == IN_SERVICE
            and endpoint["EndpointConfigName"] != config_name
            and "FailureReason" not in endpoint
        )
        if not is_stale or time.monotonic() - start > PATIENCE_S:
            return endpoint
        time.sleep(pause)
    raise AssertionError("the pauses have no end")


def _reason(endpoint: Description) -> str:
    return str(endpoint.get("FailureReason") or "SageMaker gives no reason").rstrip(".")


def _create_model(job: Job, desired: Desired) -> None:
    """Its name is a digest of its content: a model of that name is right."""
    name = desired.model_name
    if job.account.find("sagemaker", "DescribeModel", ModelName=name) is None:
        with suppress(AlreadyThere):
            job.account.change("sagemaker", "CreateModel", **desired.model, Tags=list(desired.tags))
        job.say(f"model {name}: created")


def _create_config(job: Job, desired: Desired) -> None:
    """Its name is a digest of its content, as that of a model."""
    name = desired.config_name
    if describe_config(job.account, name) is None:
        members = {**desired.endpoint_config, "Tags": list(desired.tags)}
        with suppress(AlreadyThere):
            call_patiently(
                lambda: job.account.change("sagemaker", "CreateEndpointConfig", **members),
                NotThere,
            )
        job.say(f"endpoint configuration {name}: created")


def _create_endpoint(job: Job, desired: Desired) -> None:
    history = write_history(History((digest_of(desired.config_name),)))
    members = {
        "EndpointName": job.name,
        "EndpointConfigName": desired.config_name,
        "Tags": [*desired.tags, {"Key": HISTORY_TAG, "Value": history}],
    }
    # If another `up` is first, the next step looks at what it made.
    with suppress(AlreadyThere):
        call_patiently(
            lambda: job.account.change("sagemaker", "CreateEndpoint", **members), NotThere
        )
    job.say(f"endpoint {job.name}: is created, which takes minutes on AWS")


def _update(
    job: Job, desired: Desired, deployed: Deployed, tags: dict[str, str], keep: int
) -> None:
    newest = digest_of(desired.config_name)
    history = deployed.history.with_newest(deployed.digest, newest, keep)
    # First: a call that is cut off afterwards has lost nothing that `rollback` needs.
    set_tags(job.account, deployed, {**tags, HISTORY_TAG: write_history(history), STEP_TAG: ""})
    job.say(f"endpoint {job.name}: {deployed.config_name} → {desired.config_name}")
    _update_endpoint(
        job, desired.config_name, desired.deployment, keep_count=desired.target is not None
    )


def _apply_count(job: Job, desired: Desired, deployed: Deployed) -> None:
    """Without autoscaling the count is the configuration's, whoever has changed it."""
    count = variant_of(desired.endpoint_config)["InitialInstanceCount"]
    now = desired_count(deployed.description)
    if desired.target is None and now not in (count, None):
        job.say(f"instances: {now} → {count}")
        _scale_endpoint(job, count)


def take_down(job: Job) -> None:
    """The endpoint first, since it costs most; then what led to it. Raises DeployError."""
    account, name = job.account, job.name
    # First of all: it refuses an endpoint that `up` did not make.
    deployed = find_deployed(account, name)
    if find_target(account, name) is not None:
        end_scaling(account, name)
        job.say("autoscaling: ended")
    if deployed is not None:
        _delete_endpoint(job)
    alarms = [alarm["AlarmName"] for alarm in find_alarms(account, name)]
    remove_alarms(account, alarms, job.say)
    remove_configs(account, name, (), job.say)


def list_what_stays(config: Config) -> tuple[str, ...]:
    """Resources that `up` did not make, each with its cost and the command that removes it."""
    store, name = read_store(config.endpoint.archives), config.endpoint.name
    return (
        "what stays, and costs until you remove it:",
        f"  archives   aws s3 rm --recursive s3://{store.bucket}/{store.prefix}",
        f"  image      {config.endpoint.image}, in ECR",
        f"  logs       aws logs delete-log-group --log-group-name {make_log_group(name)}",
        f"and for nothing: the role {config.endpoint.role}",
    )


def _update_endpoint(
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


def _scale_endpoint(job: Job, count: int) -> None:
    """UpdateEndpointWeightsAndCapacities, to a number of instances."""

    def scale() -> None:
        job.account.change(
            "sagemaker",
            "UpdateEndpointWeightsAndCapacities",
            EndpointName=job.name,
            DesiredWeightsAndCapacities=[{"VariantName": VARIANT, "DesiredInstanceCount": count}],
        )

    _change_once_idle(job, scale, lambda endpoint: desired_count(endpoint) == count)


def _delete_endpoint(job: Job) -> None:
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


def _deleted_meanwhile(endpoint_name: str) -> DeploymentFailed:
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
            raise _deleted_meanwhile(job.name)
        if is_done(endpoint):
            return
        time.sleep(pause)


def _changes_type(account: Account, endpoint_name: str, config_name: str) -> bool:
    endpoint = describe(account, endpoint_name) or {}
    configs = (endpoint.get("EndpointConfigName", ""), config_name)
    types = {variant_of(describe_config(account, name)).get("InstanceType") for name in configs}
    return len(types) > 1
