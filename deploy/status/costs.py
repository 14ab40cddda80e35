"""What AWS bills an endpoint by, each with its quantity. No I/O, and no prices but the caller's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deploy.config.config import CostsSection
from deploy.status.report import Cost, Missing

_HOURS = 24


@dataclass(frozen=True)
class Quantities:
    """volume_gb: of one instance; None: SageMaker has chosen it. Missing: it could not be read."""

    instances: int | None
    most_instances: int | None
    instance_type: str | None
    volume_gb: int | Missing | None
    archive_bytes: int | Missing
    image_bytes: int | Missing
    alarms: int | Missing


def make_costs(quantities: Quantities, costs: CostsSection) -> tuple[Cost, ...]:
    """What is billed by the hour first: that is nearly all of it."""
    return tuple(_make_costs(quantities, costs))


def _make_costs(of: Quantities, costs: CostsSection) -> Iterator[Cost]:
    kind = of.instance_type or "instances"
    unit = "instance hours a day"
    if of.instances is None:
        yield Cost(kind, None, unit, note="there are no instances yet")
    else:
        yield _of_instances(f"{kind}, {of.instances} now", of.instances, unit, costs)
        if of.most_instances is not None and of.most_instances > of.instances:
            most = of.most_instances
            yield _of_instances(f"{kind}, {most} at most", most, unit, costs)
    yield _of_disks(of)
    yield _of_known("archives in S3", of.archive_bytes, "bytes")
    yield _of_known("image in ECR", of.image_bytes, "bytes")
    yield _of_known("alarms", of.alarms, "alarms")


def _of_instances(what: str, count: int, unit: str, costs: CostsSection) -> Cost:
    hours = float(_HOURS * count)
    if costs.instance_hour is None:
        return Cost(what, hours, unit)
    return Cost(what, hours, unit, round(hours * costs.instance_hour, 2), costs.currency)


def _of_disks(of: Quantities) -> Cost:
    what, unit = "disks", "GB"
    if isinstance(of.volume_gb, Missing):
        return Cost(what, None, unit, note=of.volume_gb.missing)
    if of.volume_gb is None:
        return Cost(what, None, unit, note="instances.volume_gb is unset: SageMaker's choice")
    return Cost(what, float(of.volume_gb * (of.instances or 0)), unit)


def _of_known(what: str, quantity: int | Missing, unit: str) -> Cost:
    if isinstance(quantity, Missing):
        return Cost(what, None, unit, note=quantity.missing)
    return Cost(what, float(quantity), unit)
