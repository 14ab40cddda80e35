"""Answers for tests, from numpy's arrays."""

from __future__ import annotations

from typing import Any

from ensemble_tools.answers.exchange import TensorAnswer
from ensemble_tools.answers.tensors import NUMPY_TYPES, Tensor

_DATA_TYPES = {name: data_type for data_type, name in NUMPY_TYPES.items()}


def answer(**arrays: Any) -> TensorAnswer:
    """Output name -> array."""
    return TensorAnswer(
        {name: Tensor(_DATA_TYPES[one.dtype.name], one) for name, one in arrays.items()}
    )
