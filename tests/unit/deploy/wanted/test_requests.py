"""Every request is one that AWS takes, as far as its service models say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.session import Session, get_session
from botocore.validate import ParamValidator

from deploy.wanted.wanted import Facts, Wanted, make_wanted
from simulator.control.validation import check_members
from tests.support.deploy_grid import make_grid

Request = tuple[str, str, dict[str, Any]]


def test_requests_pass_botocore_and_the_models_patterns() -> None:
    """Over every shape of a configuration: botocore's own validator, then what it leaves to AWS."""
    session, validator = get_session(), ParamValidator()
    seen = set()
    for words, config in make_grid().items():
        url = f"{config.endpoint.archives}archives/shop-a/0123.tar.gz"
        for service, operation, members in requests(
            make_wanted(config, Facts(config.endpoint.image, url))
        ):
            shape = input_shape(session, service, operation)
            errors = validator.validate(members, shape)
            assert not errors.has_errors(), (words, operation, errors.generate_report())
            check_members(shape, members)
            seen.add(operation)
    assert len(seen) == 7


def requests(wanted: Wanted) -> Iterator[Request]:
    """As `up` sends them."""
    tags = list(wanted.tags)
    names = {"EndpointName": wanted.endpoint_name, "EndpointConfigName": wanted.config_name}
    yield "sagemaker", "CreateModel", {**wanted.model, "Tags": tags}
    yield "sagemaker", "CreateEndpointConfig", {**wanted.endpoint_config, "Tags": tags}
    yield "sagemaker", "CreateEndpoint", {**names, "Tags": tags}
    yield "sagemaker", "UpdateEndpoint", {**names, "DeploymentConfig": wanted.deployment}
    if wanted.target is not None and wanted.policy is not None:
        yield "application-autoscaling", "RegisterScalableTarget", dict(wanted.target)
        yield "application-autoscaling", "PutScalingPolicy", dict(wanted.policy)
    for alarm in wanted.alarms:
        yield "cloudwatch", "PutMetricAlarm", dict(alarm)


def input_shape(session: Session, service: str, operation: str) -> Any:
    """Of an operation's members."""
    return session.get_service_model(service).operation_model(operation).input_shape
