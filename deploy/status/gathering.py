"""A report, part by part: what one call may not read is missing there, and the rest is shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from deploy.archives.places import read_place
from deploy.aws.account import Account
from deploy.config.config import Config
from deploy.endpoint.alarms import find_alarms
from deploy.endpoint.history import digest_of, read_history
from deploy.endpoint.state import no_endpoint, read_tags
from deploy.endpoint.waiting import describe
from deploy.errors import DeployError
from deploy.status.configuration import Present, compare, find_config, find_model, find_wanted
from deploy.status.costs import Quantities, make_costs
from deploy.status.metrics import Span, make_queries, read_answer
from deploy.status.report import (
    Alarm,
    ArchivesPart,
    EndpointPart,
    HistoryPart,
    Missing,
    Report,
    TrafficPart,
)
from deploy.status.scaling import find_scaling, make_instances
from deploy.status.storage import find_image_bytes, gather_archives
from deploy.wanted.names import ENDPOINT_TAG, HISTORY_TAG

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
