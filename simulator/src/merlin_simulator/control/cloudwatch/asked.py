"""What callers of CloudWatch name: metrics, times, statistics and periods. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from merlin_simulator.control.cloudwatch.store import RESOLUTION_S, Metric, make_metric
from merlin_simulator.control.errors import ServiceError

#: The code of a page's token that is none.
WRONG_TOKEN = "InvalidNextToken"

STATISTICS = ("SampleCount", "Average", "Sum", "Minimum", "Maximum")
_PERCENTILE = re.compile(r"p(\d{1,2}(\.\d{1,10})?|100)")


def metric_of(asked: Mapping[str, Any]) -> Metric:
    """A metric by its Namespace, MetricName and Dimensions."""
    return make_metric(asked["Namespace"], asked["MetricName"], dimensions_of(asked))


def dimensions_of(asked: Mapping[str, Any]) -> dict[str, str]:
    """Dimensions as names and values."""
    return {one["Name"]: one["Value"] for one in asked.get("Dimensions") or ()}


def listed_dimensions(metric: Metric) -> list[dict[str, str]]:
    """As AWS lists them."""
    return [{"Name": name, "Value": value} for name, value in sorted(metric.dimensions)]


def moment(asked: float | str, member: str) -> float:
    """Seconds since the epoch of a time as JSON or a form has it. Raises ServiceError."""
    if isinstance(asked, int | float):
        return float(asked)
    try:
        return float(asked)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(asked.replace("Z", "+00:00"))
    except ValueError:
        raise ServiceError(
            f"The parameter {member} must be a timestamp: it is {asked!r}.", "InvalidParameterValue"
        ) from None
    return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()


def span(members: Mapping[str, Any]) -> tuple[float, float]:
    """StartTime and EndTime. Raises ServiceError where there is nothing between them."""
    start, end = (moment(members[name], name) for name in ("StartTime", "EndTime"))
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
