"""The AWS command line and the SageMaker SDK on the control plane, as they come.

Their own waits look every 30 s: those of the command line are begun once what they wait for is so,
and the SDK's are made short from outside.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.tests.end_to_end.conftest import AWS, AWS_PYTHON, run_client
from simulator.tests.support.control_plane import IMAGE, ROLE, ControlPlane
from simulator.tests.support.simulator import fake_model


@pytest.fixture
def environment(plane: ControlPlane, aws_environment: dict[str, str]) -> dict[str, str]:
    """What a user exports, and nothing of this run's."""
    return {**aws_environment, "AWS_ENDPOINT_URL": plane.url}


def test_the_command_line_from_upload_to_deletion(
    plane: ControlPlane, environment: dict[str, str], tmp_path: Path
) -> None:
    """s3 sync, create-model, create-endpoint, wait, invoke-endpoint, delete: all of them `aws`."""

    def aws(*arguments: str | Path) -> str:
        return run_client(environment, AWS, *arguments).stdout

    folder = tmp_path / "archives"
    fake_model(folder, "a.tar.gz")
    fake_model(folder, "b.tar.gz")
    aws("s3", "mb", "s3://by-command")
    aws("s3", "sync", folder, "s3://by-command/shop", "--no-progress")
    listed = aws("s3", "ls", "s3://by-command/shop/")
    assert [line.split()[-1] for line in listed.splitlines()] == ["a.tar.gz", "b.tar.gz"]
    container = {
        "Image": IMAGE,
        "Mode": "MultiModel",
        "ModelDataUrl": "s3://by-command/shop/",
    }
    named = ("--model-name", "command")
    created = aws(
        *("sagemaker", "create-model", *named, "--execution-role-arn", ROLE),
        *("--primary-container", json.dumps(container)),
    )
    assert json.loads(created)["ModelArn"].endswith(":model/command")
    config = ("--endpoint-config-name", "command")
    variant = "VariantName=AllTraffic,ModelName=command,InitialInstanceCount=1"
    aws(
        *("sagemaker", "create-endpoint-config", *config),
        *("--production-variants", f"{variant},InstanceType=ml.c5.xlarge"),
    )
    endpoint = ("--endpoint-name", "command")
    aws("sagemaker", "create-endpoint", *endpoint, *config)
    assert plane.settled("command") == "InService"
    aws("sagemaker", "wait", "endpoint-in-service", *endpoint)
    answer = tmp_path / "answer.json"
    aws(
        *("sagemaker-runtime", "invoke-endpoint", *endpoint, "--target-model", "b.tar.gz"),
        *("--body", "{}", "--content-type", "application/json", answer),
    )
    assert json.loads(answer.read_text())["answer"] == "b.tar.gz"
    aws("sagemaker", "delete-endpoint", *endpoint)
    aws("sagemaker", "delete-endpoint-config", *config)
    aws("sagemaker", "delete-model", *named)
    assert json.loads(aws("sagemaker", "list-models", "--name-contains", "command")) == {
        "Models": []
    }


#: The SDK asks STS at AWS's own address, whatever AWS_ENDPOINT_URL says; the first two lines lead
#: it here. A role and a bucket that are given by name make it ask nothing.
_SDK = """
import os, sagemaker.session
sagemaker.session.sts_regional_endpoint = lambda region: os.environ["AWS_ENDPOINT_URL"]
import time
pause = time.sleep
time.sleep = lambda seconds: pause(min(seconds, 0.1))

import json, sys
import boto3
from sagemaker import Session, get_execution_role
from sagemaker.deserializers import JSONDeserializer
from sagemaker.model import Model
from sagemaker.multidatamodel import MultiDataModel
from sagemaker.predictor import Predictor
from sagemaker.serializers import JSONSerializer

image, archive = sys.argv[1:]
session = Session()
role, bucket, said = get_execution_role(), session.default_bucket(), {}
said["role"], said["bucket"] = role, bucket
form = {"serializer": JSONSerializer(), "deserializer": JSONDeserializer()}

uploaded = session.upload_data(archive, key_prefix="singles")
many = MultiDataModel(
    name="sdk-many",
    model_data_prefix=f"s3://{bucket}/many/",
    image_uri=image,
    role=role,
    sagemaker_session=session,
    predictor_cls=Predictor,
)
many.add_model(model_data_source=archive, model_data_path="local.tar.gz")
predictor = many.deploy(1, "ml.c5.xlarge", endpoint_name="sdk-many", **form)
many.add_model(model_data_source=uploaded, model_data_path="copied.tar.gz")
said["models"] = sorted(many.list_models())
said["answers"] = [
    predictor.predict({"a": 1}, target_model=name)["echo"]
    for name in ("local.tar.gz", "copied.tar.gz")
]

single = Model(
    image, uploaded, role=role, name="sdk-one", sagemaker_session=session, predictor_cls=Predictor
)
asked = single.deploy(1, "ml.c5.xlarge", endpoint_name="sdk-one", **form)
said["single"] = Predictor("sdk-one", session, **form).predict([1])["answer"]
asked.update_endpoint(initial_instance_count=2, instance_type="ml.c5.2xlarge", model_name="sdk-one")
config = session.sagemaker_client.describe_endpoint(EndpointName="sdk-one")
said["count"] = config["ProductionVariants"][0]["CurrentInstanceCount"]
asked.delete_model()
for one in (asked, predictor):
    one.delete_endpoint()
many.delete_model()
client = session.sagemaker_client
said["models left"] = client.list_models(NameContains="sdk-")["Models"]
configs = client.list_endpoint_configs(NameContains="sdk-")["EndpointConfigs"]
said["configs left"] = [config["EndpointConfigName"] for config in configs]
print()
print(json.dumps(said))
"""


def test_the_sdk_from_roles_to_deletion(
    plane: ControlPlane, environment: dict[str, str], tmp_path: Path
) -> None:
    """Role, default bucket, MultiDataModel, Model.deploy, Predictor, update_endpoint, delete.

    The configuration from before an update is what the SDK leaves on AWS, too.
    """
    archive = fake_model(tmp_path, "model.tar.gz")
    printed = run_client(environment, AWS_PYTHON, "-c", _SDK, IMAGE, archive).stdout
    said: dict[str, Any] = json.loads(printed.splitlines()[-1])
    assert said == {
        "role": "arn:aws:iam::123456789012:role/sagemaker",
        "bucket": "sagemaker-us-east-1-123456789012",
        "models": ["copied.tar.gz", "local.tar.gz"],
        "answers": ['{"a": 1}', '{"a": 1}'],
        "single": "model.tar.gz",
        "count": 2,
        "models left": [],
        "configs left": ["sdk-one"],
    }
