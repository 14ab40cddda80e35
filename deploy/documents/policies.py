"""The least rights of IAM: for the endpoint's role, for whoever deploys, for a tenant.

The role's are those of "CreateModel API: Execution Role Permissions" in SageMaker's guide, for one
endpoint. The deployer's are the calls of these commands; a test compares them.

A tenant may invoke the archives of one name. SageMaker compares the request's TargetModel
(sagemaker:TargetModel, "Multi-Model Endpoint Security" in its guide) before the container sees it,
and refuses a request without one. InvokeEndpointWithResponseStream has no TargetModel, so tenants
may not call it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from deploy.archives.aliases import read_place
from deploy.config.sections import Config
from deploy.desired.monitoring import DIMENSION, NAMESPACE, make_alarm_prefix, make_resource_id
from deploy.documents.iam import (
    FOR_A_SERVICE,
    Document,
    Statement,
    Where,
    aliases_arn,
    allow,
    allow_key,
    archives_arn,
    bucket_arn,
    config_arns,
    endpoint_arns,
    log_arns,
    make_document,
    model_arns,
    repository_arn,
    through_s3,
)
from deploy.errors import Refused

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
    return make_document(_make_role_statements(config, where))


def _make_role_statements(config: Config, where: Where) -> Iterator[Statement]:
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
    yield from _of_role_keys(config, where)


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


def _of_role_keys(config: Config, where: Where) -> Iterator[Statement]:
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


#: Application Auto Scaling's role for endpoints; it is made with the first target of an account.
_SCALING_SERVICE = "sagemaker.application-autoscaling.amazonaws.com"
_SCALING_ROLE = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"


def make_deployer_policy(config: Config, where: Where) -> Document:
    """For all commands."""
    return make_document(
        [
            *_of_endpoint(config, where),
            *_of_scaling(config, where),
            *_of_alarms(config, where),
            *_of_archives(config, where),
            *_of_image(config, where),
            *_of_keys(config, where),
        ]
    )


def _of_endpoint(config: Config, where: Where) -> Iterator[Statement]:
    endpoint = endpoint_arns(config, where)
    configs, models = config_arns(config, where), model_arns(config, where)
    yield allow(
        "Models",
        ["sagemaker:CreateModel", "sagemaker:DeleteModel", "sagemaker:DescribeModel"],
        models,
    )
    yield allow(
        "Configurations",
        [
            "sagemaker:CreateEndpointConfig",
            "sagemaker:DeleteEndpointConfig",
            "sagemaker:DescribeEndpointConfig",
        ],
        configs,
    )
    # Both ask for the configuration, too.
    yield allow(
        "Deploy", ["sagemaker:CreateEndpoint", "sagemaker:UpdateEndpoint"], [*endpoint, *configs]
    )
    yield allow(
        "Endpoint",
        [
            "sagemaker:DeleteEndpoint",
            "sagemaker:DescribeEndpoint",
            "sagemaker:InvokeEndpoint",
            "sagemaker:UpdateEndpointWeightsAndCapacities",
        ],
        endpoint,
    )
    yield allow("Tags", ["sagemaker:AddTags", "sagemaker:ListTags"], [*endpoint, *configs, *models])
    # Listings have no resources.
    yield allow("Lists", ["sagemaker:ListEndpointConfigs", "sagemaker:ListModels"], "*")
    yield allow(
        "PassRole",
        ["iam:PassRole"],
        config.endpoint.role,
        {"StringEquals": {"iam:PassedToService": SAGEMAKER}},
    )
    yield allow("Logs", ["logs:DescribeLogStreams", "logs:GetLogEvents"], log_arns(config, where))


def _of_scaling(config: Config, where: Where) -> Iterator[Statement]:
    """Without [autoscaling] too: `up` and `down` end what an older file asked for."""
    service = "application-autoscaling"
    yield allow(
        "Scaling",
        [
            f"{service}:DeregisterScalableTarget",
            f"{service}:PutScalingPolicy",
            f"{service}:RegisterScalableTarget",
        ],
        # A target's ARN has an identifier that AWS makes, not the endpoint's name.
        where.make_arn(service, "scalable-target/*"),
        {
            "StringEquals": {
                f"{service}:service-namespace": NAMESPACE,
                f"{service}:scalable-dimension": DIMENSION,
            }
        },
    )
    yield allow(
        "SeeScaling",
        [
            f"{service}:DescribeScalableTargets",
            f"{service}:DescribeScalingActivities",
            f"{service}:DescribeScalingPolicies",
        ],
        "*",
    )
    if config.autoscaling is not None:
        path = f"role/aws-service-role/{_SCALING_SERVICE}/{_SCALING_ROLE}"
        yield allow(
            "ScalingRole",
            ["iam:CreateServiceLinkedRole"],
            f"arn:{where.partition}:iam::{where.account}:{path}",
            {"StringEquals": {"iam:AWSServiceName": _SCALING_SERVICE}},
        )


def _of_alarms(config: Config, where: Where) -> Iterator[Statement]:
    name = config.endpoint.name
    ours = [where.make_arn("cloudwatch", f"alarm:{make_alarm_prefix(name)}*")]
    # Application Auto Scaling makes its alarms with the rights of whoever puts the policy.
    theirs = where.make_arn("cloudwatch", f"alarm:TargetTracking-{make_resource_id(name)}-*")
    yield allow("Alarms", ["cloudwatch:DeleteAlarms", "cloudwatch:PutMetricAlarm"], [*ours, theirs])
    # By a prefix all are looked through.
    yield allow("SeeAlarms", ["cloudwatch:DescribeAlarms"], where.make_arn("cloudwatch", "alarm:*"))
    yield allow("Metrics", ["cloudwatch:GetMetricData"], "*")


def _of_archives(config: Config, where: Where) -> Iterator[Statement]:
    yield allow(
        "Archives",
        ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"],
        [archives_arn(config, where), aliases_arn(config, where)],
    )
    yield allow("PruneArchives", ["s3:DeleteObject"], archives_arn(config, where))
    # Without a condition: S3 says of an object that is not there yet that it is forbidden, unless
    # one may list its bucket; that request has no prefix.
    yield allow(
        "ListArchives",
        ["s3:ListBucket", "s3:ListBucketMultipartUploads"],
        bucket_arn(config, where),
    )


def _of_image(config: Config, where: Where) -> Iterator[Statement]:
    if (repository := repository_arn(config, where)) is None:
        return
    yield allow(
        "Image",
        [
            *PULL,
            "ecr:CompleteLayerUpload",
            "ecr:CreateRepository",
            "ecr:DescribeImages",
            "ecr:DescribeRepositories",
            "ecr:InitiateLayerUpload",
            "ecr:PutImage",
            "ecr:UploadLayerPart",
        ],
        repository,
    )
    yield allow("LogInToRegistry", ["ecr:GetAuthorizationToken"], "*")


def _of_keys(config: Config, where: Where) -> Iterator[Statement]:
    keys = config.encryption
    if keys.archives_key is not None:
        yield allow_key(
            "EncryptArchives",
            # S3 decrypts what came before to join the parts of an upload.
            ["kms:Decrypt", "kms:GenerateDataKey"],
            keys.archives_key,
            where,
            through_s3(where),
        )
    if keys.volume_key is not None:
        yield allow_key("EncryptDisks", ["kms:CreateGrant"], keys.volume_key, where, FOR_A_SERVICE)


_TARGET = "sagemaker:TargetModel"


def make_tenant_policy(config: Config, where: Where, name: str, *, aliases: bool) -> Document:
    """name: a name of `put --as`, which a folder of archives has, as its reader has checked it.

    aliases: it may read the table of aliases, which has every tenant's names. Raises Refused.
    """
    if config.endpoint.single_model is not None:
        raise Refused(
            f"the endpoint {config.endpoint.name} has one archive (endpoint.single_model is "
            f"{config.endpoint.single_model}): whoever may invoke it, asks that one; tenants need "
            "a multi-model endpoint, or an endpoint each"
        )
    return make_document(_make_tenant_statements(config, where, name, aliases))


def _make_tenant_statements(
    config: Config, where: Where, name: str, aliases: bool
) -> Iterator[Statement]:
    endpoint = endpoint_arns(config, where)
    yield allow(
        "Invoke",
        ["sagemaker:InvokeEndpoint"],
        endpoint,
        {"StringLike": {_TARGET: f"{_literal(name)}/*"}},
    )
    # The asterisk matches slashes and dots, too: no path leads out of the folder.
    yield {
        "Sid": "StayInside",
        "Effect": "Deny",
        "Action": ["sagemaker:InvokeEndpoint"],
        "Resource": endpoint,
        "Condition": {"StringLike": {_TARGET: "*..*"}},
    }
    if aliases:
        yield allow("ResolveAliases", ["s3:GetObject"], aliases_arn(config, where))
        # `put` encrypts the table, too.
        if (key := config.encryption.archives_key) is not None:
            yield allow_key("DecryptAliases", ["kms:Decrypt"], key, where, through_s3(where))


def _literal(name: str) -> str:
    """As StringLike reads it: IAM's own characters stand in ${}."""
    return re.sub(r"[*?$]", r"${\g<0>}", name)
