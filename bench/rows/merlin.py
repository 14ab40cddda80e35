"""What the rewrite is worth: Merlin exports in their serving form against the executor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench import payloads, wrk
from bench.contenders import Container, Side
from bench.measure import Line, in_turn, ratio_at_most
from bench.models import EXPORTS
from bench.proc import proportional_mb
from bench.rows.row import Row, Run

_EXPORTS = ("dense", "session", "two_workflows")
_TOLERANCE = 1e-6  # float32 sums in another order differ in the last digits


def _serving_vs_executor(run: Run, row: str) -> Iterator[Line]:
    contenders = run.contenders
    with contenders.fresh_ours(SERVE_REWRITE="executor") as executor:
        for export in _EXPORTS:
            model = contenders.archives.merlin(f"merlin-{export}", export)
            run.progress(f"{row}: loading {export} twice")
            with contenders.ours.loaded(model), executor.loaded(model):
                yield from _compared(run, row, export, model, executor)


def _compared(run: Run, row: str, export: str, model: str, executor: Container) -> Iterator[Line]:
    payload = payloads.from_example(EXPORTS / export, _TOLERANCE)
    ours = run.contenders.ours
    sides, held = {}, {}
    for name, server in (("executor", executor), ("ours", ours)):
        side = Side(name, server.port, True)
        side.check(model, payload, export)
        target = side.target(run.scratch, model, payload)
        sides[name] = partial(_p50, target, run.seconds)
    values = in_turn(run.few_rounds, sides, run.teller(row, export))
    yield Line(row, f"Merlin {export}, p50", "s", values, ratio_at_most(0.85), against="executor")
    processes = {}
    for name, server in (("executor", executor), ("ours", ours)):
        stubs = [one.pid for one in server.stubs() if _belongs(one.command[1], model)]
        held[name], processes[name] = [proportional_mb(stubs)], len(stubs)
    yield Line(
        row, f"Merlin {export}, memory of its processes", "MB", held, against="executor",
        note=f"executor: {processes['executor']} processes, serving form: {processes['ours']}",
    )  # fmt: skip


def _belongs(path: str, model: str) -> bool:
    """Whether a stub runs the model or a step of it: steps are <model>.<step>."""
    return f"/{model}/" in path or f"/{model}." in path


def _p50(target: wrk.Target, seconds: float) -> float:
    return wrk.run(target, seconds).p50


ROWS = (
    Row(
        "merlin_serving_vs_executor", "Merlin exports: serving form against executor",
        "The same export in two containers, one with default settings, one with "
        "SERVE_REWRITE=executor, which serves Merlin's executor itself; wrk on one connection, in "
        "turn, with the export's request.json, whose answer is compared with Merlin's own. Memory "
        "is the proportional set size of the model's Python processes after that.",
        _serving_vs_executor,
    ),
)  # fmt: skip
