"""Small requests while something else keeps the server busy."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from bench import payloads, wrk
from bench.measure import Line, ratio_at_most
from bench.payloads import Payload
from bench.rows.invoking import prepare_identity
from bench.rows.row import Row, Run
from bench.servers import Server

_Busy = Callable[[], contextlib.AbstractContextManager[object]]

_GOAL = ratio_at_most(2)
_LATEST_S = 60.0
_FEW, _MORE = 1, 4


def _measure_beside_large(run: Run) -> Iterator[Line]:
    contenders = run.contenders
    large = payloads.make_json("FP32", 265_000)  # 5 MB
    other = contenders.archives.write_identity("identity-busy")
    contenders.keep_loaded(other)
    servers = (contenders.rival, contenders.ours)
    targets = {it.name: run.prepare_target(it, other, large, "JSON of 5 MB") for it in servers}
    for connections in (_FEW,) if run.short else (_FEW, _MORE):
        busy: dict[str, _Busy] = {
            name: partial(wrk.send_beside, target, _LATEST_S, connections)
            for name, target in targets.items()
        }
        what = "5 MB JSON" if connections == _FEW else f"5 MB JSON on {connections} connections"
        yield from _measure_beside(run, what, busy)
        if connections == _MORE:
            translated = payloads.make_json("FP32", 3_750)
            yield from _measure_beside(run, what, busy, ("JSON of 71 KB", translated))


def _measure_beside_loads(run: Run) -> Iterator[Line]:
    contenders = run.contenders
    names = [contenders.archives.write_identity(f"coming-{number}") for number in range(2)]
    busy: dict[str, _Busy] = {
        server.name: partial(_load_and_unload, server, names)
        for server in (contenders.rival, contenders.ours)
    }
    yield from _measure_beside(run, "loads and unloads", busy)


def _measure_beside(
    run: Run, what: str, busy: Mapping[str, _Busy], probe: tuple[str, Payload] | None = None
) -> Iterator[Line]:
    """Compare ours with ours alone; the rival likewise, without a goal. probe: not small JSON."""
    model, (kind, payload) = prepare_identity(run), probe or ("small JSON", payloads.make_small())
    seconds = run.seconds if run.short else 2 * run.seconds
    sides: dict[str, Callable[[], float]] = {}
    for server in (run.contenders.rival, run.contenders.ours):
        target = run.prepare_target(server, model, payload, kind)
        sides[f"{server.name} alone"] = partial(wrk.measure_p99, target, seconds)
        sides[server.name] = partial(_measure_p99_while, busy[server.name], target, seconds)
    values = run.take_turns(what, sides, rounds=2 if run.short else run.rounds)
    title, goal = f"{kind} beside {what}, p99", None if probe else _GOAL
    ours = {name: values[name] for name in ("rival", "ours", "ours alone")}
    rival = {name: values[name] for name in ("rival", "rival alone")}
    yield Line(title, "s", ours, goal, against="ours alone")
    yield Line(f"the same of the rival: {title}", "s", rival, None, "rival", "rival alone")


def _measure_p99_while(busy: _Busy, target: wrk.Target, seconds: float) -> float:
    with busy():
        return wrk.measure_p99(target, seconds)


@contextlib.contextmanager
def _load_and_unload(server: Server, names: list[str]) -> Iterator[None]:
    """Over and over for as long as the block lasts; raises what failed."""
    stop = threading.Event()
    failures: list[Exception] = []

    def repeat() -> None:
        try:
            while not stop.is_set():
                for change in (server.load, server.unload):
                    for name in names:
                        change(name)
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=repeat, name="loads and unloads")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if failures:
        raise failures[0]


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
        _measure_beside_large,
        in_short=True,
    ),
    Row(
        "small_beside_loads",
        "Small requests beside loads",
        _HOW.format("two other Python models are loaded and unloaded, over and over"),
        _measure_beside_loads,
    ),
)
