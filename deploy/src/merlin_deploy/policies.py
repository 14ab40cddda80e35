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
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from merlin_deploy.archives.aliases import ArchiveStore, read_store
from merlin_deploy.config.catalog import regions
from merlin_deploy.config.sections import Config
from merlin_deploy.desired import (
    DIMENSION,
    INSTANCES,
    INVOCATIONS,
    NAMESPACE,
    make_alarm_prefix,
    make_log_group,
    make_resource_id,
)
from merlin_deploy.errors import Refused

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
    """The role's account in this region: SageMaker takes no other account's roles."""
    return Location(regions()[region].name, region, config.endpoint.role.split(":")[4])


@dataclass(frozen=True)
class Arns:
    """ARNs of what an endpoint has, by its CONFIG.toml."""

    config: Config
    location: Location

    @property
    def store(self) -> ArchiveStore:
        """Bucket and prefix of the archives."""
        return read_store(self.config.endpoint.archives)

    @property
    def bucket(self) -> str:
        """The bucket of the archives."""
        return f"arn:{self.location.partition}:s3:::{self.store.bucket}"

    @property
    def archives(self) -> str:
        """All archives, and nothing else."""
        return f"{self.bucket}/{self.store.archives_prefix}*"

    @property
    def aliases(self) -> str:
        """The table of aliases."""
        return f"{self.bucket}/{self.store.aliases_key}"

    @property
    def comparisons(self) -> str:
        """All reports of comparisons."""
        return f"{self.bucket}/{self.store.comparisons_prefix}*"

    @property
    def repository(self) -> str:
        """The image's repository, perhaps of another account."""
        image = self.config.endpoint.image
        owner = f"{image.region}:{image.account}"
        return f"arn:{self.location.partition}:ecr:{owner}:repository/{image.repository}"

    @property
    def endpoint(self) -> list[str]:
        """ARNs of the endpoint."""
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
        name = make_log_group(self.config.endpoint.name)
        group = self.location.make_arn("logs", f"log-group:{name}")
        return [group, f"{group}:*"]


def make_document(statements: Iterable[Statement]) -> Document:
    """A policy of these statements."""
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


_SAGEMAKER = "sagemaker.amazonaws.com"
_PULL = "BatchCheckLayerAvailability BatchGetImage GetDownloadUrlForLayer"
#: Application Auto Scaling's role for endpoints; AWS makes it with the first target of an account.
_SCALING_SERVICE = "sagemaker.application-autoscaling.amazonaws.com"
_SCALING_ROLE = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
_TARGET_MODEL = "sagemaker:TargetModel"


def make_trust_policy() -> Document:
    """Who may take the role: SageMaker alone."""
    return make_document(
        [{"Effect": "Allow", "Principal": {"Service": _SAGEMAKER}, "Action": "sts:AssumeRole"}]
    )


def make_role_policy(config: Config, location: Location) -> Document:
    """The policy of the role that SageMaker takes."""
    return make_document(_list_role_statements(config, Arns(config, location)))


def _list_role_statements(config: Config, arns: Arns) -> Iterator[Statement]:
    prefix = arns.store.archives_prefix
    yield allow("ReadArchives", "s3: GetObject", arns.archives)
    # SageMaker asks with and without the slash; archives-of-others matches neither.
    prefixes = {"StringLike": {"s3:prefix": [prefix.removesuffix("/"), f"{prefix}*"]}}
    yield allow("ListArchives", "s3: ListBucket", arns.bucket, prefixes)
    yield allow("PullImage", f"ecr: {_PULL}", arns.repository)
    # A login is for all of an account's repositories.
    yield allow("LogInToRegistry", "ecr: GetAuthorizationToken", "*")
    yield allow(
        "WriteLogs",
        "logs: CreateLogGroup CreateLogStream DescribeLogStreams PutLogEvents",
        arns.logs,
    )
    namespaces = {"StringEquals": {"cloudwatch:namespace": [INVOCATIONS, INSTANCES]}}
    yield allow("PutMetrics", "cloudwatch: PutMetricData", "*", namespaces)
    if config.network.subnets:
        yield from _list_network_statements(config, arns.location)
    key = config.encryption.archives_key
    if key is not None:
        condition = through_s3(arns.location)
        yield allow_key("DecryptArchives", "kms: Decrypt", key, arns.location, condition)
    yield from _list_disk_statements(config, arns.location)


def _list_network_statements(config: Config, location: Location) -> Iterator[Statement]:
    interfaces = location.make_arn("ec2", "network-interface/*")
    # A shared subnet belongs to another account.
    anywhere = f"arn:{location.partition}:ec2:{location.region}:*"
    subnets = [f"{anywhere}:subnet/{it}" for it in config.network.subnets]
    groups = [f"{anywhere}:security-group/{it}" for it in config.network.security_groups]
    yield allow("MakeInterfaces", "ec2: CreateNetworkInterface", [interfaces, *subnets, *groups])
    yield allow(
        "GiveInterfaces",
        "ec2: CreateNetworkInterfacePermission DeleteNetworkInterface "
        "DeleteNetworkInterfacePermission",
        interfaces,
    )
    # EC2's descriptions have no resources.
    yield allow(
        "SeeNetwork",
        "ec2: DescribeDhcpOptions DescribeNetworkInterfaces DescribeSecurityGroups DescribeSubnets "
        "DescribeVpcs",
        "*",
    )


def _list_disk_statements(config: Config, location: Location) -> Iterator[Statement]:
    key = config.encryption.volume_key
    if key is not None:
        yield allow_key("EncryptDisks", "kms: CreateGrant", key, location, FOR_A_SERVICE)


def make_deployer_policy(config: Config, location: Location) -> Document:
    """The policy of whoever runs the commands."""
    arns = Arns(config, location)
    return make_document(
        [
            *_list_endpoint_statements(config, arns),
            *_list_scaling_statements(config, location),
            *_list_alarm_statements(config, location),
            *_list_storage_statements(config, arns),
            *_list_disk_statements(config, location),
        ]
    )


def _list_endpoint_statements(config: Config, arns: Arns) -> Iterator[Statement]:
    endpoint, configs, models = arns.endpoint, arns.configs, arns.models
    yield allow("Models", "sagemaker: CreateModel DeleteModel DescribeModel", models)
    yield allow(
        "Configurations",
        "sagemaker: CreateEndpointConfig DeleteEndpointConfig DescribeEndpointConfig",
        configs,
    )
    # Both need the right for the configuration, too.
    yield allow("Deploy", "sagemaker: CreateEndpoint UpdateEndpoint", [*endpoint, *configs])
    yield allow(
        "Endpoint",
        "sagemaker: DeleteEndpoint DescribeEndpoint InvokeEndpoint "
        "UpdateEndpointWeightsAndCapacities",
        endpoint,
    )
    yield allow("Tags", "sagemaker: AddTags ListTags", [*endpoint, *configs, *models])
    # Listings have no resources.
    yield allow("Lists", "sagemaker: ListEndpointConfigs ListModels", "*")
    to_sagemaker = {"StringEquals": {"iam:PassedToService": _SAGEMAKER}}
    yield allow("PassRole", "iam: PassRole", config.endpoint.role, to_sagemaker)
    yield allow("Logs", "logs: DescribeLogStreams GetLogEvents", arns.logs)


def _list_scaling_statements(config: Config, location: Location) -> Iterator[Statement]:
    """Also without [autoscaling]: `up` and `down` end what an older CONFIG.toml asked for."""
    service = "application-autoscaling"
    yield allow(
        "Scaling",
        f"{service}: DeregisterScalableTarget PutScalingPolicy RegisterScalableTarget",
        # A target's ARN has an identifier that AWS makes, not the endpoint's name.
        location.make_arn(service, "scalable-target/*"),
        {
            "StringEquals": {
                f"{service}:service-namespace": NAMESPACE,
                f"{service}:scalable-dimension": DIMENSION,
            }
        },
    )
    yield allow(
        "SeeScaling",
        f"{service}: DescribeScalableTargets DescribeScalingActivities DescribeScalingPolicies",
        "*",
    )
    if config.autoscaling is not None:
        path = f"role/aws-service-role/{_SCALING_SERVICE}/{_SCALING_ROLE}"
        yield allow(
            "ScalingRole",
            "iam: CreateServiceLinkedRole",
            f"arn:{location.partition}:iam::{location.account}:{path}",
            {"StringEquals": {"iam:AWSServiceName": _SCALING_SERVICE}},
        )


def _list_alarm_statements(config: Config, location: Location) -> Iterator[Statement]:
    name = config.endpoint.name
    ours = location.make_arn("cloudwatch", f"alarm:{make_alarm_prefix(name)}*")
    # Application Auto Scaling makes its alarms with the rights of whoever puts the policy.
    theirs = location.make_arn("cloudwatch", f"alarm:TargetTracking-{make_resource_id(name)}-*")
    yield allow("Alarms", "cloudwatch: DeleteAlarms PutMetricAlarm", [ours, theirs])
    # A listing by a prefix needs the right for all.
    yield allow(
        "SeeAlarms", "cloudwatch: DescribeAlarms", location.make_arn("cloudwatch", "alarm:*")
    )
    yield allow("Metrics", "cloudwatch: GetMetricData", "*")


def _list_storage_statements(config: Config, arns: Arns) -> Iterator[Statement]:
    """Archives in S3, the image in ECR."""
    objects = [arns.archives, arns.aliases, arns.comparisons]
    yield allow("Archives", "s3: AbortMultipartUpload GetObject PutObject", objects)
    pruned = [arns.archives, arns.comparisons]
    yield allow("PruneArchives", "s3: DeleteObject", pruned)
    # Without a condition: unless one may list the bucket, S3 says of a missing object that it is
    # forbidden, and that request has no prefix.
    yield allow("ListArchives", "s3: ListBucket ListBucketMultipartUploads", arns.bucket)
    push = (
        "CompleteLayerUpload CreateRepository DescribeImages DescribeRepositories "
        "InitiateLayerUpload PutImage UploadLayerPart"
    )
    yield allow("Image", f"ecr: {_PULL} {push}", arns.repository)
    yield allow("LogInToRegistry", "ecr: GetAuthorizationToken", "*")
    key = config.encryption.archives_key
    if key is not None:
        condition = through_s3(arns.location)
        # S3 decrypts the parts of an upload to join them.
        actions = "kms: Decrypt GenerateDataKey"
        yield allow_key("EncryptArchives", actions, key, arns.location, condition)


def make_tenant_policy(config: Config, location: Location, name: str, *, aliases: bool) -> Document:
    """name: a name of `put --as`, as its reader has checked it.

    aliases: the tenant may read the table of aliases, which has every tenant's names. Raises
    Refused.
    """
    if config.endpoint.single_model is not None:
        raise Refused(
            f"the endpoint {config.endpoint.name} has one archive (endpoint.single_model is "
            f"{config.endpoint.single_model}): whoever may invoke it, asks that one; tenants need "
            "a multi-model endpoint, or an endpoint each"
        )
    return make_document(_list_tenant_statements(config, Arns(config, location), name, aliases))


def _list_tenant_statements(
    config: Config, arns: Arns, name: str, aliases: bool
) -> Iterator[Statement]:
    # StringLike reads IAM's own characters as themselves only inside of ${}.
    folder = re.sub(r"[*?$]", r"${\g<0>}", name)
    inside = {"StringLike": {_TARGET_MODEL: f"{folder}/*"}}
    yield allow("Invoke", "sagemaker: InvokeEndpoint", arns.endpoint, inside)
    # The asterisk matches slashes and dots, too: no path may lead out of the folder.
    outside = {"StringLike": {_TARGET_MODEL: "*..*"}}
    deny = allow("StayInside", "sagemaker: InvokeEndpoint", arns.endpoint, outside)
    yield {**deny, "Effect": "Deny"}
    if aliases:
        yield allow("ResolveAliases", "s3: GetObject", arns.aliases)
        # `put` encrypts the table, too.
        if (key := config.encryption.archives_key) is not None:
            condition = through_s3(arns.location)
            yield allow_key("DecryptAliases", "kms: Decrypt", key, arns.location, condition)
