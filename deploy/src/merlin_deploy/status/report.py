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

As text it is one screen, a paragraph for each part. No I/O.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from merlin_deploy.terminal import show_bytes, show_count, show_duration, show_ms, sparkline

#: Of the document; it grows when a name changes its meaning or goes.
VERSION = 1


@dataclass(frozen=True)
class Missing:
    """Why a part could not be read."""

    missing: str


@dataclass(frozen=True)
class EndpointPart:
    """The endpoint as SageMaker describes it."""

    name: str
    region: str
    status: str
    since: datetime
    failure_reason: str | None = None
    updating_to: str | None = None  # the configuration of the update under way
    made_by_up: bool | None = None


@dataclass(frozen=True)
class Change:
    """A change that `up` would make; None: nothing is there, or wanted."""

    what: str
    now: str | None
    wanted: str | None


@dataclass(frozen=True)
class ConfigurationPart:
    """The endpoint's configuration beside the one that is wanted."""

    name: str
    wanted_name: str | None  # None where what is wanted is not known
    is_wanted: bool | None  # None as well then
    changes: tuple[Change, ...]
    notes: tuple[str, ...]  # what could not be compared, and why
    image: str | None  # with its digest, if SageMaker tells it
    instance_type: str | None


@dataclass(frozen=True)
class Activity:
    """One step of autoscaling, as AWS describes it."""

    at: datetime
    status: str  # Successful, Failed, InProgress, …
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
    """An alarm of the endpoint."""

    name: str
    state: str  # OK, ALARM or INSUFFICIENT_DATA
    reason: str
    since: datetime | None


@dataclass(frozen=True)
class Alias:
    """A name, and the archive that it stands for."""

    name: str
    target: str  # InvokeEndpoint's TargetModel
    is_there: bool


@dataclass(frozen=True)
class ArchivesPart:
    """The archives below the models' prefix."""

    count: int
    bytes: int
    former: int  # that an alias meant before, and none means now
    without_alias: int  # that none means or meant
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
    """All that `status` shows."""

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
    """The report as JSON."""
    document = {"version": VERSION, **dataclasses.asdict(report)}
    return json.dumps(document, indent=indent, default=datetime.isoformat)


_LABEL = 15
#: On one screen; --json has all of them.
_CHANGES, _ALIASES = 12, 10
_ON = "ALARM"
_Part = TypeVar("_Part")


def write_text(report: Report, *, columns: int | None, pictures: bool) -> str:
    """columns: where lines are wrapped. pictures: the terminal can show a sparkline."""
    now = report.at
    paragraphs = {
        "endpoint": _write_endpoint(report.endpoint, now),
        "configuration": _write_configuration(report.configuration),
        "instances": _write_instances(report.instances, now),
        "traffic": _write_part(report.traffic, lambda part: _write_traffic(part, pictures)),
        "alarms": _write_part(report.alarms, lambda part: _write_alarms(part, now)),
        "archives": _write_part(report.archives, _write_archives),
        "history": _write_part(
            report.history, lambda part: _write_history(part, report.endpoint.name)
        ),
        "costs": map(_write_cost, report.costs),
    }
    wrapper = textwrap.TextWrapper(
        columns or sys.maxsize,
        subsequent_indent=" " * (_LABEL + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines: list[str] = []
    for label, paragraph in paragraphs.items():
        for number, line in enumerate(paragraph):
            wrapper.initial_indent = ("" if number else label).ljust(_LABEL)
            lines += wrapper.wrap(line) if columns else [wrapper.initial_indent + line]
    return "\n".join(lines)


def _write_part(part: _Part | Missing, write: Callable[[_Part], Iterable[str]]) -> Iterable[str]:
    """A part's lines; of one that could not be read, why."""
    return [part.missing] if isinstance(part, Missing) else write(part)


def _write_endpoint(part: EndpointPart, now: datetime) -> Iterator[str]:
    since = _write_ago(part.since, now)
    yield f"{part.name} in {part.region}: {part.status} since {part.since:%Y-%m-%d %H:%M %Z}{since}"
    if part.updating_to is not None:
        yield f"an update to {part.updating_to} is under way"
    if part.failure_reason:
        yield f"SageMaker says: {part.failure_reason}"
    if part.made_by_up is False:
        yield "it was not made by `up`, which will not touch it"


def _write_configuration(part: ConfigurationPart) -> Iterator[str]:
    if part.is_wanted is None:
        yield part.name
    elif part.is_wanted:
        yield f"{part.name}, as CONFIG.toml wants it"
    else:
        yield f"{part.name}; `up` would change {_write_count(len(part.changes), 'thing')}:"
    for change in part.changes[:_CHANGES]:
        yield f"{change.what}: {change.now or 'none'} → {change.wanted or 'none'}"
    if (more := len(part.changes) - _CHANGES) > 0:
        yield f"and {more} more (--json has them)"
    yield from part.notes
    yield f"image {part.image or 'not known yet'}"


def _write_instances(part: InstancesPart, now: datetime) -> Iterator[str]:
    kind = f"{part.now if part.now is not None else 'none'} now"
    wanted = "" if part.wanted is None else f", {part.wanted} wanted"
    if part.missing is not None:
        yield kind + wanted
        yield f"autoscaling: {part.missing}"
        return
    if part.minimum is None:
        yield f"{kind}{wanted}; no autoscaling"
    else:
        yield f"{kind}{wanted}, {part.minimum} to {part.maximum} by autoscaling"
    yield from (_write_activity(it, now) for it in part.activities)


def _write_activity(activity: Activity, now: datetime) -> str:
    at = f"{activity.at:%H:%M %Z}{_write_ago(activity.at, now)}"
    parts = (activity.description, activity.cause, activity.message)
    sentences = " ".join(_end_sentence(part) for part in parts if part is not None)
    return f"{at}  {activity.status}: {sentences}"


def _write_traffic(part: TrafficPart, pictures: bool) -> Iterator[str]:
    yield (
        f"{show_count(part.invocations)} invocations in {part.minutes} minutes, "
        f"{show_count(part.errors_4xx)} of 4xx, {show_count(part.errors_5xx)} of 5xx"
    )
    if pictures and part.invocations:
        most = max(part.invocations_by_minute)
        yield f"{sparkline(part.invocations_by_minute)} at most {show_count(most)} a minute"
    if part.latency_p50_ms is not None and part.latency_p99_ms is not None:
        period = _write_count(part.latency_period_minutes, "minute")
        yield (
            f"the model answers in {show_ms(part.latency_p50_ms)} (p50), "
            f"{show_ms(part.latency_p99_ms)} (p99 of the worst {period})"
        )
    if part.loaded_models is not None:
        each = part.loaded_models_per_instance
        yield f"{part.loaded_models} models loaded" + ("" if each is None else f", {each:g} each")
    if part.cache_hit_ratio is not None:
        yield f"hit ratio {part.cache_hit_ratio:.1%}" + _write_wait(part)


def _write_wait(part: TrafficPart) -> str:
    if part.loading_wait_ms is None:
        return ", nobody waited for a load"
    return f", others waited {show_ms(part.loading_wait_ms)} on average"


def _write_alarms(alarms: Sequence[Alarm], now: datetime) -> Iterator[str]:
    if not alarms:
        yield "none"
    for alarm in alarms:
        if alarm.state == _ON:
            since = "" if alarm.since is None else _write_ago(alarm.since, now)
            yield f"{_ON} {alarm.name}{since}: {_end_sentence(alarm.reason)}"
    for state in sorted({alarm.state for alarm in alarms} - {_ON}):
        names = (alarm.name.rpartition("/")[2] for alarm in alarms if alarm.state == state)
        yield f"{state}: {', '.join(names)}"


def _write_archives(part: ArchivesPart) -> Iterator[str]:
    more = f", {part.former} former" if part.former else ""
    if part.without_alias:
        more += f", {part.without_alias} without an alias"
    yield f"{_write_count(part.count, 'archive')}, {show_bytes(part.bytes)}{more}"
    for alias in part.aliases[:_ALIASES]:
        yield f"{alias.name} → {alias.target}{'' if alias.is_there else ', which is not there'}"
    if (others := len(part.aliases) - _ALIASES) > 0:
        yield f"and {others} more (--json has them)"


def _write_history(part: HistoryPart, name: str) -> Iterator[str]:
    if part.before is None:
        yield "nothing to roll back to"
    else:
        yield f"`rollback` goes to {name}-{part.before}"


def _write_cost(cost: Cost) -> str:
    if cost.quantity is None:
        return f"{cost.what}: {cost.note}"
    amount = f"{cost.quantity:,g} {cost.unit}"
    if cost.unit == "bytes":
        amount = show_bytes(int(cost.quantity))
    elif cost.unit == "alarms":
        amount = f"{cost.quantity:,g}"
    if cost.money_per_day is not None:
        amount += f" = {cost.money_per_day:,.2f} {cost.currency} a day"
    return f"{cost.what}: {amount}"


def _write_ago(then: datetime, now: datetime) -> str:
    """Empty in the future: clocks differ."""
    past = now - then
    return "" if past < timedelta(0) else f" ({show_duration(past.total_seconds())} ago)"


def _write_count(number: int, what: str) -> str:
    return f"{show_count(number)} {what}{'' if number == 1 else 's'}"


def _end_sentence(text: str) -> str:
    """AWS's text on one line, with one full stop."""
    return " ".join(text.split()).rstrip(".") + "."
