"""Statements of IAM's policies, and the ARNs of the resources that they name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.archives.aliases import read_place
from deploy.config.catalog import read_ecr_image
from deploy.config.sections import Config

#: AWS's partitions by how their regions begin; all others are in `aws`. From botocore's
#: partitions, which a test holds this against.
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}
LOG_GROUPS = "/aws/sagemaker/Endpoints/"


@dataclass(frozen=True)
class Where:
    """An account in a region; each may be a variable that CloudFormation fills in."""

    partition: str
    region: str
    account: str

    def make_arn(self, service: str, resource: str) -> str:
        """Of what lies in this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"


#: In a template.
OF_STACK = Where("${AWS::Partition}", "${AWS::Region}", "${AWS::AccountId}")


def make_where(config: Config, region: str) -> Where:
    """The account is that of the role: SageMaker takes roles of no other."""
    return Where(partition_of(region), region, config.endpoint.role.split(":")[4])


def partition_of(region: str) -> str:
    """Such as aws-cn for cn-north-1."""
    found = (name for start, name in _PARTITIONS.items() if region.startswith(start))
    return next(found, "aws")


def bucket_arn(config: Config, where: Where) -> str:
    """Of the bucket that has the archives."""
    return f"arn:{where.partition}:s3:::{read_place(config.endpoint.archives).bucket}"


def archives_arn(config: Config, where: Where) -> str:
    """Of every archive, and nothing else."""
    prefix = read_place(config.endpoint.archives).archives_prefix
    return f"{bucket_arn(config, where)}/{prefix}*"


def aliases_arn(config: Config, where: Where) -> str:
    """Of the table of aliases."""
    return f"{bucket_arn(config, where)}/{read_place(config.endpoint.archives).aliases_key}"


def repository_arn(config: Config, where: Where) -> str | None:
    """Of the image's repository, which may be another account's; None outside of ECR."""
    image = read_ecr_image(config.endpoint.image)
    if image is None:
        return None
    place = f"{image.region}:{image.account}"
    return f"arn:{where.partition}:ecr:{place}:repository/{image.repository}"


def endpoint_arns(config: Config, where: Where) -> list[str]:
    """Of the endpoint."""
    return _sagemaker(where, "endpoint", config.endpoint.name)


def model_arns(config: Config, where: Where) -> list[str]:
    """Of all models that `up` makes for it."""
    return _sagemaker(where, "model", f"{config.endpoint.name}-*")


def config_arns(config: Config, where: Where) -> list[str]:
    """Of all endpoint configurations that `up` makes for it."""
    return _sagemaker(where, "endpoint-config", f"{config.endpoint.name}-*")


def log_arns(config: Config, where: Where) -> list[str]:
    """Of the endpoint's log group, and of its streams."""
    group = where.make_arn("logs", f"log-group:{LOG_GROUPS}{config.endpoint.name}")
    return [group, f"{group}:*"]


def _sagemaker(where: Where, kind: str, name: str) -> list[str]:
    """SageMaker's ARNs have names in lower case, whatever was asked for; IAM compares case."""
    return [
        where.make_arn("sagemaker", f"{kind}/{one}") for one in dict.fromkeys((name.lower(), name))
    ]


Statement = dict[str, Any]
Document = dict[str, Any]


def make_document(statements: Iterable[Statement]) -> Document:
    """A policy."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(
    sid: str,
    actions: Sequence[str],
    resources: str | Sequence[str],
    condition: Mapping[str, Mapping[str, Any]] | None = None,
) -> Statement:
    """One that allows; sid: what for."""
    made: Statement = {
        "Sid": sid,
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": resources if isinstance(resources, str) else list(resources),
    }
    return made if condition is None else {**made, "Condition": dict(condition)}


def allow_key(
    sid: str,
    actions: Sequence[str],
    key: str,
    where: Where,
    condition: Mapping[str, Mapping[str, Any]],
) -> Statement:
    """Of a KMS key by its id, alias or ARN.

    IAM knows keys, not their aliases: one that is named by an alias is any key that has it
    (kms:ResourceAliases).
    """
    name = key.rpartition(":")[2]
    if name.startswith("alias/"):
        alias = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": name}}
        return allow(sid, actions, where.make_arn("kms", "key/*"), {**alias, **condition})
    arn = key if key.startswith("arn:") else where.make_arn("kms", f"key/{name}")
    return allow(sid, actions, arn, condition)


def through_s3(where: Where) -> dict[str, Any]:
    """Of a key that is used for objects alone."""
    # China's services have addresses of amazonaws.com.cn.
    return {"StringLike": {"kms:ViaService": f"s3.{where.region}.amazonaws.com*"}}


#: A grant that a service makes for itself, such as for a disk.
FOR_A_SERVICE = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
