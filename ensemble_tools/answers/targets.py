"""Which outputs of an answer rank items, and how: by their scores, or as a list of ids. No I/O.

A recommender of Merlin answers in one of three ways: a score for each row of the request, whose
rows are candidates; a score for each item of a catalogue, in each row; or ids, best first, with or
without their scores.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ensemble_tools.answers.exchange import TensorAnswer
from ensemble_tools.answers.tensors import STRINGS, Array, Tensor
from ensemble_tools.errors import NothingRanked


@dataclass(frozen=True)
class Target:
    """One ranking of an answer: the output of scores, the output of ids, or both."""

    scores: str | None = None
    ids: str | None = None

    @property
    def name(self) -> str:
        """The outputs' names."""
        return " with ".join(name for name in (self.ids, self.scores) if name is not None)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that it is read from."""
        return tuple(name for name in (self.scores, self.ids) if name is not None)


def find_targets(
    answer: TensorAnswer, scores: tuple[str, ...] = (), ids: str | None = None
) -> tuple[Target, ...]:
    """The targets of an answer: those that are named, else those that its outputs show.

    Floats are scores, a target each. One output of whole numbers or strings in the shape of the
    scores, whose values do not repeat within a list of several, has the ids. Raises NothingRanked.
    """
    tensors = answer.tensors
    described = ", ".join(f"{name} {tensor}" for name, tensor in sorted(tensors.items()))
    for option, name in (*(("--scores", name) for name in scores), ("--ids", ids)):
        if name is not None and name not in tensors:
            raise NothingRanked(f"no output is called {name!r}, as {option} says", described)
        if option == "--scores" and name is not None and tensors[name].data_type == STRINGS:
            raise NothingRanked(f"the output {name!r} has strings, which are no scores", described)
    floats = [name for name, tensor in sorted(tensors.items()) if tensor.is_float]
    if ids is not None:
        with_ids = scores or tuple(name for name in floats if _fits(tensors[name], tensors[ids]))
        return tuple(Target(name, ids) for name in with_ids) or (Target(None, ids),)
    if scores:
        return tuple(Target(name) for name in scores)
    shown = [
        name
        for name, tensor in sorted(tensors.items())
        if _may_be_ids(tensor) and any(_fits(tensors[other], tensor) for other in floats)
    ]
    if len(shown) > 1:
        raise NothingRanked(
            f"any of the outputs {', '.join(shown)} may have the ids: name it with --ids, or the "
            "scores of the request's rows with --scores",
            described,
        )
    if shown:
        return find_targets(answer, ids=shown[0])
    if not floats:
        raise NothingRanked(
            "no output has scores (floats): name the one that has scores with --scores, or the one "
            "that lists ids with --ids",
            described,
        )
    return tuple(Target(name) for name in floats)


def has_lists(answer: TensorAnswer) -> bool:
    """Whether an output lists more than one item: of one alone nothing tells ids from classes."""
    return any(split_lists(it.array).shape[1] > 1 for it in answer.tensors.values())


def split_lists(array: Array) -> Array:
    """The lists of an output, a row each: [5] and [5, 1] are one list of 5, [5, 15] are five."""
    sizes = list(array.shape) or [1]
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return array.reshape(int(np.prod(sizes[:-1])), sizes[-1])


def _fits(scores: Tensor, ids: Tensor) -> bool:
    return bool(split_lists(scores.array).shape == split_lists(ids.array).shape)


def _may_be_ids(tensor: Tensor) -> bool:
    if tensor.is_float or tensor.data_type == "BOOL":
        return False
    lists = split_lists(tensor.array)
    return lists.shape[1] > 1 and all(len({*row.tolist()}) == len(row) for row in lists)
