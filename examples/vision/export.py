"""Writes the archive's folder: the committed configs and steps, and the network from its seed.

Run it from the checkout, in the models' environment:
.venv-merlin/bin/python -m examples.vision.export OUT

OUT/vision      the ensemble, which callers ask
OUT/decode      Pillow: encoded images to pixels
OUT/classify    TorchScript: pixels to probabilities; 1/model.pt is made here
OUT/label       probabilities to a name

Equal seeds give equal weights. `ensemble_tools pack OUT -o vision.tar.gz` makes the archive.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import torch

from examples.vision.network import SEED, SIDE, Network

HERE = Path(__file__).parent


def export(destination: Path, seed: int) -> None:
    """The whole model repository; the destination is made."""
    shutil.copytree(HERE / "repository", destination, ignore=shutil.ignore_patterns("__pycache__"))
    # Triton asks for a version of an ensemble, too, and git keeps no empty folder.
    for model in ("vision", "classify"):
        (destination / model / "1").mkdir()
    network = Network(seed).eval()
    with torch.no_grad():
        traced = torch.jit.trace(network, torch.zeros(1, 3, SIDE, SIDE))
    traced.save(str(destination / "classify/1/model.pt"))


def main() -> int:
    """Read the command line and export."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", type=Path, metavar="OUT")
    parser.add_argument("--seed", type=int, default=SEED, help="of the weights (%(default)s)")
    options = parser.parse_args()
    export(options.destination, options.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
