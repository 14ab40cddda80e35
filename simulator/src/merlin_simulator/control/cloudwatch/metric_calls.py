"""CloudWatch's calls about metrics: what is asked for, and statistics of it."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.math import (
    ExpressionInputs,
    Series,
    Value,
    WrongExpression,
    evaluate,
    names_in,
)
from merlin_simulator.control.cloudwatch.store import (
    KEPT_S,
    RESOLUTION_S,
    Metric,
    MetricStore,
    Statistics,
    make_metric,
)
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import make_token, page, read_start

#: The code of a page's token that is none.
WRONG_TOKEN = "InvalidNextToken"

STATISTICS = ("SampleCount", "Average", "Sum", "Minimum", "Maximum")
_PERCENTILE = re.compile(r"p(\d{1,2}(\.\d{1,10})?|100)")


def metric_of(members: Mapping[str, Any]) -> Metric:
    """A metric by its Namespace, MetricName and Dimensions."""
    return make_metric(members["Namespace"], members["MetricName"], dimensions_of(members))


def dimensions_of(members: Mapping[str, Any]) -> dict[str, str]:
    """Dimensions as names and values."""
    return {dimension["Name"]: dimension["Value"] for dimension in members.get("Dimensions") or ()}


def listed_dimensions(metric: Metric) -> list[dict[str, str]]:
    """As AWS lists them."""
    return [{"Name": name, "Value": value} for name, value in sorted(metric.dimensions)]


def span(members: Mapping[str, Any]) -> tuple[float, float]:
    """StartTime and EndTime. Raises ServiceError where there is nothing between them."""
    start, end = members["StartTime"], members["EndTime"]
    if start >= end:
        raise ServiceError(
            "The parameter StartTime must be less than the parameter EndTime.",
            "InvalidParameterValue",
        )
    return start, end


def is_percentile(statistic: str) -> bool:
    """Whether it takes the values themselves, not only their sums."""
    return statistic not in STATISTICS


def check_statistic(name: str) -> None:
    """Raises ServiceError for one that is not kept."""
    if name not in STATISTICS and not _PERCENTILE.fullmatch(name):
        raise ServiceError(
            f"The value {name} for parameter Stat is not supported: this simulator knows "
            f"{', '.join(STATISTICS)}, and percentiles such as p99.",
            "InvalidParameterValue",
        )


def check_period(period_s: int, member: str = "Period") -> None:
    """Raises ServiceError for one that is no multiple of a minute."""
    if period_s <= 0 or period_s % RESOLUTION_S:
        raise ServiceError(
            f"The value {period_s} for parameter {member} is not supported: expected a multiple of "
            f"{RESOLUTION_S}, since this simulator keeps metrics by the minute.",
            "InvalidParameterValue",
        )


def times_between(start: float, end: float, period_s: int) -> Sequence[float]:
    """When the periods begin from the one that start is in on, before end; not made until read."""
    return range(math.floor(start / period_s) * period_s, math.ceil(end), period_s)


#: Reads a metric's statistic sets by when their periods begin: the metric, the seconds of a period,
#: and whether percentiles will be read.
Read = Callable[[Metric, int, bool], Sequence[tuple[float, Statistics]]]


@dataclass(frozen=True)
class Answered:
    """The answer to a query. An expression of several series has one for each."""

    query_id: str
    label: str
    values: Series


def period_of(queries: Sequence[Mapping[str, Any]]) -> int:
    """The coarsest period that is asked for, seconds; 60 where none is."""
    periods = [query.get("MetricStat", query).get("Period") or 0 for query in queries]
    return max(periods, default=0) or 60


def reading_of(query: Mapping[str, Any]) -> tuple[Metric, int, bool]:
    """The series that a query with a MetricStat reads; see Read."""
    stat = query["MetricStat"]
    return metric_of(stat["Metric"]), stat["Period"], is_percentile(stat["Stat"])


def answer(
    queries: Sequence[Mapping[str, Any]], read: Read, times: Callable[[int], Sequence[float]]
) -> list[Answered]:
    """All that is to be returned, in the order of the queries.

    times: when the periods of that length begin that are asked for. Raises ServiceError.
    """
    return next(answers for answers in answer_in_steps(queries, read, times) if answers is not None)


def answer_in_steps(
    queries: Sequence[Mapping[str, Any]], read: Read, times: Callable[[int], Sequence[float]]
) -> Iterator[list[Answered] | None]:
    """The same, for who does something else between two queries: None after each, then all."""
    by_id = {query["Id"]: query for query in queries}
    if len(by_id) < len(queries):
        raise ServiceError(
            "The values for parameter id in MetricDataQueries are not unique.", "ValidationError"
        )
    values = dict[str, Value]()
    for query in _ordered(by_id):
        values[query["Id"]] = (
            _read(query, read)
            if "MetricStat" in query
            else _calculate(query, queries, values, times)
        )
        yield None
    yield [
        answered
        for query in queries
        if query.get("ReturnData", True)
        for answered in _answers(query, values[query["Id"]], times)
    ]


def _ordered(by_id: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Queries, each behind those that it reads; METRICS() reads all metrics."""
    for query in by_id.values():
        _check(query)
    metrics = [name for name, query in by_id.items() if "MetricStat" in query]
    reads = {
        name: [] if "MetricStat" in query else names_in(query["Expression"]) & by_id.keys()
        for name, query in by_id.items()
    }
    try:
        order = list(TopologicalSorter(reads).static_order())
    except CycleError as error:
        name = error.args[1][0]
        raise ServiceError(
            f"The expression of query {name} reads itself, by way of others or at once.",
            "ValidationError",
        ) from error
    return [by_id[name] for name in dict.fromkeys([*metrics, *order])]


def _check(query: Mapping[str, Any]) -> None:
    if ("MetricStat" in query) == bool(query.get("Expression")):
        raise ServiceError(
            f"Query {query['Id']} must have either MetricStat or Expression.", "ValidationError"
        )
    if "MetricStat" in query:
        check_statistic(query["MetricStat"]["Stat"])


def _read(query: Mapping[str, Any], read: Read) -> Series:
    stat = query["MetricStat"]
    statistic, unit = stat["Stat"], stat.get("Unit")
    series = dict[float, float]()
    for begin, statistics in read(*reading_of(query)):
        value = statistics.read(statistic)
        if value is not None and unit in (None, statistics.unit):
            series[begin] = value
    return series


def _calculate(
    query: Mapping[str, Any],
    queries: Sequence[Mapping[str, Any]],
    values: Mapping[str, Value],
    times: Callable[[int], Sequence[float]],
) -> Value:
    period_s = query.get("Period") or period_of(queries)
    metrics = [other["Id"] for other in queries if "MetricStat" in other]
    try:
        return evaluate(
            query["Expression"], ExpressionInputs(values, metrics, times(period_s), period_s)
        )
    except WrongExpression as error:
        raise ServiceError(
            f"Error in expression '{query['Id']}': {error}", "ValidationError"
        ) from error


def _answers(
    query: Mapping[str, Any], value: Value, times: Callable[[int], Sequence[float]]
) -> list[Answered]:
    name = query["Id"]
    label = query.get("Label") or _label(query)
    if isinstance(value, tuple):
        return [Answered(name, f"{label} {n}", series) for n, series in enumerate(value, 1)]
    if not isinstance(value, Mapping):
        value = dict.fromkeys(times(query.get("Period") or 60), value)
    return [Answered(name, label, value)]


def _label(query: Mapping[str, Any]) -> str:
    if "MetricStat" in query:
        return str(query["MetricStat"]["Metric"]["MetricName"])
    return str(query["Id"])


#: AWS, "ListMetrics": as many a page; "RecentlyActive": within three hours.
_METRICS_LISTED, _RECENT_S = 500, 3 * 3600
#: AWS, "GetMetricStatistics" and "GetMetricData": data points of one answer.
_MOST_STATISTICS, _MOST_DATA = 1440, 100_800
#: AWS, "PutMetricData": as old, and as far ahead.
_OLDEST_S, _AHEAD_S = 14 * 24 * 3600, 2 * 3600
_LARGEST = 2.0**360


class MetricCalls:
    """The calls about metrics."""

    def __init__(self, store: MetricStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    async def put(self, call: Call) -> None:
        """PutMetricData: all of it, or nothing."""
        if "EntityMetricData" in call.members:
            raise ServiceError(
                "EntityMetricData is given: this simulator takes MetricData.",
                "InvalidParameterValue",
            )
        namespace = call.members["Namespace"]
        if namespace.startswith("AWS/"):
            raise ServiceError(
                f"The value {namespace} for parameter Namespace is invalid: it begins with AWS/, "
                "as those of AWS do.",
                "InvalidParameterValue",
            )
        now, published = self._clock.now(), list[tuple[Metric, Statistics, float]]()
        for number, datum in enumerate(call.members.get("MetricData") or (), 1):
            member = f"MetricData.member.{number}"
            metric = make_metric(namespace, datum["MetricName"], dimensions_of(datum))
            at = _read_time(datum, member, now)
            published.append((metric, _read_datum(datum, member), at))
        for metric, statistics, at in published:
            self._store.add_set(metric, statistics, at)

    async def list(self, call: Call) -> Mapping[str, Any]:
        """ListMetrics."""
        members = call.members
        dimensions = [
            (dimension["Name"], dimension.get("Value"))
            for dimension in members.get("Dimensions") or ()
        ]
        results = [
            metric
            for metric in self._store.metrics()
            if members.get("Namespace") in (None, metric.namespace)
            and members.get("MetricName") in (None, metric.name)
            and all(_has(metric, name, value) for name, value in dimensions)
            and ("RecentlyActive" not in members or self._is_recent(metric))
        ]
        shown, token = page(results, members.get("NextToken"), _METRICS_LISTED, code=WRONG_TOKEN)
        metrics = [
            {
                "Namespace": metric.namespace,
                "MetricName": metric.name,
                "Dimensions": listed_dimensions(metric),
            }
            for metric in shown
        ]
        return {"Metrics": metrics, **({"NextToken": token} if token else {})}

    async def statistics(self, call: Call) -> Mapping[str, Any]:
        """GetMetricStatistics."""
        members, period_s = call.members, call.members["Period"]
        plain, extended = members.get("Statistics") or (), members.get("ExtendedStatistics") or ()
        if not plain and not extended:
            raise ServiceError(
                "At least one of the parameters Statistics and ExtendedStatistics must be "
                "specified.",
                "InvalidParameterCombination",
            )
        for name in extended:
            check_statistic(name)
        check_period(period_s)
        start, end = span(members)
        count = len(times_between(start, end, period_s))
        if count > _MOST_STATISTICS:
            raise ServiceError(
                f"You have requested up to {count:,} datapoints, which exceeds the limit of "
                f"{_MOST_STATISTICS:,}. You may reduce the datapoints requested by increasing "
                "Period, or decreasing the time range.",
                "InvalidParameterCombination",
            )
        unit = members.get("Unit")
        points = [
            _point(begin, statistics, plain, extended)
            for begin, statistics in self._store.read(
                metric_of(members), start, end, period_s, with_values=bool(extended)
            )
            if unit in (None, statistics.unit)
        ]
        return {"Label": members["MetricName"], "Datapoints": points}

    async def data(self, call: Call) -> Mapping[str, Any]:
        """GetMetricData."""
        members = call.members
        start, end = self._within_retention(*span(members))
        for query in members["MetricDataQueries"]:
            if (period_s := query.get("MetricStat", query).get("Period")) is not None:
                check_period(period_s)
        read = await self._read(members["MetricDataQueries"], start, end)
        results = list[Answered]()
        for step in answer_in_steps(
            members["MetricDataQueries"],
            lambda *reading: read[reading],
            lambda period_s: times_between(start, end, period_s),
        ):
            results = step or results
            await asyncio.sleep(0)
        descending = members.get("ScanBy", "TimestampDescending") == "TimestampDescending"
        most = min(members.get("MaxDatapoints") or _MOST_DATA, _MOST_DATA)
        return _data_page(results, descending, members.get("NextToken"), most)

    def _within_retention(self, start: float, end: float) -> tuple[float, float]:
        """Of a span, what may have values: an expression may have one for each of its minutes."""
        now = self._clock.now()
        return max(start, now - KEPT_S), min(end, now + _AHEAD_S)

    async def _read(
        self, queries: Sequence[Mapping[str, Any]], start: float, end: float
    ) -> Mapping[tuple[Metric, int, bool], Sequence[tuple[float, Statistics]]]:
        """All that queries read. It may be much: invocations go on meanwhile."""
        read = dict[tuple[Metric, int, bool], Sequence[tuple[float, Statistics]]]()
        for query in queries:
            if "MetricStat" in query and (reading := reading_of(query)) not in read:
                read[reading] = self._store.read(reading[0], start, end, *reading[1:])
                await asyncio.sleep(0)
        return read

    def _is_recent(self, metric: Metric) -> bool:
        last = self._store.last_at(metric)
        return last is not None and self._clock.now() - last <= _RECENT_S


def _has(metric: Metric, name: str, value: str | None) -> bool:
    return any(name == own and value in (None, its) for own, its in metric.dimensions)


def _read_time(datum: Mapping[str, Any], member: str, now: float) -> float:
    at: float = datum.get("Timestamp", now)
    if not now - _OLDEST_S <= at <= now + _AHEAD_S:
        raise ServiceError(
            f"The parameter {member}.Timestamp must specify a time no more than two weeks in the "
            "past, and no more than two hours in the future.",
            "InvalidParameterValue",
        )
    return at


def _read_datum(datum: Mapping[str, Any], member: str) -> Statistics:
    kinds = [kind for kind in ("Value", "Values", "StatisticValues") if datum.get(kind) is not None]
    if len(kinds) > 1:
        raise ServiceError(
            f"The parameters {member}.{kinds[0]} and {member}.{kinds[1]} are mutually exclusive "
            "and you have specified both.",
            "InvalidParameterCombination",
        )
    if not kinds:
        raise ServiceError(
            f"At least one of the parameters {member}.Value, {member}.Values and "
            f"{member}.StatisticValues must be specified.",
            "MissingParameter",
        )
    if kinds == ["StatisticValues"]:
        return _set(datum["StatisticValues"], datum.get("Unit"), member)
    statistics = Statistics(unit=datum.get("Unit") or "None")
    for value, count in _values(datum, member):
        statistics.add(_number(value, member), _number(count, member))
    return statistics


def _values(datum: Mapping[str, Any], member: str) -> Iterator[tuple[float, float]]:
    if "Value" in datum:
        yield datum["Value"], 1.0
        return
    values, counts = datum["Values"], datum.get("Counts")
    if counts is not None and len(counts) != len(values):
        raise ServiceError(
            f"The parameters {member}.Values and {member}.Counts must be of the same size.",
            "InvalidParameterValue",
        )
    yield from zip(values, counts or [1.0] * len(values), strict=True)


def _set(values: Mapping[str, float], unit: str | None, member: str) -> Statistics:
    """Its values are known where all of them are the same one."""
    count, total, least, most = (
        _number(values[name], member) for name in ("SampleCount", "Sum", "Minimum", "Maximum")
    )
    return Statistics(count, total, least, most, None, unit or "None")


def _number(value: float | str, member: str) -> float:
    """AWS, "MetricDatum": from -2^360 to 2^360, no NaN."""
    number = float(value)
    if not abs(number) <= _LARGEST:
        raise ServiceError(
            f"The value {value} for parameter {member}.Value is invalid.", "InvalidParameterValue"
        )
    return number


def _point(
    begin: float, statistics: Statistics, plain: Sequence[str], extended: Sequence[str]
) -> dict[str, Any]:
    point: dict[str, Any] = {"Timestamp": begin, "Unit": statistics.unit or "None"}
    point |= {name: statistics.read(name) for name in STATISTICS if name in plain}
    shown = {name: statistics.read(name) for name in extended}
    known = {name: value for name, value in shown.items() if value is not None}
    return point | ({"ExtendedStatistics": known} if known else {})


def _data_page(
    answers: Sequence[Answered], descending: bool, token: str | None, most: int
) -> Mapping[str, Any]:
    """Data points are counted over all results, one after another."""
    start = read_start(token, WRONG_TOKEN)
    results, before = list[dict[str, Any]](), 0
    for answered in answers:
        first = max(0, start - before)
        last = max(0, min(len(answered.values), start + most - before))
        if first < last or (not answered.values and not start):
            times = sorted(answered.values, reverse=descending)[first:last]
            results.append(
                {
                    "Id": answered.query_id,
                    "Label": answered.label,
                    "Timestamps": times,
                    "Values": [answered.values[time] for time in times],
                    "StatusCode": "Complete" if last == len(answered.values) else "PartialData",
                }
            )
        before += len(answered.values)
    following = make_token(start + most) if before > start + most else None
    return {
        "MetricDataResults": results,
        "Messages": [],
        **({"NextToken": following} if following else {}),
    }
