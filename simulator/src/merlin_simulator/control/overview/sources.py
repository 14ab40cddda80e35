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

    def scaling_activities(self) -> Sequence[Described]:
        """ScalingActivities of DescribeScalingActivities, newest first."""
        ...

    def scalable_targets(self) -> Sequence[Described]:
        """ScalableTargets of DescribeScalableTargets."""
        ...

    def scaling_policies(self) -> Sequence[Described]:
        """ScalingPolicies of DescribeScalingPolicies."""
        ...


class Alarms(Protocol):
    """CloudWatch's alarms."""

    def metric_alarms(self) -> Sequence[Described]:
        """MetricAlarms of DescribeAlarms."""
        ...
