"""Traces a small BERT with seeded weights and writes it as a Triton repository, for a replay.

Run it with the models' environment: .venv-merlin/bin/python examples/bert/export.py OUT

OUT/repository      one model directory, bert: config.pbtxt, which lies beside this file in the
                    folder `repository`, and 1/model.pt (TorchScript)
OUT/request.json    two tokenized texts of different length, padded, as a v2 inference request
OUT/expected.json   torch's answer to it, computed here, without tritonserver

With --copies N: OUT/copy-001 to OUT/copy-N, each with weights of its own (seed, seed + 1, ...), so
that every one answers differently and an answer tells which of them gave it. Nothing is downloaded:
the architecture is a configuration, the weights are random, and the tokens are numbers.
"""

# ruff: noqa: E402  # the environment below is read while the modules are imported

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
import warnings
from pathlib import Path
from typing import Any

# The same numbers on every machine: no GPU, and sums in one order.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["OMP_NUM_THREADS"] = "1"
# Tracing warns of Python values that become constants; none of them depends on the input.
warnings.filterwarnings("ignore")

import torch
import transformers

#: A quarter of bert-mini's: 2.4 million weights, of which the vocabulary has the most.
VOCABULARY, WIDTH, LAYERS, HEADS, LONGEST = 12_000, 128, 4, 2, 128
LABELS = 4
SEED = 23
#: BERT's own special tokens, at their usual places.
PADDING, START, END = 0, 101, 102

CONFIG = Path(__file__).parent / "repository/bert/config.pbtxt"


class Classifier(torch.nn.Module):  # type: ignore[misc]  # torch has no types in the checker's environment
    """Logits alone, from the two inputs that the config names."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.bert = transformers.BertForSequenceClassification(
            transformers.BertConfig(
                vocab_size=VOCABULARY,
                hidden_size=WIDTH,
                num_hidden_layers=LAYERS,
                num_attention_heads=HEADS,
                intermediate_size=4 * WIDTH,
                max_position_embeddings=LONGEST,
                num_labels=LABELS,
                # The usual 0.02 makes every fresh logit nearly 0: too alike to tell apart.
                initializer_range=0.2,
                torchscript=True,
            )
        )

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        """(texts, tokens) twice -> (texts, labels)."""
        return self.bert(input_ids, attention_mask)[0]


def tokens() -> tuple[Any, Any]:
    """Two texts of 12 and 7 made-up tokens, padded to the longer one, and their mask."""
    numbers = torch.Generator().manual_seed(SEED)
    texts = [
        [START, *torch.randint(1000, VOCABULARY, (count,), generator=numbers).tolist(), END]
        for count in (12, 7)
    ]
    length = max(map(len, texts))
    ids = torch.tensor([text + [PADDING] * (length - len(text)) for text in texts])
    return ids.int(), (ids != PADDING).int()  # TensorRT's plans take no INT64


def export(destination: Path, seed: int) -> None:
    """One repository, its request and the expected answer; the destination is made."""
    ids, mask = tokens()
    model = Classifier(seed).eval()
    with torch.no_grad():
        answer = model(ids, mask)
        # Another length than the request's: what the trace took for a constant would show there.
        traced = torch.jit.trace(model, (ids[:1, :5], mask[:1, :5]), check_trace=False)
    version = destination / "repository" / "bert" / "1"
    version.mkdir(parents=True, exist_ok=True)
    traced.save(str(version / "model.pt"))
    shutil.copy(CONFIG, version.parent)
    inputs = [_tensor("input_ids", "INT32", ids), _tensor("attention_mask", "INT32", mask)]
    _write(destination / "request.json", {"inputs": inputs})
    _write(destination / "expected.json", {"outputs": [_tensor("logits", "FP32", answer)]})


def _tensor(name: str, datatype: str, values: Any) -> dict[str, Any]:
    flat = values.flatten().tolist()
    return {"name": name, "datatype": datatype, "shape": list(values.shape), "data": flat}


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value) + "\n", "utf-8")


def main() -> int:
    """Read the command line and export."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", type=Path, metavar="OUT")
    parser.add_argument("--seed", type=int, default=SEED, help="of the weights (%(default)s)")
    parser.add_argument("--copies", type=int, metavar="N", help="so many, each with other weights")
    options = parser.parse_args()
    if options.copies is None:
        export(options.destination, options.seed)
        return 0
    if options.copies < 1:
        parser.error(f"--copies: found {options.copies}, expected a whole number from 1")
    began, digits = time.monotonic(), max(3, len(str(options.copies)))
    for number in range(options.copies):
        export(options.destination / f"copy-{number + 1:0{digits}d}", options.seed + number)
    print(f"{options.copies} exports in {time.monotonic() - began:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
