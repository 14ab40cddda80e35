"""Makes text classifiers with seeded weights, a Triton repository each, and asks torch itself.

Run it with the models' environment: .venv-merlin/bin/python -m examples.hundreds.export OUT

OUT/tenant-001/text   config.pbtxt, which lies in the folder `repository`, and 1/model.pt
                      (TorchScript); tenant-002 and so on with weights of their own
OUT/expected.json     of each tenant torch's logits to each text of words.py, computed here, without
                      TorchScript and without tritonserver

Nothing is downloaded, and the models have learned nothing.
"""

# the environment below is read while torch is imported

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

# The same numbers on every machine: no GPU, and sums in one order.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["OMP_NUM_THREADS"] = "1"

import torch

from examples.hundreds.words import BUCKETS, LABELS, TEXTS, hash_words

WIDTH = 16
SEED = 20
CONFIG = Path(__file__).parent / "repository/text/config.pbtxt"


class Classifier(torch.nn.Module):  # type: ignore[misc]  # torch has no types in the checker's environment
    """The mean of its words' vectors, one hidden layer, a logit for each label."""

    def __init__(self) -> None:
        super().__init__()
        self.vectors = torch.nn.Embedding(BUCKETS, WIDTH)
        self.hidden = torch.nn.Linear(WIDTH, WIDTH)
        self.labels = torch.nn.Linear(WIDTH, len(LABELS))

    def forward(self, words: Any) -> Any:
        """(texts, words) of INT32 -> (texts, labels)."""
        mean = self.vectors(words).mean(1)
        return self.labels(torch.relu(self.hidden(mean)))


def export(destination: Path, count: int) -> None:
    """All tenants' repositories and what torch answers; the destination is made."""
    expected = {}
    digits = max(3, len(str(count)))
    for number in range(1, count + 1):
        tenant = f"tenant-{number:0{digits}d}"
        torch.manual_seed(SEED + number)
        model = Classifier().eval()
        version = destination / tenant / "text" / "1"
        version.mkdir(parents=True)
        # Traced of a text that is no caller's: what became a constant would show.
        traced = torch.jit.trace(model, _row("a b c"), check_trace=False)
        traced.save(str(version / "model.pt"))
        shutil.copy(CONFIG, version.parent)
        with torch.no_grad():
            expected[tenant] = [model(_row(text)).flatten().tolist() for text in TEXTS]
    (destination / "expected.json").write_text(json.dumps(expected), "utf-8")


def _row(text: str) -> Any:
    return torch.tensor([hash_words(text)], dtype=torch.int32)


def main() -> int:
    """Read the command line and export."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", type=Path, metavar="OUT")
    parser.add_argument("--count", type=int, default=200, help="models (%(default)s)")
    options = parser.parse_args()
    if options.count < 1:
        parser.error(f"--count: found {options.count}, expected a whole number from 1")
    export(options.destination, options.count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
