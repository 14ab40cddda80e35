"""Random workflows made, compiled and compared, some of them at a time, each step a process.

NVTabular answers in the models' environment, and there the compiled step runs, as it does in a
container; it is compiled in the server's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.workflows.compare import EQUAL
from tests.workflows.compiled import Outcome
from tests.workflows.exchange import COMPILED, DESCRIPTION

ROOT = Path(__file__).parents[2]
MODELS_PYTHON = ROOT / ".venv-merlin/bin/python"
#: NVTabular is imported anew for each, which takes as long as some ten cases.
CASES_AT_ONCE = 40
PROCESSES = 2
#: For one process; a case takes half a second.
LIMIT_S = 900.0
#: The generator's exit code where its words are wrong, such as an operator's name.
_MISUSED = 2
_COMPILE = [sys.executable, "-m", "tests.workflows.compiled"]
_COMPARE = [str(MODELS_PYTHON), "-m", "tests.workflows.compare"]


@dataclass(frozen=True)
class Result:
    """One case: whether it was compiled, how its requests came out, and what is bad about it."""

    seed: int
    directory: Path
    outcome: Outcome
    requests: Counter[str] = field(default_factory=Counter)
    bad: tuple[str, ...] = ()

    @property
    def compiled(self) -> bool:
        """Whether there is a program, for the whole workflow or a part."""
        return not self.outcome.refused and not self.outcome.crash

    @property
    def compared(self) -> bool:
        """Whether an answer of the program was equal: that both refuse proves little."""
        return self.requests[EQUAL] > 0

    def keep(self, directory: Path) -> Path:
        """Moves the case to where it stays."""
        directory.mkdir(parents=True, exist_ok=True)
        place = directory / self.directory.name
        shutil.rmtree(place, ignore_errors=True)
        shutil.move(self.directory, place)
        (place / "bad.txt").write_text("\n".join(self.bad) + "\n")
        return place


class Killed(Exception):
    """A process ended as it must not; the message has its last words."""


def results(
    seeds: range,
    operators: Sequence[str],
    directory: Path,
    processes: int = PROCESSES,
    cases_at_once: int = CASES_AT_ONCE,
    graph_json: bool = False,
) -> Iterator[list[Result | int]]:
    """What became of the seeds, part by part, as soon as it is known; a bare seed made no case.

    operators: lists with commas, in turn. Cases are written into the directory, and left there.
    graph_json: each seed's workflow is saved in both formats, which are two cases.
    """
    parts = [seeds[place : place + cases_at_once] for place in range(0, len(seeds), cases_at_once)]
    with ThreadPoolExecutor(processes) as pool:
        waiting = [pool.submit(_part, part, operators, directory, graph_json) for part in parts]
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for one in waiting:
                one.cancel()


def _part(
    seeds: range, operators: Sequence[str], directory: Path, graph_json: bool
) -> list[Result | int]:
    made = _generated(seeds, operators, directory, graph_json)
    numbers = {_seed(case) for case in made}
    return [*(seed for seed in seeds if seed not in numbers), *again(made)]


def again(made: Sequence[Path]) -> list[Result]:
    """Cases that are there already, compiled and compared."""
    for case in made:
        shutil.rmtree(case / COMPILED, ignore_errors=True)
    outcomes = [Outcome(**row) for row in _lines(_COMPILE, made)]
    compiled = [Path(one.case) for one in outcomes if not one.refused and not one.crash]
    compared = {row["case"]: row for row in _lines(_COMPARE, compiled)}
    done = []
    for one in outcomes:
        case, row = Path(one.case), compared.get(one.case)
        bad = [one.crash] if one.crash else []
        counts: Counter[str] = Counter(row["counts"]) if row else Counter()
        done.append(Result(_seed(case), case, one, counts, (*bad, *(row["bad"] if row else ()))))
    return done


def _seed(case: Path) -> int:
    return int(case.name.rpartition("_")[2])


def _generated(
    seeds: range, operators: Sequence[str], directory: Path, graph_json: bool
) -> list[Path]:
    """The cases; where NVTabular ends its process, the seed is left out."""
    made: list[Path] = []
    first, end = seeds.start, seeds.stop
    while first < end:
        command = [
            str(MODELS_PYTHON),
            "-m",
            "tests.workflows.generator",
            f"--seeds={first}:{end}",
            f"--out={directory}",
            *(f"--operators={one}" for one in operators),
            *(["--graph-json"] if graph_json else []),
        ]
        done = _run(command, "", PYTHONHASHSEED="0")  # else it starts itself again
        found = [Path(line) for line in done.stdout.splitlines()]
        made += [case for case in found if (case / DESCRIPTION).is_file()]
        if done.returncode == 0:
            break
        last = _seed(found[-1]) if found else first - 1
        if done.returncode == _MISUSED or (not found and "Traceback" in done.stderr):
            raise Killed(f"{' '.join(command)}\n{done.stderr[-2000:]}")
        first = last + 2
    return made


def _lines(command: Sequence[str], cases: Sequence[Path]) -> list[dict[str, Any]]:
    if not cases:
        return []
    done = _run(command, "".join(f"{case}\n" for case in cases))
    if done.returncode != 0:
        raise Killed(f"{' '.join(command)}: {done.returncode}\n{done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _run(
    command: Sequence[str], given: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    everyones = {"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command,
        input=given,
        cwd=ROOT,
        env={**os.environ, **everyones, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
