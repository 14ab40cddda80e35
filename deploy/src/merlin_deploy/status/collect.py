"""Collect a report from AWS. A part that may not be read is missing, and the rest is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from merlin_deploy.account import Account
from merlin_deploy.archives.aliases import Aliases, read_aliases, read_store
from merlin_deploy.archives.bucket import Stored, find_stored
from merlin_deploy.config.catalog import read_ecr_image
from merlin_deploy.config.sections import Config, CostsSection
from merlin_deploy.desired import ENDPOINT_TAG, HISTORY_TAG, Desired, make_desired, make_scalable
from merlin_deploy.endpoint.resources import (
    describe_image,
    find_alarms,
    find_facts,
    find_policies,
    find_target,
)
from merlin_deploy.endpoint.state import (
    describe,
    describe_config,
    digest_of,
    no_endpoint,
    read_history,
    read_tags,
    variant_of,
)
from merlin_deploy.errors import DeployError, Refused
from merlin_deploy.status.compare import Present, Scaling, compare
from merlin_deploy.status.metrics import Span, make_queries, read_answer
from merlin_deploy.status.report import (
    Activity,
    Alarm,
    Alias,
    ArchivesPart,
    Cost,
    EndpointPart,
    HistoryPart,
    InstancesPart,
    Missing,
    Report,
    TrafficPart,
)

#: Of autoscaling, the newest ones.
_ACTIVITIES = 3
_HOURS = 24
_Part = TypeVar("_Part")


def gather(account: Account, config: Config, *, minutes: int) -> Report:
    """minutes: of traffic. Raises DeployError only if the endpoint itself cannot be described."""
    name = config.endpoint.name
    endpoint = describe(account, name)
    if endpoint is None:
        raise no_endpoint(account, name)
    present = _describe(account, name, endpoint)
    notes: list[str] = []
    span = Span(_read_clock(endpoint), minutes)
    report = Report(
        at=span.now,
        endpoint=_make_endpoint(account, present),
        configuration=compare(present, _find_desired(account, config, notes), notes),
        instances=_make_instances(present),
        traffic=_collect(lambda: _find_traffic(account, name, span)),
        alarms=_make_alarms(present),
        archives=_collect(lambda: _find_archives(account, config)),
        history=_make_history(present),
        costs=(),
    )
    image_bytes = _collect(lambda: _find_image_bytes(account, report.configuration.image))
    return replace(report, costs=tuple(make_costs(report, present, image_bytes, config.costs)))


def _collect(collect: Callable[[], _Part]) -> _Part | Missing:
    try:
        return collect()
    except DeployError as error:
        return Missing(str(error))


def _read_clock(answer: Mapping[str, Any]) -> datetime:
    """AWS's time of an answer: this machine's clock may be minutes away from it."""
    try:
        return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    except (KeyError, ValueError, TypeError):
        return datetime.now(timezone.utc)


def _describe(account: Account, name: str, endpoint: Mapping[str, Any]) -> Present:
    config = _collect(lambda: describe_config(account, endpoint["EndpointConfigName"]))
    present = Present(
        endpoint=endpoint,
        config=config,
        model=None,
        tags=_collect(lambda: read_tags(account, endpoint["EndpointArn"])),
        scaling=_collect(lambda: _find_scaling(account, name)),
        alarms=_collect(lambda: find_alarms(account, name)),
    )
    model = present.variant.get("ModelName")
    if model is None:
        return present
    description = _collect(lambda: account.find("sagemaker", "DescribeModel", ModelName=model))
    return replace(present, model=description)


def _find_desired(account: Account, config: Config, notes: list[str]) -> Desired | None:
    """The requests that `up` would send now; None, with a note, if a fact cannot be read."""
    try:
        return make_desired(config, find_facts(account, config, notes.append))
    except DeployError as error:
        notes.append(f"what CONFIG.toml wants is not known: {error}")
        return None


def _find_scaling(account: Account, name: str) -> Scaling:
    """AWS tells the activities of a target that is gone, too."""
    target = find_target(account, name)
    policies = [] if target is None else find_policies(account, name)
    answer = account.ask(
        "application-autoscaling",
        "DescribeScalingActivities",
        **make_scalable(name),
        MaxResults=_ACTIVITIES,
        IncludeNotScaledActivities=True,
    )
    activities = (
        Activity(
            at=activity["StartTime"],
            status=activity["StatusCode"],
            description=activity["Description"],
            cause=activity["Cause"],
            message=", ".join(str(it["Code"]) for it in activity.get("NotScaledReasons", ()))
            or activity.get("StatusMessage"),
        )
        for activity in answer["ScalingActivities"]
    )
    return Scaling(target, policies, tuple(activities))


def _find_traffic(account: Account, name: str, span: Span) -> TrafficPart:
    results = account.ask_all(
        "cloudwatch", "GetMetricData", "MetricDataResults", **make_queries(name, span)
    )
    return read_answer(list(results), span)


def _find_archives(account: Account, config: Config) -> ArchivesPart:
    store = read_store(config.endpoint.archives)
    return make_archives(read_aliases(account, store), find_stored(account, store))


def _find_image_bytes(account: Account, image: str | None) -> int:
    """Compressed bytes, as ECR bills them."""
    ecr_image = read_ecr_image(image or "")
    if ecr_image is None:
        raise Refused("not in ECR" if image else "the image is not known")
    detail = describe_image(account, ecr_image)
    if detail is None:
        raise Refused("ECR does not have the image")
    return int(detail["imageSizeInBytes"])


def _make_endpoint(account: Account, present: Present) -> EndpointPart:
    endpoint, tags = present.endpoint, present.tags
    name = endpoint["EndpointName"]
    return EndpointPart(
        name=name,
        region=account.region,
        status=endpoint["EndpointStatus"],
        since=endpoint.get("LastModifiedTime") or endpoint["CreationTime"],
        failure_reason=endpoint.get("FailureReason"),
        updating_to=(endpoint.get("PendingDeploymentSummary") or {}).get("EndpointConfigName"),
        made_by_up=None if isinstance(tags, Missing) else tags.get(ENDPOINT_TAG) == name,
    )


def _make_instances(present: Present) -> InstancesPart:
    variant, scaling = variant_of(present.endpoint), present.scaling
    counts = variant.get("CurrentInstanceCount"), variant.get("DesiredInstanceCount")
    if isinstance(scaling, Missing):
        return InstancesPart(*counts, missing=scaling.missing)
    target = scaling.target or {}
    bounds = target.get("MinCapacity"), target.get("MaxCapacity")
    return InstancesPart(*counts, *bounds, scaling.activities)


def _make_alarms(present: Present) -> tuple[Alarm, ...] | Missing:
    if isinstance(present.alarms, Missing):
        return present.alarms
    return tuple(
        Alarm(
            name=alarm["AlarmName"],
            state=alarm["StateValue"],
            reason=alarm.get("StateReason") or "",
            since=alarm.get("StateUpdatedTimestamp"),
        )
        for alarm in present.alarms
    )


def _make_history(present: Present) -> HistoryPart | Missing:
    if isinstance(present.tags, Missing):
        return present.tags
    history = read_history(present.tags.get(HISTORY_TAG))
    current = digest_of(present.endpoint["EndpointConfigName"])
    return HistoryPart(history.digests, current, history.before(current))


def make_archives(table: Aliases, stored: Mapping[str, Stored]) -> ArchivesPart:
    """Count the archives in S3 by what the table of aliases says. stored: by TargetModel."""
    aliases = tuple(
        Alias(name, target, target in stored)
        for name in sorted(table.targets)
        if (target := table.find(name)) is not None
    )
    current = {alias.target for alias in aliases}
    return ArchivesPart(
        count=len(stored),
        bytes=sum(archive.size for archive in stored.values()),
        former=len(stored.keys() & table.mentioned - current),
        without_alias=len(stored.keys() - table.mentioned),
        aliases=aliases,
    )


def make_costs(
    report: Report, present: Present, image_bytes: int | Missing, costs: CostsSection
) -> Iterator[Cost]:
    """Quantities that AWS bills, instances first; money only if CONFIG.toml has a price."""
    count, most = report.instances.now, report.instances.maximum
    instances = report.configuration.instance_type or "instances"
    if count is None:
        yield Cost(instances, None, "instance hours a day", note="there are no instances yet")
    else:
        yield _make_instances_cost(f"{instances}, {count} now", count, costs)
        if most is not None and most > count:
            yield _make_instances_cost(f"{instances}, {most} at most", most, costs)
    disks = present.variant.get("VolumeSizeInGB")
    if isinstance(present.config, Missing):
        yield _make_cost("disks", present.config, "GB")
    elif disks is None:
        note = "instances.volume_gb is unset: SageMaker's choice"
        yield Cost("disks", None, "GB", note=note)
    else:
        yield _make_cost("disks", disks * (count or 0), "GB")
    archives = report.archives
    size = archives if isinstance(archives, Missing) else archives.bytes
    yield _make_cost("archives in S3", size, "bytes")
    yield _make_cost("image in ECR", image_bytes, "bytes")
    yield _make_cost("alarms", _count_alarms(present), "alarms")


def _make_instances_cost(what: str, count: int, costs: CostsSection) -> Cost:
    hours = float(_HOURS * count)
    if costs.instance_hour is None:
        return Cost(what, hours, "instance hours a day")
    money = round(hours * costs.instance_hour, 2)
    return Cost(what, hours, "instance hours a day", money, costs.currency)


def _make_cost(what: str, quantity: int | Missing, unit: str) -> Cost:
    if isinstance(quantity, Missing):
        return Cost(what, None, unit, note=quantity.missing)
    return Cost(what, float(quantity), unit)


def _count_alarms(present: Present) -> int | Missing:
    """Those that autoscaling made for itself are billed, too."""
    if isinstance(present.alarms, Missing):
        return present.alarms
    policies = () if isinstance(present.scaling, Missing) else present.scaling.policies
    return len(present.alarms) + sum(len(policy.get("Alarms", ())) for policy in policies)
