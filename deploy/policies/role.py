"""The endpoint's role: what SageMaker does in its name.

After "CreateModel API: Execution Role Permissions" of SageMaker's guide, held to one endpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

from deploy.archives.places import read_place
from deploy.config.config import Config
from deploy.policies.arns import (
    Where,
    archives_arn,
    bucket_arn,
    log_arns,
    repository_arn,
)
from deploy.policies.statements import (
    FOR_A_SERVICE,
    Document,
    Statement,
    allow,
    allow_key,
    make_document,
    through_s3,
)

SAGEMAKER = "sagemaker.amazonaws.com"
PULL = ("ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
#: Of invocations, and of instances.
_METRICS = ("AWS/SageMaker", "/aws/sagemaker/Endpoints")


def make_trust_policy() -> Document:
    """Who may take the role: SageMaker alone."""
    return make_document(
        [{"Effect": "Allow", "Principal": {"Service": SAGEMAKER}, "Action": "sts:AssumeRole"}]
    )


def make_role_policy(config: Config, where: Where) -> Document:
    """What it may do then."""
    return make_document(_make_statements(config, where))


def _make_statements(config: Config, where: Where) -> Iterator[Statement]:
    prefix = read_place(config.endpoint.archives).archives_prefix
    yield allow("ReadArchives", ["s3:GetObject"], archives_arn(config, where))
    yield allow(
        "ListArchives",
        ["s3:ListBucket"],
        bucket_arn(config, where),
        # With and without the slash, as both are asked for; archives-of-others is neither.
        {"StringLike": {"s3:prefix": [prefix.removesuffix("/"), f"{prefix}*"]}},
    )
    if (repository := repository_arn(config, where)) is not None:
        yield allow("PullImage", PULL, repository)
        # ECR logs in to all of an account's repositories at once.
        yield allow("LogInToRegistry", ["ecr:GetAuthorizationToken"], "*")
    yield allow(
        "WriteLogs",
        [
            "logs:CreateLogGroup",
            "logs:CreateLogStream",
            "logs:DescribeLogStreams",
            "logs:PutLogEvents",
        ],
        log_arns(config, where),
    )
    yield allow(
        "PutMetrics",
        ["cloudwatch:PutMetricData"],
        "*",
        {"StringEquals": {"cloudwatch:namespace": list(_METRICS)}},
    )
    if config.network.subnets:
        yield from _of_network(config, where)
    yield from _of_keys(config, where)


def _of_network(config: Config, where: Where) -> Iterator[Statement]:
    interfaces = where.make_arn("ec2", "network-interface/*")
    # A subnet that is shared belongs to another account.
    anywhere = f"arn:{where.partition}:ec2:{where.region}:*"
    yield allow(
        "MakeInterfaces",
        ["ec2:CreateNetworkInterface"],
        [
            interfaces,
            *(f"{anywhere}:subnet/{one}" for one in config.network.subnets),
            *(f"{anywhere}:security-group/{one}" for one in config.network.security_groups),
        ],
    )
    yield allow(
        "GiveInterfaces",
        [
            "ec2:CreateNetworkInterfacePermission",
            "ec2:DeleteNetworkInterface",
            "ec2:DeleteNetworkInterfacePermission",
        ],
        interfaces,
    )
    # EC2 has no resources for what is described.
    yield allow(
        "SeeNetwork",
        [
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
        ],
        "*",
    )


def _of_keys(config: Config, where: Where) -> Iterator[Statement]:
    keys = config.encryption
    if keys.archives_key is not None:
        yield allow_key(
            "DecryptArchives",
            ["kms:Decrypt"],
            keys.archives_key,
            where,
            through_s3(where),
        )
    if keys.volume_key is not None:
        yield allow_key("EncryptDisks", ["kms:CreateGrant"], keys.volume_key, where, FOR_A_SERVICE)
