"""Names of Application Auto Scaling's resources, and its errors in the service's own words."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from merlin_simulator.control.errors import ServiceError
from merlin_simulator.errors import ACCOUNT

#: What is carried out here, of all that the service scales.
NAMESPACE = "sagemaker"
DIMENSION = "sagemaker:variant:DesiredInstanceCount"


class ObjectNotFound(ServiceError):
    """Nothing of that name is registered."""

    code = "ObjectNotFoundException"


class ResourceNotFound(ServiceError):
    """No resource of that ARN has tags."""

    code = "ResourceNotFoundException"


class TooManyTags(ServiceError):
    """More than a resource may have."""

    code = "TooManyTagsException"


class LimitExceeded(ServiceError):
    """One of the account's quotas."""

    code = "LimitExceededException"


class InvalidNextToken(ServiceError):
    """No token of a page before this one."""

    code = "InvalidNextTokenException"


@dataclass(frozen=True)
class VariantId:
    """A resource ID read: endpoint/NAME/variant/VARIANT."""

    endpoint: str
    variant: str

    def __str__(self) -> str:
        return f"endpoint/{self.endpoint}/variant/{self.variant}"


def read_resource(members: Mapping[str, Any]) -> VariantId:
    """Which variant a call is about. Raises ServiceError for what is not scaled here."""
    namespace, dimension = members["ServiceNamespace"], members["ScalableDimension"]
    found = _split(members["ResourceId"])
    if not dimension.startswith(f"{namespace}:") or (dimension == DIMENSION and found is None):
        # The service's own words.
        raise ServiceError("Unsupported service namespace, resource type or scalable dimension")
    if dimension != DIMENSION or found is None:
        raise ServiceError(
            f"{dimension} is not scaled here: expected ServiceNamespace {NAMESPACE}, "
            f"ScalableDimension {DIMENSION} and ResourceId endpoint/NAME/variant/VARIANT."
        )
    return found


def _split(resource: str) -> VariantId | None:
    parts = resource.split("/")
    if len(parts) != 4 or parts[0] != "endpoint" or parts[2] != "variant" or not all(parts):
        return None
    return VariantId(parts[1], parts[3])


def split_resource(resource: str) -> VariantId:
    """The ID of a target that is registered."""
    found = _split(resource)
    assert found is not None, resource
    return found


def _words(resource: str) -> str:
    return (
        f"service namespace: {NAMESPACE}, resource ID: {resource}, scalable dimension: {DIMENSION}"
    )


def no_target(resource: str) -> ObjectNotFound:
    """The service's own words (ansible#35632)."""
    return ObjectNotFound(f"No scalable target registered for {_words(resource)}")


def no_policy(resource: str, name: str) -> ObjectNotFound:
    """The service's own words, as moto has them."""
    return ObjectNotFound(f"No scaling policy found for {_words(resource)}, policy name: {name}")


def no_action(resource: str, name: str) -> ObjectNotFound:
    """In the words of the two above."""
    return ObjectNotFound(
        f"No scheduled action found for {_words(resource)}, scheduled action name: {name}"
    )


def make_id() -> str:
    """Of a policy, an alarm, an action or an activity."""
    return str(uuid.uuid4())


def target_arn(target_id: str, region: str) -> str:
    """Of a scalable target."""
    return f"arn:aws:application-autoscaling:{region}:{ACCOUNT}:scalable-target/{target_id}"


def policy_arn(policy_id: str, resource: str, name: str, region: str) -> str:
    """Of a scaling policy."""
    return (
        f"arn:aws:autoscaling:{region}:{ACCOUNT}:scalingPolicy:{policy_id}:"
        f"resource/{NAMESPACE}/{resource}:policyName/{name}"
    )


def action_arn(action_id: str, resource: str, name: str, region: str) -> str:
    """Of a scheduled action."""
    return (
        f"arn:aws:autoscaling:{region}:{ACCOUNT}:scheduledAction:{action_id}:"
        f"resource/{NAMESPACE}/{resource}:scheduledActionName/{name}"
    )


def alarm_arn(name: str, region: str) -> str:
    """Of an alarm of CloudWatch."""
    return f"arn:aws:cloudwatch:{region}:{ACCOUNT}:alarm:{name}"


def linked_role() -> str:
    """The service-linked role of all variants, as AWS documents its name."""
    return (
        f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/sagemaker.application-autoscaling."
        "amazonaws.com/AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    )
