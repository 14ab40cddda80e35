"""Endpoints as boto3 creates, updates, scales, invokes and deletes them."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from tests.support.control_plane import ControlPlane, make_variant

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
    sagemaker.get_waiter("endpoint_deleted").wait(
        EndpointName="life", WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )
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
