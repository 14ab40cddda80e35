"""Makes the fleet of a production variant from its configuration and model."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from merlin_simulator.archives.s3 import S3Archives
from merlin_simulator.archives.stores import ArchiveStore
from merlin_simulator.control.container_logs import ContainerLogs
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.iam import check_role
from merlin_simulator.control.instance_types import memory_of
from merlin_simulator.control.sagemaker.deployment import DeployedVariant
from merlin_simulator.control.sagemaker.resources import container_of
from merlin_simulator.hosting import Fleet, InstanceRunner, Variant
from merlin_simulator.instance.holdings import Budget
from merlin_simulator.rules import GIB, CacheSetting, Rules
from merlin_simulator.threads import run_in_thread
from merlin_simulator.watch.events import EventLog

#: Environment of SageMaker's contract that is the platform's to set.
_THE_PLATFORMS = ("SAGEMAKER_MULTI_MODEL", "SAGEMAKER_BIND_TO_PORT")
#: Where S3's URLs have the bucket; the second part of AWS's older hosts begins with a hyphen.
_IN_PATH = re.compile(r"s3://|https://s3[.-](?:[a-z0-9-]+\.)?amazonaws\.com/")
_IN_HOST = re.compile(r"https://(?P<bucket>[^/]+)\.s3[.-](?:[a-z0-9-]+\.)?amazonaws\.com/")
#: AWS, "ProductionVariant": VolumeSizeInGB, where none is given.
_DISK_GB = 30


@dataclass(frozen=True)
class VariantSpec:
    """Settings of a variant's instances."""

    endpoint_name: str
    variant_name: str
    instance_type: str
    role: str  # the model's, an ARN
    image: str
    rules: Rules
    budget: Budget
    environment: Mapping[str, str]
    #: The key of the model's archive in the store; None: a multi-model endpoint.
    single_model: str | None
    work_dir: Path  # of all instances of the endpoint; each has a folder of its own in it

    def log_of(self, instance: str) -> Path:
        """Where the container's output of an instance is written; see assembly.InstanceFactory."""
        return self.work_dir / f"{instance}.log"


#: Makes the runner of an instance from its variant, its archives, its log, its name, and whether
#: nobody wants it any more; it may block, and raises SimulatorError.
MakeRunner = Callable[
    [VariantSpec, ArchiveStore, EventLog, str, Callable[[], bool]], InstanceRunner
]


@dataclass(frozen=True)
class VariantDeployer:
    """Makes a variant's instances, and takes them away."""

    s3: Any  # boto3's client of the buckets
    make_runner: MakeRunner
    work_dir: Path
    rules: Rules  # of all variants, but for what their configurations say
    memory: Mapping[str, int]  # bytes by instance type, above what is known
    logs: ContainerLogs  # shows their output

    async def make(
        self,
        endpoint_name: str,
        variant: Mapping[str, Any],
        model: Mapping[str, Any],
        log: EventLog,
        numbers: Iterator[int],
    ) -> DeployedVariant:
        """No instance yet. model: as it was created."""
        container, name = container_of(model), variant["VariantName"]
        tagged, rules = log.tagged(variant=name), _rules(self.rules, variant, container)
        bucket, key = split_url(container.get("ModelDataUrl") or "")
        multi_model = container.get("Mode") == "MultiModel"
        folder, _, archive = key.rpartition("/")
        store = S3Archives(bucket, key if multi_model else folder, self.s3)
        spec = VariantSpec(
            endpoint_name,
            name,
            variant["InstanceType"],
            model["ExecutionRoleArn"],
            container["Image"],
            rules,
            Budget(
                self.memory.get(variant["InstanceType"], memory_of(variant["InstanceType"])),
                variant.get("VolumeSizeInGB", _DISK_GB) * GIB,
            ),
            {
                name: value
                for name, value in container.get("Environment", {}).items()
                if name not in _THE_PLATFORMS
            },
            None if multi_model else archive,
            self.work_dir / endpoint_name,
        )
        hosted = Variant(endpoint_name, multi_model, store.description, rules, tagged, name)

        region = str(model["ModelArn"]).split(":")[3]

        def runner(instance: str, given_up: Callable[[], bool]) -> InstanceRunner:
            # An endpoint before this one may have had the same name.
            spec.log_of(instance).unlink(missing_ok=True)
            self.logs.follow(region, endpoint_name, f"{name}/{instance}", spec.log_of(instance))
            return self.make_runner(spec, store, tagged, instance, given_up)

        def forget(instance: str) -> None:
            self.logs.leave(spec.log_of(instance))
            shutil.rmtree(spec.work_dir / instance, ignore_errors=True)

        fleet = Fleet(hosted, runner, (f"{name}-{number}" for number in numbers), forget)
        return DeployedVariant(fleet, variant["InitialVariantWeight"], variant, container["Image"])

    def forget(self, endpoint_name: str) -> None:
        """Nothing of a deleted endpoint is left on the disk: its containers' logs go."""
        shutil.rmtree(self.work_dir / endpoint_name, ignore_errors=True)

    async def check(self, container: Mapping[str, Any], role: str) -> None:
        """Whether a new model's role and archives are there. Raises ServiceError."""
        check_role(role)
        url = container.get("ModelDataUrl")
        if url is None:
            if container.get("ModelDataSource"):
                raise ServiceError(
                    "ModelDataSource is given: this simulator plays ModelDataUrl, so name an "
                    "archive's or a prefix's S3 URL there."
                )
            raise ServiceError("ModelDataUrl is missing: name the S3 URL of the model's archives.")
        multi_model = container.get("Mode") == "MultiModel"
        await run_in_thread(lambda: self._check_url(url, multi_model, role))

    def _check_url(self, url: str, multi_model: bool, role: str) -> None:
        from botocore.exceptions import ClientError, ParamValidationError

        bucket, key = split_url(url)
        try:
            if multi_model:
                self.s3.head_bucket(Bucket=bucket)
            else:
                self.s3.head_object(Bucket=bucket, Key=key)
        except ParamValidationError as error:  # no bucket's name, or no key
            raise ServiceError(f"Could not find model data at {url}.") from error
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                raise ServiceError(f"Could not find model data at {url}.") from error
            raise ServiceError(
                f'Could not access model data at {url}. Please ensure that the role "{role}" '
                "exists and that its trust relationship policy allows the action "
                '"sts:AssumeRole" for the service principal "sagemaker.amazonaws.com". Also '
                'ensure that the role has "s3:GetObject" permissions and that the object is '
                "located in the region of this call."
            ) from error


def split_url(url: str) -> tuple[str, str]:
    """Bucket and key of s3://BUCKET/KEY, or of S3's own addresses; else raises ServiceError."""
    in_path, in_host = _IN_PATH.match(url), _IN_HOST.match(url)
    path = url[in_path.end() :] if in_path else ""
    if in_host:
        path = f"{in_host['bucket']}/{url[in_host.end() :]}"
    bucket, _, key = path.partition("/")
    if not bucket:
        raise ServiceError(f"ModelDataUrl is {url!r}: expected s3://BUCKET/KEY.")
    return bucket, key


def _rules(rules: Rules, variant: Mapping[str, Any], container: Mapping[str, Any]) -> Rules:
    cache = container.get("MultiModelConfig", {}).get("ModelCacheSetting", rules.cache.value)
    startup_s = variant.get("ContainerStartupHealthCheckTimeoutInSeconds", rules.startup_s)
    return replace(rules, cache=CacheSetting(cache), startup_s=float(startup_s))
