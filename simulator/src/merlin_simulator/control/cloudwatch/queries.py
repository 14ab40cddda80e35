"""MetricDataQueries: metrics and expressions of GetMetricData and of alarms. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merlin_simulator.control.cloudwatch.asked import check_statistic, is_percentile, metric_of
from merlin_simulator.control.cloudwatch.expressions import Given, evaluate, names_in
from merlin_simulator.control.cloudwatch.series_math import Series, Value, WrongExpression
from merlin_simulator.control.cloudwatch.store import Metric, Statistics
from merlin_simulator.control.errors import ServiceError

#: Reads a metric's statistic sets by when their periods begin: the metric, the seconds of a period,
#: and whether percentiles will be read.
Read = Callable[[Metric, int, bool], Sequence[tuple[float, Statistics]]]


@dataclass(frozen=True)
class Answered:
    """What a query was answered with. An expression of several series has one for each."""

    query_id: str
    label: str
    values: Series


def period_of(queries: Sequence[Mapping[str, Any]]) -> int:
    """The coarsest period that is asked for, seconds; 60 where none is."""
    periods = [query.get("MetricStat", query).get("Period") or 0 for query in queries]
    return max(periods, default=0) or 60


def reading_of(query: Mapping[str, Any]) -> tuple[Metric, int, bool]:
    """What a query with a MetricStat reads; see Read."""
    asked = query["MetricStat"]
    return metric_of(asked["Metric"]), asked["Period"], is_percentile(asked["Stat"])


def answer(
    queries: Sequence[Mapping[str, Any]], read: Read, times: Callable[[int], Sequence[float]]
) -> list[Answered]:
    """All that is to be returned, in the order of the queries.

    times: when the periods of that length begin that are asked for. Raises ServiceError.
    """
    return next(found for found in answer_in_steps(queries, read, times) if found is not None)


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
            else _reckoned(query, queries, values, times)
        )
        yield None
    yield [
        answered
        for query in queries
        if query.get("ReturnData", True)
        for answered in _answers(query, values[query["Id"]], times)
    ]


def _ordered(by_id: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What an expression reads before itself."""
    ordered, open_ = dict[str, Mapping[str, Any]](), set[str]()

    def visit(name: str) -> None:
        query = by_id[name]
        if name in ordered:
            return
        if name in open_:
            raise ServiceError(
                f"The expression of query {name} reads itself, by way of others or at once.",
                "ValidationError",
            )
        open_.add(name)
        for other in sorted(names_in(query.get("Expression") or "") & by_id.keys()):
            visit(other)
        ordered[name] = query

    for name, query in by_id.items():
        _check(query)
        # METRICS() reads all that are metrics.
        if "MetricStat" in query:
            ordered[name] = query
    try:
        for name in by_id:
            visit(name)
    except RecursionError as error:
        raise ServiceError(
            "Too many expressions read one another in a row.", "ValidationError"
        ) from error
    return list(ordered.values())


def _check(query: Mapping[str, Any]) -> None:
    if ("MetricStat" in query) == bool(query.get("Expression")):
        raise ServiceError(
            f"Query {query['Id']} must have either MetricStat or Expression.", "ValidationError"
        )
    if "MetricStat" in query:
        check_statistic(query["MetricStat"]["Stat"])


def _read(query: Mapping[str, Any], read: Read) -> Series:
    asked = query["MetricStat"]
    statistic, unit = asked["Stat"], asked.get("Unit")
    series = dict[float, float]()
    for begin, statistics in read(*reading_of(query)):
        value = statistics.read(statistic)
        if value is not None and unit in (None, statistics.unit):
            series[begin] = value
    return series


def _reckoned(
    query: Mapping[str, Any],
    queries: Sequence[Mapping[str, Any]],
    values: Mapping[str, Value],
    times: Callable[[int], Sequence[float]],
) -> Value:
    period_s = query.get("Period") or period_of(queries)
    metrics = [one["Id"] for one in queries if "MetricStat" in one]
    try:
        return evaluate(query["Expression"], Given(values, metrics, times(period_s), period_s))
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
