"""An ensemble of an image decoder, a convolutional network and its labels, on a local endpoint.

    .venv/bin/python -m examples.vision [IMAGE ...]

Makes the archive from its seed, packs it, starts an endpoint with it, and asks about two drawn
images, or about your own (JPEG or PNG): each alone, then all in one request. Every answer is
compared with torch's own, to the last bit. Exit code 0 only if all are equal.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from examples.story import Endpoint, ask_models_python, endpoint, pack, same_bits, step, tell
from examples.vision.request import as_binary, as_json, draw, is_readable, read_answer

TARGET = "vision.tar.gz"
SEEDS = {"JPEG": 1, "PNG": 4}


def story(given: Sequence[Path], scratch: Path) -> bool:
    """Whether all answers were torch's own."""
    images = list(given) or _drawn(scratch)
    # Each alone, the first of them cold; and all of them as one batch.
    requests = [[image] for image in images] + [images]
    with step("the archive is made from its seed"):
        ask_models_python("examples.vision.export", scratch / "repository")
        pack(scratch / "repository", scratch / "archives" / TARGET)
    with step("torch itself is asked"):
        names = json.dumps([[str(image.resolve()) for image in request] for request in requests])
        expected = json.loads(ask_models_python("examples.vision.network", names))
    with endpoint(scratch / "archives", scratch) as running:
        same = [_ask(running, *pair) for pair in zip(requests, expected, strict=True)]
    good = all(same)
    print("All numbers are torch's own, to the last bit." if good else "The numbers DIFFER.")
    return good


def _drawn(scratch: Path) -> list[Path]:
    drawn = {scratch / f"drawn.{kind.lower()}": draw(seed, kind) for kind, seed in SEEDS.items()}
    for path, content in drawn.items():
        path.write_bytes(content)
    return list(drawn)


def _ask(running: Endpoint, images: Sequence[Path], expected: list[list[float]]) -> bool:
    """The same request in both forms."""
    same = []
    for form in (as_binary, as_json):
        body, content_type = form([image.read_bytes() for image in images])
        answer = running.invoke(TARGET, body, content_type)
        probabilities, labels = read_answer(answer.body, answer.content_type)
        same.append(same_bits(probabilities, expected))
        word = "the same bits" if same[-1] else f"DIFFERENT from torch's {expected}"
        asked = " + ".join(image.name for image in images)
        size = f"{form.__name__.removeprefix('as_'):6} {len(body) / 1000:6.1f} KB"
        likeliest = ", ".join(
            f"{label} {max(row):.8f}" for label, row in zip(labels, probabilities, strict=True)
        )
        print(f"  {asked:24} {size} {answer.seconds:6.3f} s  {likeliest}  {word}", flush=True)
    return all(same)


def main() -> int:
    """Read the command line and tell the story."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.vision",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("images", nargs="*", type=Path, metavar="IMAGE", help="JPEG or PNG")
    images = parser.parse_args().images
    for image in images:
        if not is_readable(image):
            parser.error(f"{image}: found no such image, expected a file of JPEG or PNG")
    return tell(partial(story, images))


if __name__ == "__main__":
    sys.exit(main())
