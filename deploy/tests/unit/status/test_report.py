"""A report as one screen."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone

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

NOW = datetime(2026, 6, 1, 12, 30, tzinfo=timezone.utc)
THEN = NOW - timedelta(hours=2)
REPORT = Report(
    at=NOW,
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
    for words in (
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
        assert words in text, text


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
