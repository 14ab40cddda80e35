"""AWS's notebooks about Triton's multi-model endpoints: their calls, in their order.

Of aws/amazon-sagemaker-examples, as it is at 2d519b52c; each test names its notebook. Nothing is
changed but the endpoint's URL: names, ARNs of images and instance types are theirs. What they do
without AWS (exports, tar, pictures) is left out, and containers are fake ones, which answer any
body. What the SageMaker SDK does in them is done by the calls that it makes; see test_aws_tools.py
for the SDK itself. Their pauses between two looks at an endpoint (30 and 60 s) are shorter.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from simulator.tests.support.control_plane import ControlPlane, control_plane
from simulator.tests.support.simulator import fake_model
from tests.support.container import CALL_TIMEOUT_S, until

REGION = "us-east-1"
IMAGE = f"785573368785.dkr.ecr.{REGION}.amazonaws.com/sagemaker-tritonserver:22.07-py3"
ROLE = "arn:aws:iam::123456789012:role/service-role/AmazonSageMaker-ExecutionRole-20221101T1"
BUCKET = f"sagemaker-{REGION}-123456789012"
BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size={}"
PAYLOAD = {"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1.0, 2.0]}]}


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With the default bucket, and AWS's bucket of examples, which the notebooks read."""
    with control_plane(tmp_path_factory.mktemp("notebooks") / "log") as running:
        s3, examples = running.client("s3"), f"sagemaker-example-files-prod-{REGION}"
        s3.create_bucket(Bucket=examples)
        s3.put_object(
            Bucket=examples, Key="datasets/image/pets/shiba_inu_dog.jpg", Body=b"a picture"
        )
        s3.create_bucket(Bucket=BUCKET)
        yield running


def _upload_data(aws: ControlPlane, path: Path, key_prefix: str) -> str:
    """Session.upload_data: a file into the default bucket; its URL."""
    aws.client("s3").upload_file(str(path), BUCKET, f"{key_prefix}/{path.name}")
    return f"s3://{BUCKET}/{key_prefix}/{path.name}"


def _create(
    aws: ControlPlane, name: str, instance_type: str, container: dict[str, Any]
) -> dict[str, Any]:
    """create_model, create_endpoint_config, create_endpoint, and looking until it is created."""
    sm_client = aws.client("sagemaker")
    model = sm_client.create_model(
        ModelName=f"{name}-mdl", ExecutionRoleArn=ROLE, PrimaryContainer=container
    )
    assert model["ModelArn"] == f"arn:aws:sagemaker:{REGION}:123456789012:model/{name}-mdl"
    config = sm_client.create_endpoint_config(
        EndpointConfigName=f"{name}-epc",
        ProductionVariants=[
            {
                "InstanceType": instance_type,
                "InitialVariantWeight": 1,
                "InitialInstanceCount": 1,
                "ModelName": f"{name}-mdl",
                "VariantName": "AllTraffic",
            }
        ],
    )
    assert config["EndpointConfigArn"].endswith(f":endpoint-config/{name}-epc")
    created = sm_client.create_endpoint(EndpointName=name, EndpointConfigName=f"{name}-epc")
    assert created["EndpointArn"].endswith(f":endpoint/{name}")
    resp = sm_client.describe_endpoint(EndpointName=name)
    end = time.monotonic() + CALL_TIMEOUT_S
    while resp["EndpointStatus"] == "Creating" and time.monotonic() < end:
        time.sleep(0.1)
        resp = sm_client.describe_endpoint(EndpointName=name)
    assert resp["EndpointStatus"] == "InService"
    assert resp["EndpointArn"] == created["EndpointArn"]
    return dict(resp)


def _invoke(aws: ControlPlane, name: str, target: str | None) -> Any:
    """With JSON that is called an octet stream, and with Triton's binary form: JSON's answer."""
    client = aws.client("sagemaker-runtime")
    named = {} if target is None else {"TargetModel": target}
    response = client.invoke_endpoint(
        EndpointName=name,
        ContentType="application/octet-stream",
        Body=json.dumps(PAYLOAD),
        **named,
    )
    answered = json.loads(response["Body"].read().decode("utf8"))
    assert json.loads(answered["echo"]) == PAYLOAD
    header = json.dumps(PAYLOAD).encode()
    response = client.invoke_endpoint(
        EndpointName=name,
        ContentType=BINARY.format(len(header)),
        Body=header + b"\x00\x01",
        **named,
    )
    echo = json.loads(response["Body"].read())["echo"]
    assert echo.encode("latin-1") == header + b"\x00\x01"
    return answered["answer"]


def _gone(aws: ControlPlane, name: str) -> None:
    """Nothing is left of it, once it is deleted."""
    sm_client = aws.client("sagemaker")
    until(lambda: name not in aws.endpoint_names(), "it is deleted")
    sm_client.get_waiter("endpoint_deleted").wait(EndpointName=name)
    with pytest.raises(ClientError, match="Could not find"):
        sm_client.describe_model(ModelName=f"{name}-mdl")
    with pytest.raises(ClientError, match="Could not find"):
        sm_client.describe_endpoint_config(EndpointConfigName=f"{name}-epc")


def test_resnet50_on_gpu(aws: ControlPlane, tmp_path: Path) -> None:
    """archived/mme-on-gpu/resnet50_mme_with_gpu: two forms of a model, and scaling by memory."""
    name, prefix = "resnet50-mme-gpu-ep", "resnet50-mme-gpu"
    for archive in ("resnet_pt_v0.tar.gz", "resnet_trt_v0.tar.gz"):
        _upload_data(aws, fake_model(tmp_path, archive), prefix)
    container = {
        "Image": IMAGE,
        "ModelDataUrl": f"s3://{BUCKET}/{prefix}/",
        "Mode": "MultiModel",
    }
    _create(aws, name, "ml.g4dn.4xlarge", container)
    scaling, resource = aws.client("application-autoscaling"), f"endpoint/{name}/variant/AllTraffic"
    named = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": resource,
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    scaling.register_scalable_target(**named, MinCapacity=1, MaxCapacity=5)
    scaling.put_scaling_policy(
        **named,
        PolicyName="GPUUtil-ScalingPolicy",
        PolicyType="TargetTrackingScaling",
        TargetTrackingScalingPolicyConfiguration={
            "TargetValue": 60.0,
            "CustomizedMetricSpecification": {
                "MetricName": "GPUUtilization",
                "Namespace": "/aws/sagemaker/Endpoints",
                "Dimensions": [
                    {"Name": "EndpointName", "Value": name},
                    {"Name": "VariantName", "Value": "AllTraffic"},
                ],
                "Statistic": "Average",
                "Unit": "Percent",
            },
            "ScaleInCooldown": 600,
            "ScaleOutCooldown": 200,
        },
    )
    aws.client("s3").download_file(
        f"sagemaker-example-files-prod-{REGION}",
        "datasets/image/pets/shiba_inu_dog.jpg",
        str(tmp_path / "shiba_inu_dog.jpg"),
    )
    for archive in ("resnet_trt_v0.tar.gz", "resnet_pt_v0.tar.gz"):
        assert _invoke(aws, name, archive) == archive
    sm_client = aws.client("sagemaker")
    sm_client.delete_model(ModelName=f"{name}-mdl")
    sm_client.delete_endpoint_config(EndpointConfigName=f"{name}-epc")
    sm_client.delete_endpoint(EndpointName=name)
    _gone(aws, name)


def test_bert_in_many_copies(aws: ControlPlane, tmp_path: Path) -> None:
    """deploy_and_monitor/sm-triton_mme_bert_trt: five targets in turns, deleted endpoint first."""
    name, prefix = "triton-nlp-bert-trt-mme-2024-01-01-00-00-00", "bert-mme"
    for number in range(6):
        _upload_data(aws, fake_model(tmp_path, f"bert-{number}.tar.gz"), prefix)
    container = {
        "Image": IMAGE,
        "ModelDataUrl": f"s3://{BUCKET}/{prefix}/",
        "Mode": "MultiModel",
    }
    _create(aws, name, "ml.g5.xlarge", container)
    for number in range(5):
        assert _invoke(aws, name, f"bert-{number}.tar.gz") == f"bert-{number}.tar.gz"
    sm = aws.client("sagemaker")
    sm.delete_endpoint(EndpointName=name)
    sm.delete_endpoint_config(EndpointConfigName=f"{name}-epc")
    sm.delete_model(ModelName=f"{name}-mdl")
    _gone(aws, name)


def test_trees_with_a_waiter(aws: ControlPlane, tmp_path: Path) -> None:
    """archived/xgboost_ensemble_python-fil-backend, whose waiter looks every 30 s, as it comes.

    It is asked for once the endpoint is in service, so that its first look is its last.
    """
    name, prefix = "triton-fil-mme-ensemble", "triton-fil-mme-ensemble"
    model_uri_cpu = _upload_data(aws, fake_model(tmp_path, "model-cpu.tar.gz"), prefix)
    model_location = model_uri_cpu.removesuffix("model-cpu.tar.gz")
    container = {
        "Image": IMAGE,
        "ModelDataUrl": model_location,
        "Mode": "MultiModel",
        "Environment": {},
    }
    _create(aws, name, "ml.g4dn.2xlarge", container)
    aws.client("sagemaker").get_waiter("endpoint_in_service").wait(EndpointName=name)
    assert _invoke(aws, name, "model-cpu.tar.gz") == "model-cpu.tar.gz"
    # A target that comes after the endpoint is asked as the others are.
    _upload_data(aws, fake_model(tmp_path, "model-gpu.tar.gz"), prefix)
    assert _invoke(aws, name, "model-gpu.tar.gz") == "model-gpu.tar.gz"


def test_copies_within_the_bucket(aws: ControlPlane, tmp_path: Path) -> None:
    """archived/triton-cv-mme-tensorflow-backend: one upload, and copies of it by S3."""
    name, s3_client = "triton-cv-mme-tf", aws.client("s3")
    archive = fake_model(tmp_path, "model0.tar.gz")
    s3_client.upload_file(Filename=str(archive), Bucket=BUCKET, Key="cv-mme/model0.tar.gz")
    for number in range(1, 4):
        s3_client.copy_object(
            CopySource={"Bucket": BUCKET, "Key": "cv-mme/model0.tar.gz"},
            Bucket=BUCKET,
            Key=f"cv-mme/model{number}.tar.gz",
        )
    container = {
        "Image": IMAGE,
        "ModelDataUrl": f"s3://{BUCKET}/cv-mme/",
        "Mode": "MultiModel",
    }
    _create(aws, name, "ml.g4dn.xlarge", container)
    for number in (0, 3):
        assert _invoke(aws, name, f"model{number}.tar.gz") == "model0.tar.gz"


def test_a_single_model_twice(aws: ControlPlane, tmp_path: Path) -> None:
    """archived/resnet50/triton_resnet50: a model, all of it deleted, and another one."""
    sm_client = aws.client("sagemaker")
    for form in ("pt", "trt"):
        model_uri = _upload_data(
            aws, fake_model(tmp_path, "model.tar.gz", answer=form), f"triton-serve-{form}"
        )
        container = {
            "Image": IMAGE,
            "ModelDataUrl": model_uri,
            "Environment": {"SAGEMAKER_TRITON_DEFAULT_MODEL_NAME": "resnet"},
        }
        _create(aws, f"triton-resnet-{form}", "ml.g4dn.4xlarge", container)
        assert _invoke(aws, f"triton-resnet-{form}", None) == form
        sm_client.delete_model(ModelName=f"triton-resnet-{form}-mdl")
        sm_client.delete_endpoint_config(EndpointConfigName=f"triton-resnet-{form}-epc")
        sm_client.delete_endpoint(EndpointName=f"triton-resnet-{form}")
        _gone(aws, f"triton-resnet-{form}")


def test_a_container_of_ones_own(aws: ControlPlane, tmp_path: Path) -> None:
    """deploy_and_monitor/sm-multi_model_endpoint_bring_your_own_container.

    Containers in the place of PrimaryContainer, a bucket that may be there or not, files from
    memory, and a target that is added while the endpoint is in service.
    """
    account = aws.client("sts").get_caller_identity()["Account"]
    bucket, prefix = f"sagemaker-own-{account}", "demo-multimodel-endpoint"
    s3, sm_client = aws.client("s3"), aws.client("sagemaker")
    with pytest.raises(ClientError) as raised:
        s3.head_bucket(Bucket=bucket)
    assert raised.value.response["Error"]["Code"] == "404"
    s3.create_bucket(Bucket=bucket)

    def upload(target: str) -> None:
        body = BytesIO(fake_model(tmp_path, target).read_bytes())
        s3.upload_fileobj(body, bucket, f"{prefix}/{target}")

    upload("resnet_18.tar.gz")
    container = {
        "Image": f"{account}.dkr.ecr.{REGION}.amazonaws.com/demo-sagemaker-multimodel:latest",
        "ModelDataUrl": f"https://s3-{REGION}.amazonaws.com/{bucket}/{prefix}/",
        "Mode": "MultiModel",
    }
    sm_client.create_model(ModelName="DEMO-own", ExecutionRoleArn=ROLE, Containers=[container])
    sm_client.create_endpoint_config(
        EndpointConfigName="DEMO-own",
        ProductionVariants=[
            {
                "InstanceType": "ml.m5.xlarge",
                "InitialInstanceCount": 2,
                "InitialVariantWeight": 1,
                "ModelName": "DEMO-own",
                "VariantName": "AllTraffic",
            }
        ],
    )
    sm_client.create_endpoint(EndpointName="DEMO-own", EndpointConfigName="DEMO-own")
    assert aws.settled("DEMO-own") == "InService"
    for target in ("resnet_18.tar.gz", "resnet_152.tar.gz"):
        upload(target)
        response = aws.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="DEMO-own",
            ContentType="application/x-image",
            TargetModel=target,
            Body=b"picture",
        )
        assert json.loads(response["Body"].read())["answer"] == target
    sm_client.delete_endpoint(EndpointName="DEMO-own")
    sm_client.delete_endpoint_config(EndpointConfigName="DEMO-own")
    sm_client.delete_model(ModelName="DEMO-own")
