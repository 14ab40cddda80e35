"""What is wrong with a call is told by the real service's code, and in its words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx
import pytest
from botocore.exceptions import ClientError

from simulator.tests.support.control_plane import IMAGE, ROLE, ControlPlane, make_variant

URL = "s3://models/shop/"
MULTI = {"Image": IMAGE, "Mode": "MultiModel", "ModelDataUrl": URL}
ARN = "arn:aws:sagemaker:us-east-1:123456789012"


def _model(**changes: Any) -> dict[str, Any]:
    """Of a good model's members and its container's, with these changed, or left out for None."""
    ours, container = {"ModelName": "m", "ExecutionRoleArn": ROLE, **changes}, dict(MULTI)
    for name in MULTI.keys() & changes.keys():
        container[name] = ours.pop(name)
    ours = {"PrimaryContainer": _without_none(container), **ours}
    return _without_none(ours)


def _without_none(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def _config(*variants: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"EndpointConfigName": "c", "ProductionVariants": list(variants), **changes}


#: A call, and of each that SageMaker refuses its members and words of the ValidationException.
REFUSED: dict[str, list[tuple[dict[str, Any], str]]] = {
    "create_model": [
        (
            _model(ModelName="my_model"),
            "1 validation error detected: Value 'my_model' at 'modelName' failed to satisfy "
            "constraint: Member must satisfy regular expression pattern: ",
        ),
        (
            _model(ExecutionRoleArn="sagemaker-role-of-mine"),
            "Value 'sagemaker-role-of-mine' at 'executionRoleArn' failed to satisfy constraint",
        ),
        (_model(ExecutionRoleArn=None), "ExecutionRoleArn"),
        (
            _model(Mode="Many"),
            "Value 'Many' at 'primaryContainer.mode' failed to satisfy constraint: Member must "
            "satisfy enum value set: [SingleModel, MultiModel]",
        ),
        (
            _model(ModelDataUrl="s3://not-there/shop/"),
            "Could not find model data at s3://not-there/shop/.",
        ),
        (
            _model(Mode=None, ModelDataUrl="s3://models/none.tar.gz"),
            "Could not find model data at s3://models/none.tar.gz.",
        ),
        (
            _model(ModelDataUrl="/opt/models"),
            "at 'primaryContainer.modelDataUrl' failed to satisfy constraint",
        ),
        (
            _model(Image=None),
            "The container has no Image",
        ),
        (_model(Containers=[MULTI]), "Exactly one of PrimaryContainer and Containers"),
        (_model(PrimaryContainer=None, Containers=[MULTI, MULTI]), "Containers has 2 members"),
        (
            _model(Tags=[{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]),
            "Duplicate tag keys found: a.",
        ),
        (_model(ModelName="there"), f'Cannot create already existing model "{ARN}:model/there".'),
    ],
    "create_endpoint_config": [
        (_config(make_variant("nobody")), f'Could not find model "{ARN}:model/nobody".'),
        (
            _config(make_variant("there", InstanceType="ml.huge")),
            "Value 'ml.huge' at 'productionVariants.1.member.instanceType' failed to satisfy "
            "constraint: Member must satisfy enum value set: [ml.",
        ),
        (
            _config(make_variant("there"), make_variant("there")),
            "Duplicate production variant names: AllTraffic.",
        ),
        (
            _config(make_variant("there"), EndpointConfigName="there"),
            f'Cannot create already existing endpoint configuration "{ARN}:endpoint-config/there".',
        ),
        (
            _config(
                {
                    "VariantName": "a",
                    "ModelName": "there",
                    "ServerlessConfig": {"MemorySizeInMB": 1024, "MaxConcurrency": 1},
                }
            ),
            "does not play serverless inference",
        ),
    ],
    "create_endpoint": [
        (
            {"EndpointName": "e", "EndpointConfigName": "none"},
            f'Could not find endpoint configuration "{ARN}:endpoint-config/none".',
        ),
        (
            {"EndpointName": "there", "EndpointConfigName": "there"},
            f'Cannot create already existing endpoint "{ARN}:endpoint/there".',
        ),
        (
            {"EndpointName": "There", "EndpointConfigName": "there"},
            f'Cannot create already existing endpoint "{ARN}:endpoint/there".',
        ),
    ],
    "describe_endpoint": [
        ({"EndpointName": "none"}, f'Could not find endpoint "{ARN}:endpoint/none".')
    ],
    "delete_endpoint": [({"EndpointName": "none"}, "Could not find endpoint")],
    "delete_model": [({"ModelName": "none"}, "Could not find model")],
    "update_endpoint": [
        ({"EndpointName": "none", "EndpointConfigName": "there"}, "Could not find endpoint")
    ],
    "update_endpoint_weights_and_capacities": [
        (
            {
                "EndpointName": "there",
                "DesiredWeightsAndCapacities": [
                    {"VariantName": "other", "DesiredInstanceCount": 1}
                ],
            },
            'Could not find variant "other"',
        ),
    ],
    "list_endpoints": [({"NextToken": "mine"}, "Invalid pagination token")],
    "add_tags": [
        (
            {"ResourceArn": f"{ARN}:endpoint/none", "Tags": [{"Key": "a", "Value": "b"}]},
            "Could not find resource",
        ),
    ],
}


@pytest.fixture(scope="module", autouse=True)
def there(plane: ControlPlane) -> None:
    """A model, a configuration and an endpoint of the name `there`; `many` is too many."""
    plane.create_endpoint("there", URL)
    plane.client("sagemaker").create_endpoint_config(
        EndpointConfigName="many",
        ProductionVariants=[make_variant("there", 2, InstanceType="ml.p4d.24xlarge")],
    )


@pytest.mark.parametrize(
    ("operation", "members", "words"),
    [(call, *row) for call, rows in REFUSED.items() for row in rows],
)
def test_a_call_that_is_refused(
    plane: ControlPlane, operation: str, members: dict[str, Any], words: str
) -> None:
    error = _refused(plane, operation, members)
    assert (error["Code"], words in error["Message"]) == ("ValidationException", True), error


def test_more_instances_than_the_account_may_have(plane: ControlPlane) -> None:
    error = _refused(plane, "create_endpoint", {"EndpointName": "e", "EndpointConfigName": "many"})
    assert error["Code"] == "ResourceLimitExceeded"
    assert (
        "The account-level service limit 'ml.p4d.24xlarge for endpoint usage' is 1 Instances, with "
        "current utilization of 0 Instances and a request delta of 2 Instances."
    ) in error["Message"]


def _refused(plane: ControlPlane, operation: str, members: dict[str, Any]) -> dict[str, str]:
    sagemaker = plane.client("sagemaker", parameter_validation=False)
    with pytest.raises(ClientError) as refused:
        getattr(sagemaker, operation)(**members)
    error: dict[str, str] = refused.value.response["Error"]
    return error


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "ValidationException"),
        (b"[]", "SerializationException"),
        (b"{", "SerializationException"),
        (b"\xff\xfe", "SerializationException"),
        (b"[" * 100_000, "SerializationException"),
        (b'{"EndpointName": 7}', "SerializationException"),
        (b'{"EndpointName": {"a": 1}}', "SerializationException"),
        (b'{"EndpointName": null}', "ValidationException"),
        (b'{"EndpointName": "' + b"a" * 100_000 + b'"}', "ValidationException"),
    ],
    # What a test is called is in the environment of the processes that it starts.
    ids=lambda value: str(value)[:40],
)
def test_a_body_that_no_client_sends(plane: ControlPlane, body: bytes, code: str) -> None:
    answer = _describe(plane, body)
    assert answer.status_code == 400
    assert answer.json()["__type"] == code


def test_a_body_that_is_too_large(plane: ControlPlane) -> None:
    """It is said as such, whatever is in it."""
    assert _describe(plane, b" " * (5 * 1024 * 1024)).status_code == 413


def _describe(plane: ControlPlane, body: bytes) -> httpx.Response:
    headers = {
        "X-Amz-Target": "SageMaker.DescribeEndpoint",
        "Content-Type": "application/x-amz-json-1.1",
    }
    return httpx.post(plane.url, content=body, headers=headers, trust_env=False, timeout=60)


def test_pages_and_filters(plane: ControlPlane) -> None:
    sagemaker = plane.client("sagemaker")
    for number in range(12):
        plane.create_model(f"paged-{number:02}", URL)
    first = sagemaker.list_models(NameContains="PAGED", SortBy="Name", SortOrder="Ascending")
    assert [one["ModelName"] for one in first["Models"]][:2] == ["paged-00", "paged-01"]
    assert len(first["Models"]) == 10
    pages = sagemaker.get_paginator("list_models").paginate(
        NameContains="paged", PaginationConfig={"PageSize": 5}
    )
    assert [len(page["Models"]) for page in pages] == [5, 5, 2]
    created = sagemaker.describe_model(ModelName="paged-05")["CreationTime"]
    hour, named = timedelta(hours=1), {"NameContains": "paged", "MaxResults": 100}
    found = [
        len(sagemaker.list_models(**named, **{f"CreationTime{side}": at})["Models"])
        for side in ("After", "Before")
        for at in (created - hour, created + hour)
    ]
    assert found == [12, 0, 0, 12]
    assert sagemaker.list_endpoints(StatusEquals="Failed")["Endpoints"] == []
