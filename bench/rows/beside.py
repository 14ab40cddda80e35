"""Small requests while something else keeps the server busy."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial

from bench import payloads, wrk
from bench.measure import Line, measure_in_turn, ratio_at_most
from bench.payloads import Payload
from bench.rows.invoking import identity
from bench.rows.row import Row, Run
from bench.servers import SageMakerServer, Side

_Busy = Callable[[], contextlib.AbstractContextManager[None]]

_GOAL = ratio_at_most(2)
_LATEST_S = 60.0
_FEW, _MORE = 1, 4
_SMALL = ("small JSON", payloads.small())
_TRANSLATED = ("JSON of 71 KB", payloads.json_values("FP32", 3_750))


def _beside_large(run: Run, row: str) -> Iterator[Line]:
    contenders = run.contenders
    large = payloads.json_values("FP32", 265_000)  # 5 MB
    other = contenders.archives.identity("identity-busy")
    contenders.keep_loaded(other)
    rival, _, ours = contenders.sides
    targets = {}
    for side in (rival, ours):
        side.check(other, large, "JSON of 5 MB")
        targets[side.name] = side.target(run.scratch, other, large)
    for connections in (_FEW,) if run.short else (_FEW, _MORE):
        busy: dict[str, _Busy] = {
            name: partial(wrk.beside, target, _LATEST_S, connections)
            for name, target in targets.items()
        }
        what = "5 MB JSON" if connections == _FEW else f"5 MB JSON on {connections} connections"
        yield from _lines(run, row, what, (rival, ours), busy)
        if connections == _MORE:
            yield from _lines(run, row, what, (rival, ours), busy, _TRANSLATED)


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
    run: Run,
    row: str,
    what: str,
    pair: tuple[Side, Side],
    busy: dict[str, _Busy],
    probe: tuple[str, Payload] = _SMALL,
) -> Iterator[Line]:
    """Ours against ours alone; and the same of the rival, for comparison, without a goal."""
    model, (kind, payload) = identity(run), probe
    seconds = run.seconds if run.short else 2 * run.seconds
    sides: dict[str, Callable[[], float]] = {}
    for side in pair:
        side.check(model, payload, kind)
        target = side.target(run.scratch, model, payload)
        sides[f"{side.name} alone"] = partial(_p99, target, seconds)
        sides[side.name] = partial(_p99_while, target, seconds, busy[side.name])
    rounds = 2 if run.short else run.rounds
    values = measure_in_turn(rounds, sides, run.teller(row, what), warm=run.warm)
    title = f"{kind} beside {what}, p99"
    ours = {name: values[name] for name in ("ours", "ours alone")}
    theirs = {name: values[name] for name in ("rival", "rival alone")}
    goal = _GOAL if probe is _SMALL else None
    yield Line(row, title, "s", {"rival": values["rival"], **ours}, goal, against="ours alone")
    yield Line(
        row,
        f"the same of the rival: {title}",
        "s",
        theirs,
        subject="rival",
        against="rival alone",
    )


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
        "small_beside_large",
        "Small requests beside large ones",
        _HOW.format(
            f"another connection, and then {_MORE} of them, send 5 MB of JSON to another model,"
            " back to back"
        ),
        _beside_large,
        in_short=True,
        profile=(
            "reading and writing JSON is done on the event loop, in steps of a tenth of a "
            "millisecond; the other core is taken by tritonserver, the models' processes and both "
            "wrks."
        ),
    ),
    Row(
        "small_beside_loads",
        "Small requests beside loads",
        _HOW.format("two other Python models are loaded and unloaded, over and over"),
        _beside_loads,
        profile=(
            "a load takes a core: the fork of tritonserver, the start of a Python interpreter and "
            "its imports."
        ),
    ),
)
