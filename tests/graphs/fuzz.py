"""Random Merlin graphs: made, answered by Merlin's executor, and held against the container.

    .venv/bin/python -m tests.graphs.fuzz --count N --seed S [--keep DIR]

Cases are made and answered in the models' environment while the container serves earlier ones.
Every case that differs is kept in DIR, with the line that makes it again. Exit code 0: none does.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.graphs.compare import Result, compare_all, print_table
from tests.graphs.tensors import read_answers, read_case

ROOT = Path(__file__).parents[2]
MODELS_PYTHON = ROOT / ".venv-merlin/bin/python"


def answered_cases(seed: int, count: int, destination: Path, *options: str) -> Iterator[Path]:
    """Directories of cases, each as soon as its answers are there; S, S+1, ... are the seeds."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    python = (str(MODELS_PYTHON), "-m")
    seeds = (f"--seed={seed}", f"--count={count}")
    generator = subprocess.Popen(
        (*python, "tests.graphs.generate", *seeds, *options, str(destination)),
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
    )
    oracle = subprocess.Popen(
        (*python, "tests.graphs.oracle"),
        cwd=ROOT,
        env=environment,
        stdin=generator.stdout,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert generator.stdout is not None
        generator.stdout.close()  # the oracle has it now
        assert oracle.stdout is not None
        with oracle.stdout:
            for line in oracle.stdout:
                yield Path(line.strip())
        codes = generator.wait(), oracle.wait()
        assert codes == (0, 0), f"generator and oracle ended with {codes}"
    finally:
        for process in (generator, oracle):
            process.kill()
            process.wait()


class Progress:
    """Prints a line a case as results come, and keeps what differs."""

    def __init__(self, count: int, keep: Path, quiet: bool) -> None:
        self.count, self.keep, self.quiet = count, keep, quiet
        self.features: Counter[str] = Counter()
        self.served_requests = self.done = 0

    def __call__(self, result: Result) -> None:
        self.done += 1
        case = read_case(result.directory)
        self.features.update(list(case["features"]))
        self.served_requests += read_answers(result.directory).served
        if not (self.quiet and result.verdict.good):
            text = f"[{self.done}/{self.count}] seed {case['seed']}: {result.verdict.value}"
            print(f"{text}  {result.detail[:600]}", flush=True)
        if result.verdict.good:
            shutil.rmtree(result.directory)
        elif result.directory.parent != self.keep:
            self.keep.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(self.keep / result.directory.name, ignore_errors=True)
            shutil.move(result.directory, self.keep)


def print_features(features: Counter[str], cases: int) -> None:
    """In how many cases each feature was."""
    print(f"features, and in how many of {cases} cases each was:")
    for feature, number in sorted(features.items()):
        print(f"  {number:5}  {feature}")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "fuzz-graphs")
    parser.add_argument("--quiet", action="store_true", help="only cases that differ")
    parser.add_argument("--hostile", action="store_true", help="columns bear names of Merlin's")
    parser.add_argument("--features", action="store_true", help="print what the graphs held")
    arguments = parser.parse_args(argv)
    # A `timeout` or a stopped `make` must not leave a container behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    started = time.monotonic()
    progress = Progress(arguments.count, arguments.keep.resolve(), arguments.quiet)
    with tempfile.TemporaryDirectory(prefix="fuzz-graphs-") as made:
        options = ["--hostile"] if arguments.hostile else []
        cases = answered_cases(arguments.seed, arguments.count, Path(made), *options)
        results = compare_all(cases, progress)
    elapsed = time.monotonic() - started
    if arguments.features:
        print_features(progress.features, len(results))
    print(f"{len(results)} graphs in {elapsed:.0f} s, {progress.served_requests} requests answered")
    print_table(results)
    bad = [result for result in results if not result.verdict.good]
    for result in bad[:20]:
        seed = result.directory.name
        print(f"  again: python -m tests.graphs.fuzz --count 1 --seed {seed}   kept: ", end="")
        print(progress.keep / seed)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
