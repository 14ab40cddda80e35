"""`up`: an endpoint is brought to what its configuration says; what is right already is left alone.

Every step looks first, so that a call that was cut off, or refused, is finished by the next one.
"""

from __future__ import annotations

from deploy.aws.account import Account, Say
from deploy.endpoint.alarms import bring_alarms
from deploy.endpoint.container_log import find_last_lines
from deploy.endpoint.history import History, digest_of, write_history
from deploy.endpoint.pruning import prune
from deploy.endpoint.scaling import bring_scaling, end_scaling, has_scaling
from deploy.endpoint.state import Deployed, find_deployed
from deploy.endpoint.waiting import CHANGING, Endpoint, wait_until_settled
from deploy.errors import DeploymentFailed
from deploy.wanted.names import HISTORY_TAG, VARIANT
from deploy.wanted.wanted import Members, Wanted

#: Endpoints that failed while they were created can only be deleted.
_FAILED = "Failed"


def bring_up(account: Account, wanted: Wanted, say: Say, *, keep: int, timeout_s: float) -> None:
    """All of it. keep: former configurations that stay for `rollback`. Raises DeployError."""
    name = wanted.endpoint_name
    deployed = _settled(account, name, say, timeout_s)
    if deployed is not None and deployed.status == _FAILED:
        say(f"the endpoint {name} is Failed ({_reason(deployed.description)}): it is made anew")
        _delete_failed(account, name, say, timeout_s)
        deployed = None
    _ensure_model(account, wanted, say)
    _ensure_config(account, wanted, say)
    # An update may ask for its alarms.
    bring_alarms(account, name, wanted.alarms, say)
    if deployed is None:
        _create(account, wanted, say)
    elif deployed.config_name != wanted.config_name:
        _update(account, wanted, deployed, say, keep)
    else:
        say(f"the endpoint {name} has {wanted.config_name} already")
        _bring_count(account, wanted, deployed, say)
        _bring_tags(account, wanted, deployed)
    if account.dry_run:
        bring_scaling(account, name, wanted.target, wanted.policy, say)
        return
    require_in_service(account, name, wanted.config_name, say, timeout_s)
    bring_scaling(account, name, wanted.target, wanted.policy, say)
    prune(account, name, say)


def require_in_service(
    account: Account, name: str, config_name: str, say: Say, timeout_s: float
) -> None:
    """Wait until the endpoint serves by a configuration. Raises DeploymentFailed."""
    endpoint = wait_until_settled(account, name, say, timeout_s)
    if endpoint is None:
        raise DeploymentFailed(f"the endpoint {name} was deleted meanwhile")
    if endpoint["EndpointStatus"] == "InService" and endpoint["EndpointConfigName"] == config_name:
        return
    for line in find_last_lines(account, name):
        say(f"  {line}")
    raise DeploymentFailed(_failure(name, endpoint, config_name))


def _failure(name: str, endpoint: Endpoint, config_name: str) -> str:
    if endpoint["EndpointStatus"] == "InService":
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


def _settled(account: Account, name: str, say: Say, timeout_s: float) -> Deployed | None:
    """What there is once nothing changes it any more: an earlier call's work is waited for."""
    deployed = find_deployed(account, name)
    if deployed is None or deployed.status not in CHANGING:
        return deployed
    say(f"the endpoint {name} is {deployed.status}: this waits until it is done")
    if account.dry_run:
        return deployed
    wait_until_settled(account, name, say, timeout_s)
    return find_deployed(account, name)


def _delete_failed(account: Account, name: str, say: Say, timeout_s: float) -> None:
    account.remove("sagemaker", "DeleteEndpoint", EndpointName=name)
    if not account.dry_run:
        wait_until_settled(account, name, say, timeout_s)


def _ensure_model(account: Account, wanted: Wanted, say: Say) -> None:
    """Its name says its content: one that is there is right."""
    name = wanted.model_name
    if account.find("sagemaker", "DescribeModel", ModelName=name) is None:
        account.change("sagemaker", "CreateModel", **wanted.model, Tags=list(wanted.tags))
        say(f"model {name}: created")


def _ensure_config(account: Account, wanted: Wanted, say: Say) -> None:
    name = wanted.config_name
    if account.find("sagemaker", "DescribeEndpointConfig", EndpointConfigName=name) is None:
        account.change(
            "sagemaker",
            "CreateEndpointConfig",
            **wanted.endpoint_config,
            Tags=list(wanted.tags),
        )
        say(f"endpoint configuration {name}: created")


def _create(account: Account, wanted: Wanted, say: Say) -> None:
    history = write_history(History((digest_of(wanted.config_name),)))
    account.change(
        "sagemaker",
        "CreateEndpoint",
        EndpointName=wanted.endpoint_name,
        EndpointConfigName=wanted.config_name,
        Tags=[*wanted.tags, {"Key": HISTORY_TAG, "Value": history}],
    )
    say(f"endpoint {wanted.endpoint_name}: is created, which takes minutes on AWS")


def _update(account: Account, wanted: Wanted, deployed: Deployed, say: Say, keep: int) -> None:
    newest = digest_of(wanted.config_name)
    history = deployed.history.with_newest(deployed.digest, newest, keep)
    # First, so that what is cut off here has lost nothing that `rollback` needs.
    account.change(
        "sagemaker",
        "AddTags",
        ResourceArn=deployed.arn,
        Tags=[*wanted.tags, {"Key": HISTORY_TAG, "Value": write_history(history)}],
    )
    say(f"endpoint {wanted.endpoint_name}: {deployed.config_name} → {wanted.config_name}")
    update_endpoint(
        account,
        wanted.endpoint_name,
        wanted.config_name,
        wanted.deployment,
        say,
        keep_count=wanted.target is not None,
    )


def update_endpoint(
    account: Account,
    name: str,
    config_name: str,
    deployment: Members | None,
    say: Say,
    *,
    keep_count: bool,
) -> None:
    """UpdateEndpoint; keep_count: the instances are as many as autoscaling has made of them.

    SageMaker refuses another instance type while the variant is a scalable target
    (endpoint-scaling-update in its guide), so the target goes for that time; `up` brings it back.
    """
    if has_scaling(account, name) and _changes_type(account, name, config_name):
        say("another instance type: autoscaling is taken away until the update is done")
        end_scaling(account, name)
    account.change(
        "sagemaker",
        "UpdateEndpoint",
        EndpointName=name,
        EndpointConfigName=config_name,
        RetainAllVariantProperties=keep_count,
        **({} if deployment is None else {"DeploymentConfig": deployment}),
    )


def _changes_type(account: Account, name: str, config_name: str) -> bool:
    endpoint = account.find("sagemaker", "DescribeEndpoint", EndpointName=name) or {}
    names = (endpoint.get("EndpointConfigName", ""), config_name)
    return len({_instance_type(account, one) for one in names}) > 1


def _instance_type(account: Account, config_name: str) -> str | None:
    found = account.find("sagemaker", "DescribeEndpointConfig", EndpointConfigName=config_name)
    return None if found is None else str(found["ProductionVariants"][0]["InstanceType"])


def _bring_count(account: Account, wanted: Wanted, deployed: Deployed, say: Say) -> None:
    """Without autoscaling the count is the configuration's, whoever has changed it."""
    count = wanted.endpoint_config["ProductionVariants"][0]["InitialInstanceCount"]
    if wanted.target is not None or deployed.desired_count in (count, None):
        return
    say(f"instances: {deployed.desired_count} → {count}")
    account.change(
        "sagemaker",
        "UpdateEndpointWeightsAndCapacities",
        EndpointName=wanted.endpoint_name,
        DesiredWeightsAndCapacities=[
            {"VariantName": VARIANT, "DesiredInstanceCount": count},
        ],
    )


def _bring_tags(account: Account, wanted: Wanted, deployed: Deployed) -> None:
    missing = [tag for tag in wanted.tags if deployed.tags.get(tag["Key"]) != tag["Value"]]
    if missing:
        account.change("sagemaker", "AddTags", ResourceArn=deployed.arn, Tags=missing)
