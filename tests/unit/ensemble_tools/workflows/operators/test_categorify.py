"""Categorify: where its category files lie, and which parameters are compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ensemble_tools.archive.executor_graph import Operator
from ensemble_tools.workflows.errors import NotCompiled
from tests.support.fitted_operators import CATEGORIES, compiled, operator


def categorify(**changed: Any) -> Operator:
    return operator("categorify.Categorify", **{**CATEGORIES, **changed})


def test_category_files_lie_in_the_workflow() -> None:
    """Where the exporter had them is of no account."""
    (table,) = compiled(categorify()).tables
    assert table.path == Path("/none/categories/unique.age.parquet")


def test_sizes_of_columns_that_are_encoded_jointly() -> None:
    """Their file has those of all of them."""
    (alone,) = compiled(categorify()).tables
    assert not alone.has_shared_sizes
    files = {"age_user": "/exported/categories/unique.age_user.parquet"}
    (joint,) = compiled(categorify(storage_name={"age": "age_user"}, categories=files)).tables
    assert joint.has_shared_sizes


@pytest.mark.parametrize(
    "path",
    [
        "/elsewhere/unique.age.parquet",
        "/exported/../../etc/passwd",
        "/etc/passwd",
        "",
        "categories/unique.age.parquet",
        5,
        None,
    ],
)
def test_category_files_elsewhere_are_not_read(path: Any) -> None:
    with pytest.raises(NotCompiled, match="category file is not among"):
        compiled(categorify(categories={"age": path}))


@pytest.mark.parametrize(
    "changed",
    [
        {"encode_type": "other"},
        {"dtype": "str"},
        {"search_sorted": True},
        {"split_out": 2},
        {"split_out": {"age": 3}},
        {"cat_cache": None},
        {"categories": None},
        {"categories": {}},
        {"storage_name": ["age"]},
        {"single_table": "yes"},
        {"num_buckets": {"age": 0}},
        {"num_buckets": {"age": "5"}},
        {"num_buckets": {"age": 2**63}},
        {"num_buckets": 2**31 - 200, "dtype": "int32"},
        {"num_buckets": {"age": 2**40}, "dtype": "uint8"},
        {"num_buckets": -1},
        {"out_path": ""},
        {"out_path": None},
    ],
)
def test_categorify_with_other_parameters(changed: dict[str, Any]) -> None:
    with pytest.raises(NotCompiled, match=r"^Categorify of 'age': "):
        compiled(categorify(**changed))


def test_more_buckets_than_32_bits() -> None:
    """The labels of columns with 64 bits are as they are without buckets."""
    assert compiled(categorify(num_buckets=2**40, dtype="int64")).tables[0].shift == 2 + 2**40
    assert compiled(categorify(num_buckets=2**30, dtype="int32")).tables[0].shift == 2 + 2**30


@pytest.mark.parametrize("missing", CATEGORIES)
def test_categorify_of_another_release(missing: str) -> None:
    """A parameter that is not there is not guessed."""
    state = {name: value for name, value in CATEGORIES.items() if name != missing}
    with pytest.raises(NotCompiled, match=f"it has no {missing}: another NVTabular"):
        compiled(operator("categorify.Categorify", **state))
