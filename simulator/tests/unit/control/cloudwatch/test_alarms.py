"""Alarms: what PutMetricAlarm refuses, what is kept, and how they are decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.alarms import Alarms, AlarmWatch
from merlin_simulator.control.cloudwatch.store import MetricStore, make_metric
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import Records
from merlin_simulator.errors import PlatformFailed
from merlin_simulator.watch.events import Event, EventLog

#: A whole hour of 2026.
START = 1795572000.0
METRIC = make_metric("Shop", "Asked", {"Variant": "one"})
ALARM: dict[str, Any] = {
    "AlarmName": "busy",
    "Namespace": "Shop",
    "MetricName": "Asked",
    "Dimensions": [{"Name": "Variant", "Value": "one"}],
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 5.0,
    "ComparisonOperator": "GreaterThanThreshold",
}


class Time:
    """What the clock says, in seconds since START."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Set:
    """Alarms with their store and their watch."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.time = folder, Time()
        clock = Clock(wall=lambda: START, monotonic=self.time)
        self.log, self.store = EventLog(), MetricStore()
        self.told = list[Event]()
        self.log.listen(self.told.append)
        self.alarms = Alarms(Records(folder), clock, self.log)
        self.watch = AlarmWatch(self.alarms, self.store, clock)

    def put(self, **members: Any) -> dict[str, Any]:
        given = {key: value for key, value in {**ALARM, **members}.items() if value is not None}
        return self.alarms.put(given, "us-east-1")

    def publish(self, *values: float, variant: str = "one", name: str = "Asked") -> None:
        """One value in each minute from START on."""
        for minute, value in enumerate(values):
            metric = make_metric("Shop", name, {"Variant": variant})
            self.store.add(metric, value, START + 60 * minute)

    def decided(self, minute: int, name: str = "busy") -> str:
        self.time.seconds = 60.0 * minute + 1
        record = self.alarms.find(name)
        assert record is not None
        self.watch.decide(record, START + 60.0 * minute)
        return str(record["StateValue"])


@pytest.fixture
def kept(tmp_path: Path) -> Set:
    return Set(tmp_path / "alarms")


def test_the_states_of_an_alarm(kept: Set) -> None:
    record = kept.put()
    assert (record["StateValue"], record["StateReason"]) == (
        "INSUFFICIENT_DATA",
        "Unchecked: Initial alarm creation",
    )
    assert record["AlarmArn"] == "arn:aws:cloudwatch:us-east-1:123456789012:alarm:busy"
    kept.publish(9.0, 1.0)
    # The third period back is looked at for want of newer ones; then there is nothing.
    states = [kept.decided(minute) for minute in (1, 2, 3, 4, 5, 6)]
    assert states == ["ALARM", "OK", "OK", "OK", "INSUFFICIENT_DATA", "INSUFFICIENT_DATA"]
    assert [(event.kind, event.fields["state"], event.fields["before"]) for event in kept.told] == [
        ("alarm_state", "ALARM", "INSUFFICIENT_DATA"),
        ("alarm_state", "OK", "ALARM"),
        ("alarm_state", "INSUFFICIENT_DATA", "OK"),
    ]


def test_the_minute_that_runs_is_not_looked_at(kept: Set) -> None:
    kept.put()
    kept.publish(1.0, 99.0)
    assert kept.decided(1) == "OK"


def test_periods_of_several_minutes_end_with_the_last_whole_minute(kept: Set) -> None:
    kept.put(Period=300, Threshold=14.0)
    kept.publish(*[1.0] * 4, *[3.0] * 5)
    assert [kept.decided(minute) for minute in (5, 8, 9)] == ["OK", "OK", "ALARM"]


def test_percentiles_and_units(kept: Set) -> None:
    kept.put(Statistic=None, ExtendedStatistic="p90", Threshold=1.5)
    kept.put(AlarmName="unit", Unit="Seconds")
    for value in [1.0] * 8 + [2.0] * 2:
        kept.store.add(METRIC, value, START, "Count")
    assert kept.decided(1) == "ALARM"
    assert kept.decided(1, "unit") == "INSUFFICIENT_DATA"


def test_metric_math(kept: Set) -> None:
    def query(query_id: str, name: str) -> dict[str, Any]:
        dimensions = [{"Name": "Variant", "Value": "one"}]
        metric = {"Namespace": "Shop", "MetricName": name, "Dimensions": dimensions}
        asked = {"Metric": metric, "Period": 60, "Stat": "Sum"}
        return {"Id": query_id, "MetricStat": asked, "ReturnData": False}

    of_one = dict.fromkeys(("Namespace", "MetricName", "Dimensions", "Statistic", "Period"))
    share = {"Id": "share", "Expression": "FILL(failed, 0) / asked * 100"}
    kept.put(**of_one, Metrics=[query("asked", "Asked"), query("failed", "Failed"), share])
    kept.publish(100.0, 100.0)
    assert kept.decided(1) == "OK"
    kept.store.add(make_metric("Shop", "Failed", {"Variant": "one"}), 6.0, START + 60)
    assert kept.decided(2) == "ALARM"
    record = kept.alarms.find("busy")
    assert record is not None
    assert "[6.0 (" in record["StateReason"]
    assert json.loads(record["StateReasonData"])["period"] == 60


def test_an_expression_that_fails_is_the_reason(kept: Set) -> None:
    of_one = dict.fromkeys(("Namespace", "MetricName", "Dimensions", "Statistic", "Period"))
    kept.put(**of_one, Metrics=[{"Id": "e", "Expression": "SEARCH('x')"}])
    assert kept.decided(1) == "INSUFFICIENT_DATA"
    assert "SEARCH" in kept.alarms.values()[0]["StateReason"]


def test_a_changed_alarm_keeps_its_state_and_history(kept: Set) -> None:
    kept.put(Tags=[{"Key": "team", "Value": "shop"}])
    kept.publish(9.0)
    assert kept.decided(1) == "ALARM"
    record = kept.put(Threshold=50.0)
    assert (record["StateValue"], record["Threshold"]) == ("ALARM", 50.0)
    assert record["Tags"] == {"team": "shop"}
    assert [item["HistorySummary"] for item in record["History"]] == [
        'Alarm "busy" created',
        "Alarm updated from INSUFFICIENT_DATA to ALARM",
        'Alarm "busy" updated',
    ]
    data = json.loads(record["History"][1]["HistoryData"])
    assert data["newState"]["stateReasonData"]["recentDatapoints"] == [9.0]
    assert data["oldState"]["stateValue"] == "INSUFFICIENT_DATA"


def test_alarms_are_there_after_a_restart(kept: Set) -> None:
    """Whatever their names."""
    names = ["busy", "a/b: c", "ü" * 255]
    for name in names:
        kept.put(AlarmName=name)
    kept.publish(9.0)
    assert kept.decided(1) == "ALARM"
    again = Set(kept.folder).alarms
    assert sorted(record["AlarmName"] for record in again.values()) == sorted(names)
    found = again.find("busy")
    assert found is not None
    assert found["StateValue"] == "ALARM"
    for name in names:
        again.remove(name)
    assert Set(kept.folder).alarms.values() == ()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"EvaluationPeriods": None}, "EvaluationPeriods must be specified"),
        ({"Threshold": None}, "Threshold must be specified"),
        ({"Namespace": None}, "Namespace must be specified"),
        ({"Statistic": None}, "Exactly one of Statistic and ExtendedStatistic"),
        ({"ExtendedStatistic": "p99"}, "Exactly one of Statistic and ExtendedStatistic"),
        ({"Statistic": None, "ExtendedStatistic": "q9"}, "value q9 for parameter Stat"),
        ({"Period": 10}, "expected a multiple of 60"),
        ({"DatapointsToAlarm": 2}, "DatapointsToAlarm must be less than or equal"),
        ({"TreatMissingData": "no"}, "Unsupported value for TreatMissingData: no"),
        ({"EvaluationPeriods": 1441}, r"across more than 1 day.*<= 86400"),
        ({"ComparisonOperator": "LessThanLowerThreshold"}, "anomaly detection"),
        ({"ThresholdMetricId": "m"}, "does not play anomaly detection"),
        ({"Metrics": [{"Id": "m", "Expression": "1"}]}, "mutually exclusive"),
    ],
)
def test_alarms_that_are_refused(kept: Set, members: dict[str, Any], words: str) -> None:
    with pytest.raises(ServiceError, match=words):
        kept.put(**members)
    assert kept.alarms.values() == ()


def test_an_alarm_that_cannot_be_kept_is_none(tmp_path: Path) -> None:
    """As on a full disk: the call fails, and leaves nothing."""
    folder = tmp_path / "alarms"
    alarms = Alarms(Records(folder), Clock(), EventLog())
    folder.rmdir()
    with pytest.raises(PlatformFailed):
        alarms.put(ALARM, "us-east-1")
    assert alarms.values() == ()
