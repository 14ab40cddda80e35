"""What other services tell has its place in the overview."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.overview import Described, Overview, Traffic
from merlin_simulator.control.sagemaker.deployment import Deployment, Played, Production
from merlin_simulator.hosting import Fleet, Machine, Variant
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import EventLog

COUNTS = "sagemaker:variant:DesiredInstanceCount"


@dataclass
class Listed:
    """Endpoints that a test has made."""

    endpoints: tuple[Played, ...] = ()

    def played(self) -> tuple[Played, ...]:
        return self.endpoints


class Scaling:
    """One variant scales; so does something else of it that is no number of instances."""

    def scaling_activities(self) -> list[Described]:
        """More than are told."""
        moment = datetime(2026, 1, 1, tzinfo=timezone.utc)
        return [{"ActivityId": str(number), "StartTime": moment} for number in range(60)]

    def scalable_targets(self) -> list[Described]:
        """Of the variant, and of another endpoint's."""
        return [
            {"ResourceId": f"endpoint/{name}", "ScalableDimension": dimension, "MaxCapacity": most}
            for name, dimension, most in (
                ("shop/variant/b", COUNTS, 4),
                ("shop/variant/b", "sagemaker:variant:DesiredProvisionedConcurrency", 9),
                ("other/variant/a", COUNTS, 5),
            )
        ]

    def scaling_policies(self) -> list[Described]:
        """Two of the variant's."""
        return [
            {"ResourceId": f"endpoint/{name}", "ScalableDimension": COUNTS, "PolicyName": policy}
            for name, policy in (("shop/variant/b", "one"), ("shop/variant/b", "two"))
        ]


class NoActivities:
    """Nothing scales."""

    def scaling_activities(self) -> tuple[Described, ...]:
        """None."""
        return ()

    def scalable_targets(self) -> tuple[Described, ...]:
        """None."""
        return ()

    def scaling_policies(self) -> tuple[Described, ...]:
        """None."""
        return ()


class NoAlarms:
    """Nothing is watched."""

    def metric_alarms(self) -> tuple[Described, ...]:
        """None."""
        return ()


class Watching:
    """One alarm."""

    def metric_alarms(self) -> list[Described]:
        """As DescribeAlarms has it."""
        return [{"AlarmName": "a", "StateValue": "OK"}]


def overview(*endpoints: Played, scaling: Any = None, alarms: Any = None) -> Overview:
    clock = Clock()
    return Overview(
        Listed(endpoints),
        clock,
        Traffic(clock),
        scaling or NoActivities(),
        alarms or NoAlarms(),
        "eu-west-1",
    )


async def endpoint_of_two_variants() -> Played:
    """Deployed, without instances."""
    log = EventLog()

    async def made(
        endpoint_name: str,
        variant: Mapping[str, Any],
        model: Mapping[str, Any],
        log: EventLog,
        numbers: itertools.count[int],
    ) -> Production:
        played = Variant(endpoint_name, True, "s3://m/", Rules(), log, variant["VariantName"])
        fleet = Fleet(played, never, iter(()), lambda _: None)
        return Production(fleet, variant["InitialVariantWeight"], variant, "image")

    variants = [
        {
            "VariantName": name,
            "ModelName": "m",
            "InstanceType": "ml.c5.large",
            "InitialInstanceCount": 0,
            "InitialVariantWeight": weight,
        }
        for name, weight in (("a", 1), ("b", 3))
    ]
    deployment = Deployment("shop", log, made)
    await deployment.deploy(variants, {"m": {}}, {})
    record = {"EndpointName": "shop", "EndpointStatus": "InService", "EndpointConfigName": "c"}
    return Played({**record, "CreationTime": 1.0, "LastModifiedTime": 2.0}, deployment)


def never(_: str, given_up: Callable[[], bool]) -> Machine:
    raise AssertionError("no instance is wanted")


async def test_what_scales_a_variant_stands_with_it() -> None:
    """Its scalable target and its policies; not those of other variants and dimensions."""
    played = await endpoint_of_two_variants()
    (endpoint,) = overview(played, scaling=Scaling()).as_json()["endpoints"]
    first, second = endpoint["variants"]
    assert (first["share"], second["share"]) == (0.25, 0.75)
    assert first["scaling"] is None
    assert second["scaling"]["target"]["MaxCapacity"] == 4
    assert [one["PolicyName"] for one in second["scaling"]["policies"]] == ["one", "two"]


def test_activities_and_alarms_are_as_their_services_have_them() -> None:
    """At most fifty activities; times are numbers."""
    told = overview(scaling=Scaling(), alarms=Watching()).as_json()
    assert [one["ActivityId"] for one in told["activities"]] == [str(n) for n in range(50)]
    assert told["activities"][0]["StartTime"] == 1767225600.0
    assert told["alarms"] == [{"AlarmName": "a", "StateValue": "OK"}]
    assert (told["endpoints"], told["region"]) == ([], "eu-west-1")
