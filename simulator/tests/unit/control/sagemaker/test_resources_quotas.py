"""Quotas of instances."""

from __future__ import annotations

from typing import Any

import pytest

from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.sagemaker.resources import check_quotas

QUOTAS = {"ml.c5.xlarge": 2}


def variant(count: int) -> dict[str, Any]:
    return {"InstanceType": "ml.c5.xlarge", "InitialInstanceCount": count}


def test_all_variants_of_a_call_count_together() -> None:
    check_quotas(QUOTAS, [variant(1), variant(1)], [])
    with pytest.raises(ServiceError, match="request delta of 2 Instances") as refused:
        check_quotas(QUOTAS, [variant(1), variant(1)], [("ml.c5.xlarge", 1)])
    assert refused.value.code == "ResourceLimitExceeded"


def test_fewer_instances_are_never_too_many() -> None:
    check_quotas(QUOTAS, [variant(-1)], [("ml.c5.xlarge", 5)])


def test_other_types_have_none() -> None:
    check_quotas(QUOTAS, [{**variant(9), "InstanceType": "ml.m5.large"}], [])
