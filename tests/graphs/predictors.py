"""Tiny TorchScript predictors whose every output depends on every input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from tests.graphs.columns import FIXED, RAGGED, Col

TORCH_TYPES = {
    "bool": torch.bool,
    "uint8": torch.uint8,
    "int8": torch.int8,
    "int16": torch.int16,
    "int32": torch.int32,
    "int64": torch.int64,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
    # Torch has them, libtorch's backend does not take them.
    "uint16": torch.uint16,
    "uint32": torch.uint32,
    "uint64": torch.uint64,
}
#: Rows of the example that a model is traced with; nothing of it may stay in the trace.
TRACED_ROWS = 3


class Mixer(torch.nn.Module):  # type: ignore[misc]  # torch has no types in the checker's environment
    """A score a row, the weighted sum of the inputs' sines, made into each of the outputs."""

    def __init__(self, inputs: Sequence[Col], outputs: Sequence[Col]) -> None:
        super().__init__()
        self.inputs, self.outputs = list(inputs), list(outputs)

    def mixed(self, batch: Mapping[str, torch.Tensor]) -> Any:
        """The outputs for a dictionary of tensors: one tensor, or a tuple."""
        parts = [
            (place + 1) * 0.37 * self._rows(col, batch) for place, col in enumerate(self.inputs)
        ]
        score = torch.stack(parts).sum(dim=0)
        made: list[torch.Tensor] = []
        for place, col in enumerate(self.outputs):
            made += self._output(col, score * (place + 1))
        return made[0] if len(made) == 1 else tuple(made)

    def _rows(self, col: Col, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        if col.kind == RAGGED:
            values = torch.sin(batch[f"{col.name}__values"].double())
            offsets = batch[f"{col.name}__offsets"].long()
            running = torch.cat([torch.zeros(1, dtype=torch.float64), values.cumsum(0)])
            return (
                running[offsets[1:]] - running[offsets[:-1]] + 0.01 * (offsets[1:] - offsets[:-1])
            )
        values = torch.sin(batch[col.name].double())
        if col.kind == FIXED:
            values = (values * torch.arange(1, col.width + 1, dtype=torch.float64)).sum(dim=1)
        return values

    def _output(self, col: Col, score: torch.Tensor) -> list[torch.Tensor]:
        if col.kind == FIXED:
            score = torch.stack([score + 0.5 * place for place in range(col.width)], dim=1)
        if col.kind == RAGGED:
            # Each row has two values.
            values = torch.stack([score, -score], dim=1).reshape(-1)
            offsets = torch.cat([torch.zeros_like(score[:1]), torch.ones_like(score)]).cumsum(0) * 2
            return [self._typed(col, values), offsets.int()]
        return [self._typed(col, score)]

    def _typed(self, col: Col, score: torch.Tensor) -> torch.Tensor:
        if col.dtype == "bool":
            return score > 0
        scaled = score if col.dtype.startswith("float") else torch.nan_to_num(score).abs() * 9
        return scaled.to(TORCH_TYPES[col.dtype])


class TakesDict(Mixer):
    """forward takes one dictionary."""

    def forward(self, batch: dict[str, torch.Tensor]) -> Any:
        return self.mixed(batch)


def takes_arguments(inputs: Sequence[Col], outputs: Sequence[Col]) -> Mixer:
    """forward takes each tensor as an argument of its name."""
    names = tensor_names(inputs)
    source = f"def forward(self, {', '.join(names)}):\n" + (
        f"    return self.mixed({{{', '.join(f'{name!r}: {name}' for name in names)}}})\n"
    )
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    made: Mixer = type("TakesArguments", (Mixer,), {"forward": namespace["forward"]})(
        inputs, outputs
    )
    return made


def tensor_names(cols: Sequence[Col]) -> list[str]:
    """The tensors of the columns, in the config's order."""
    names: list[str] = []
    for col in cols:
        ragged = col.kind == RAGGED
        names += [f"{col.name}__values", f"{col.name}__offsets"] if ragged else [col.name]
    return names


def traced(inputs: Sequence[Col], outputs: Sequence[Col], *, as_dict: bool) -> Any:
    """The TorchScript module for these columns."""
    example: dict[str, torch.Tensor] = {}
    for col in inputs:
        dtype = TORCH_TYPES[col.dtype]
        if col.kind == RAGGED:
            example[f"{col.name}__values"] = torch.ones(2 * TRACED_ROWS, dtype=dtype)
            example[f"{col.name}__offsets"] = torch.arange(TRACED_ROWS + 1, dtype=torch.int32) * 2
        else:
            shape = [TRACED_ROWS, col.width] if col.kind == FIXED else [TRACED_ROWS]
            example[col.name] = torch.ones(shape, dtype=dtype)
    if as_dict:
        return torch.jit.trace(
            TakesDict(inputs, outputs), (example,), strict=False, check_trace=False
        )
    return torch.jit.trace(
        takes_arguments(inputs, outputs), tuple(example.values()), check_trace=False
    )
