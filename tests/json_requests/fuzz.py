"""Random JSON requests: to tritonserver itself, and through a container that translates them.

    .venv/bin/python -m tests.json_requests.fuzz --count N --seed S [--first F] [--keep DIR]

A case is made again from its seed and number. Every case that differs is kept in DIR: the body, and
what differs. Exit code 0: none does.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.json_requests.compare import Outcome, compare
from tests.json_requests.generate import Case, case
from tests.json_requests.served import served


def keep(directory: Path, seed: int, made: Case, outcome: Outcome) -> None:
    """The body as it was sent, and beside it all else that is known."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{seed}-{made.number}"
    path.with_suffix(".body").write_bytes(made.body)
    place = f"--seed {seed} --first {made.number} --count 1"
    described = {
        "again": f"python -m tests.json_requests.fuzz {place}",
        "model": made.model,
        "headers": dict(made.headers),
        "json-header-size": made.head_size,
        "traits": made.traits,
        "difference": outcome.difference,
    }
    path.with_suffix(".json").write_text(json.dumps(described, indent=1))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "fuzz-json")
    parser.add_argument("--traits", action="store_true", help="print what the requests held")
    arguments = parser.parse_args(argv)
    # A `timeout` or a stopped `make` must not leave a container behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    statuses: Counter[int] = Counter()
    traits: Counter[tuple[str, bool]] = Counter()
    differing = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-json-") as work, served(Path(work)) as ways:
        started = time.monotonic()
        for number in range(arguments.first, arguments.first + arguments.count):
            made = case(arguments.seed, number)
            outcome = compare(made, ways)
            statuses[outcome.status] += 1
            traits.update((trait, outcome.status == 200) for trait in {*made.traits})
            if outcome.difference is not None:
                differing += 1
                keep(arguments.keep, arguments.seed, made, outcome)
                print(
                    f"seed {arguments.seed}, case {number}: {outcome.difference[:600]}", flush=True
                )
        elapsed = time.monotonic() - started
    if arguments.traits:
        print("taken  refused")
        for trait in sorted({trait for trait, _ in traits}):
            print(f"{traits[trait, True]:5}  {traits[trait, False]:7}  {trait}")
    answered = ", ".join(
        f"{count} of status {status}" for status, count in sorted(statuses.items())
    )
    print(f"{arguments.count} requests in {elapsed:.0f} s: {answered}; {differing} differ")
    if differing:
        print(f"kept in {arguments.keep}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
