"""Twenty tenants under steady traffic, and beside it one fault after another.

    .venv/bin/python -m tests.reliability.chaos [--minutes N] [--seed S] [--only WORDS] [--out DIR]

Every answer's values are checked. Held: no answer is wrong; nothing is lost but what was in flight
in what was killed (and what came while a killed tritonserver was started again, with 503); every
tenant answers rightly after each fault; an attacker is answered as a caller at fault; the container
never ends. The order is drawn by the seed; every fault is undone after its time. Exit code 0: all
of it held.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from container.constants import Constants
from tests.reliability.attacked import MIB, Attacked, Room, attacked
from tests.reliability.corpus.hostile_requests import everything
from tests.reliability.faults import LOAD_TIMEOUT_S, TARGET, Fault, Scene, faults
from tests.reliability.reports import Report, Table
from tests.reliability.tenants import (
    BAD_CANDIDATES,
    Tenant,
    chained,
    export,
    model_environment,
    servable_exports,
    slow,
    small,
    write_candidate,
)
from tests.reliability.traffic import Asked, Traffic
from tests.support import models
from tests.support.models import write_archive
from tests.support.quick_container import told

TENANTS = 20
#: Docker's usual limits are far higher; ours must hold with the least that is met.
ROOM = Room(descriptors=1024, shared_memory=900 * MIB, disk=64 * MIB)
ENVIRONMENT = {
    "SERVE_INVOKE_TIMEOUT": "30",
    "SERVE_LOAD_TIMEOUT": str(LOAD_TIMEOUT_S),
    "SERVE_CANDIDATE_PERCENT": "100",
    # Chaos kills tritonserver more often than a machine does; deaths are counted here.
    **told(Constants(unload_timeout_s=15, restart_limit=1000)),
}
#: How long until all tenants are right again, after a fault is undone, before they count as lost.
_RIGHT_WITHIN_S = 90.0
_EXPORTS = ("dense", "ragged", "session")
#: Of tenants' candidates, one after the other: none is to be noticed.
_CANDIDATES = (models.IDENTITY, *BAD_CANDIDATES.values())
_LOAD_S = 120.0
#: The first load of an export reads some hundred MB of Python packages from the disk.
_TRIES = 2


@dataclass(frozen=True)
class Happened:
    """What one fault did. back_s: from its end until every tenant had answered a new request."""

    fault: str
    seconds: float
    back_s: float | None
    asked: int
    right: int
    wrong: int
    excused: int
    lost: int
    lost_said: tuple[str, ...]
    slowest_s: float
    ping_s: float
    deaths: int
    ended: str | None
    notes: tuple[str, ...]
    hurts: tuple[str, ...]

    def failures(self) -> Iterator[str]:
        """What did not hold."""
        if self.wrong:
            yield f"{self.fault}: {self.wrong} wrong answers"
        if self.lost:
            yield f"{self.fault}: {self.lost} lost, such as {'; '.join(self.lost_said)}"
        if self.back_s is None:
            yield f"{self.fault}: not every tenant is right again after {_RIGHT_WITHIN_S:g} s"
        if self.deaths:
            yield f"{self.fault}: tritonserver died"
        if self.ended is not None:
            yield f"{self.fault}: the container ended: {self.ended}"
        for hurt in self.hurts:
            yield f"{self.fault}: {hurt}"

    def row(self) -> tuple[str, ...]:
        """For the table."""
        said = "; ".join(dict.fromkeys((*self.notes, *self.hurts)))
        back = "never" if self.back_s is None else f"{self.back_s:.1f} s"
        died = "ended" if self.ended is not None else str(self.deaths)
        return (
            self.fault,
            f"{self.asked:,}",
            str(self.wrong),
            str(self.lost),
            str(self.excused),
            back,
            f"{self.slowest_s:.1f} s",
            f"{self.ping_s * 1000:.0f} ms",
            died,
            said[:300],
        )


HEAD = (
    "fault",
    "requests beside it",
    "wrong",
    "lost",
    "in flight in what was killed",
    "all right again after",
    "slowest",
    "worst /ping",
    "tritonserver died",
    "seen",
)


class Stage:
    """The container with its tenants; another one, when an attack has ended it."""

    def __init__(self, directory: Path, tenants: int, exports: Sequence[str], seed: int) -> None:
        self._directory, self._seed = directory, seed
        self._count, self._exports = tenants, exports
        self._open = contextlib.ExitStack()
        self._starts = 0
        self.server = self._start()
        self.tenants = self._loaded()

    @property
    def port(self) -> int:
        return self.server.port

    def scene(self, chance: random.Random, seconds: float) -> Scene:
        """For a fault."""
        return Scene(self.server, self.tenants, chance, self._directory, seconds)

    def heal(self, found: Happened) -> None:
        """Another container, where this one has ended, never recovers, or hangs in some call.

        What one fault has left is not to be the next one's.
        """
        self.server.trim_log()
        if self.server.has_ended or found.back_s is None or any(map(_is_stuck, found.hurts)):
            self.restart()

    def restart(self) -> None:
        """End it; the next has the same tenants."""
        self._open.close()
        self.server = self._start()
        self.tenants = self._loaded()

    def close(self) -> str | None:
        """Stop it in order; what went wrong with that."""
        try:
            return self.server.end()
        finally:
            self._open.close()

    def _start(self) -> Attacked:
        self._starts += 1
        directory = self._directory / str(self._starts)
        environment = {**model_environment(), **ENVIRONMENT}
        return self._open.enter_context(attacked(directory, ROOM, environment))

    def _loaded(self) -> tuple[Tenant, ...]:
        try:
            return self._load()
        except BaseException:
            self._open.close()
            raise

    def _load(self) -> tuple[Tenant, ...]:
        root = self.server.container.model_root
        tenants = _tenants(root, self._directory / "marker", self._count, self._exports)
        write_archive(root / TARGET / "model", {TARGET: everything()})
        wanted: list[tuple[str, Path]] = [(tenant.name, tenant.archive) for tenant in tenants]
        wanted.append((TARGET, root / TARGET / "model"))
        scene = Scene(self.server, tenants, random.Random(), self._directory, 0)
        for name, archive in wanted:
            statuses = [scene.load(name, archive, _LOAD_S) for _ in range(_TRIES)]
            assert statuses[-1] in (200, 409), f"{name} cannot be loaded: {statuses}"
        return tenants


def _is_stuck(hurt: str) -> bool:
    return "no answer" in hurt


def _tenants(root: Path, marker: Path, count: int, exports: Sequence[str]) -> tuple[Tenant, ...]:
    """The exports, a slow one, two ensembles, and Python models that add each its own number."""
    found = [export(root, name) for name in exports]
    found.append(slow(root, "slow", marker))
    found += [chained(root, f"chain-{number}", [number, 0.5]) for number in (1, 2)]
    while len(found) < count:
        number = len(found)
        tenant = small(root, f"tenant-{number}", 1000.0 * number)
        if number % 2:
            write_candidate(tenant.archive, _CANDIDATES[number // 2 % len(_CANDIDATES)])
        found.append(tenant)
    return tuple(found)


# -- one fault


def happen(stage: Stage, fault: Fault, scene: Scene, traffic: Traffic) -> Happened:
    """Begin it, let it last, undo it, and wait until every tenant is right again."""
    triton = stage.server.triton()
    started = struck = time.monotonic()
    try:
        with fault.begin(scene):
            struck = time.monotonic()
    except OSError as error:  # the container has ended under it
        scene.notes.append(f"{type(error).__name__}: {error}")
    undone = time.monotonic()
    back = _until_right(stage, traffic, undone)
    over = time.monotonic()
    ended = stage.server.last_words()[:300] if stage.server.has_ended else None
    now = stage.server.triton()
    deaths = int(now != triton and fault.hits != "all")
    found = traffic.since(started)
    lost = [one for one in found if one.wrong is None and not one.is_right]
    excused = [one for one in lost if is_excused(one, fault, scene.victims, (started, struck))]
    bad = [one for one in lost if one not in excused]
    return Happened(
        fault=fault.name,
        seconds=round(undone - started, 2),
        back_s=None if back is None else round(back - undone, 2),
        asked=len(found),
        right=sum(one.is_right for one in found),
        wrong=sum(one.wrong is not None for one in found),
        excused=len(excused),
        lost=len(bad),
        lost_said=_said(bad),
        slowest_s=max((one.over - one.sent for one in found), default=0.0),
        ping_s=traffic.pings.worst(started, over),
        deaths=deaths,
        ended=ended,
        notes=tuple(scene.notes),
        hurts=tuple(dict.fromkeys(scene.hurts)),
    )


def is_excused(one: Asked, fault: Fault, victims: set[str], killed: tuple[float, float]) -> bool:
    """Lost by right: in flight in what was killed, or sent before a killed tritonserver is back.

    The first is a 500 or 503 to a request that was sent before the kill; the second a 503. killed:
    between these two moments, which are far apart where this process was kept waiting.
    """
    if one.tenant not in victims:
        return False
    if one.sent <= killed[1] and killed[0] <= one.over:
        return one.status in (500, 503)
    return fault.hits == "all" and one.status == 503


def _said(lost: Sequence[Asked]) -> tuple[str, ...]:
    kinds = Counter(f"{one.status or 'no answer'} {one.said[:110]}" for one in lost)
    return tuple(f"{count} x {said}" for said, count in kinds.most_common(3))


def _until_right(stage: Stage, traffic: Traffic, since: float) -> float | None:
    """When every tenant has answered rightly what was sent after that; None: never."""
    everyone = {tenant.name for tenant in stage.tenants}
    while time.monotonic() < since + _RIGHT_WITHIN_S and not stage.server.has_ended:
        if traffic.right_since(since) >= everyone:
            return time.monotonic()
        time.sleep(0.05)
    return None


# -- all of them


def drawn(chance: random.Random, wanted: Sequence[Fault]) -> Iterator[Fault]:
    """Every fault once in an order by chance, then again in another."""
    while True:
        yield from chance.sample(wanted, len(wanted))


@dataclass(frozen=True)
class Plan:
    """lasts_s: of each fault. rate: requests a second of each tenant."""

    seconds: float
    lasts_s: float = 4.0
    rate: float = 5.0
    seed: int = 1
    tenants: int = TENANTS
    exports: tuple[str, ...] = ()
    once: bool = False


def chaos(
    directory: Path, plan: Plan, wanted: Sequence[Fault], say: Callable[[str], None] = print
) -> Report:
    """Faults of those that are wanted, until the time is over; with `once`, each one once."""
    stage = Stage(directory, plan.tenants, plan.exports, plan.seed)
    chance = random.Random(plan.seed)
    found: list[Happened] = []
    skipped: dict[str, str] = {}
    started = time.monotonic()
    order = drawn(chance, wanted)
    with Traffic(stage.tenants, lambda: stage.port, plan.rate, plan.seed) as traffic:
        for number, fault in enumerate(order):
            if plan.once and number >= len(wanted):
                break
            if not plan.once and time.monotonic() > started + plan.seconds:
                break
            scene = stage.scene(chance, plan.lasts_s)
            if lacking := fault.needs(scene):
                skipped[fault.name] = lacking
                if len(skipped) == len(wanted):
                    break
                continue
            found.append(happen(stage, fault, scene, traffic))
            say(_line(found[-1], time.monotonic() - started))
            stage.heal(found[-1])
    end = stage.close()
    return report(plan, traffic, found, skipped, end, time.monotonic() - started)


def _line(one: Happened, at_s: float) -> str:
    failures = list(one.failures())
    verdict = "held" if not failures else "; ".join(failures)[:400]
    back = "never" if one.back_s is None else f"{one.back_s:.1f} s"
    return f"{at_s:6.0f} s  {one.fault}: all right after {back}; {one.asked} asked; {verdict}"


def report(
    plan: Plan,
    traffic: Traffic,
    found: Sequence[Happened],
    skipped: dict[str, str],
    end: str | None,
    seconds: float,
) -> Report:
    """All that happened."""
    total = len(traffic.asked)
    right = sum(one.is_right for one in traffic.asked)
    summary = (
        f"{len(found)} faults in {seconds:.0f} s, seed {plan.seed}; {plan.tenants} tenants asked"
        f" {total:,} times: {right:,} right, {sum(one.wrong for one in found)} wrong,"
        f" {sum(one.lost for one in found)} lost, {sum(one.excused for one in found)} in flight in"
        f" what was killed; the container ended {sum(one.ended is not None for one in found)} times"
    )
    failures = [failure for one in found for failure in one.failures()]
    wrong = [one for one in traffic.asked if one.wrong]
    failures += [f"wrong: {one.tenant}: {one.wrong}"[:300] for one in wrong[:10]]
    if end:
        failures.append(f"at its end: {end}")
    rows = (*(one.row() for one in found),)
    rows += tuple((name, *[""] * (len(HEAD) - 2), why) for name, why in skipped.items())
    facts = {"faults": [asdict(one) for one in found], "skipped": skipped, "plan": asdict(plan)}
    return Report("chaos", summary, tuple(failures), (Table("Faults", HEAD, rows),), facts)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--once", action="store_true", help="every fault once, however long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="faults whose name holds this")
    parser.add_argument("--tenants", type=int, default=TENANTS)
    parser.add_argument("--rate", type=float, default=5.0, help="requests a second of each tenant")
    parser.add_argument("--lasts", type=float, default=4.0, help="seconds of each fault")
    parser.add_argument("--no-exports", action="store_true", help="small models only")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "reliability")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    wanted = [fault for fault in faults() if arguments.only in fault.name]
    exports = () if arguments.no_exports else tuple(set(_EXPORTS) & set(servable_exports()))
    plan = Plan(
        arguments.minutes * 60,
        arguments.lasts,
        arguments.rate,
        arguments.seed,
        arguments.tenants,
        tuple(sorted(exports)),
        arguments.once,
    )
    with tempfile.TemporaryDirectory(prefix="chaos-") as work:
        found = chaos(Path(work), plan, wanted)
    found.write(arguments.out)
    print(f"\n{found.text()}\n\nwritten to {arguments.out}")
    return 1 if found.failures else 0


def quick() -> list[Fault]:
    """The faults of the short form."""
    return [replace(fault) for fault in faults() if fault.is_quick]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
