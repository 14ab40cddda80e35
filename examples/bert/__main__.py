"""Many BERTs on one endpoint whose memory does not hold them all: they come and go.

    .venv/bin/python -m examples.bert [--copies N] [--memory SIZE]

Makes two models with weights of their own, packs N archives of each, and asks all of them, there
and back, on an endpoint with too little memory for all; then the last one from 8 callers at once,
whose requests tritonserver may batch. Every answer is compared with torch's own, to the last bit.
Exit code 0 only if all are equal, and models had to leave.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from examples.story import (
    Answer,
    Endpoint,
    ask_models_python,
    endpoint,
    pack,
    same_bits,
    step,
    tell,
)

#: The endpoint takes 205 MB without a model, and 50 MB more for each; models leave above 90 %.
COPIES, MEMORY = 5, "520MB"
CALLERS, LABELS = 8, 4


class Fleet:
    """The archives on their endpoint; what is counted is all that was asked until now."""

    def __init__(self, running: Endpoint, exports: dict[str, Path]) -> None:
        self._running, self._exports = running, exports
        self.same, self.evictions = True, 0

    def ask(self, target: str) -> None:
        """One request, and a line about what it did to the endpoint."""
        before = self._loaded()
        answer = self._invoke(target)
        after = self._loaded()
        self.evictions += len(before - after)
        left = f"  {', '.join(sorted(before - after))} left" if before - after else ""
        how = "warm" if target in before else "cold"
        memory = f"{self._instance()['memory_used'] / 1e6:.0f} MB"
        print(f"  {target} {how} {answer.seconds:6.3f} s  {len(after)} loaded, {memory}{left}")

    def ask_at_once(self, target: str, callers: int) -> None:
        """The same request from that many callers."""
        with ThreadPoolExecutor(callers) as pool:
            list(pool.map(self._invoke, [target] * callers))

    def _invoke(self, target: str) -> Answer:
        export = self._exports[target]
        answer = self._running.invoke(target, (export / "request.json").read_bytes())
        (got,) = json.loads(answer.body)["outputs"]
        if not same_bits(got["data"], _read_logits(export)):
            self.same = False
            print(f"  {target} DIFFERS: {got['data']}, torch {_read_logits(export)}")
        return answer

    def _loaded(self) -> set[str]:
        models = self._instance()["models"]
        return {model["target_model"] for model in models if model["state"] == "loaded"}

    def _instance(self) -> dict[str, Any]:
        (instance,) = self._running.state()["instances"]
        return dict(instance)


def story(copies: int, memory: str, scratch: Path) -> bool:
    """Whether all answers were torch's own, and there were evictions."""
    with step("two BERTs are traced, and torch itself is asked"):
        ask_models_python("examples.bert.export", scratch / "exports", "--copies", "2")
    for letter, export in _by_letter(scratch / "exports"):
        print(f"  bert-{letter}, one text: {_read_logits(export)[:LABELS]}")
    with step(f"{2 * copies} archives are packed"):
        exports = _pack(scratch / "exports", scratch / "archives", copies)
    with endpoint(scratch / "archives", scratch, "--memory", memory) as running:
        fleet = Fleet(running, exports)
        targets = list(exports)
        for target in targets + targets[::-1]:
            fleet.ask(target)
        with step(f"{CALLERS} callers ask {targets[0]} at once"):
            fleet.ask_at_once(targets[0], CALLERS)
    print(f"{fleet.evictions} evictions")
    print("All numbers are torch's own, to the last bit." if fleet.same else "The numbers DIFFER.")
    return fleet.same and fleet.evictions > 0


def _by_letter(exports: Path) -> list[tuple[str, Path]]:
    return list(zip(("a", "b"), sorted(exports.iterdir()), strict=True))


def _read_logits(export: Path) -> list[float]:
    """torch's own, of both texts."""
    (logits,) = json.loads((export / "expected.json").read_text("utf-8"))["outputs"]
    return list(logits["data"])


def _pack(exports: Path, archives: Path, copies: int) -> dict[str, Path]:
    """Target model → its export: bert-a-000.tar.gz, bert-b-000.tar.gz, bert-a-001.tar.gz, ..."""
    made: dict[str, Path] = {}
    for letter, export in _by_letter(exports):
        archive = archives / f"bert-{letter}.tar.gz"
        pack(export / "repository", archive, "--copies", str(copies))
        made |= {path.name: export for path in archives.glob(f"bert-{letter}-*")}
    return dict(sorted(made.items(), key=lambda item: (item[0].split("-")[2], item[0])))


def main() -> int:
    """Read the command line and tell the story."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.bert",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--copies", type=int, default=COPIES, metavar="N", help="archives of each (%(default)s)")
    add("--memory", default=MEMORY, metavar="SIZE", help="of the endpoint (%(default)s)")
    options = parser.parse_args()
    return tell(partial(story, options.copies, options.memory))


if __name__ == "__main__":
    sys.exit(main())
