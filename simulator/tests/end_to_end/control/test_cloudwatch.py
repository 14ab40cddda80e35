"""CloudWatch as boto3 and the command line ask it, of endpoints that run; a minute is a second."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError

from simulator.tests.end_to_end.conftest import AWS, run_client
from simulator.tests.support.control_plane import ControlPlane, control_plane, make_variant
from simulator.tests.support.endpoint_traffic import traffic
from tests.support.container import until

URL = "s3://models/shop/"
#: The platform's time runs ahead of this machine's by a minute each second.
AHEAD = timedelta(hours=12)
INVOCATIONS, INSTANCES = "AWS/SageMaker", "/aws/sagemaker/Endpoints"
CONTAINERS = "/aws/sagemaker/Endpoints/Container"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With a.tar.gz, and bad.tar.gz that answers 500, below s3://models/shop/."""
    folder: Path = tmp_path_factory.mktemp("plane")
    with control_plane(folder / "log", "--time-scale", "60") as running:
        running.put_models(folder, "a.tar.gz")
        s3 = running.client("s3")
        s3.create_bucket(Bucket="bad")
        running.put_models(folder, "bad.tar.gz", bucket="bad", invoke_status=500)
        copied = {"Bucket": "bad", "Key": "shop/bad.tar.gz"}
        s3.copy_object(Bucket="models", Key="shop/bad.tar.gz", CopySource=copied)
        yield running


@pytest.fixture(scope="module")
def watched(plane: ControlPlane) -> str:
    """An endpoint of two instances that was asked 20 times, and of it 4 times in vain."""
    plane.create_endpoint("watched", URL, count=2)
    for _ in range(16):
        plane.invoke("watched", "a.tar.gz")
    for _ in range(4):
        with pytest.raises(ClientError, match="ModelError"):
            plane.invoke("watched", "bad.tar.gz")
    return "watched"


def of(endpoint: str, variant: str = "AllTraffic") -> list[dict[str, str]]:
    named = {"EndpointName": endpoint, "VariantName": variant}
    return [{"Name": name, "Value": value} for name, value in named.items()]


def day() -> dict[str, datetime]:
    now = datetime.now(timezone.utc)
    return {"StartTime": now - timedelta(hours=1), "EndTime": now + AHEAD}


def points(
    plane: ControlPlane, name: str, endpoint: str, *statistics: str, namespace: str = INVOCATIONS
) -> dict[str, Any]:
    """All of the day as one data point."""
    answer = plane.client("cloudwatch").get_metric_statistics(
        Namespace=namespace,
        MetricName=name,
        Dimensions=of(endpoint),
        Period=24 * 3600,
        Statistics=statistics,
        **{**day(), "StartTime": datetime.now(timezone.utc) - timedelta(hours=1)},
    )
    found: list[dict[str, Any]] = answer["Datapoints"]
    # A day that ends meanwhile is two of them.
    return {
        statistic: sum(point[statistic] for point in found) for statistic in statistics if found
    } | ({"Unit": found[0]["Unit"]} if found else {})


def alarm(
    plane: ControlPlane, name: str, threshold: float, endpoint: str, **more: Any
) -> Mapping[str, Any]:
    members = {
        "AlarmName": name,
        "Namespace": INVOCATIONS,
        "MetricName": "InvocationsPerInstance",
        "Dimensions": of(endpoint),
        "Statistic": "Sum",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": threshold,
        "ComparisonOperator": "GreaterThanThreshold",
        **more,
    }
    given = {key: value for key, value in members.items() if value is not None}
    answer: Mapping[str, Any] = plane.client("cloudwatch").put_metric_alarm(**given)
    return answer


def described(plane: ControlPlane, name: str) -> dict[str, Any]:
    (found,) = plane.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
    assert isinstance(found, dict)
    return found


def history(plane: ControlPlane, name: str) -> Sequence[str]:
    pages = plane.client("cloudwatch").get_paginator("describe_alarm_history")
    items = pages.paginate(
        AlarmName=name, HistoryItemType="StateUpdate", ScanBy="TimestampAscending"
    )
    return [item["HistorySummary"] for page in items for item in page["AlarmHistoryItems"]]


def test_what_an_endpoint_was_asked(plane: ControlPlane, watched: str) -> None:
    asked = points(plane, "Invocations", watched, "Sum", "SampleCount")
    assert (asked["Sum"], asked["SampleCount"], asked["Unit"]) == (20.0, 20.0, "None")
    assert points(plane, "InvocationsPerInstance", watched, "Sum")["Sum"] == pytest.approx(10.0)
    for name, total in [
        ("Invocation5XXErrors", 4.0),
        ("InvocationModelErrors", 4.0),
        ("Invocation4XXErrors", 0.0),
    ]:
        found = points(plane, name, watched, "Sum", "SampleCount")
        assert (found["Sum"], found["SampleCount"]) == (total, 20.0), name
    latency = points(plane, "ModelLatency", watched, "Sum", "SampleCount")
    assert (latency["SampleCount"], latency["Unit"]) == (16.0, "Microseconds")
    assert latency["Sum"] > 0
    hits = points(plane, "ModelCacheHit", watched, "Sum", "SampleCount")
    assert hits["Sum"] < hits["SampleCount"] == 20.0


def test_what_its_instances_use(plane: ControlPlane, watched: str) -> None:
    def memory() -> dict[str, Any]:
        return points(plane, "MemoryUtilization", watched, "Average", namespace=INSTANCES)

    def listed() -> set[str]:
        pages = plane.client("cloudwatch").get_paginator("list_metrics")
        found = pages.paginate(Namespace=INSTANCES, Dimensions=of(watched))
        return {metric["MetricName"] for page in found for metric in page["Metrics"]}

    names = {"CPUUtilization", "MemoryUtilization", "DiskUtilization", "LoadedModelCount"}
    until(lambda: listed() >= names, "all of it is published")
    assert memory()["Unit"] == "Percent"
    assert 0 < memory()["Average"] < 100


def test_metric_data_with_math(plane: ControlPlane, watched: str) -> None:
    def query(query_id: str, name: str, stat: str) -> dict[str, Any]:
        metric = {"Namespace": INVOCATIONS, "MetricName": name, "Dimensions": of(watched)}
        asked = {"Metric": metric, "Period": 60, "Stat": stat}
        return {"Id": query_id, "MetricStat": asked, "ReturnData": query_id != "asked"}

    pages = plane.client("cloudwatch").get_paginator("get_metric_data")
    found = pages.paginate(
        MetricDataQueries=[
            query("asked", "Invocations", "Sum"),
            query("failed", "Invocation5XXErrors", "Sum"),
            query("slowest", "ModelLatency", "p100"),
            query("longest", "ModelLatency", "Maximum"),
            {"Id": "share", "Expression": "failed / asked * 100"},
        ],
        ScanBy="TimestampAscending",
        **day(),
    ).build_full_result()
    values = {one["Id"]: one["Values"] for one in found["MetricDataResults"]}
    assert values.keys() == {"failed", "slowest", "longest", "share"}
    assert sum(values["failed"]) == 4.0
    assert values["slowest"] == values["longest"]
    assert len(values["share"]) == len(values["failed"])
    assert 0 < max(values["share"]) <= 100


def test_an_alarm_goes_off_and_comes_back(plane: ControlPlane) -> None:
    plane.create_endpoint("alarmed", URL)
    alarm(plane, "alarmed", 5, "alarmed", Tags=[{"Key": "team", "Value": "shop"}])
    until(lambda: described(plane, "alarmed")["StateValue"] == "OK", "it is OK without traffic")
    assert history(plane, "alarmed")[0] == "Alarm updated from INSUFFICIENT_DATA to OK"
    with traffic(plane, "alarmed"):
        went_off = "Alarm updated from OK to ALARM"
        until(lambda: went_off in history(plane, "alarmed"), "it went off")
    came_back = "Alarm updated from ALARM to OK"
    until(lambda: came_back in history(plane, "alarmed"), "it came back")
    items = plane.client("cloudwatch").describe_alarm_history(
        AlarmName="alarmed", HistoryItemType="StateUpdate", ScanBy="TimestampAscending"
    )["AlarmHistoryItems"]
    (item, *_) = (item for item in items if item["HistorySummary"] == went_off)
    states = json.loads(item["HistoryData"])["newState"]
    assert re.fullmatch(
        r"Threshold Crossed: 1 datapoint \[\d+\.0 \(\d\d/\d\d/\d\d \d\d:\d\d:00\)\] was greater "
        r"than the threshold \(5\.0\)\.",
        states["stateReason"],
    )
    assert states["stateReasonData"]["statistic"] == "Sum"
    arn = described(plane, "alarmed")["AlarmArn"]
    tags = plane.client("cloudwatch").list_tags_for_resource(ResourceARN=arn)["Tags"]
    assert tags == [{"Key": "team", "Value": "shop"}]
    log = plane.log_path.read_text()
    assert "alarm state alarmed ALARM Threshold Crossed" in log


def test_an_alarm_on_what_is_not_there(plane: ControlPlane) -> None:
    """As it is told to treat it; and a state that was set lasts until the next look."""
    cloudwatch = plane.client("cloudwatch")
    alarm(plane, "missing", 5, "nobody")
    alarm(plane, "breaching", 5, "nobody", TreatMissingData="breaching")
    until(lambda: described(plane, "breaching")["StateValue"] == "ALARM", "missing is breaching")
    assert described(plane, "missing")["StateValue"] == "INSUFFICIENT_DATA"
    assert described(plane, "breaching")["StateReason"] == (
        "Threshold Crossed: no datapoints were received for 1 period and 1 missing datapoint was "
        "treated as [Breaching]."
    )
    cloudwatch.set_alarm_state(AlarmName="breaching", StateValue="OK", StateReason="a drill")
    until(lambda: history(plane, "breaching")[-1] == "Alarm updated from OK to ALARM", "it is back")
    found = cloudwatch.describe_alarms_for_metric(
        MetricName="InvocationsPerInstance", Namespace=INVOCATIONS, Dimensions=of("nobody")
    )["MetricAlarms"]
    assert [one["AlarmName"] for one in found] == ["breaching", "missing"]
    cloudwatch.delete_alarms(AlarmNames=["breaching", "missing"])
    assert cloudwatch.describe_alarms(AlarmNames=["breaching", "missing"])["MetricAlarms"] == []


def test_what_is_put_is_there(plane: ControlPlane) -> None:
    """Also where boto3 packs the request, since it is long."""
    cloudwatch, now = plane.client("cloudwatch"), datetime.now(timezone.utc)
    cloudwatch.put_metric_data(
        Namespace="Shop",
        MetricData=[
            {"MetricName": f"Basket-{n % 10}-{'x' * 100}", "Value": 1.5, "Timestamp": now}
            for n in range(500)
        ],
    )
    listed = cloudwatch.list_metrics(Namespace="Shop")["Metrics"]
    assert len(listed) == 10
    (point,) = cloudwatch.get_metric_statistics(
        Namespace="Shop",
        MetricName=listed[0]["MetricName"],
        StartTime=now - timedelta(minutes=1),
        EndTime=now + timedelta(minutes=1),
        Period=60,
        Statistics=["Sum"],
    )["Datapoints"]
    assert point["Sum"] == 75.0


def test_what_a_container_publishes(plane: ControlPlane) -> None:
    """Where its definition says, as often as it says, and only what came since."""
    every = {"MetricsEndpointPath": "/server/metrics", "MetricPublishFrequencyInSeconds": 10}
    config = {"MetricsEndpoints": [every]}
    plane.create_endpoint("published", URL, ContainerMetricsConfig=config)
    cloudwatch = plane.client("cloudwatch")
    dimensions = [*of("published"), {"Name": "InstanceId", "Value": "AllTraffic-1"}]

    def read(name: str, *more: dict[str, str]) -> list[float]:
        answer = cloudwatch.get_metric_statistics(
            Namespace=CONTAINERS,
            MetricName=name,
            Dimensions=[*dimensions, *more],
            Period=3600,
            Statistics=["Sum", "Maximum"],
            **day(),
        )
        key = "Sum" if name.endswith("_total") else "Maximum"
        return [point[key] for point in answer["Datapoints"]]

    code = {"Name": "code", "Value": "200"}
    until(lambda: set(read("fake_invocations_total", code)) == {0.0}, "it was read twice")
    for _ in range(7):
        plane.invoke("published", "a.tar.gz")
    until(lambda: sum(read("fake_invocations_total", code)) == 7.0, "the seven are published")
    until(lambda: max(read("fake_models"), default=0) == 1.0, "and the model that is loaded")


def test_prometheus_reads_all_endpoints(plane: ControlPlane, watched: str) -> None:
    """Variants apart; an endpoint that was deleted is not there any more."""
    sagemaker = plane.client("sagemaker")
    plane.create_endpoint("gone", URL)
    variants = [make_variant("gone", VariantName=name) for name in ("one", "other")]
    sagemaker.create_endpoint_config(EndpointConfigName="pair", ProductionVariants=variants)
    sagemaker.create_endpoint(EndpointName="pair", EndpointConfigName="pair")
    assert plane.settled("pair") == "InService"
    plane.invoke("gone", "a.tar.gz")
    for variant in ("one", "other", "other"):
        plane.invoke("pair", "a.tar.gz", TargetVariant=variant)

    def scrape() -> dict[tuple[str, str], float]:
        with urllib.request.urlopen(f"{plane.url}/metrics") as answer:
            text = answer.read().decode()
        found = re.findall(
            r'^Invocations_total\{EndpointName="([^"]*)",InstanceName="[^"]*",'
            r'VariantName="([^"]*)"\} (\S+)$',
            text,
            re.MULTILINE,
        )
        sums = dict[tuple[str, str], float]()
        for endpoint, variant, value in found:
            sums[endpoint, variant] = sums.get((endpoint, variant), 0.0) + float(value)
        return sums

    seen = scrape()
    assert seen["pair", "one"] == 1.0
    assert seen["pair", "other"] == 2.0
    assert seen["gone", "AllTraffic"] == 1.0
    assert seen[watched, "AllTraffic"] == 20.0
    sagemaker.delete_endpoint(EndpointName="gone")
    until(lambda: ("gone", "AllTraffic") not in scrape(), "the deleted endpoint is not there")


@pytest.mark.parametrize(
    ("call", "members", "code"),
    [
        ("list_tags_for_resource", {"ResourceARN": "arn:no"}, "ResourceNotFoundException"),
        ("delete_alarms", {"AlarmNames": ["no"]}, "ResourceNotFound"),
        ("describe_alarms", {"NextToken": "no"}, "InvalidNextToken"),
        ("list_metrics", {"NextToken": "no"}, "InvalidNextToken"),
        ("describe_alarms", {"StateValue": "BAD"}, "ValidationError"),
        ("put_metric_alarm", {"AlarmName": "no"}, "ValidationError"),
        ("put_metric_data", {"Namespace": "AWS/X", "MetricData": []}, "InvalidParameterValue"),
        ("put_composite_alarm", {"AlarmName": "c", "AlarmRule": "x"}, "UnknownOperationException"),
    ],
)  # fmt: skip
def test_what_is_refused(
    plane: ControlPlane, call: str, members: Mapping[str, Any], code: str
) -> None:
    with pytest.raises(ClientError) as raised:
        getattr(plane.client("cloudwatch"), call)(**members)
    assert raised.value.response["Error"]["Code"] == code
    assert raised.value.response["ResponseMetadata"]["HTTPStatusCode"] == 400


def test_an_error_is_the_clients_exception(plane: ControlPlane) -> None:
    cloudwatch = plane.client("cloudwatch")
    with pytest.raises(cloudwatch.exceptions.ResourceNotFound, match="no alarm named 'no'"):
        cloudwatch.set_alarm_state(AlarmName="no", StateValue="OK", StateReason="")


def test_dashboards_are_motos(plane: ControlPlane) -> None:
    cloudwatch = plane.client("cloudwatch")
    cloudwatch.put_dashboard(DashboardName="shop", DashboardBody="{}")
    (entry,) = cloudwatch.list_dashboards()["DashboardEntries"]
    assert entry["DashboardName"] == "shop"


def test_the_command_line(
    plane: ControlPlane, watched: str, aws_environment: dict[str, str]
) -> None:
    environment = {**aws_environment, "AWS_ENDPOINT_URL": plane.url}
    query = ("--query", "length(Metrics)", "--output", "text")
    listing = (AWS, "cloudwatch", "list-metrics", "--metric-name", "Invocations", *query)
    dimensions = ("--dimensions", f"Name=EndpointName,Value={watched}")
    assert run_client(environment, *listing, *dimensions).stdout.strip() == "1"


def test_older_clients_speak_the_query_protocol(plane: ControlPlane, watched: str) -> None:
    """botocore's, told that the service knows no other."""
    session = botocore.session.Session()
    loader = session.get_component("data_loader")
    model = loader.load_service_model("cloudwatch", "service-2")
    model["metadata"]["protocols"], model["metadata"]["protocol"] = ["query"], "query"
    cloudwatch = session.create_client(
        "cloudwatch",
        endpoint_url=plane.url,
        region_name="us-east-1",
        aws_access_key_id="a",
        aws_secret_access_key="b",
    )
    stat = {
        "Metric": {
            "Namespace": INVOCATIONS,
            "MetricName": "Invocations",
            "Dimensions": of(watched),
        },
        "Period": 60,
        "Stat": "Sum",
    }
    (result,) = cloudwatch.get_metric_data(
        MetricDataQueries=[{"Id": "m", "MetricStat": stat}], **day()
    )["MetricDataResults"]
    assert sum(result["Values"]) == 20.0
    assert all(isinstance(at, datetime) for at in result["Timestamps"])
    with pytest.raises(cloudwatch.exceptions.ResourceNotFound, match="no alarm named '<no>'"):
        cloudwatch.set_alarm_state(AlarmName="<no>", StateValue="OK", StateReason="")


def test_alarms_survive_a_restart(tmp_path: Path) -> None:
    options = ("--state", str(tmp_path / "state"), "--time-scale", "60")
    with control_plane(tmp_path / "log", *options) as before:
        alarm(before, "kept", 5, "nobody", TreatMissingData="breaching")
        until(lambda: described(before, "kept")["StateValue"] == "ALARM", "it went off")
        alarm(before, "kept-too", 5, "nobody", TreatMissingData="ignore")
    with control_plane(tmp_path / "log", *options) as after:
        assert described(after, "kept")["StateValue"] == "ALARM"
        assert history(after, "kept") == ["Alarm updated from INSUFFICIENT_DATA to ALARM"]
        assert described(after, "kept-too")["StateReason"].startswith("Unchecked")
