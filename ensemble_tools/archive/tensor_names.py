"""Names of tensors: how a column becomes tensors, and how ensemble tensors are told apart."""

from __future__ import annotations

#: merlin-systems sends a ragged list column as two tensors (merlin/systems/triton/conversions.py).
VALUES, OFFSETS = "__values", "__offsets"


def list_ragged_tensors(column: str) -> tuple[str, str]:
    """The two tensors of a ragged column: values (N elements) and offsets (rows + 1, INT32)."""
    return column + VALUES, column + OFFSETS


def find_column(tensor: str) -> str:
    """The column that a tensor belongs to: the name without the suffix of a ragged column."""
    return tensor.removesuffix(VALUES if tensor.endswith(VALUES) else OFFSETS)


def is_part_of_list(column: str) -> bool:
    """Whether Merlin takes a column of this name for a part of a list column.

    merlin-core's group_values_offsets, which every table of columns goes through.
    """
    return column.endswith((VALUES, OFFSETS))


def name_produced(step: str, tensor: str) -> str:
    """The ensemble tensor for what a step puts out under a name that others may use as well.

    An ensemble has one name space for all tensors. A workflow that keeps its column names would
    otherwise wire its input to its reader (NVIDIA's removed exporter used the same suffix).
    """
    return f"{tensor}.{step}"
