"""Small requests while something else keeps the server busy."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial

from bench import payloads, wrk
from bench.contenders import SageMakerServer, Side
from bench.measure import Line, in_turn, ratio_at_most
from bench.rows.invoking import identity
from bench.rows.row import Row, Run

_Busy = Callable[[], contextlib.AbstractContextManager[None]]

_GOAL = ratio_at_most(2)
_LATEST_S = 60.0


def _beside_large(run: Run, row: str) -> Iterator[Line]:
    contenders = run.contenders
    large = payloads.json_values("FP32", 265_000)  # 5 MB
    other = contenders.archives.identity("identity-busy")
    contenders.keep_loaded(other)
    rival, _, ours = contenders.sides
    busy: dict[str, _Busy] = {}
    for side in (rival, ours):
        side.check(other, large, "JSON of 5 MB")
        target = side.target(run.scratch, other, large)
        busy[side.name] = partial(wrk.beside, target, _LATEST_S)
    yield from _lines(run, row, "5 MB JSON", (rival, ours), busy)


def _beside_loads(run: Run, row: str) -> Iterator[Line]:
    contenders = run.contenders
    names = [contenders.archives.identity(f"coming-{number}") for number in range(2)]
    rival, _, ours = contenders.sides
    busy: dict[str, _Busy] = {
        "rival": partial(_loads_and_unloads, contenders.rival, names),
        "ours": partial(_loads_and_unloads, contenders.ours, names),
    }
    yield from _lines(run, row, "loads and unloads", (rival, ours), busy)


def _lines(
    run: Run, row: str, what: str, pair: tuple[Side, Side], busy: dict[str, _Busy]
) -> Iterator[Line]:
    """Ours against ours alone; and the same of the rival, for comparison, without a goal."""
    model, small = identity(run), payloads.small()
    seconds = run.seconds if run.short else 2 * run.seconds
    sides: dict[str, Callable[[], float]] = {}
    for side in pair:
        side.check(model, small, "small JSON")
        target = side.target(run.scratch, model, small)
        sides[f"{side.name} alone"] = partial(_p99, target, seconds)
        sides[side.name] = partial(_p99_while, target, seconds, busy[side.name])
    rounds = 2 if run.short else run.rounds
    values = in_turn(rounds, sides, run.teller(row, what), warm=run.warm)
    title = f"small JSON beside {what}, p99"
    ours = {name: values[name] for name in ("ours", "ours alone")}
    theirs = {name: values[name] for name in ("rival", "rival alone")}
    yield Line(row, title, "s", {"rival": values["rival"], **ours}, _GOAL, against="ours alone")
    yield Line(
        row, f"the same of the rival: p99 beside {what}", "s", theirs,
        subject="rival", against="rival alone",
    )  # fmt: skip


def _p99(target: wrk.Target, seconds: float) -> float:
    return wrk.run(target, seconds).p99


def _p99_while(target: wrk.Target, seconds: float, busy: _Busy) -> float:
    with busy():
        return wrk.run(target, seconds).p99


@contextlib.contextmanager
def _loads_and_unloads(server: SageMakerServer, names: list[str]) -> Iterator[None]:
    """One after another, over and over, for as long as the block lasts; raises what failed."""
    stop, failed = threading.Event(), []

    def repeat() -> None:
        try:
            while not stop.is_set():
                for name in names:
                    server.load(name)
                for name in names:
                    server.unload(name)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=repeat, name="loads and unloads")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failed:
        raise failed[0]


_HOW = (
    "wrk on one connection with small JSON, alone and while {}; alone and beside in turn, the "
    "median of the rounds' p99. The goal compares ours with ours alone."
)

ROWS = (
    Row(
        "small_beside_large", "Small requests beside large ones",
        _HOW.format("another connection sends 5 MB of JSON to another model, back to back"),
        _beside_large, in_short=True,
    ),
    Row(
        "small_beside_loads", "Small requests beside loads",
        _HOW.format("two other Python models are loaded and unloaded, over and over"),
        _beside_loads,
    ),
)  # fmt: skip
