"""`status`: what AWS has against what is desired, metrics, parts of the report, one screen."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from merlin_deploy.archives.aliases import Aliases
from merlin_deploy.archives.bucket import Stored
from merlin_deploy.config.reading import parse_config
from merlin_deploy.config.sections import CostsSection
from merlin_deploy.desired import Desired, Facts, make_desired
from merlin_deploy.status.collect import make_archives, make_costs
from merlin_deploy.status.compare import Present, Scaling, compare, find_changes
from merlin_deploy.status.metrics import Span, make_queries, read_answer
from merlin_deploy.status.report import (
    Activity,
    Alarm,
    Alias,
    ArchivesPart,
    Change,
    ConfigurationPart,
    Cost,
    EndpointPart,
    HistoryPart,
    InstancesPart,
    Missing,
    Report,
    TrafficPart,
    write_document,
    write_text,
)


@pytest.mark.parametrize(
    ("present", "wanted", "changes"),
    [
        ({"A": 1, "AddedByAws": 2}, {"A": 1}, []),
        ({"A": 1}, {"A": 2}, [("it A", "1", "2")]),
        ({}, {"A": 2}, [("it A", None, "2")]),
        ({"A": [{"B": 1, "C": 1}]}, {"A": [{"B": 2, "C": 1}]}, [("it A B", "1", "2")]),
        ({"A": [{"B": 1}] * 2}, {"A": [{"B": 1}, {"B": 2}]}, [("it A[1] B", "1", "2")]),
        ({"A": ["x"]}, {"A": ["x", "y"]}, [("it A", "x", "x, y")]),
        ({"A": ["x"]}, {"A": []}, [("it A", "x", "none")]),
        ({"ModelName": "shop-1"}, {"ModelName": "shop-2"}, []),
        ({"KmsKeyId": "k"}, {}, [("it KmsKeyId", "k", None)]),
        (None, {"A": 1}, [("it", None, "new")]),
        ({"A": 1}, None, [("it", "there", None)]),
        (None, None, []),
    ],
)
def test_changes(present: Any, wanted: Any, changes: list[tuple[str, str, str]]) -> None:
    """Each by its path; what AWS added itself is none, and names of content are none."""
    assert list(find_changes("it", present, wanted)) == [Change(*change) for change in changes]


def test_environment_is_named_and_not_shown() -> None:
    """Its values may be secrets."""
    present = {"Environment": {"GONE": "secret1", "SAME": "x", "OTHER": "secret2"}}
    wanted = {"Environment": {"NEW": "secret3", "SAME": "x", "OTHER": "secret4"}}
    result_found = list(find_changes("model", present, wanted))
    names = [change.what.rpartition(" ")[2] for change in result_found]
    assert names == ["GONE", "NEW", "OTHER"]
    assert "secret" not in str(result_found)
    (removed,) = find_changes("model", {"Environment": {"GONE": "secret"}}, {})
    assert (removed.what, removed.wanted) == ("model Environment GONE", None)


FILE = """
[endpoint]
name = "shop"
image = "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin:1"
archives = "s3://models/shop/"
role = "arn:aws:iam::123456789012:role/sagemaker"
[instances]
type = "ml.c5.xlarge"
count = 2
[container]
environment = { SERVE_LOG_FORMAT = "json" }
"""
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin@sha256:" + "ab" * 32


def test_what_up_has_made_is_what_is_wanted() -> None:
    """Nothing differs, and the image is told as SageMaker resolved it."""
    wanted = desire(FILE)
    part = compare(as_made(wanted), wanted, ())
    assert part == ConfigurationPart(
        wanted.config_name, wanted.config_name, True, (), (), IMAGE, "ml.c5.xlarge"
    )


def test_another_model_is_told_by_what_differs_in_it() -> None:
    """Not by names, which say their content; variables without their values."""
    wanted = desire(FILE.replace('"json"', '"text"').replace("c5", "m5"))
    part = compare(as_made(desire(FILE)), wanted, ())
    assert part.is_wanted is False
    assert [change.what for change in part.changes] == [
        "configuration ProductionVariants InstanceType",
        "model PrimaryContainer Environment SERVE_LOG_FORMAT",
    ]


def test_count_is_the_files_without_autoscaling() -> None:
    """Somebody has changed it by hand: `up` brings it back. Autoscaling's counts are its own."""
    wanted = desire(FILE)
    (change,) = compare(as_made(wanted, count=5), wanted, ()).changes
    assert (change.what, change.now, change.wanted) == ("instances", "5", "2")
    scaled = desire(FILE + "[autoscaling]\nmax = 8\ninvocations_per_instance = 300\n")
    assert compare(as_made(scaled, count=5), scaled, ()).changes == ()


def test_alarm_that_nobody_wants_goes() -> None:
    """And one that lacks comes; so do tags."""
    wanted = desire(FILE)
    present = as_made(wanted)
    assert not isinstance(present.alarms, Missing)
    others = [*present.alarms[1:], {"AlarmName": "shop/former"}]
    part = compare(replace(present, alarms=others, tags={}), wanted, ())
    assert {(change.what, change.now, change.wanted) for change in part.changes} == {
        ("tag deploy:endpoint", None, "shop"),
        (f"alarm {wanted.alarms[0]['AlarmName']}", None, "new"),
        ("alarm shop/former", "there", None),
    }


def test_what_may_not_be_read_is_noted() -> None:
    """It makes no change; where nothing is known of what is wanted, nothing is said of it."""
    wanted = desire(FILE)
    denied = Missing("it is not allowed")
    blind = Present(as_made(wanted).endpoint, denied, denied, denied, denied, denied)
    part = compare(blind, wanted, ("a note",))
    assert part.changes == ()
    assert part.notes[0] == "a note"
    assert len(part.notes) == 6
    assert compare(blind, None, ()).is_wanted is None


def desire(file: str) -> Desired:
    """What a CONFIG.toml asks for."""
    return make_desired(
        parse_config(file, "CONFIG.toml"), Facts(IMAGE, "s3://models/shop/archives/")
    )


def as_made(wanted: Desired, count: int = 2) -> Present:
    """As AWS describes what `up` has made, with members of its own."""
    variant: dict[str, Any] = {
        "DesiredInstanceCount": count,
        "DeployedImages": [{"SpecifiedImage": "merlin:1", "ResolvedImage": IMAGE}],
    }
    policies = [] if wanted.policy is None else [{**wanted.policy, "Alarms": []}]
    return Present(
        endpoint={"EndpointConfigName": wanted.config_name, "ProductionVariants": [variant]},
        config={**wanted.endpoint_config, "CreationTime": 1},
        model={**wanted.model, "CreationTime": 1},
        tags={tag["Key"]: tag["Value"] for tag in wanted.tags},
        scaling=Scaling(wanted.target, policies, ()),
        alarms=[{**alarm, "StateValue": "OK"} for alarm in wanted.alarms],
    )


MINUTE_OF_JUNE = datetime(2026, 6, 1, 12, 34, 56, tzinfo=timezone.utc)
HOUR = Span(MINUTE_OF_JUNE, 60)


def test_span_ends_with_the_minute_that_runs() -> None:
    """An hour has 60 minutes, the one that runs among them."""
    assert HOUR.end == MINUTE_OF_JUNE.replace(minute=35, second=0)
    assert HOUR.start == MINUTE_OF_JUNE.replace(hour=11, minute=35, second=0)


@pytest.mark.parametrize("minutes", [1, 7, 60, 1440])
def test_query_is_one_that_cloudwatch_takes(minutes: int) -> None:
    """botocore's validator finds nothing, and periods begin where CloudWatch cuts time."""
    span = Span(MINUTE_OF_JUNE, minutes)
    members = make_queries("shop", span)
    shape = botocore.session.get_session().get_service_model("cloudwatch")
    shape_of_input = shape.operation_model("GetMetricData").input_shape
    assert not ParamValidator().validate(members, shape_of_input).has_errors()
    longest = max(item["MetricStat"]["Period"] for item in members["MetricDataQueries"])
    assert members["StartTime"].timestamp() % longest == 0
    assert members["StartTime"] <= span.start


def test_answer_is_added_up() -> None:
    """Sums are of the span's minutes alone; ratios are of requests, not of minutes."""
    early, late = HOUR.start, HOUR.end - timedelta(minutes=2)
    before = early - timedelta(minutes=1)
    part = read_answer(
        [
            result("invocations", {before: 1000, early: 6, late: 4}),
            result("errors4xx", {late: 1}),
            result("hits", {early: 6, late: 1}),
            result("lookups", {early: 6, late: 4}),
            result("waits", {late: 6_000_000}),
            result("waiting", {late: 3}),
        ],
        HOUR,
    )
    assert (part.invocations, part.errors_4xx, part.errors_5xx) == (10, 1, 0)
    assert part.invocations_by_minute == (6, *[0] * 57, 4, 0)
    assert part.cache_hit_ratio == 0.7
    assert part.loading_wait_ms == 2000.0


def test_percentiles_are_those_of_periods() -> None:
    """The median of most requests, and the p99 of the worst period; in ms."""
    first, second, third = (HOUR.start + timedelta(minutes=minutes) for minutes in (0, 5, 10))
    part = read_answer(
        [
            result("p50", {first: 90_000, second: 5_000, third: 1_000}),
            result("p99", {first: 95_000, second: 9_000, third: 2_000}),
            result("answers", {first: 2, second: 100, third: 20}),
        ],
        HOUR,
    )
    assert part.latency_period_minutes == 5
    assert (part.latency_p50_ms, part.latency_p99_ms) == (5.0, 95.0)


def test_minute_that_runs_is_not_yet_counted() -> None:
    """Of it some instances may not have told how many models they have; an only one is taken."""
    running = HOUR.end - timedelta(minutes=1)
    whole = running - timedelta(minutes=1)
    both = read_answer([result("loaded", {whole: 40, running: 20})], HOUR)
    item = read_answer([result("loaded", {running: 20})], HOUR)
    assert (both.loaded_models, item.loaded_models) == (40, 20)


def test_nothing_is_known_of_nobody() -> None:
    """No requests: no ratio, no latency, no wait."""
    part = read_answer([], HOUR)
    assert part.invocations == 0
    unknown = (part.cache_hit_ratio, part.latency_p50_ms, part.latency_p99_ms, part.loaded_models)
    assert unknown == (None,) * 4


def result(name: str, values: dict[datetime, float]) -> dict[str, Any]:
    """One of MetricDataResults."""
    return {"Id": name, "Timestamps": list(values), "Values": list(values.values())}


NEW_YEAR = datetime(2026, 1, 2, tzinfo=timezone.utc)


def test_former_archives_are_not_without_an_alias() -> None:
    """Each archive counts once: current, former, or of no name; one that is another name's current
    one is not former."""
    named = Aliases({"a": ("a/3", "a/2", "b/1", "gone"), "b": ("b/1",), "c": ("c/1",)})
    stored = {target: Stored(target, 10, NEW_YEAR) for target in ("a/1", "a/2", "a/3", "b/1")}
    result_found = make_archives(named, stored)
    assert (result_found.count, result_found.bytes) == (4, 40)
    assert (result_found.former, result_found.without_alias) == (1, 1)
    assert result_found.aliases == (
        Alias("a", "a/3", True),
        Alias("b", "b/1", True),
        Alias("c", "c/1", False),
    )


DENIED = Missing("it is not allowed")
EMPTY_REPORT = Report(
    at=NEW_YEAR,
    endpoint=EndpointPart("shop", "us-east-1", "InService", NEW_YEAR),
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
    return list(make_costs(EMPTY_REPORT, replace(PRESENT, **parts), image, costs))


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
    result_found = costs_of(CostsSection(), Missing("ecr:DescribeImages is not allowed"), **volume)
    costs = {cost.what: cost for cost in result_found}
    assert costs["image in ECR"].quantity is None
    assert costs["image in ECR"].note == "ecr:DescribeImages is not allowed"
    assert "volume_gb" in (costs["disks"].note or "")
    assert costs["archives in S3"].quantity == 1e6
    blind = {cost.what: cost for cost in costs_of(CostsSection(), config=DENIED, alarms=DENIED)}
    assert (blind["disks"].note, blind["alarms"].note) == (DENIED.missing, DENIED.missing)


def test_without_instances_there_are_no_hours() -> None:
    """While an endpoint is created, and where nothing of autoscaling may be read."""
    creating = replace(EMPTY_REPORT, instances=InstancesPart(None, None), archives=DENIED)
    first, *rest = make_costs(creating, replace(PRESENT, scaling=DENIED), 1, CostsSection())
    assert (first.quantity, first.note) == (None, "there are no instances yet")
    assert {cost.what: cost.quantity for cost in rest} == {
        "disks": 0.0,
        "archives in S3": None,
        "image in ECR": 1.0,
        "alarms": 4.0,
    }


NOON = datetime(2026, 6, 1, 12, 30, tzinfo=timezone.utc)
THEN = NOON - timedelta(hours=2)
REPORT = Report(
    at=NOON,
    endpoint=EndpointPart("shop", "us-east-1", "InService", THEN, made_by_up=True),
    configuration=ConfigurationPart(
        name="shop-11111111",
        wanted_name="shop-22222222",
        is_wanted=False,
        changes=(Change("configuration InstanceType", "ml.c5.large", "ml.c5.xlarge"),),
        notes=(),
        image="123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin@sha256:abc",
        instance_type="ml.c5.large",
    ),
    instances=InstancesPart(
        2,
        3,
        1,
        4,
        (Activity(THEN, "Successful", "Setting desired instance count to 3.", "an alarm", None),),
    ),
    traffic=TrafficPart(
        minutes=3,
        start=THEN,
        invocations=1234,
        invocations_by_minute=(0, 1000, 234),
        errors_4xx=2,
        errors_5xx=1,
        cache_hit_ratio=0.98765,
        loaded_models=41,
        loaded_models_per_instance=20.5,
        latency_p50_ms=4.2,
        latency_p99_ms=1500.0,
        latency_period_minutes=1,
        loading_wait_ms=2600.0,
    ),
    alarms=(
        Alarm("shop/errors-5xx", "ALARM", "Threshold Crossed", THEN),
        Alarm("shop/model-cache-hit", "OK", "", THEN),
    ),
    archives=ArchivesPart(4, 8_800_000, 2, 1, (Alias("shop-a", "shop-a/01.tar.gz", False),)),
    history=HistoryPart(("11111111", "33333333"), "11111111", "33333333"),
    costs=(Cost("ml.c5.large, 2 now", 48.0, "instance hours a day", 4.9, "USD"),),
)


def test_screen_has_every_part() -> None:
    """What is known of each, in words."""
    text = write_text(REPORT, columns=None, pictures=True)
    for sentence in (
        "shop in us-east-1: InService since 2026-06-01 10:30 UTC (2 h ago)",
        "shop-11111111; `up` would change 1 thing:",
        "configuration InstanceType: ml.c5.large → ml.c5.xlarge",
        "2 now, 3 wanted, 1 to 4 by autoscaling",
        "Successful: Setting desired instance count to 3. an alarm.",
        "1,234 invocations in 3 minutes, 2 of 4xx, 1 of 5xx",
        "▁█▃ at most 1,000 a minute",
        "4.2 ms (p50), 1.5 s (p99 of the worst 1 minute)",
        "41 models loaded, 20.5 each",
        "hit ratio 98.8%, others waited 2.6 s on average",
        "ALARM shop/errors-5xx (2 h ago): Threshold Crossed.",
        "OK: model-cache-hit",
        "4 archives, 8.8 MB, 2 former, 1 without an alias",
        "shop-a → shop-a/01.tar.gz, which is not there",
        "`rollback` goes to shop-33333333",
        "48 instance hours a day = 4.90 USD a day",
    ):
        assert sentence in text, text


def test_screen_is_as_wide_as_the_terminal() -> None:
    """Words are kept whole; a sparkline is drawn where it can be seen."""
    text = write_text(REPORT, columns=60, pictures=False)
    assert max(len(line) for line in text.splitlines() if "@sha256" not in line) <= 60
    assert "█" not in text


def test_part_that_may_not_be_read_says_so() -> None:
    """And every other one is shown."""
    missing = Missing("cloudwatch:DescribeAlarms is not allowed in us-east-1")
    report = replace(REPORT, alarms=missing, traffic=missing, archives=missing, history=missing)
    text = write_text(report, columns=None, pictures=True)
    assert text.count(missing.missing) == 4
    assert "InService" in text
    assert json.loads(write_document(report, indent=None))["alarms"] == {"missing": missing.missing}


def test_document_is_plain_json() -> None:
    """With times in ISO 8601, and units in the names."""
    document = json.loads(write_document(REPORT, indent=2))
    assert document["version"] == 1
    assert document["at"] == "2026-06-01T12:30:00+00:00"
    assert document["traffic"]["latency_p50_ms"] == 4.2
    assert document["configuration"]["changes"][0]["wanted"] == "ml.c5.xlarge"
