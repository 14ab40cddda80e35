"""The requests that `up` sends, held against AWS's service models as botocore has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.session import get_session
from botocore.validate import ParamValidator

from merlin_deploy.config.sections import Config
from merlin_deploy.desired import Desired, Facts, make_desired
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.validation import read_members

Request = tuple[str, str, dict[str, Any]]
_SESSION, _VALIDATOR = get_session(), ParamValidator()


def check_config(config: Config) -> set[str]:
    """The operations of all its requests, each of which AWS would take. Raises AssertionError."""
    url = f"{config.endpoint.archives}archives/shop-a/0123.tar.gz"
    wanted = make_desired(config, Facts(str(config.endpoint.image), url))
    operations = set()
    for service, operation, members in make_requests(wanted):
        shape = _input_shape(service, operation)
        errors = _VALIDATOR.validate(members, shape)
        assert not errors.has_errors(), (operation, errors.generate_report())
        try:
            read_members(shape, members)
        except ServiceError as error:
            raise AssertionError(f"{operation}: {error}") from error
        operations.add(operation)
    return operations


def make_requests(wanted: Desired) -> Iterator[Request]:
    """As `up` sends them."""
    tags = list(wanted.tags)
    names = {"EndpointName": wanted.endpoint_name, "EndpointConfigName": wanted.config_name}
    yield "sagemaker", "CreateModel", {**wanted.model, "Tags": tags}
    yield "sagemaker", "CreateEndpointConfig", {**wanted.endpoint_config, "Tags": tags}
    # As many as `up` adds: the history, and the step of a rollback.
    more = [{"Key": f"deploy:{name}", "Value": ""} for name in ("history", "rollback")]
    yield "sagemaker", "CreateEndpoint", {**names, "Tags": [*tags, *more]}
    yield "sagemaker", "UpdateEndpoint", {**names, "DeploymentConfig": wanted.deployment}
    if wanted.target is not None and wanted.policy is not None:
        yield "application-autoscaling", "RegisterScalableTarget", dict(wanted.target)
        yield "application-autoscaling", "PutScalingPolicy", dict(wanted.policy)
    for alarm in wanted.alarms:
        yield "cloudwatch", "PutMetricAlarm", dict(alarm)


def _input_shape(service: str, operation: str) -> Any:
    """Of an operation's members."""
    return _SESSION.get_service_model(service).operation_model(operation).input_shape
