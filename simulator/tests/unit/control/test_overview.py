"""The overview: what other services tell has its place, rates, and the course of an endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.alarms import Alarms
from merlin_simulator.control.overview import Overview, RequestRates
from merlin_simulator.control.records import Records
from merlin_simulator.control.sagemaker.deployment import (
    DeployedVariant,
    Deployment,
    ManagedEndpoint,
)
from merlin_simulator.hosting import Fleet, InstanceRunner, Variant
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import EventLog
from simulator.tests.unit.control.autoscaling.played_variant import (
    RESOURCE,
    START,
    SteppedAutoscaling,
)
from simulator.tests.unit.control.cloudwatch.test_alarms import ALARM


@dataclass
class Listed:
    """Endpoints that a test has made."""

    endpoints: tuple[ManagedEndpoint, ...] = ()

    def all(self) -> tuple[ManagedEndpoint, ...]:
        return self.endpoints


def overview(stepped: SteppedAutoscaling, *endpoints: ManagedEndpoint) -> Overview:
    """Of these endpoints, whose variants a test's own autoscaling scales."""
    alarms = Alarms(Records(stepped.state / "alarms"), stepped.clock, stepped.log)
    listed: Any = Listed(endpoints)
    scaling: Any = stepped
    return Overview(
        listed, stepped.clock, RequestRates(stepped.clock), scaling, alarms, "eu-west-1"
    )


async def endpoint_of_two_variants() -> ManagedEndpoint:
    """Deployed, without instances."""
    log = EventLog()

    async def made(
        endpoint_name: str,
        variant: Mapping[str, Any],
        model: Mapping[str, Any],
        log: EventLog,
        numbers: Iterator[int],
    ) -> DeployedVariant:
        hosted = Variant(endpoint_name, True, "s3://m/", Rules(), log, variant["VariantName"])
        fleet = Fleet(hosted, never, iter(()), lambda _: None)
        return DeployedVariant(fleet, variant["InitialVariantWeight"], variant, "image")

    variants = [
        {
            "VariantName": name,
            "ModelName": "m",
            "InstanceType": "ml.c5.large",
            "InitialInstanceCount": 0,
            "InitialVariantWeight": weight,
        }
        for name, weight in (("a", 1), ("all", 3))
    ]
    deployment = Deployment("shop", log, made)
    await deployment.deploy(variants, {"m": {}}, {})
    record = {"EndpointName": "shop", "EndpointStatus": "InService", "EndpointConfigName": "c"}
    return ManagedEndpoint({**record, "CreationTime": 1.0, "LastModifiedTime": 2.0}, deployment)


def never(_: str, given_up: Callable[[], bool]) -> InstanceRunner:
    raise AssertionError("no instance is wanted")


async def test_what_scales_a_variant_stands_with_it(tmp_path: Path) -> None:
    """Its scalable target and its policies; not those of other variants."""
    scaling, managed = SteppedAutoscaling(tmp_path), await endpoint_of_two_variants()
    await scaling.register(1, 4)
    await scaling.track()
    (endpoint,) = overview(scaling, managed).as_json()["endpoints"]
    first, second = endpoint["variants"]
    assert (first["share"], second["share"]) == (0.25, 0.75)
    assert first["scaling"] is None
    assert second["scaling"]["target"]["MaxCapacity"] == 4
    assert [policy["PolicyName"] for policy in second["scaling"]["policies"]] == ["p"]


def test_activities_and_alarms_are_as_their_services_have_them(tmp_path: Path) -> None:
    """At most fifty activities; times are numbers."""
    scaling = SteppedAutoscaling(tmp_path)
    for number in range(60):
        scaling.now += 1
        scaling.activities.begin(RESOURCE, str(number), "")
    whole = overview(scaling)
    whole.alarms.put(ALARM, "eu-west-1")
    told = whole.as_json()
    assert [it["Description"] for it in told["activities"]] == [str(n) for n in range(59, 9, -1)]
    assert told["activities"][0]["StartTime"] == START + 60
    assert [alarm["AlarmName"] for alarm in told["alarms"]] == ["busy"]
    assert (told["endpoints"], told["region"]) == ([], "eu-west-1")


@dataclass
class Time:
    """This machine's clocks, which a test moves."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def ask(
    traffic: RequestRates, name: str, count: int = 1, kind: str = "invoked", **fields: str
) -> None:
    for _ in range(count):
        traffic.hear(name, EventLog().tell(kind, "i", **fields))


@pytest.mark.parametrize(("scale", "window_s", "rate"), [(1, 60, 6), (6, 60, 6), (60, 600, 0.6)])
def test_rates_are_those_of_the_platforms_minute(
    scale: float, window_s: float, rate: float
) -> None:
    """Of its last minute, or of ten seconds of this machine where that is shorter."""
    time = Time()
    traffic = RequestRates(Clock(scale, time, time))
    ask(traffic, "shop", 4, variant="a")
    ask(traffic, "shop", 2, "invocation_failed", variant="b")
    ask(traffic, "shop", 3, "loaded")
    ask(traffic, "other", 7)
    rates = traffic.rates("shop")
    assert traffic.window_s == window_s
    assert rates.requests == pytest.approx(rate)
    assert rates.errors == pytest.approx(rate / 3)
    assert rates.by_variant == pytest.approx({"a": rate * 2 / 3, "b": rate / 3})
    assert (rates.all_requests, rates.all_errors) == (6, 2)
    time.now += window_s / scale
    later = traffic.rates("shop")
    assert (later.requests, later.errors, later.all_requests) == (0, 0, 6)


def test_a_course_has_what_was_asked_between_its_points() -> None:
    time = Time()
    traffic = RequestRates(Clock(10, time, time))
    points = []
    for count in (3, 0, 2):
        time.now += 2
        ask(traffic, "shop", count)
        ask(traffic, "shop", count and 1, "invocation_failed")
        traffic.sample("shop", count)
        points.append(1000 + (time.now - 1000) * 10)
    history = traffic.history("shop", 0)
    assert [sample[1:] for sample in history] == [(3, 4, 1), (0, 0, 0), (2, 3, 1)]
    assert [at for at, *_ in history] == pytest.approx(points)
    assert traffic.history("shop", history[0][0]) == history[1:]
    assert traffic.history("shop", history[-1][0]) == []


def test_a_course_is_bounded_and_forgotten() -> None:
    time = Time()
    traffic = RequestRates(Clock(1, time, time))
    for _ in range(1000):
        time.now += 2
        traffic.sample("shop", 1)
    assert len(traffic.history("shop", 0)) == 450
    traffic.forget("shop")
    assert traffic.history("shop", 0) == []
