"""A control plane as `python -m simulator serve` starts it, and boto3's clients of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from simulator.tests.support.simulator import FAKE_CONTAINER, fake_model
from tests.support.container import CALL_TIMEOUT_S, ROOT, STOP_TIMEOUT_S, until

ROLE = "arn:aws:iam::123456789012:role/sagemaker"
IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin-sagemaker:1"
INSTANCE_TYPE = "ml.c5.xlarge"


@dataclass
class ControlPlane:
    """One that runs. pid: of its process."""

    process: subprocess.Popen[bytes]
    url: str
    log_path: Path
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str, **config: Any) -> Any:
        """An unmodified client of one of its services; the same one for the same words."""
        words = f"{service} {config}"
        if words not in self.clients:
            self.clients[words] = self._made(service, config)
        return self.clients[words]

    def _made(self, service: str, config: Mapping[str, Any]) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",
            config=Config(read_timeout=CALL_TIMEOUT_S, retries={"total_max_attempts": 1}, **config),
        )

    def put_models(self, folder: Path, *names: str, bucket: str = "models", **model: Any) -> str:
        """Archives for the fake container in a bucket; their prefix's URL."""
        s3 = self.client("s3")
        s3.create_bucket(Bucket=bucket)
        for name in names:
            path = fake_model(folder, name, **model)
            s3.upload_file(str(path), bucket, f"shop/{name}")
        return f"s3://{bucket}/shop/"

    def create_endpoint(
        self, name: str, url: str, count: int = 1, wait: bool = True, **container: Any
    ) -> None:
        """A model, a configuration and an endpoint of one name; multi-model, unless told else."""
        sagemaker = self.client("sagemaker")
        self.create_model(name, url, **container)
        sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[make_variant(name, count)]
        )
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
        if wait:
            assert self.settled(name) == "InService", self.describe(name)

    def create_model(self, name: str, url: str, **container: Any) -> None:
        """A multi-model one, unless told else."""
        definition = {"Image": IMAGE, "Mode": "MultiModel", "ModelDataUrl": url, **container}
        self.client("sagemaker").create_model(
            ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer=definition
        )

    def endpoint_names(self) -> list[str]:
        """Of all endpoints."""
        return [name for name, _ in self._endpoints()]

    def _endpoints(self) -> list[tuple[str, str]]:
        """Names and statuses."""
        pages = self.client("sagemaker").get_paginator("list_endpoints").paginate()
        found = (one for page in pages for one in page["Endpoints"])
        return [(one["EndpointName"], one["EndpointStatus"]) for one in found]

    def describe(self, name: str) -> dict[str, Any]:
        """DescribeEndpoint."""
        answer: dict[str, Any] = self.client("sagemaker").describe_endpoint(EndpointName=name)
        return answer

    def settled(self, name: str) -> str:
        """The endpoint's status once it does not change any more."""
        changing = ("Creating", "Updating", "RollingBack", "Deleting")
        sagemaker, end = self.client("sagemaker"), time.monotonic() + CALL_TIMEOUT_S
        while time.monotonic() < end:
            status = str(sagemaker.describe_endpoint(EndpointName=name)["EndpointStatus"])
            if status not in changing:
                return status
            time.sleep(0.1)
        raise AssertionError(f"{name} is {status} for ever; the log is {self.log_path}")

    def clear(self) -> None:
        """No endpoint, configuration or model is left."""
        sagemaker = self.client("sagemaker")
        for name, status in self._endpoints():
            if status != "Deleting":
                sagemaker.delete_endpoint(EndpointName=name)
        until(lambda: not self.endpoint_names(), "all endpoints are deleted")
        for page in sagemaker.get_paginator("list_endpoint_configs").paginate():
            for config in page["EndpointConfigs"]:
                sagemaker.delete_endpoint_config(EndpointConfigName=config["EndpointConfigName"])
        for page in sagemaker.get_paginator("list_models").paginate():
            for model in page["Models"]:
                sagemaker.delete_model(ModelName=model["ModelName"])

    def invoke(self, name: str, target: str | None, **more: Any) -> Any:
        """InvokeEndpoint; boto3's answer."""
        named = {} if target is None else {"TargetModel": target}
        return self.client("sagemaker-runtime").invoke_endpoint(
            EndpointName=name, Body=b"{}", ContentType="application/json", **named, **more
        )

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)


def make_variant(model_name: str, count: int = 1, **more: Any) -> dict[str, Any]:
    """A production variant of an endpoint configuration."""
    return {
        "VariantName": "AllTraffic",
        "ModelName": model_name,
        "InstanceType": INSTANCE_TYPE,
        "InitialInstanceCount": count,
        **more,
    }


@contextlib.contextmanager
def control_plane(
    log_path: Path,
    *options: str,
    container: str | None = FAKE_CONTAINER,
    environment: Mapping[str, str] = {},
) -> Iterator[ControlPlane]:
    """Started, and stopped after the block; with fake containers, unless told else."""
    command = [sys.executable, "-m", "simulator", "serve", "--port", "0", "--ping-every", "0.3"]
    command += options
    if container is not None:
        command += ["--container", container]
    with log_path.open("ab") as log:
        start = log.tell()
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log
        )

    def url() -> str | None:
        said = log_path.read_bytes()[start:].decode(errors="replace")
        assert process.poll() is None, said
        found = re.search(r" at (http://\S+): ", said)
        return found[1] if found else None

    try:
        until(lambda: url() is not None, "the control plane listens")
        found = url()
        assert found is not None
        started = ControlPlane(process, found, log_path)
        yield started
        if process.poll() is None:
            assert started.stop() == 0, log_path.read_text()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(STOP_TIMEOUT_S)
