"""Writes the TorchScript models of test_pytorch.py; run by the models' Python.

python make_torch_models.py DIRECTORY -> DIRECTORY/<name>.pt
"""
# torch's classes are Any where torch is not installed, as in the server's environment:
# mypy: disable-error-code="misc"

from __future__ import annotations

import sys
from pathlib import Path
from typing import Dict, List, Tuple  # noqa: UP035 - TorchScript reads these

import torch


class Sub(torch.nn.Module):
    """Not symmetric, so that swapped inputs are seen."""

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left - right


class Pair(torch.nn.Module):
    """Two outputs of different types."""

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:  # noqa: UP006
        return left - right, (left > right).long()


class Keys(torch.nn.Module):
    """A dict in, a tensor out."""

    def forward(self, batch: Dict[str, torch.Tensor]) -> torch.Tensor:  # noqa: UP006
        return batch["a"] - batch["b__offsets"].float()


class DictOut(torch.nn.Module):
    """libtorch refuses a dict of outputs."""

    def forward(self, x: torch.Tensor) -> Dict[str, torch.Tensor]:  # noqa: UP006
        return {"y": x}


class Double(torch.nn.Module):
    """Answers FP64 whatever is declared."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.double()


class Strings(torch.nn.Module):
    """A list of strings in and out."""

    def forward(self, words: List[str]) -> List[str]:  # noqa: UP006
        return [word + "!" for word in words]


class Optional(torch.nn.Module):
    """An argument that libtorch has no way to give."""

    def forward(self, x: torch.Tensor | None) -> torch.Tensor:
        return torch.ones(1) if x is None else x


class Wrong(torch.nn.Module):
    """Right for one value; for two FP64, for three of no dimensions, whatever is declared."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.numel() == 2:
            return x.double()
        if x.numel() == 3:
            return x.sum()
        assert x.numel() == 1, "never so many"
        return x


if __name__ == "__main__":
    for kind in (Sub, Pair, Keys, DictOut, Double, Strings, Optional, Wrong):
        torch.jit.script(kind()).save(str(Path(sys.argv[1]) / f"{kind.__name__}.pt"))
    example = (torch.ones(2, 3), torch.ones(2, 3))
    torch.jit.trace(Sub(), example).save(str(Path(sys.argv[1]) / "Traced.pt"))
