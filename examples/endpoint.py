"""From an archive to an endpoint and back, with boto3, as on AWS.

With AWS_ENDPOINT_URL set to `python -m simulator serve` it runs on this machine; without, on AWS
(with ROLE, IMAGE and BUCKET of your account in the environment). Nothing is left behind, but for
the endpoint with --keep, and the bucket.

    python examples/endpoint.py dense.tar.gz request.json
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import boto3
from boto3.exceptions import Boto3Error
from botocore.exceptions import BotoCoreError, ClientError

ROLE = os.environ.get("ROLE", "arn:aws:iam::123456789012:role/sagemaker")
IMAGE = os.environ.get(
    "IMAGE", "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin-sagemaker:latest"
)
BUCKET = os.environ.get("BUCKET", "recommenders-123456789012")
NAME = "shop"


def main(archive: Path, request: Path, *, single_model: bool, keep: bool) -> None:
    """Create, invoke, and unless it is to be kept scale and delete."""
    sagemaker = boto3.client("sagemaker")
    put(archive)
    create(sagemaker, archive, single_model)
    invoke(archive, request, single_model)
    if keep:
        print(f"endpoint {NAME} is in service")
        return
    scale(sagemaker)
    delete(sagemaker)
    print("deleted")


def create(sagemaker: Any, archive: Path, single_model: bool) -> None:
    """A model, an endpoint configuration and an endpoint, which is in service then."""
    container: dict[str, Any] = {"Image": IMAGE, "ModelDataUrl": f"s3://{BUCKET}/shop/"}
    if single_model:
        container["ModelDataUrl"] += archive.name
        # A Merlin export has several models: this one is asked.
        container["Environment"] = {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "executor_model"}
    else:
        container["Mode"] = "MultiModel"
    sagemaker.create_model(ModelName=NAME, ExecutionRoleArn=ROLE, PrimaryContainer=container)
    sagemaker.create_endpoint_config(
        EndpointConfigName=NAME,
        ProductionVariants=[
            {
                "VariantName": "AllTraffic",
                "ModelName": NAME,
                "InstanceType": "ml.c5.xlarge",
                "InitialInstanceCount": 1,
            }
        ],
    )
    sagemaker.create_endpoint(EndpointName=NAME, EndpointConfigName=NAME)
    wait(sagemaker, "endpoint_in_service")


def invoke(archive: Path, request: Path, single_model: bool) -> None:
    """One request, and how long it took."""
    start = time.perf_counter()
    answer = boto3.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=NAME,
        ContentType="application/json",
        Body=request.read_bytes(),
        **({} if single_model else {"TargetModel": archive.name}),
    )
    print(f"{archive.name}: {answer['Body'].read(120)!r} in {time.perf_counter() - start:.3f} s")


def scale(sagemaker: Any) -> None:
    """To two instances."""
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName=NAME,
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 2}],
    )
    wait(sagemaker, "endpoint_in_service")
    (variant,) = sagemaker.describe_endpoint(EndpointName=NAME)["ProductionVariants"]
    print(f"instances: {variant['CurrentInstanceCount']}")


def delete(sagemaker: Any) -> None:
    """The endpoint, its configuration and its model."""
    sagemaker.delete_endpoint(EndpointName=NAME)
    wait(sagemaker, "endpoint_deleted")
    sagemaker.delete_endpoint_config(EndpointConfigName=NAME)
    sagemaker.delete_model(ModelName=NAME)


def put(archive: Path) -> None:
    """The archive, in a bucket that is made where it lacks."""
    s3 = boto3.client("s3")
    if BUCKET not in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]:
        s3.create_bucket(Bucket=BUCKET)
    s3.upload_file(str(archive), BUCKET, f"shop/{archive.name}")


def wait(sagemaker: Any, what: str) -> None:
    """Look every second; on AWS an endpoint takes minutes."""
    every = {"Delay": 1, "MaxAttempts": 1800}
    sagemaker.get_waiter(what).wait(EndpointName=NAME, WaiterConfig=every)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="From an archive to an endpoint and back.")
    parser.add_argument("archive", type=Path, help="a .tar.gz, as ensemble_tools packs it")
    parser.add_argument("request", type=Path, help="a request's body, JSON")
    parser.add_argument("--single-model", action="store_true", help="an endpoint of this model")
    parser.add_argument("--keep", action="store_true", help="leave the endpoint in service")
    options = parser.parse_args()
    try:
        main(options.archive, options.request, single_model=options.single_model, keep=options.keep)
    except (Boto3Error, BotoCoreError, ClientError, OSError, ValueError) as error:
        raise SystemExit(
            f"{error}; expected AWS, or `python -m simulator serve` at AWS_ENDPOINT_URL"
        ) from error
