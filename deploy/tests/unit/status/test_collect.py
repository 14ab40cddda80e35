"""Parts of a report: archives by what names say of them, and what costs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from merlin_deploy.archives.aliases import Aliases
from merlin_deploy.archives.bucket import Stored
from merlin_deploy.config.sections import CostsSection
from merlin_deploy.status.collect import make_archives, make_costs
from merlin_deploy.status.compare import Present, Scaling
from merlin_deploy.status.report import (
    Alias,
    ArchivesPart,
    ConfigurationPart,
    Cost,
    EndpointPart,
    InstancesPart,
    Missing,
    Report,
)

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)


def test_former_archives_are_not_without_an_alias() -> None:
    """Each archive counts once: current, former, or of no name; one that is another name's current
    one is not former."""
    named = Aliases({"a": ("a/3", "a/2", "b/1", "gone"), "b": ("b/1",), "c": ("c/1",)})
    stored = {target: Stored(target, 10, NOW) for target in ("a/1", "a/2", "a/3", "b/1")}
    found = make_archives(named, stored)
    assert (found.count, found.bytes) == (4, 40)
    assert (found.former, found.without_alias) == (1, 1)
    assert found.aliases == (
        Alias("a", "a/3", True),
        Alias("b", "b/1", True),
        Alias("c", "c/1", False),
    )


DENIED = Missing("it is not allowed")
REPORT = Report(
    at=NOW,
    endpoint=EndpointPart("shop", "us-east-1", "InService", NOW),
    configuration=ConfigurationPart("shop-1", "shop-1", True, (), (), None, "ml.g5.xlarge"),
    instances=InstancesPart(2, 2, 1, 8),
    traffic=DENIED,
    alarms=(),
    archives=ArchivesPart(1, 1_000_000, 0, 0, ()),
    history=DENIED,
    costs=(),
)
PRESENT = Present(
    endpoint={},
    config={"ProductionVariants": [{"VolumeSizeInGB": 64}]},
    model=None,
    tags={},
    scaling=Scaling({}, [{"Alarms": [1, 2]}], ()),
    alarms=[{}] * 4,
)


def costs_of(costs: CostsSection, image: Any = 8_000_000_000, **parts: Any) -> list[Cost]:
    """parts: of what is present, in the place of what there is."""
    return list(make_costs(REPORT, replace(PRESENT, **parts), image, costs))


def test_instances_are_hours_and_money() -> None:
    """Of as many as there are now, and of as many as there may be; without a price, hours."""
    now, most, *_ = costs_of(CostsSection(instance_hour=1.41, currency="EUR"))
    assert (now.quantity, now.money_per_day, now.currency) == (48.0, 67.68, "EUR")
    assert (most.quantity, most.money_per_day) == (192.0, 270.72)
    hours, *rest = costs_of(CostsSection())
    assert (hours.quantity, hours.money_per_day, hours.currency) == (48.0, None, None)
    assert all(cost.money_per_day is None for cost in rest)


def test_disks_are_those_of_all_instances() -> None:
    """VolumeSizeInGB is of each."""
    quantities = {cost.what: cost.quantity for cost in costs_of(CostsSection())}
    assert quantities["disks"] == 128.0
    assert quantities["archives in S3"] == 1e6
    assert quantities["alarms"] == 6.0


def test_what_is_not_known_says_why() -> None:
    """A quantity of None has its note; the other quantities are there."""
    volume: dict[str, Any] = {"config": {"ProductionVariants": [{}]}}
    found = costs_of(CostsSection(), Missing("ecr:DescribeImages is not allowed"), **volume)
    costs = {cost.what: cost for cost in found}
    assert costs["image in ECR"].quantity is None
    assert costs["image in ECR"].note == "ecr:DescribeImages is not allowed"
    assert "volume_gb" in (costs["disks"].note or "")
    assert costs["archives in S3"].quantity == 1e6
    blind = {cost.what: cost for cost in costs_of(CostsSection(), config=DENIED, alarms=DENIED)}
    assert (blind["disks"].note, blind["alarms"].note) == (DENIED.missing, DENIED.missing)


def test_without_instances_there_are_no_hours() -> None:
    """While an endpoint is created, and where nothing of autoscaling may be read."""
    creating = replace(REPORT, instances=InstancesPart(None, None), archives=DENIED)
    first, *rest = make_costs(creating, replace(PRESENT, scaling=DENIED), 1, CostsSection())
    assert (first.quantity, first.note) == (None, "there are no instances yet")
    assert {cost.what: cost.quantity for cost in rest} == {
        "disks": 0.0,
        "archives in S3": None,
        "image in ECR": 1.0,
        "alarms": 4.0,
    }
