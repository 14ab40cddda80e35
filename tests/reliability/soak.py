"""Cycles of load, invoke and unload, and whether anything of them is left.

    .venv/bin/python -m tests.reliability.soak [--minutes N | --cycles N] [--out DIR]

Three at a time. Most are small Python models, which load in a tenth of a second; every EVERY-th is
one of Merlin's exports. Every answer's values are checked. Ten times in a run the cycles pause and
all that the container holds is counted: the counts must be those of after the warm-up (the first
fifth), and memory may not grow with the cycles. Exit code 0: it is so.

One model stays loaded throughout, as on an endpoint one always is: each time its last Python model
goes, tritonserver puts its Python backend away, and leaves an empty directory in /tmp behind.
"""

from __future__ import annotations

import argparse
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from tests.reliability.bounded import Bounds, may_mount
from tests.reliability.census import COUNTED, NAMES, Census, look
from tests.reliability.reports import Picture, Report, Table
from tests.reliability.tenants import (
    Tenant,
    chained,
    export,
    model_environment,
    servable_exports,
    small,
)
from tests.support.container import ROOT, Container, running

CONCURRENCY = 3
#: Pauses, at which everything is counted, besides the one at the start.
LOOKS = 10
#: Of the looks, those before this one are the warm-up: the allocators' arenas fill up to what three
#: loads at a time ever need, Python's modules are imported, tritonserver's threads are made.
WARM = 2
#: What memory may grow by for each cycle, of each of the two servers, by the median slope between
#: all pairs of looks after the warm-up (Theil and Sen's: one outlier moves it little). A tenth of
#: the name and URL of a model kept by mistake would be more; 10,000 loads would be 20 MB.
MOST_BYTES_A_CYCLE = 2048
#: One page run of the allocator more or less is no growth: what a look may differ by, in bytes, is
#: divided by the cycles that were measured.
GRAIN_BYTES = 6 << 20
#: After so many the run is over.
_MOST_FAILURES = 20
#: Connections are kept open, one for each caller at a time: how many callers ever met is chance.
_CONNECTIONS = {"descriptors": 2 * CONCURRENCY + 2, "triton_descriptors": CONCURRENCY + 1}
#: Threads and connections that end by themselves are given so long at a look.
_SETTLES_WITHIN_S = 5.0
#: And at the end, where what is left counts: on a busy machine what ends takes longer.
_ENDS_WITHIN_S = 60.0
#: Where tritonserver writes whatever TMPDIR says. The container gets one of its own, as others'
#: files there would be counted; for that everything else must lie elsewhere.
_TMP, _TMP_BYTES = Path("/tmp"), 1 << 30
ELSEWHERE = Path("/var/tmp")


@dataclass
class Run:
    """What came of the cycles."""

    seconds: dict[str, list[float]]
    failures: list[str]
    looks: list[Census]
    kinds: Counter[str]


class Cycles:
    """Hands out which tenant is next; each worker has tenants of its own, so no name is twice."""

    def __init__(self, root: Path, exports: Sequence[str], every: int) -> None:
        self._every, self._exports = every, list(exports)
        self._root = root
        self.done = 0
        self._lock = threading.Lock()

    def next(self) -> int:
        """The number of a cycle."""
        with self._lock:
            self.done += 1
            return self.done

    def tenant(self, worker: int, number: int) -> Tenant:
        """Names come back, as they do where archives are loaded again; exports take turns."""
        if self._exports and number % self._every == 0:
            name = self._exports[number // self._every % len(self._exports)]
            return export(self._root, name, f"{name}-{worker}")
        which = number % 7
        if which == 0:
            return chained(self._root, f"chain-{worker}", [worker, 10.5])
        return small(self._root, f"small-{worker}-{which}", 100.0 * worker + which)


def cycle(container: Container, tenant: Tenant, chance: random.Random) -> dict[str, float]:
    """Load, three questions, unload; the seconds of each. Raises AssertionError."""
    seconds = {}
    started = time.monotonic()
    answer = container.load(tenant.name, tenant.archive)
    assert answer.status_code == 200, f"load {tenant.name}: {answer.status_code} {answer.text}"
    seconds["load"] = time.monotonic() - started
    for _ in range(3):
        question = tenant.ask(chance)
        started = time.monotonic()
        headers = {name.replace("-", "_"): value for name, value in question.headers}
        answer = container.invoke(tenant.name, question.body, **headers)
        assert answer.status_code == 200, f"{tenant.name}: {answer.status_code} {answer.text}"
        wrong = question.verdict(answer.content, answer.headers)
        assert wrong is None, f"{tenant.name}: {wrong}"
        seconds["invoke"] = time.monotonic() - started
    started = time.monotonic()
    answer = container.unload(tenant.name)
    assert answer.status_code == 200, f"unload {tenant.name}: {answer.status_code} {answer.text}"
    seconds["unload"] = time.monotonic() - started
    return seconds


def soak(
    container: Container,
    cycles: Cycles,
    is_over: Callable[[float, int], float],
    tmp: Path,
    seed: int = 1,
    say: Callable[[str], None] = print,
) -> Run:
    """Run until is_over(seconds, cycles) is 1; it says how much of the run is behind, 0 to 1."""
    run = Run({"load": [], "invoke": [], "unload": []}, [], [], Counter())
    started = time.monotonic()

    def behind() -> float:
        return is_over(time.monotonic() - started, cycles.done)

    def work(worker: int, until: float) -> None:
        chance = random.Random(f"{seed} {worker} {until}")
        while behind() < until and len(run.failures) < _MOST_FAILURES:
            tenant = cycles.tenant(worker, cycles.next())
            try:
                for what, seconds in cycle(container, tenant, chance).items():
                    run.seconds[what].append(seconds)
            except Exception as error:
                run.failures.append(f"{type(error).__name__}: {error}"[:400])
            run.kinds[tenant.kind] += 1

    def count() -> None:
        run.looks.append(settled(container, tmp, time.monotonic() - started, cycles.done, run))
        say(line(run.looks[-1]))

    count()
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        try:
            for number in range(1, LOOKS + 1):
                list(pool.map(work, range(CONCURRENCY), [number / LOOKS] * CONCURRENCY))
                count()
            until = time.monotonic() + _ENDS_WITHIN_S
            while left(run.looks) and time.monotonic() < until:
                time.sleep(0.1)
                run.looks[-1] = look(container, tmp, time.monotonic() - started, cycles.done)
        except BaseException:  # a signal: the cycles that are under way are the last
            run.failures += ["given up"] * _MOST_FAILURES
            raise
    return run


def settled(container: Container, tmp: Path, at_s: float, cycles: int, run: Run) -> Census:
    """A look once the counts are those of the look before, or time is up for them to be."""
    deadline = time.monotonic() + _SETTLES_WITHIN_S
    before = run.looks[-1] if run.looks else None
    while True:
        found = look(container, tmp, at_s, cycles)
        more = [name for name in COUNTED if before and getattr(found, name) > getattr(before, name)]
        if not more or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def line(found: Census) -> str:
    """Progress."""
    return (
        f"{found.at_s:6.0f} s  {found.cycles:6} cycles  {found.processes} processes,"
        f" {found.zombies} zombies, {found.descriptors}+{found.triton_descriptors} descriptors,"
        f" {found.threads}+{found.triton_threads} threads, {found.shm_files} regions,"
        f" {found.work_files}+{found.tmp_files} files,"
        f" RSS {found.server_rss_mb:.1f}+{found.triton_rss_mb:.1f} MB"
    )


# -- the verdict


def slope(looks: Sequence[Census], name: str) -> float:
    """Bytes a cycle: the median over all pairs of looks after the warm-up."""
    warm = looks[WARM:]
    slopes = [
        (getattr(b, name) - getattr(a, name)) * 1e6 / (b.cycles - a.cycles)
        for a, b in combinations(warm, 2)
        if b.cycles > a.cycles
    ]
    return statistics.median(slopes) if slopes else 0.0


def allowed_slope(looks: Sequence[Census]) -> float:
    """MOST_BYTES_A_CYCLE, and GRAIN_BYTES spread over the cycles that were measured."""
    cycles = max(1, looks[-1].cycles - looks[WARM].cycles)
    return MOST_BYTES_A_CYCLE + GRAIN_BYTES / cycles


def left(looks: Sequence[Census]) -> list[str]:
    """What there is more of at the end than after the warm-up, or at the start where it counts."""
    first, warm, end = looks[0], looks[WARM], looks[-1]
    found = []
    for name in COUNTED:
        before = first if name in ("zombies", "shm_files", "processes") else warm
        if getattr(end, name) > getattr(before, name) + _CONNECTIONS.get(name, 0):
            found.append(f"{name}: {getattr(before, name)} before, {getattr(end, name)} at the end")
    return found


def failures(run: Run) -> tuple[str, ...]:
    """All that does not hold."""
    found = [*run.failures, *left(run.looks)]
    for name in ("server_rss_mb", "triton_rss_mb"):
        grows, most = slope(run.looks, name), allowed_slope(run.looks)
        if grows > most:
            found.append(f"{name} grows by {grows:,.0f} bytes a cycle; at most {most:,.0f}")
    return tuple(found)


def report(run: Run) -> Report:
    """Everything that is known of it."""
    looks, end = run.looks, run.looks[-1]
    shown = {"start": 0, "warm": WARM, "middle": (WARM + len(looks) - 1) // 2, "end": -1}
    rows = tuple(
        (name, *(f"{getattr(looks[at], name):,}" for at in shown.values())) for name in NAMES
    )
    slopes = {name: slope(looks, name) for name in ("server_rss_mb", "triton_rss_mb")}
    times = tuple(
        (what, f"{statistics.median(each) * 1000:.0f}", f"{max(each) * 1000:.0f}")
        for what, each in run.seconds.items()
        if each
    )
    summary = (
        f"{end.cycles} cycles in {end.at_s:.0f} s, {CONCURRENCY} at a time"
        f" ({', '.join(f'{count} {kind}' for kind, count in run.kinds.most_common())});"
        f" RSS grows by {slopes['server_rss_mb']:,.0f} (server) and"
        f" {slopes['triton_rss_mb']:,.0f} (tritonserver) bytes a cycle,"
        f" at most {allowed_slope(looks):,.0f} allowed"
    )
    x = [float(one.cycles) for one in looks]
    memory = {
        "server": (x, [one.server_rss_mb for one in looks]),
        "tritonserver": (x, [one.triton_rss_mb for one in looks]),
    }
    return Report(
        "soak",
        summary,
        failures(run),
        (
            Table("What it holds, one model loaded", ("figure", *shown), rows),
            Table("Times in ms", ("call", "median", "longest"), times),
        ),
        {"looks": [asdict(one) for one in looks], "slopes": slopes, "kinds": run.kinds},
        (Picture("Resident memory over cycles", "MB", "cycles", memory),),
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--cycles", type=int, help="so many cycles, however long they take")
    parser.add_argument("--every", type=int, default=25, help="one cycle in so many is an export")
    parser.add_argument("--no-exports", action="store_true", help="small models only")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "reliability")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))

    def is_over(seconds: float, cycles: int) -> float:
        if arguments.cycles:
            return cycles / float(arguments.cycles)
        return float(seconds / (arguments.minutes * 60))

    exports = () if arguments.no_exports else servable_exports()
    with tempfile.TemporaryDirectory(prefix="soak-", dir=ELSEWHERE) as work:
        found = soaked(Path(work), is_over, exports, arguments.every, arguments.seed)
    found.write(arguments.out)
    print(f"\n{found.text()}\n\nwritten to {arguments.out}")
    return 1 if found.failures else 0


def soaked(
    work: Path,
    is_over: Callable[[float, int], float],
    exports: Sequence[str],
    every: int,
    seed: int = 1,
    say: Callable[[str], None] = print,
) -> Report:
    """A container, soaked; its end, which must leave nothing, is part of it."""
    own = _TMP not in (*ROOT.parents, *work.parents) and may_mount()
    bounds = Bounds(file_systems={str(_TMP): _TMP_BYTES} if own else {})
    environment = {**bounds.environment(), **model_environment()}
    with running(work, program="tests.reliability.bounded", **environment) as container:
        cycles = Cycles(container.model_root, exports, every)
        inside = Path(f"/proc/{container.process.pid}/root{_TMP}")
        resident = small(container.model_root, "resident", 0.25)
        with container.loaded(resident.name, resident.archive):
            run = soak(container, cycles, is_over, inside if own else container.work_dir, seed, say)
    return report(run)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
