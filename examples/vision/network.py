"""A small convolutional network with seeded weights, and what it says of images by torch alone.

It has learned nothing: which class wins means nothing, but every machine gets the same one, and
another seed another one. In the models' environment,
.venv-merlin/bin/python -m examples.vision.network '[["a.jpg"], ["a.jpg", "b.png"]]'
prints what torch itself answers to these two requests, as JSON.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Read by torch when it is imported: no GPU, and sums in one order, as in the container.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["OMP_NUM_THREADS"] = "1"

import torch
from PIL import Image

SEED, SIDE, CLASSES = 41, 64, 8
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Network(torch.nn.Module):  # type: ignore[misc]  # torch has no types in the checker's environment
    """Three convolutions, a mean over all places, and a softmax."""

    def __init__(self, seed: int = SEED) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(32, 64, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(64, CLASSES),
        )
        with torch.no_grad():
            # Fresh weights make all classes nearly equal: too alike to tell apart.
            self.layers[-1].weight.mul_(40.0)

    def forward(self, pixels: Any) -> Any:
        """(images, 3, SIDE, SIDE) -> (images, CLASSES), each row's sum 1."""
        return torch.softmax(self.layers(pixels), dim=1)


def probabilities(images: Sequence[bytes], seed: int = SEED) -> list[list[float]]:
    """What the network says of encoded images, without Triton and without TorchScript."""
    with torch.inference_mode():
        batch = torch.stack([_pixels(image) for image in images])
        said: list[list[float]] = Network(seed).eval()(batch).tolist()
        return said


def _pixels(encoded: bytes) -> Any:
    """(3, SIDE, SIDE) by torch, where the archive's step has numpy."""
    image = Image.open(io.BytesIO(encoded)).convert("RGB")
    small = image.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    values = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
    colours = values.reshape(SIDE, SIDE, 3).permute(2, 0, 1).float() / 255
    mean, deviation = (torch.tensor(it).reshape(3, 1, 1) for it in (MEAN, DEVIATION))
    return (colours - mean) / deviation


if __name__ == "__main__":
    asked = [[Path(name).read_bytes() for name in names] for names in json.loads(sys.argv[1])]
    print(json.dumps([probabilities(images) for images in asked]))
