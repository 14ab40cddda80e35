"""What stories of whole endpoints share: SageMaker's control plane on this machine.

`python -m simulator serve` plays SageMaker, S3, IAM, CloudWatch and Application Auto Scaling for
boto3 and for `python -m deploy`, which find it as they find another region's AWS: by the
environment. simulator/docs/control-plane.md has its rules.
"""

from __future__ import annotations

import os
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import boto3

from examples.story import run, step
from merlin_simulator.addresses import find_free_port
from merlin_simulator.replay.local_endpoint import start_endpoint

REGION, ACCOUNT = "us-east-1", "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/sagemaker"
#: Not looked at: each instance is a process of this project's own container.
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/merlin-sagemaker:1"
BUCKET = f"archives-{ACCOUNT}"
INSTANCE_TYPE = "ml.c5.xlarge"
_START_S, _DEPLOY_S = 120.0, 300.0
_UPLOADS = 8


@contextmanager
def control_plane(scratch: Path, *options: str) -> Iterator[str]:
    """Its address; options are those of `simulator serve`.

    From then on it is AWS to boto3, and to processes that are started. It and all its containers
    have ended when the block is left.
    """
    port, work = find_free_port(), scratch / "control-plane"
    work.mkdir()
    command = [sys.executable, "-m", "simulator", "serve", "--port", str(port), *options]
    with start_endpoint(command, port, work / "simulator.log") as started:
        with step("the control plane starts"):
            deadline = time.monotonic() + _START_S
            while not _answers(started.url):
                if why := started.gone():
                    raise SystemExit(why)
                if time.monotonic() > deadline:
                    raise SystemExit(f"the control plane did not answer within {_START_S:g} s")
                time.sleep(0.05)
        os.environ.update(_environment(started.url))
        os.environ.pop("AWS_PROFILE", None)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield started.url


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/simulator/health"):
            return True
    except OSError:
        return False


def _environment(url: str) -> dict[str, str]:
    """What `export` sets by hand; AWS's own has other credentials and no AWS_ENDPOINT_URL."""
    return {
        "AWS_ENDPOINT_URL": url,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
    }


def write_config(folder: Path, name: str, sections: str = "") -> Path:
    """CONFIG.toml of a multi-model endpoint with one instance; sections: more of it."""
    path = folder / "CONFIG.toml"
    path.write_text(
        f'[endpoint]\nname = "{name}"\nimage = "{IMAGE}"\nrole = "{ROLE}"\n'
        f'archives = "s3://{BUCKET}/{name}/"\n\n[instances]\ntype = "{INSTANCE_TYPE}"\n\n'
        + sections,
        "utf-8",
    )
    return path


def upload(name: str, archives: Mapping[str, Path]) -> None:
    """Target model → archive, into the folder that the endpoint of that name reads."""
    s3 = boto3.client("s3")

    def put(target: str) -> None:
        s3.upload_file(str(archives[target]), BUCKET, f"{name}/archives/{target}")

    with ThreadPoolExecutor(_UPLOADS) as pool:
        list(pool.map(put, archives))


def deploy(*arguments: str | Path) -> str:
    """What `python -m deploy` says; ends the story where it fails."""
    return run([sys.executable, "-m", "deploy", *arguments], _DEPLOY_S)
