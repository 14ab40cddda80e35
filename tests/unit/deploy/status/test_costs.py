"""What costs: quantities, and money where a price is given."""

from __future__ import annotations

from dataclasses import replace

from deploy.config.sections import CostsSection
from deploy.status.collect import Quantities, make_costs
from deploy.status.report import Missing

ALL = Quantities(
    instances=2,
    most_instances=8,
    instance_type="ml.g5.xlarge",
    volume_gb=64,
    archive_bytes=1_000_000,
    image_bytes=8_000_000_000,
    alarms=6,
)


def test_instances_are_hours_and_money() -> None:
    """Of as many as there are now, and of as many as there may be; without a price, hours."""
    now, most, *_ = make_costs(ALL, CostsSection(instance_hour=1.41, currency="EUR"))
    assert (now.quantity, now.money_per_day, now.currency) == (48.0, 67.68, "EUR")
    assert (most.quantity, most.money_per_day) == (192.0, 270.72)
    hours, *rest = make_costs(ALL, CostsSection())
    assert (hours.quantity, hours.money_per_day, hours.currency) == (48.0, None, None)
    assert all(cost.money_per_day is None for cost in rest)


def test_disks_are_those_of_all_instances() -> None:
    """VolumeSizeInGB is of each."""
    quantities = {cost.what: cost.quantity for cost in make_costs(ALL, CostsSection())}
    assert quantities["disks"] == 128.0
    assert quantities["archives in S3"] == 1e6
    assert quantities["alarms"] == 6.0


def test_what_is_not_known_says_why() -> None:
    """A quantity of None has its note; the other quantities are there."""
    some = replace(ALL, image_bytes=Missing("ecr:DescribeImages is not allowed"), volume_gb=None)
    costs = {cost.what: cost for cost in make_costs(some, CostsSection())}
    assert costs["image in ECR"].quantity is None
    assert costs["image in ECR"].note == "ecr:DescribeImages is not allowed"
    assert "volume_gb" in (costs["disks"].note or "")
    assert costs["archives in S3"].quantity == 1e6
