"""Alarms change state: each is decided anew once a minute of the platform."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.alarm_state import Condition, Point, State, decide
from merlin_simulator.control.cloudwatch.alarm_words import reason, reason_data
from merlin_simulator.control.cloudwatch.alarms import Alarms, condition_of
from merlin_simulator.control.cloudwatch.asked import is_percentile, metric_of
from merlin_simulator.control.cloudwatch.queries import answer, period_of
from merlin_simulator.control.cloudwatch.store import RESOLUTION_S, Metric, MetricStore, Statistics
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Record

_logger = logging.getLogger(__name__)

#: However fast the platform's time goes, this machine's seconds between two looks.
_LEAST_S = 0.05
#: Minutes that are made up for when it goes so fast that some are over between two looks.
_MADE_UP = 60


class AlarmWatch:
    """Decides by the minutes that are over.

    acting: who hears of each alarm that is in ALARM, at each evaluation, by its record and its
    newest data point.
    """

    def __init__(self, alarms: Alarms, store: MetricStore, clock: Clock) -> None:
        self._alarms, self._store, self._clock = alarms, store, clock
        self.acting: list[Callable[[Record, float], None]] = []

    async def run(self) -> None:
        """Until cancelled."""
        decided = self._clock.now() // RESOLUTION_S
        while True:
            over = self._clock.now() % RESOLUTION_S
            await asyncio.sleep(max(_LEAST_S, (RESOLUTION_S - over) / self._clock.scale))
            now = self._clock.now() // RESOLUTION_S
            for minute in range(int(max(decided + 1, now - _MADE_UP)), int(now) + 1):
                for record in self._alarms.values():
                    self._try(record, minute * float(RESOLUTION_S))
            decided = now

    def decide(self, record: Record, end: float) -> None:
        """Look at one alarm's data points before end, a whole minute, and put it in their state."""
        condition = condition_of(record)
        try:
            points = self._points(record, condition, end)
        except ServiceError as error:
            self._change(record, State.INSUFFICIENT_DATA, str(error), {})
            return
        decision = decide(points, condition)
        if decision.state is not None:
            words = reason(decision, condition)
            data = reason_data(decision, condition, self._clock.now(), _measure(record))
            self._change(record, decision.state, words, data)
        newest = next((point.value for point in reversed(decision.used)), None)
        if newest is not None and record["StateValue"] == State.ALARM.value:
            for act in self.acting:
                act(record, newest)

    def _try(self, record: Record, end: float) -> None:
        try:
            self.decide(record, end)
        except Exception:
            _logger.exception("alarm %s was not decided", record["AlarmName"])

    def _change(self, record: Record, state: State, words: str, data: Mapping[str, Any]) -> None:
        """AWS leaves the reason as it was while the state stays."""
        if record["StateValue"] != state.value or "StateReasonData" not in record:
            self._alarms.change(record, state, words, data)

    def _points(self, record: Record, condition: Condition, end: float) -> Sequence[Point]:
        if record.get("Metrics"):
            return self._reckoned(record["Metrics"], condition, end)
        period_s, unit = record["Period"], record.get("Unit")
        statistic = record.get("Statistic") or record["ExtendedStatistic"]
        exactly = is_percentile(statistic)
        read = windows(self._store, metric_of(record), end, period_s, condition.range, exactly)
        found = dict(read)
        points = list[Point]()
        for begin in _begins(end, period_s, condition.range):
            statistics = found.get(begin)
            if statistics is None or unit not in (None, statistics.unit):
                points.append(Point(begin))
            else:
                points.append(Point(begin, statistics.read(statistic), statistics.count))
        return points

    def _reckoned(
        self, queries: Sequence[Mapping[str, Any]], condition: Condition, end: float
    ) -> Sequence[Point]:
        """Of metric math: the one query that returns data."""
        count = condition.range
        (answered, *_) = answer(
            queries,
            lambda metric, period_s, exactly: windows(
                self._store, metric, end, period_s, count, exactly
            ),
            lambda period_s: _begins(end, period_s, count),
        )
        begins = _begins(end, period_of(queries), count)
        return [Point(begin, answered.values.get(begin)) for begin in begins]


def windows(
    store: MetricStore, metric: Metric, end: float, period_s: int, count: int, exactly: bool
) -> list[tuple[float, Statistics]]:
    """The last periods before end, which is a whole minute, by when they begin.

    exactly: percentiles will be read, too.
    """
    start, sets = end - count * period_s, dict[float, Statistics]()
    for minute, statistics in store.read(metric, start, end):
        begin = start + (minute - start) // period_s * period_s
        sets.setdefault(begin, Statistics()).merge(statistics, exactly)
    return list(sets.items())


def _begins(end: float, period_s: int, count: int) -> list[float]:
    return [end - number * period_s for number in range(count, 0, -1)]


def _measure(record: Record) -> dict[str, Any]:
    queries = record.get("Metrics")
    if queries:
        return {"period": period_of(queries)}
    return {
        **({"unit": record["Unit"]} if "Unit" in record else {}),
        "statistic": record.get("Statistic") or record["ExtendedStatistic"],
        "period": record["Period"],
    }
