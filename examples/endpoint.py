"""From an archive to an endpoint and back, with boto3, as on AWS.

With AWS_ENDPOINT_URL set to `python -m simulator serve` it runs on this machine; without, on AWS
(with ROLE, IMAGE and BUCKET of your account in the environment). Nothing is left behind.

    python examples/endpoint.py dense.tar.gz request.json
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import boto3

ROLE = os.environ.get("ROLE", "arn:aws:iam::123456789012:role/sagemaker")
IMAGE = os.environ.get(
    "IMAGE", "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin-sagemaker:latest"
)
BUCKET = os.environ.get("BUCKET", "recommenders-123456789012")
NAME = "shop"


def main(archive: Path, request: Path) -> None:
    """Create, invoke, scale, delete."""
    sagemaker, runtime = boto3.client("sagemaker"), boto3.client("sagemaker-runtime")
    put(archive)
    sagemaker.create_model(
        ModelName=NAME,
        ExecutionRoleArn=ROLE,
        PrimaryContainer={
            "Image": IMAGE,
            "Mode": "MultiModel",
            "ModelDataUrl": f"s3://{BUCKET}/shop/",
        },
    )
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
    start = time.perf_counter()
    answer = runtime.invoke_endpoint(
        EndpointName=NAME,
        TargetModel=archive.name,
        ContentType="application/json",
        Body=request.read_bytes(),
    )
    print(f"{archive.name}: {answer['Body'].read(120)!r} in {time.perf_counter() - start:.3f} s")
    sagemaker.update_endpoint_weights_and_capacities(
        EndpointName=NAME,
        DesiredWeightsAndCapacities=[{"VariantName": "AllTraffic", "DesiredInstanceCount": 2}],
    )
    wait(sagemaker, "endpoint_in_service")
    (variant,) = sagemaker.describe_endpoint(EndpointName=NAME)["ProductionVariants"]
    print(f"instances: {variant['CurrentInstanceCount']}")
    sagemaker.delete_endpoint(EndpointName=NAME)
    wait(sagemaker, "endpoint_deleted")
    sagemaker.delete_endpoint_config(EndpointConfigName=NAME)
    sagemaker.delete_model(ModelName=NAME)
    print("deleted")


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
    if len(sys.argv) != 3:
        sys.exit("expected an archive and a request: python examples/endpoint.py ARCHIVE REQUEST")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
