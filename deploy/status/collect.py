"""Collect a report from AWS. A part that may not be read is missing, and the rest is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from deploy.archives.aliases import Aliases, Place, read_aliases, read_place
from deploy.archives.bucket import Stored, find_stored
from deploy.aws.account import Account
from deploy.config.catalog import read_ecr_image
from deploy.config.sections import Config, CostsSection
from deploy.desired.monitoring import ENDPOINT_TAG, HISTORY_TAG
from deploy.endpoint.facts import find_image_detail
from deploy.endpoint.resources import find_alarms
from deploy.endpoint.state import describe, digest_of, no_endpoint, read_history, read_tags
from deploy.errors import DeployError, Refused
from deploy.status.compare import (
    Present,
    compare,
    find_config,
    find_model,
    find_scaling,
    find_wanted,
    make_instances,
)
from deploy.status.metrics import Span, make_queries, read_answer
from deploy.status.report import (
    Alarm,
    Alias,
    ArchivesPart,
    Cost,
    EndpointPart,
    HistoryPart,
    Missing,
    Report,
    TrafficPart,
)


def gather_archives(account: Account, place: Place) -> ArchivesPart:
    """Newest versions alone: what a bucket keeps besides is not seen. Raises DeployError."""
    return make_archives(read_aliases(account, place), find_stored(account, place))


def make_archives(named: Aliases, stored: Mapping[str, Stored]) -> ArchivesPart:
    """No I/O. stored: by TargetModel."""
    aliases = tuple(
        Alias(name, target, target in stored)
        for name in sorted(named.targets)
        if (target := named.find(name)) is not None
    )
    meant = {alias.target for alias in aliases}
    return ArchivesPart(
        count=len(stored),
        bytes=sum(one.size for one in stored.values()),
        former=len(stored.keys() & named.mentioned - meant),
        without_alias=len(stored.keys() - named.mentioned),
        aliases=aliases,
    )


def find_image_bytes(account: Account, image: str | None) -> int:
    """As ECR bills them: compressed. Raises DeployError."""
    found = read_ecr_image(image or "")
    if found is None:
        raise Refused("not in ECR" if image else "the image is not known")
    detail = find_image_detail(account, found)
    if detail is None:
        raise Refused("ECR does not have the image")
    return int(detail["imageSizeInBytes"])


_HOURS = 24


@dataclass(frozen=True)
class Quantities:
    """volume_gb: of one instance; None: SageMaker has chosen it. Missing: it could not be read."""

    instances: int | None
    most_instances: int | None
    instance_type: str | None
    volume_gb: int | Missing | None
    archive_bytes: int | Missing
    image_bytes: int | Missing
    alarms: int | Missing


def make_costs(quantities: Quantities, costs: CostsSection) -> tuple[Cost, ...]:
    """What is billed by the hour first: that is nearly all of it."""
    return tuple(_list_costs(quantities, costs))


def _list_costs(of: Quantities, costs: CostsSection) -> Iterator[Cost]:
    kind = of.instance_type or "instances"
    unit = "instance hours a day"
    if of.instances is None:
        yield Cost(kind, None, unit, note="there are no instances yet")
    else:
        yield _of_instances(f"{kind}, {of.instances} now", of.instances, unit, costs)
        if of.most_instances is not None and of.most_instances > of.instances:
            most = of.most_instances
            yield _of_instances(f"{kind}, {most} at most", most, unit, costs)
    yield _of_disks(of)
    yield _of_known("archives in S3", of.archive_bytes, "bytes")
    yield _of_known("image in ECR", of.image_bytes, "bytes")
    yield _of_known("alarms", of.alarms, "alarms")


def _of_instances(what: str, count: int, unit: str, costs: CostsSection) -> Cost:
    hours = float(_HOURS * count)
    if costs.instance_hour is None:
        return Cost(what, hours, unit)
    return Cost(what, hours, unit, round(hours * costs.instance_hour, 2), costs.currency)


def _of_disks(of: Quantities) -> Cost:
    what, unit = "disks", "GB"
    if isinstance(of.volume_gb, Missing):
        return Cost(what, None, unit, note=of.volume_gb.missing)
    if of.volume_gb is None:
        return Cost(what, None, unit, note="instances.volume_gb is unset: SageMaker's choice")
    return Cost(what, float(of.volume_gb * (of.instances or 0)), unit)


def _of_known(what: str, quantity: int | Missing, unit: str) -> Cost:
    if isinstance(quantity, Missing):
        return Cost(what, None, unit, note=quantity.missing)
    return Cost(what, float(quantity), unit)


T = TypeVar("T")


def gather(account: Account, config: Config, *, minutes: int) -> Report:
    """Raises DeployError where the endpoint itself is not there, or may not be described."""
    name = config.endpoint.name
    endpoint = describe(account, name)
    if endpoint is None:
        raise no_endpoint(account, name)
    present = _look(account, name, endpoint)
    notes: list[str] = []
    wanted = find_wanted(account, config, notes)
    span = Span(now_of(endpoint), minutes)
    archives = _part(lambda: gather_archives(account, read_place(config.endpoint.archives)))
    report = Report(
        at=span.now,
        endpoint=_make_endpoint(account, present),
        configuration=compare(present, wanted, notes),
        instances=make_instances(endpoint, present.scaling),
        traffic=_part(lambda: _gather_traffic(account, name, span)),
        alarms=_make_alarms(present),
        archives=archives,
        history=_make_history(present),
        costs=(),
    )
    return _with_costs(account, config, present, report)


def now_of(answer: Mapping[str, Any]) -> datetime:
    """By AWS's clock, when it gave an answer: this machine's may be minutes away from it."""
    try:
        return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
    except (KeyError, ValueError, TypeError):
        return datetime.now(timezone.utc)


def _look(account: Account, name: str, endpoint: Mapping[str, Any]) -> Present:
    config = _part(lambda: find_config(account, endpoint))
    return Present(
        endpoint=endpoint,
        config=config,
        model=_part(lambda: find_model(account, config)),
        tags=_part(lambda: read_tags(account, endpoint["EndpointArn"])),
        scaling=_part(lambda: find_scaling(account, name)),
        alarms=_part(lambda: find_alarms(account, name)),
    )


def _part(work: Callable[[], T]) -> T | Missing:
    try:
        return work()
    except DeployError as error:
        return Missing(str(error))


def _make_endpoint(account: Account, present: Present) -> EndpointPart:
    endpoint, tags = present.endpoint, present.tags
    name = endpoint["EndpointName"]
    pending = endpoint.get("PendingDeploymentSummary") or {}
    return EndpointPart(
        name=name,
        region=account.region,
        status=endpoint["EndpointStatus"],
        since=endpoint.get("LastModifiedTime") or endpoint["CreationTime"],
        failure_reason=endpoint.get("FailureReason"),
        updating_to=pending.get("EndpointConfigName"),
        made_by_up=None if isinstance(tags, Missing) else tags.get(ENDPOINT_TAG) == name,
    )


def _make_history(present: Present) -> HistoryPart | Missing:
    if isinstance(present.tags, Missing):
        return present.tags
    history = read_history(present.tags.get(HISTORY_TAG))
    current = digest_of(present.endpoint["EndpointConfigName"])
    return HistoryPart(history.digests, current, history.before(current))


def _make_alarms(present: Present) -> tuple[Alarm, ...] | Missing:
    if isinstance(present.alarms, Missing):
        return present.alarms
    return tuple(
        Alarm(
            name=one["AlarmName"],
            state=one["StateValue"],
            reason=one.get("StateReason") or "",
            since=one.get("StateUpdatedTimestamp"),
        )
        for one in present.alarms
    )


def _gather_traffic(account: Account, name: str, span: Span) -> TrafficPart:
    """One GetMetricData for all metrics."""
    results = account.ask_all(
        "cloudwatch", "GetMetricData", "MetricDataResults", **make_queries(name, span)
    )
    return read_answer(list(results), span)


def _with_costs(account: Account, config: Config, present: Present, report: Report) -> Report:
    of, archives = report.configuration, report.archives
    alarms, scaling = present.alarms, present.scaling
    own = 0 if isinstance(scaling, Missing) else scaling.alarms
    quantities = Quantities(
        instances=report.instances.now,
        most_instances=report.instances.maximum,
        instance_type=of.instance_type,
        volume_gb=present.config
        if isinstance(present.config, Missing)
        else present.variant.get("VolumeSizeInGB"),
        archive_bytes=archives.bytes if isinstance(archives, ArchivesPart) else archives,
        image_bytes=_part(lambda: find_image_bytes(account, of.image)),
        alarms=alarms if isinstance(alarms, Missing) else len(alarms) + own,
    )
    return replace(report, costs=make_costs(quantities, config.costs))
