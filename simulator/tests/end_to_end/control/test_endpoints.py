"""Endpoints as boto3 creates, updates, scales, invokes and deletes them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from simulator.tests.support.control_plane import ControlPlane, make_variant
from simulator.tests.support.simulator import fake_model
from tests.support.container import CALL_TIMEOUT_S, ROOT, until

URL = "s3://models/shop/"


def test_the_whole_life_of_an_endpoint(plane: ControlPlane) -> None:
    """As a notebook has it: model, configuration, endpoint, answers, scaling, and nothing left."""
    sagemaker = plane.client("sagemaker")
    plane.create_endpoint("life", URL)
    answer = plane.invoke("life", "a.tar.gz")
    assert b'"a.tar.gz"' in answer["Body"].read()
    assert answer["InvokedProductionVariant"] == "AllTraffic"
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName="life",
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 3}],
    )
    assert plane.settled("life") == "InService"
    (variant,) = plane.describe("life")["ProductionVariants"]
    assert (variant["CurrentInstanceCount"], variant["DesiredInstanceCount"]) == (3, 3)
    sagemaker.delete_endpoint(EndpointName="life")
    # Its waiter looks every 30 s.
    until(lambda: "life" not in plane.endpoint_names(), "it is deleted")
    sagemaker.get_waiter("endpoint_deleted").wait(EndpointName="life")
    sagemaker.delete_endpoint_config(EndpointConfigName="life")
    sagemaker.delete_model(ModelName="life")
    with pytest.raises(ClientError, match="Could not find model"):
        sagemaker.describe_model(ModelName="life")


def test_two_variants_share_the_traffic(plane: ControlPlane) -> None:
    plane.create_endpoint("first", URL)
    sagemaker = plane.client("sagemaker")
    sagemaker.create_endpoint_config(
        EndpointConfigName="both",
        ProductionVariants=[
            make_variant("first", VariantName="one", InitialVariantWeight=1),
            make_variant("first", VariantName="other", InitialVariantWeight=0),
        ],
    )
    sagemaker.create_endpoint(EndpointName="both", EndpointConfigName="both")
    assert plane.settled("both") == "InService"
    named = {
        plane.invoke("both", "a.tar.gz", **more)["InvokedProductionVariant"]
        for more in ({}, {"TargetVariant": "one"})
    }
    assert named == {"one"}
    answer = plane.invoke("both", "a.tar.gz", TargetVariant="other")
    assert answer["InvokedProductionVariant"] == "other"
    with pytest.raises(ClientError, match="Variant third does not exist"):
        plane.invoke("both", "a.tar.gz", TargetVariant="third")


def test_the_example_runs(plane: ControlPlane, tmp_path: Path) -> None:
    """Unchanged: nothing but AWS_ENDPOINT_URL says that it is not AWS."""
    (tmp_path / "request.json").write_text("{}")
    archive = fake_model(tmp_path, "a.tar.gz")
    said = subprocess.run(
        [sys.executable, "examples/endpoint.py", str(archive), str(tmp_path / "request.json")],
        cwd=ROOT,
        env={
            **os.environ,
            "AWS_ENDPOINT_URL": plane.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
        },
        capture_output=True,
        text=True,
        timeout=CALL_TIMEOUT_S,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    assert "instances: 2" in said.stdout
    assert said.stdout.endswith("deleted\n")


def test_calls_take_no_time(plane: ControlPlane) -> None:
    """50 ms at the most, in a calm moment: a machine that does other things takes more."""
    sagemaker = plane.client("sagemaker")
    plane.create_model("timed", URL)

    def timed() -> float:
        start = time.perf_counter()
        sagemaker.create_endpoint_config(
            EndpointConfigName="timed", ProductionVariants=[make_variant("timed")]
        )
        sagemaker.describe_endpoint_config(EndpointConfigName="timed")
        sagemaker.list_endpoints()
        sagemaker.delete_endpoint_config(EndpointConfigName="timed")
        return (time.perf_counter() - start) / 4

    assert any(timed() <= 0.05 for _ in range(200))
