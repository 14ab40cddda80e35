"""Whoever deploys: what the commands ask AWS for, and nothing else; a test holds both together."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.config.config import Config
from deploy.policies.arns import (
    Where,
    aliases_arn,
    archives_arn,
    bucket_arn,
    config_arns,
    endpoint_arns,
    log_arns,
    model_arns,
    repository_arn,
)
from deploy.policies.role import PULL, SAGEMAKER
from deploy.policies.statements import (
    FOR_A_SERVICE,
    Document,
    Statement,
    allow,
    allow_key,
    make_document,
    through_s3,
)
from deploy.wanted.alarms import make_alarm_prefix
from deploy.wanted.scaling import DIMENSION, NAMESPACE, make_resource_id

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
