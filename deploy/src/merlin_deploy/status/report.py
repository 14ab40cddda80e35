"""What `status` reports. `--json` prints this document, with the names of these fields.

Report
├── at              when AWS answered, by its clock
├── endpoint        name, region, status, since, failure_reason, updating_to, made_by_up
├── configuration   name, wanted_name, is_wanted, changes[what, now, wanted], notes[], image,
│                   instance_type
├── instances       now, wanted, minimum, maximum, missing (why autoscaling is not known),
│                   activities[at, status, description, cause, message]
├── traffic         minutes, start, invocations, invocations_by_minute[], errors_4xx, errors_5xx,
│                   cache_hit_ratio, loaded_models, loaded_models_per_instance, latency_p50_ms,
│                   latency_p99_ms, latency_period_minutes, loading_wait_ms
├── alarms[]        name, state, reason, since
├── archives        count, bytes, former, without_alias, aliases[name, target, is_there]
├── history         digests[], current, before (what `rollback` goes to)
└── costs[]         what, quantity, unit, money_per_day, currency, note

A part that could not be read is {"missing": a sentence}. Times are ISO 8601. null is not known, or
not there: a hit ratio without requests, bounds without autoscaling.
latency_p50_ms is the median of the periods' medians, latency_p99_ms the p99 of the worst period:
CloudWatch adds no percentiles up. A period has latency_period_minutes.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from datetime import datetime

#: Of the document; it grows when a name changes its meaning or goes.
VERSION = 1


@dataclass(frozen=True)
class Missing:
    """Why a part could not be read."""

    missing: str


@dataclass(frozen=True)
class EndpointPart:
    """updating_to: the configuration of the update under way."""

    name: str
    region: str
    status: str
    since: datetime
    failure_reason: str | None = None
    updating_to: str | None = None
    made_by_up: bool | None = None


@dataclass(frozen=True)
class Change:
    """What `up` would change; None: nothing is there, or wanted."""

    what: str
    now: str | None
    wanted: str | None


@dataclass(frozen=True)
class ConfigurationPart:
    """image: with its digest, if SageMaker tells it. notes: what could not be compared, and why.

    wanted_name and is_wanted are None where what is wanted is not known.
    """

    name: str
    wanted_name: str | None
    is_wanted: bool | None
    changes: tuple[Change, ...]
    notes: tuple[str, ...]
    image: str | None
    instance_type: str | None


@dataclass(frozen=True)
class Activity:
    """One step of autoscaling, in AWS's words. status: Successful, Failed, InProgress, …"""

    at: datetime
    status: str
    description: str
    cause: str
    message: str | None


@dataclass(frozen=True)
class InstancesPart:
    """minimum and maximum: autoscaling's."""

    now: int | None
    wanted: int | None
    minimum: int | None = None
    maximum: int | None = None
    activities: tuple[Activity, ...] = ()
    #: Why autoscaling is not known.
    missing: str | None = None


@dataclass(frozen=True)
class TrafficPart:
    """See the head of this file."""

    minutes: int
    start: datetime
    invocations: int
    invocations_by_minute: tuple[int, ...]
    errors_4xx: int
    errors_5xx: int
    cache_hit_ratio: float | None
    loaded_models: int | None
    loaded_models_per_instance: float | None
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    latency_period_minutes: int
    loading_wait_ms: float | None


@dataclass(frozen=True)
class Alarm:
    """state: OK, ALARM, INSUFFICIENT_DATA."""

    name: str
    state: str
    reason: str
    since: datetime | None


@dataclass(frozen=True)
class Alias:
    """target: what InvokeEndpoint calls TargetModel."""

    name: str
    target: str
    is_there: bool


@dataclass(frozen=True)
class ArchivesPart:
    """former: archives that an alias meant before, and none means now. without_alias: archives that
    none means or meant."""

    count: int
    bytes: int
    former: int
    without_alias: int
    aliases: tuple[Alias, ...]


@dataclass(frozen=True)
class HistoryPart:
    """Configurations' digests, newest first."""

    digests: tuple[str, ...]
    current: str
    before: str | None


@dataclass(frozen=True)
class Cost:
    """A quantity that AWS bills; if it is None, note says why."""

    what: str
    quantity: float | None
    unit: str
    money_per_day: float | None = None
    currency: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Report:
    """The whole document."""

    at: datetime
    endpoint: EndpointPart
    configuration: ConfigurationPart
    instances: InstancesPart
    traffic: TrafficPart | Missing
    alarms: tuple[Alarm, ...] | Missing
    archives: ArchivesPart | Missing
    history: HistoryPart | Missing
    costs: tuple[Cost, ...]


def write_document(report: Report, *, indent: int | None) -> str:
    """As JSON."""
    document = {"version": VERSION, **dataclasses.asdict(report)}
    return json.dumps(document, indent=indent, default=datetime.isoformat)
