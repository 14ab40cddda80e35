"""What the overview shows of other services: scaling and alarms, as AWS's clients see them.

Members are those of botocore's service models; times are seconds since the epoch on the
platform's clock, or datetimes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

Described = Mapping[str, Any]


class Activities(Protocol):
    """Application Auto Scaling."""

    def activities(self) -> Sequence[Described]:
        """ScalingActivities of DescribeScalingActivities, newest first."""
        ...

    def targets(self) -> Sequence[Described]:
        """ScalableTargets of DescribeScalableTargets."""
        ...

    def policies(self) -> Sequence[Described]:
        """ScalingPolicies of DescribeScalingPolicies."""
        ...


class Alarms(Protocol):
    """CloudWatch's alarms."""

    def alarms(self) -> Sequence[Described]:
        """MetricAlarms of DescribeAlarms."""
        ...


class NoActivities:
    """Nothing scales."""

    def activities(self) -> Sequence[Described]:
        """None."""
        return ()

    def targets(self) -> Sequence[Described]:
        """None."""
        return ()

    def policies(self) -> Sequence[Described]:
        """None."""
        return ()


class NoAlarms:
    """Nothing is watched."""

    def alarms(self) -> Sequence[Described]:
        """None."""
        return ()
