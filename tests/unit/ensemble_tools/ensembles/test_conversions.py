"""What lies between a column that is produced and the one that is required: every case."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.ensembles.conversions import (
    Conversion,
    ConversionKind,
    EnsembleTensor,
    Produced,
    Required,
    describe_producer,
    find_conversion,
)
from ensemble_tools.ensembles.producers import ANSWER, REQUEST, FromCall, FromInline
from ensemble_tools.errors import GraphNotServable

PATH = Path("ensemble.pkl")
WORKFLOW = FromCall("0_workflow/2")


def dense(data_type: str, *dims: int) -> tuple[TensorSpec, ...]:
    return (TensorSpec("c", f"TYPE_{data_type}", dims),)


def ragged(data_type: str) -> tuple[TensorSpec, ...]:
    return (
        TensorSpec("c__values", f"TYPE_{data_type}", (-1,)),
        TensorSpec("c__offsets", "TYPE_INT32", (-1,)),
    )


def produced(
    specs: tuple[TensorSpec, ...], *, checked: bool = False, batched: str = ""
) -> Produced:
    return Produced(WORKFLOW, specs, checked, batched)


def required(
    specs: tuple[TensorSpec, ...], dtype: str | None = None, batched: str = ""
) -> Required:
    return Required("1_predict", "Predict", "c", dtype, specs, batched)


def found(source: Produced, target: Required) -> Conversion:
    conversion = find_conversion(source, target, PATH)
    assert conversion is not None
    assert (conversion.reader, conversion.columns) == (target.reader, ("c",))
    assert conversion.reads == source.tensors
    return conversion


@pytest.mark.parametrize("specs", [dense("INT64", -1), dense("FP32", -1, 3), ragged("INT64")])
@pytest.mark.parametrize("checked", [True, False])
def test_what_is_alike_needs_nothing(specs: tuple[TensorSpec, ...], checked: bool) -> None:
    """1b: one form, one type, one shape."""
    assert find_conversion(produced(specs, checked=checked), required(specs), PATH) is None


@pytest.mark.parametrize(("given", "wanted"), [((-1, 3), (-1, -1)), ((4, -1), (-1, 3))])
def test_an_open_size_fits_any(given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    """1b: two sizes differ when both are fixed."""
    source = produced(dense("INT64", *given), checked=True)
    assert find_conversion(source, required(dense("INT64", *wanted)), PATH) is None


@pytest.mark.parametrize("wanted", [(-1,), (-1, 3, 1), (-1, 4)])
def test_a_shape_that_triton_checks_must_fit(wanted: tuple[int, ...]) -> None:
    """1a: another rank, or another fixed size."""
    source = produced(dense("INT64", -1, 3), checked=True)
    with pytest.raises(GraphNotServable) as refused:
        find_conversion(source, required(dense("INT64", *wanted)), PATH)
    assert str(refused.value) == (
        f"ensemble.pkl: Predict, column 'c': 0_workflow gives the shape [-1, 3] where "
        f"{list(wanted)} is expected, so Merlin's executor fails as well; fit and export it again "
        "with one shape throughout"
    )


@pytest.mark.parametrize(("by_source", "by_reader"), [("first", ""), ("", "first"), ("first", "x")])
def test_a_batch_dimension_is_the_cause(by_source: str, by_reader: str) -> None:
    """1a: a model that batches is named, the one that produces before the one that reads."""
    source = produced(dense("INT64", -1, -1), checked=True, batched=by_source)
    target = required(dense("INT64", -1), batched=by_reader)
    with pytest.raises(GraphNotServable, match=r"\(max_batch_size of first .*; export with max_"):
        find_conversion(source, target, PATH)


def test_a_declared_shape_that_nobody_checks_is_passed_on() -> None:
    """1c: a python model answers with what it likes, so that a step passes it on as it is."""
    conversion = found(produced(dense("INT64", -1, 3)), required(dense("INT64", -1)))
    assert conversion.kind is ConversionKind.PASS_ON
    assert conversion.dtype is None
    assert conversion.writes == dense("INT64", -1)
    assert conversion.why == "0_workflow declares the shape [-1, 3] where [-1] is expected"


def test_another_type_is_cast() -> None:
    """1d: to the type of the operator's schema."""
    source = produced(dense("INT32", -1), checked=True)
    conversion = found(source, required(dense("INT64", -1), "int64"))
    assert (conversion.kind, conversion.dtype) == (ConversionKind.CAST, "int64")
    assert conversion.writes == dense("INT64", -1)
    assert conversion.why == "0_workflow gives INT32 where INT64 is expected"


def test_only_values_of_a_ragged_column_are_cast() -> None:
    """1d: offsets are INT32 on both sides."""
    conversion = found(produced(ragged("INT32")), required(ragged("FP32"), "float32"))
    assert (conversion.kind, conversion.dtype) == (ConversionKind.CAST, "float32")
    assert conversion.writes == ragged("FP32")


def test_the_answer_is_not_held_to_its_declared_shape() -> None:
    """1: it takes the shape that comes; its type is its schema's, whatever its config has."""
    source = produced(dense("FP64", -1, 3), checked=True)
    target = replace(required(dense("INT64", -1), "float32"), reader=ANSWER)
    conversion = found(source, target)
    assert (conversion.kind, conversion.dtype) == (ConversionKind.CAST, "float32")
    assert conversion.writes == dense("FP32", -1, 3)
    assert find_conversion(source, replace(target, dtype="float64"), PATH) is None


def test_dense_rows_are_split() -> None:
    """2: dense where a ragged list is required."""
    source = produced(dense("INT64", -1, 2), checked=True)
    conversion = found(source, required(ragged("INT64"), "int64"))
    assert (conversion.kind, conversion.dtype) == (ConversionKind.RAGGED, "int64")
    assert conversion.writes == ragged("INT64")
    assert conversion.why == (
        "0_workflow gives the dense shape [-1, 2] where a ragged list is expected"
    )


def test_a_single_size_has_no_rows_to_split() -> None:
    """2: refused where Triton holds the source to it; a python model may answer with rows."""
    target = required(ragged("INT64"), "int64")
    with pytest.raises(GraphNotServable, match=r"gives the shape \[-1\] where \[-1\]"):
        find_conversion(produced(dense("INT64", -1), checked=True), target, PATH)
    assert found(produced(dense("INT64", -1)), target).kind is ConversionKind.RAGGED


def test_ragged_rows_are_joined() -> None:
    """3: ragged where a dense tensor is required."""
    conversion = found(produced(ragged("INT32")), required(dense("INT64", -1, 3), "int64"))
    assert (conversion.kind, conversion.dtype) == (ConversionKind.DENSE, "int64")
    assert conversion.writes == dense("INT64", -1, 3)
    assert conversion.why == (
        "0_workflow gives a ragged list where the dense shape [-1, 3] is expected"
    )


def test_rows_are_not_joined_to_an_open_length() -> None:
    """3: the executor fails as well."""
    with pytest.raises(GraphNotServable, match=r"row length is open.*; fix the length"):
        find_conversion(produced(ragged("INT64")), required(dense("INT64", -1, -1)), PATH)


def test_the_operator_sends_the_type_of_its_schema() -> None:
    """A config that has another is one on which the executor fails."""
    with pytest.raises(GraphNotServable, match=r"sends TYPE_FP32 and the model's config has TYPE_"):
        find_conversion(produced(dense("FP32", -1)), required(dense("INT64", -1), "float32"), PATH)


@pytest.mark.parametrize("dtype", [None, "string", "object"])
def test_a_type_that_triton_does_not_have_leaves_what_comes(dtype: str | None) -> None:
    """Then the source's type must be the reader's, and rows are joined without a cast."""
    target = required(dense("STRING", -1, 2), dtype)
    conversion = found(produced(ragged("STRING")), target)
    assert (conversion.kind, conversion.dtype) == (ConversionKind.DENSE, None)
    with pytest.raises(GraphNotServable, match="the operator sends TYPE_INT64"):
        find_conversion(produced(dense("INT64", -1, 2)), target, PATH)


def test_tensors_of_what_is_produced() -> None:
    """By the names that they have where they are put out."""
    assert produced(ragged("INT64")).tensors == (
        EnsembleTensor(WORKFLOW, "c__values"),
        EnsembleTensor(WORKFLOW, "c__offsets"),
    )


def test_who_that_is() -> None:
    """People know models, not keys of calls."""
    assert describe_producer(REQUEST) == "the request"
    assert describe_producer(WORKFLOW) == "0_workflow"
    assert describe_producer(FromInline("3")) == "3"
