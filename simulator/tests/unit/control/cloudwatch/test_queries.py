"""MetricDataQueries, and the pages of their answers, by the calls themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.cloudwatch.metric_calls import MetricCalls
from merlin_simulator.control.cloudwatch.store import MetricStore, make_metric
from merlin_simulator.control.errors import ServiceError

#: A whole hour of 2026.
START = 1795572000.0
MINUTES = 10


def metric(query_id: str, name: str, stat: str = "Sum", **more: Any) -> dict[str, Any]:
    asked = {
        "Metric": {"Namespace": "Shop", "MetricName": name, "Dimensions": []},
        "Period": 60,
        "Stat": stat,
    }
    return {"Id": query_id, "MetricStat": asked, **more}


@pytest.fixture
def calls() -> MetricCalls:
    """Ten minutes of Asked (10, then 20 and so on), and of Failed (1 in every other one)."""
    store = MetricStore()
    for minute in range(MINUTES):
        at = START + 60 * minute
        store.add(make_metric("Shop", "Asked", {}), 10.0 * (minute + 1), at, "Count")
        if minute % 2 == 0:
            store.add(make_metric("Shop", "Failed", {}), 1.0, at, "Count")
    return MetricCalls(store, Clock(wall=lambda: START + 60 * MINUTES))


async def ask(calls: MetricCalls, *queries: Mapping[str, Any], **more: Any) -> Mapping[str, Any]:
    members = {"StartTime": START, "EndTime": START + 60 * MINUTES, "MetricDataQueries": queries}
    return await calls.data(Call("GetMetricData", {**members, **more}, "us-east-1"))


async def test_metrics_come_newest_first_unless_told_else(calls: MetricCalls) -> None:
    (result,) = (await ask(calls, metric("m", "Asked")))["MetricDataResults"]
    assert result["Values"] == [100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0]
    assert result["Timestamps"][-1] == START
    assert (result["Label"], result["StatusCode"]) == ("Asked", "Complete")
    answer = await ask(calls, metric("m", "Asked"), ScanBy="TimestampAscending")
    assert answer["MetricDataResults"][0]["Values"][:2] == [10.0, 20.0]


async def test_an_expression_reads_what_is_not_returned(calls: MetricCalls) -> None:
    """Also before what it reads, and by way of another expression."""
    answer = await ask(
        calls,
        {"Id": "share", "Expression": "filled / asked * 100", "Label": "Share of failures"},
        {"Id": "filled", "Expression": "FILL(failed, 0)", "ReturnData": False},
        metric("failed", "Failed", ReturnData=False),
        metric("asked", "Asked", ReturnData=False),
        ScanBy="TimestampAscending",
    )
    (result,) = answer["MetricDataResults"]
    assert result["Label"] == "Share of failures"
    assert result["Values"][:3] == [10.0, 0.0, pytest.approx(100 / 30)]


async def test_hundreds_of_expressions_read_one_another(calls: MetricCalls) -> None:
    """The last is asked for first."""
    chain = [
        {"Id": f"e{number}", "Expression": f"e{number - 1} + 1", "ReturnData": number == 400}
        for number in range(400, 0, -1)
    ]
    answer = await ask(calls, *chain, metric("e0", "Asked", ReturnData=False))
    assert answer["MetricDataResults"][0]["Values"][0] == 500.0


async def test_all_metrics_at_once(calls: MetricCalls) -> None:
    answer = await ask(
        calls,
        {"Id": "sum", "Expression": "SUM(METRICS())"},
        metric("asked", "Asked", ReturnData=False),
        metric("failed", "Failed", ReturnData=False),
        ScanBy="TimestampAscending",
    )
    assert answer["MetricDataResults"][0]["Values"][:3] == [11.0, 20.0, 31.0]


async def test_pages_hold_every_point_once(calls: MetricCalls) -> None:
    queries = (metric("asked", "Asked"), metric("failed", "Failed"), metric("none", "Nothing"))
    seen = dict[str, list[float]]()
    token: dict[str, str] = {}
    pages, partial = 0, 0
    while True:
        answer = await ask(calls, *queries, MaxDatapoints=4, **token)
        pages += 1
        assert sum(len(one["Values"]) for one in answer["MetricDataResults"]) <= 4
        for one in answer["MetricDataResults"]:
            seen.setdefault(one["Id"], []).extend(one["Values"])
            partial += one["StatusCode"] == "PartialData"
        if "NextToken" not in answer:
            break
        token = {"NextToken": answer["NextToken"]}
    assert seen == {
        "asked": [100.0, 90.0, 80.0, 70.0, 60.0, 50.0, 40.0, 30.0, 20.0, 10.0],
        "failed": [1.0] * 5,
        "none": [],
    }
    assert (pages, partial) == (4, 3)


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        ([metric("m", "Asked"), metric("m", "Failed")], "are not unique"),
        ([{"Id": "m"}], "either MetricStat or Expression"),
        ([metric("m", "Asked", "tm90")], "value tm90 for parameter Stat is not supported"),
        ([{"Id": "e", "Expression": "m9 * 2"}], "Error in expression 'e'"),
        ([{"Id": "e", "Expression": "f"}, {"Id": "f", "Expression": "e"}], "reads itself"),
        ([{"Id": "e", "Expression": "e + 1"}], "query e reads itself"),
        ([{"Id": "e", "Expression": "1", "Period": 30}], "expected a multiple of 60"),
    ],
)
async def test_queries_that_are_refused(
    calls: MetricCalls, queries: list[dict[str, Any]], words: str
) -> None:
    with pytest.raises(ServiceError, match=words):
        await ask(calls, *queries)


async def test_a_token_that_is_none(calls: MetricCalls) -> None:
    with pytest.raises(ServiceError) as raised:
        await ask(calls, metric("m", "Asked"), NextToken="x")
    assert raised.value.code == "InvalidNextToken"


async def test_a_unit_that_no_value_has(calls: MetricCalls) -> None:
    query = metric("m", "Asked")
    query["MetricStat"]["Unit"] = "Seconds"
    (result,) = (await ask(calls, query))["MetricDataResults"]
    assert result["Values"] == []


def put(datum: Mapping[str, Any], namespace: str = "Shop") -> Call:
    members = {"Namespace": namespace, "MetricData": [{"MetricName": "Put", **datum}]}
    return Call("PutMetricData", members, "us-east-1")


async def test_what_was_put_is_read(calls: MetricCalls) -> None:
    now = START + 60 * MINUTES
    await calls.put(put({"Values": [1.0, 3.0], "Counts": [2.0, 1.0], "Timestamp": now - 30}))
    statistics = {"SampleCount": 2.0, "Sum": 20.0, "Minimum": 5.0, "Maximum": 15.0}
    await calls.put(put({"StatisticValues": statistics, "Timestamp": now - 30, "Unit": "Count"}))
    asked = {
        "Namespace": "Shop",
        "MetricName": "Put",
        "StartTime": now - 60,
        "EndTime": now,
        "Period": 60,
        "Statistics": ["Sum", "SampleCount", "Maximum"],
        "ExtendedStatistics": ["p50"],
    }
    answer = await calls.statistics(Call("GetMetricStatistics", asked, "us-east-1"))
    (point,) = answer["Datapoints"]
    assert (point["Sum"], point["SampleCount"], point["Maximum"]) == (25.0, 5.0, 15.0)
    assert point["ExtendedStatistics"] == {"p50": 1.0}


@pytest.mark.parametrize(
    ("datum", "code"),
    [
        ({}, "MissingParameter"),
        ({"Value": float("nan")}, "InvalidParameterValue"),
        ({"Value": 1.0, "Values": [1.0]}, "InvalidParameterCombination"),
        ({"Values": [1.0], "Counts": [1.0, 2.0]}, "InvalidParameterValue"),
        ({"Value": 1.0, "Timestamp": START - 30 * 24 * 3600}, "InvalidParameterValue"),
    ],
)
async def test_data_that_are_refused(calls: MetricCalls, datum: dict[str, Any], code: str) -> None:
    with pytest.raises(ServiceError) as raised:
        await calls.put(put(datum))
    assert raised.value.code == code


async def test_nobody_writes_metrics_of_aws(calls: MetricCalls) -> None:
    with pytest.raises(ServiceError, match="begins with AWS/"):
        await calls.put(put({"Value": 1.0}, "AWS/SageMaker"))


async def test_too_many_points_at_once(calls: MetricCalls) -> None:
    asked = {
        "Namespace": "Shop",
        "MetricName": "Asked",
        "StartTime": START - 48 * 3600,
        "EndTime": START,
        "Period": 60,
        "Statistics": ["Sum"],
    }
    with pytest.raises(ServiceError, match=r"up to 2,880 datapoints, .* limit of 1,440"):
        await calls.statistics(Call("GetMetricStatistics", asked, "us-east-1"))


async def test_what_is_asked_of_all_times_is_answered_of_those_that_are_kept(
    calls: MetricCalls,
) -> None:
    filling = (
        {"Id": f"e{way.lower()}", "Expression": f"FILL(m, {way})"} for way in ("0", "REPEAT")
    )
    queries = [metric("m", "Asked", ReturnData=False), *filling]
    span = {"StartTime": 0.0, "EndTime": START * 2}
    zeros, repeated = (await ask(calls, *queries, **span))["MetricDataResults"]
    assert len(zeros["Values"]) <= (15 * 24 + 2) * 60 + 1
    assert (sum(zeros["Values"]), repeated["Values"][0]) == (550.0, 100.0)


async def test_too_many_points_are_counted_and_not_made(calls: MetricCalls) -> None:
    asked = {
        "Namespace": "Shop",
        "MetricName": "Asked",
        "StartTime": 0.0,
        "EndTime": 60.0 * 10**12,
        "Period": 60,
        "Statistics": ["Sum"],
    }
    with pytest.raises(ServiceError, match="up to 1,000,000,000,000 datapoints"):
        await calls.statistics(Call("GetMetricStatistics", asked, "us-east-1"))
