"""What belongs to an endpoint: autoscaling, alarms, configurations, models, image and archive."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from merlin_deploy.account import Account, Answer
from merlin_deploy.archives.aliases import read_aliases, read_store, require_target
from merlin_deploy.config.catalog import EcrImage
from merlin_deploy.config.sections import Config
from merlin_deploy.desired import (
    DIMENSION,
    NAMESPACE,
    Facts,
    Members,
    has_members,
    is_alarm_of,
    is_content_name,
    make_alarm_prefix,
    make_resource_id,
    make_scalable,
)
from merlin_deploy.endpoint.state import (
    describe_config,
    digest_of,
    find_deployed,
    is_tagged,
    variant_of,
)
from merlin_deploy.errors import CallRefused, MissingRight
from merlin_deploy.terminal import Say

SCALING = "application-autoscaling"
#: DeleteAlarms takes so many at once.
_MOST_DELETED = 100


def find_target(account: Account, endpoint_name: str) -> Mapping[str, Any] | None:
    """The variant as a scalable target; None if there is no autoscaling."""
    answer = account.ask(
        SCALING,
        "DescribeScalableTargets",
        ServiceNamespace=NAMESPACE,
        ResourceIds=[make_resource_id(endpoint_name)],
        ScalableDimension=DIMENSION,
    )
    return next(iter(answer["ScalableTargets"]), None)


def find_policies(account: Account, endpoint_name: str) -> list[Mapping[str, Any]]:
    """DescribeScalingPolicies' items for the variant."""
    members = make_scalable(endpoint_name)
    return list(account.ask_all(SCALING, "DescribeScalingPolicies", "ScalingPolicies", **members))


def apply_scaling(
    account: Account, endpoint_name: str, target: Members | None, policy: Members | None, say: Say
) -> None:
    """Make autoscaling what is desired; None: end it."""
    present = find_target(account, endpoint_name)
    if target is None or policy is None:
        if present is not None:
            end_scaling(account, endpoint_name)
            say("autoscaling: ended")
        return
    if not has_members(present, target):
        account.change(SCALING, "RegisterScalableTarget", **target)
        say(f"autoscaling: {target['MinCapacity']} to {target['MaxCapacity']} instances")
    if not any(has_members(it, policy) for it in find_policies(account, endpoint_name)):
        account.change(SCALING, "PutScalingPolicy", **policy)
        say(f"autoscaling: policy {policy['PolicyName']}")


def end_scaling(account: Account, endpoint_name: str) -> None:
    """Remove the target; AWS removes its policies, and the alarms that autoscaling made."""
    account.remove(SCALING, "DeregisterScalableTarget", **make_scalable(endpoint_name))


def find_alarms(account: Account, endpoint_name: str) -> list[Mapping[str, Any]]:
    """DescribeAlarms' items that `up` makes for an endpoint."""
    prefix = make_alarm_prefix(endpoint_name)
    alarms = account.ask_all("cloudwatch", "DescribeAlarms", "MetricAlarms", AlarmNamePrefix=prefix)
    return [alarm for alarm in alarms if is_alarm_of(endpoint_name, alarm["AlarmName"])]


def apply_alarms(
    account: Account, endpoint_name: str, desired: Sequence[Members], say: Say
) -> None:
    """Write the alarms that differ; remove those that are not desired any more."""
    present = {alarm["AlarmName"]: alarm for alarm in find_alarms(account, endpoint_name)}
    for alarm in desired:
        if not has_members(present.get(alarm["AlarmName"]), alarm):
            account.change("cloudwatch", "PutMetricAlarm", **alarm)
            say(f"alarm {alarm['AlarmName']}: written")
    names = {alarm["AlarmName"] for alarm in desired}
    remove_alarms(account, sorted(set(present) - names), say)


def remove_alarms(account: Account, names: Sequence[str], say: Say) -> None:
    for start in range(0, len(names), _MOST_DELETED):
        batch = list(names[start : start + _MOST_DELETED])
        account.remove("cloudwatch", "DeleteAlarms", AlarmNames=batch)
        for name in batch:
            say(f"alarm {name}: removed")


def remove_unused_configs(account: Account, endpoint_name: str, say: Say) -> None:
    """Remove configurations and models that neither the endpoint nor its history has."""
    deployed = find_deployed(account, endpoint_name)
    if deployed is not None:
        keep = {*deployed.history.digests, deployed.digest}
        remove_configs(account, endpoint_name, keep, say)


def remove_configs(account: Account, endpoint_name: str, keep: Collection[str], say: Say) -> None:
    """Remove configurations of other digests, and models that no remaining configuration has.

    What `up` did not make stays, whatever its name is: shop-20261125 looks like one of its names.
    """
    used_models: set[str] = set()
    for name, arn in _list_made(account, endpoint_name, "EndpointConfig"):
        if digest_of(name) in keep:
            used_models.add(variant_of(describe_config(account, name)).get("ModelName", ""))
        elif is_tagged(account, arn, endpoint_name) and account.remove(
            "sagemaker", "DeleteEndpointConfig", EndpointConfigName=name
        ):
            say(f"endpoint configuration {name}: removed")
    for name, arn in _list_made(account, endpoint_name, "Model"):
        if (
            name not in used_models
            and is_tagged(account, arn, endpoint_name)
            and account.remove("sagemaker", "DeleteModel", ModelName=name)
        ):
            say(f"model {name}: removed")


def find_single_archives(account: Account, endpoint_name: str) -> frozenset[str]:
    """URLs of the archives that models of an endpoint have as their only one."""
    urls = set()
    for name, _ in _list_made(account, endpoint_name, "Model"):
        model = account.find("sagemaker", "DescribeModel", ModelName=name) or {}
        urls.add(model.get("PrimaryContainer", {}).get("ModelDataUrl"))
    return frozenset(url for url in urls if url is not None)


def _list_made(account: Account, endpoint_name: str, what: str) -> list[tuple[str, str]]:
    """Names and ARNs of what may have been made by `up`: Model or EndpointConfig."""
    items = account.ask_all(
        "sagemaker", f"List{what}s", f"{what}s", NameContains=f"{endpoint_name}-"
    )
    pairs = [(item[f"{what}Name"], item[f"{what}Arn"]) for item in items]
    return [(name, arn) for name, arn in pairs if is_content_name(endpoint_name, name)]


def find_facts(account: Account, config: Config, say: Say) -> Facts:
    """Raises DeployError. say: told why an image has no digest."""
    store, single = read_store(config.endpoint.archives), config.endpoint.single_model
    url = store.archives_url
    if single is not None:
        url = store.archive_url(require_target(read_aliases(account, store), single, store))
    return Facts(_resolve_image(account, config.endpoint.image, say), url)


def describe_image(account: Account, image: EcrImage) -> Answer | None:
    """DescribeImages' item, by digest or tag; None if ECR does not have it. Raises DeployError."""
    if image.digest is not None:
        image_id = {"imageDigest": image.digest}
    else:
        image_id = {"imageTag": image.tag or "latest"}
    answer = account.find(
        "ecr",
        "DescribeImages",
        registryId=image.account,
        repositoryName=image.repository,
        imageIds=[image_id],
    )
    detail: Answer | None = next(iter((answer or {}).get("imageDetails", ())), None)
    return detail


def _resolve_image(account: Account, image: EcrImage, say: Say) -> str:
    """The image by its digest: then it is known what runs, and a tag that moves is a new image.

    Unchanged if ECR does not have it or does not tell: CreateModel's answer will say why.
    """
    if image.digest is not None:
        return str(image)
    try:
        detail = describe_image(account, image)
    except (MissingRight, CallRefused) as error:
        say(f"the image is taken by its tag: {error}")
        return str(image)
    if detail is None:
        say(f"the image is taken by its tag: ECR does not know {image} (yet)")
        return str(image)
    return f"{image.repository_uri}@{detail['imageDigest']}"
