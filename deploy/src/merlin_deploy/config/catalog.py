"""What AWS offers: regions, instance types, host images with their drivers, names of ECR's images.

AWS starts some instance types with driver 470 (CUDA 11.4) unless the variant names an
InferenceAmiVersion: SageMaker Developer Guide, "Best practices to minimize interruptions during GPU
driver upgrades". Every base of an image has a newer CUDA (docs/images.md). A driver runs older
CUDAs, too, so the newest host image fits all of them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from botocore.loaders import create_loader

#: Partitions list their global services as a region of their own: aws-global.
_NO_REGION = "-global"


@dataclass(frozen=True)
class Partition:
    """A partition of AWS."""

    name: str  # as ARNs have it, such as aws-cn
    domain: str  # of its hosts


@cache
def loader() -> Any:
    """botocore's, shared by the process: reading a service model takes tenths of a second."""
    return create_loader()


@cache
def regions() -> Mapping[str, Partition]:
    """All regions, each with its partition."""
    return {
        region: Partition(it["id"], it["outputs"]["dnsSuffix"])
        for it in loader().load_data("partitions")["partitions"]
        for region in it["regions"]
        if not region.endswith(_NO_REGION)
    }


@cache
def instance_types() -> frozenset[str]:
    """Instance types for endpoints: ProductionVariantInstanceType of SageMaker's service model."""
    shapes = loader().load_service_model("sagemaker", "service-2")["shapes"]
    return frozenset(shapes["ProductionVariantInstanceType"]["enum"])


def nearest(name: str, known: Collection[str]) -> str:
    """The end of a sentence: what was perhaps meant, and that botocore may be too old."""
    near = difflib.get_close_matches(name, sorted(known), 1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{meant}a newer one is known to a newer boto3"


AMIS = (
    "al2-ami-sagemaker-inference-gpu-2",
    "al2-ami-sagemaker-inference-gpu-2-1",
    "al2-ami-sagemaker-inference-gpu-3-1",
    "al2023-ami-sagemaker-inference-gpu-4-1",
)
#: Of `instances.ami`: no InferenceAmiVersion.
LEFT_TO_AWS = "aws"
_OLD_DRIVER_TYPES = ("ml.g4dn.", "ml.g5.", "ml.p4d.", "ml.p4de.")
_NEWEST = AMIS[-1]


def choose_ami(instance_type: str, ami: str | None) -> str | None:
    """InferenceAmiVersion of a variant; None leaves it to AWS. ami: CONFIG.toml's."""
    if ami is not None:
        return None if ami == LEFT_TO_AWS else ami
    return _NEWEST if instance_type.startswith(_OLD_DRIVER_TYPES) else None


def describe_ami(instance_type: str, ami: str | None) -> str:
    """A sentence on the image that is chosen if CONFIG.toml has none; else empty."""
    if ami is not None or choose_ami(instance_type, ami) is None:
        return ""
    return (
        f"instances.ami is unset, so {_NEWEST} is taken (driver 580): AWS starts {instance_type} "
        "with driver 470, which is older than the CUDA of every base of an image; "
        f'ami = "{LEFT_TO_AWS}" leaves it to AWS'
    )


#: CreateRepository's repositoryName; Docker's tags: distribution's reference.go.
_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
REPOSITORY = re.compile(rf"(?=.{{2,256}}\Z){_PART}(/{_PART})*")
TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}")
_DIGEST = r"sha256:[0-9a-f]{64}"
#: The second form of the host is that of ECR's endpoints for IPv6.
_IMAGE = re.compile(
    r"(?P<host>(?P<account>\d{12})\.dkr[.-]ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.(?P<domain>[a-z0-9.-]+))"
    rf"/(?P<repository>[^:@]+)(:(?P<tag>{TAG.pattern}))?(@(?P<digest>{_DIGEST}))?"
)
_IPV6_DOMAINS = ("on.aws", "on.amazonwebservices.com.cn")


@dataclass(frozen=True)
class EcrImage:
    """tag and digest are None if the image has none; digest begins with sha256:."""

    host: str
    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None

    @property
    def repository_uri(self) -> str:
        """The image without tag and digest."""
        return f"{self.host}/{self.repository}"

    def __str__(self) -> str:
        tag = "" if self.tag is None else f":{self.tag}"
        return f"{self.repository_uri}{tag}" + ("" if self.digest is None else f"@{self.digest}")


def read_ecr_image(image: str) -> EcrImage | None:
    """The parts of an image in ECR; None for another registry's, or what ECR would refuse."""
    match = _IMAGE.fullmatch(image)
    if match is None or not REPOSITORY.fullmatch(match["repository"]):
        return None
    names = match.groupdict()
    partition = regions().get(names["region"])
    if partition is None or names.pop("domain") not in (partition.domain, *_IPV6_DOMAINS):
        return None
    return EcrImage(**names)
