"""AWS's managed policies in moto's IAM: read when somebody looks, and all of them then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from moto.core.config import default_user_config
from moto.iam import models

from merlin_simulator.control.iam import read_late

ACCOUNT = "123456789012"
FULL_ACCESS = "arn:aws:iam::aws:policy/AmazonSageMakerFullAccess"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How long each text was that moto's IAM has read as JSON."""
    lengths: list[int] = []

    def loads(text: str) -> Any:
        lengths.append(len(text))
        return json.loads(text)

    monkeypatch.setattr(models, "json", SimpleNamespace(loads=loads, dumps=json.dumps))
    monkeypatch.setitem(default_user_config["iam"], "load_aws_managed_policies", True)
    with read_late():
        yield lengths


def test_they_are_read_once_and_not_before_they_are_looked_at(read: list[int]) -> None:
    iam = models.IAMBackend("aws", ACCOUNT)
    assert iam.roles == {}
    assert read == []
    assert iam.get_policy(FULL_ACCESS).name == "AmazonSageMakerFullAccess"
    assert len(iam.managed_policies) == len(iam.aws_managed_policies) > 1000
    assert len(read) == 1
    assert read[0] > 10**6


@pytest.mark.usefixtures("read")
def test_a_policy_of_the_users_stands_beside_them() -> None:
    iam = models.IAMBackend("aws", ACCOUNT)
    statement = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    mine = iam.create_policy("", "/", document, "mine", [])
    kinds = ["AWSManagedPolicy", "LocalManagedPolicy"]
    told = iam.get_account_authorization_details(kinds)["managed_policies"]
    assert told == [*iam.aws_managed_policies, mine]
    assert mine not in iam.aws_managed_policies
    iam.delete_policy(mine.arn)
    assert mine.arn not in iam.managed_policies
    assert FULL_ACCESS in iam.managed_policies
