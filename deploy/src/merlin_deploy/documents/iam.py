"""Statements of IAM's policies, and the ARNs of the resources that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from merlin_deploy.archives.aliases import Place, read_place
from merlin_deploy.config.catalog import read_ecr_image
from merlin_deploy.config.sections import Config

#: AWS's partitions by how their regions begin; all others are in `aws`. A test compares botocore's.
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}
_LOG_GROUPS = "/aws/sagemaker/Endpoints/"
#: Condition: a grant that a service makes for itself, such as for a disk.
FOR_A_SERVICE = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
Statement = dict[str, Any]
Document = dict[str, Any]
Condition = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Location:
    """An account in a region; each may be a variable that CloudFormation replaces."""

    partition: str
    region: str
    account: str

    def make_arn(self, service: str, resource: str) -> str:
        """The ARN of a resource in this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def make_sagemaker_arns(self, kind: str, name: str) -> list[str]:
        """SageMaker writes names in lower case into ARNs, and IAM compares case: both are named."""
        names = dict.fromkeys((name.lower(), name))
        return [self.make_arn("sagemaker", f"{kind}/{it}") for it in names]


#: In a template.
OF_STACK = Location("${AWS::Partition}", "${AWS::Region}", "${AWS::AccountId}")


def make_location(config: Config, region: str) -> Location:
    """In the role's account: SageMaker takes no other account's roles."""
    return Location(partition_of(region), region, config.endpoint.role.split(":")[4])


def partition_of(region: str) -> str:
    """Such as aws-cn for cn-north-1."""
    partitions = (name for start, name in _PARTITIONS.items() if region.startswith(start))
    return next(partitions, "aws")


@dataclass(frozen=True)
class Arns:
    """ARNs of what an endpoint has, by its CONFIG.toml."""

    config: Config
    location: Location

    @property
    def place(self) -> Place:
        """Location archives lie."""
        return read_place(self.config.endpoint.archives)

    @property
    def bucket(self) -> str:
        """The bucket of the archives."""
        return f"arn:{self.location.partition}:s3:::{self.place.bucket}"

    @property
    def archives(self) -> str:
        """All archives, and nothing else."""
        return f"{self.bucket}/{self.place.archives_prefix}*"

    @property
    def aliases(self) -> str:
        """The table of aliases."""
        return f"{self.bucket}/{self.place.aliases_key}"

    @property
    def repository(self) -> str | None:
        """The image's repository, perhaps of another account; None outside of ECR."""
        image = read_ecr_image(self.config.endpoint.image)
        if image is None:
            return None
        place = f"{image.region}:{image.account}"
        return f"arn:{self.location.partition}:ecr:{place}:repository/{image.repository}"

    @property
    def endpoint(self) -> list[str]:
        """The endpoint."""
        return self.location.make_sagemaker_arns("endpoint", self.config.endpoint.name)

    @property
    def models(self) -> list[str]:
        """All models that `up` makes."""
        return self.location.make_sagemaker_arns("model", f"{self.config.endpoint.name}-*")

    @property
    def configs(self) -> list[str]:
        """All endpoint configurations that `up` makes."""
        return self.location.make_sagemaker_arns(
            "endpoint-config", f"{self.config.endpoint.name}-*"
        )

    @property
    def logs(self) -> list[str]:
        """The endpoint's log group, and its streams."""
        group = self.location.make_arn(
            "logs", f"log-group:{_LOG_GROUPS}{self.config.endpoint.name}"
        )
        return [group, f"{group}:*"]


def make_document(statements: Iterable[Statement]) -> Document:
    """A policy."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(
    sid: str, actions: str, resources: str | list[str], condition: Condition | None = None
) -> Statement:
    """actions: a service, a colon and its actions, such as "s3: GetObject PutObject"."""
    service, _, names = actions.partition(":")
    statement: Statement = {
        "Sid": sid,
        "Effect": "Allow",
        "Action": [f"{service}:{name}" for name in names.split()],
        "Resource": resources,
    }
    return statement if condition is None else {**statement, "Condition": dict(condition)}


def allow_key(
    sid: str, actions: str, key: str, location: Location, condition: Condition
) -> Statement:
    """key: of KMS, by its id, alias or ARN.

    IAM knows keys, but not their aliases: an alias stands for any key that has it
    (kms:ResourceAliases).
    """
    name = key.rpartition(":")[2]
    if name.startswith("alias/"):
        alias = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": name}}
        return allow(sid, actions, location.make_arn("kms", "key/*"), {**alias, **condition})
    arn = key if key.startswith("arn:") else location.make_arn("kms", f"key/{name}")
    return allow(sid, actions, arn, condition)


def through_s3(location: Location) -> Condition:
    """Condition: a key is used for S3's objects alone."""
    # China's services have addresses of amazonaws.com.cn.
    return {"StringLike": {"kms:ViaService": f"s3.{location.region}.amazonaws.com*"}}
