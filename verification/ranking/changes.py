"""Outputs of NEW that are not OLD's: missing, new, of another type or shape. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ensemble_tools.answers.exchange import TensorAnswer
from ensemble_tools.answers.tensors import Tensor


@dataclass(frozen=True)
class Change:
    """One output of one request; a caller that reads OLD's answers stumbles over a breaking one."""

    output: str
    sentence: str
    breaks: bool


def list_changes(old: TensorAnswer, new: TensorAnswer) -> Iterator[Change]:
    """In alphabetical order of the outputs. Rows and lists may be of another length."""
    for name in sorted({*old.tensors, *new.tensors}):
        first, second = old.tensors.get(name), new.tensors.get(name)
        if second is None:
            yield Change(name, f"OLD answers {first}, NEW does not answer it", breaks=True)
        elif first is None:
            yield Change(name, f"NEW alone answers it, {second}", breaks=False)
        elif str(first) != str(second):
            sentence = f"OLD answers {first}, NEW {second}"
            yield Change(name, sentence, breaks=_write_form(first) != _write_form(second))


def _write_form(tensor: Tensor) -> tuple[str, int]:
    return tensor.data_type, tensor.array.ndim
