"""A report as text for one screen, a paragraph for each part. No I/O."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

from merlin_deploy.status.report import (
    Activity,
    Alarm,
    ArchivesPart,
    ConfigurationPart,
    Cost,
    EndpointPart,
    HistoryPart,
    InstancesPart,
    Missing,
    Report,
    TrafficPart,
)
from merlin_deploy.terminal import show_bytes, show_count, show_duration, show_ms, sparkline

_LABEL = 15
#: On one screen; --json has all of them.
_CHANGES, _ALIASES = 12, 10
_ON = "ALARM"
_Part = TypeVar("_Part")


def write_text(report: Report, *, columns: int | None, pictures: bool) -> str:
    """columns: where lines are wrapped. pictures: the terminal can show a sparkline."""
    now = report.at
    paragraphs = {
        "endpoint": _endpoint(report.endpoint, now),
        "configuration": _configuration(report.configuration),
        "instances": _instances(report.instances, now),
        "traffic": _or_why(report.traffic, lambda part: _traffic(part, pictures)),
        "alarms": _or_why(report.alarms, lambda part: _alarms(part, now)),
        "archives": _or_why(report.archives, _archives),
        "history": _or_why(report.history, lambda part: _history(part, report.endpoint.name)),
        "costs": map(_cost, report.costs),
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


def _or_why(part: _Part | Missing, write: Callable[[_Part], Iterable[str]]) -> Iterable[str]:
    """A part's lines; of one that could not be read, why."""
    return [part.missing] if isinstance(part, Missing) else write(part)


def _endpoint(part: EndpointPart, now: datetime) -> Iterator[str]:
    since = _ago(part.since, now)
    yield f"{part.name} in {part.region}: {part.status} since {part.since:%Y-%m-%d %H:%M %Z}{since}"
    if part.updating_to is not None:
        yield f"an update to {part.updating_to} is under way"
    if part.failure_reason:
        yield f"SageMaker says: {part.failure_reason}"
    if part.made_by_up is False:
        yield "it was not made by `up`, which will not touch it"


def _configuration(part: ConfigurationPart) -> Iterator[str]:
    if part.is_wanted is None:
        yield part.name
    elif part.is_wanted:
        yield f"{part.name}, as CONFIG.toml wants it"
    else:
        yield f"{part.name}; `up` would change {_count(len(part.changes), 'thing')}:"
    for change in part.changes[:_CHANGES]:
        yield f"{change.what}: {change.now or 'none'} → {change.wanted or 'none'}"
    if (more := len(part.changes) - _CHANGES) > 0:
        yield f"and {more} more (--json has them)"
    yield from part.notes
    yield f"image {part.image or 'not known yet'}"


def _instances(part: InstancesPart, now: datetime) -> Iterator[str]:
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
    yield from (_activity(it, now) for it in part.activities)


def _activity(activity: Activity, now: datetime) -> str:
    at = f"{activity.at:%H:%M %Z}{_ago(activity.at, now)}"
    parts = (activity.description, activity.cause, activity.message)
    sentences = " ".join(_sentence(part) for part in parts if part is not None)
    return f"{at}  {activity.status}: {sentences}"


def _traffic(part: TrafficPart, pictures: bool) -> Iterator[str]:
    yield (
        f"{show_count(part.invocations)} invocations in {part.minutes} minutes, "
        f"{show_count(part.errors_4xx)} of 4xx, {show_count(part.errors_5xx)} of 5xx"
    )
    if pictures and part.invocations:
        most = max(part.invocations_by_minute)
        yield f"{sparkline(part.invocations_by_minute)} at most {show_count(most)} a minute"
    if part.latency_p50_ms is not None and part.latency_p99_ms is not None:
        period = _count(part.latency_period_minutes, "minute")
        yield (
            f"the model answers in {show_ms(part.latency_p50_ms)} (p50), "
            f"{show_ms(part.latency_p99_ms)} (p99 of the worst {period})"
        )
    if part.loaded_models is not None:
        each = part.loaded_models_per_instance
        yield f"{part.loaded_models} models loaded" + ("" if each is None else f", {each:g} each")
    if part.cache_hit_ratio is not None:
        yield f"hit ratio {part.cache_hit_ratio:.1%}" + _waited(part)


def _waited(part: TrafficPart) -> str:
    if part.loading_wait_ms is None:
        return ", nobody waited for a load"
    return f", others waited {show_ms(part.loading_wait_ms)} on average"


def _alarms(alarms: Sequence[Alarm], now: datetime) -> Iterator[str]:
    if not alarms:
        yield "none"
    for alarm in alarms:
        if alarm.state == _ON:
            since = "" if alarm.since is None else _ago(alarm.since, now)
            yield f"{_ON} {alarm.name}{since}: {_sentence(alarm.reason)}"
    for state in sorted({alarm.state for alarm in alarms} - {_ON}):
        names = (alarm.name.rpartition("/")[2] for alarm in alarms if alarm.state == state)
        yield f"{state}: {', '.join(names)}"


def _archives(part: ArchivesPart) -> Iterator[str]:
    more = f", {part.former} former" if part.former else ""
    if part.without_alias:
        more += f", {part.without_alias} without an alias"
    yield f"{_count(part.count, 'archive')}, {show_bytes(part.bytes)}{more}"
    for alias in part.aliases[:_ALIASES]:
        yield f"{alias.name} → {alias.target}{'' if alias.is_there else ', which is not there'}"
    if (others := len(part.aliases) - _ALIASES) > 0:
        yield f"and {others} more (--json has them)"


def _history(part: HistoryPart, name: str) -> Iterator[str]:
    if part.before is None:
        yield "nothing to roll back to"
    else:
        yield f"`rollback` goes to {name}-{part.before}"


def _cost(cost: Cost) -> str:
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


def _ago(then: datetime, now: datetime) -> str:
    """Empty in the future: clocks differ."""
    past = now - then
    return "" if past < timedelta(0) else f" ({show_duration(past.total_seconds())} ago)"


def _count(number: int, what: str) -> str:
    return f"{show_count(number)} {what}{'' if number == 1 else 's'}"


def _sentence(words: str) -> str:
    """AWS's words, with one full stop."""
    return " ".join(words.split()).rstrip(".") + "."
