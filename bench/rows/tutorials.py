"""The tutorials' workflows beside Merlin's executor, each in the form in which it is served."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import payloads
from bench.measure import Line, measure_in_turn
from bench.models import TUTORIALS
from bench.rows import timed
from bench.rows.row import Row, Run
from bench.rows.workflows import long_enough
from bench.servers import Container, Side

_EXECUTOR = {"SERVE_REWRITE": "executor", "SERVE_COMPILE": "off"}
#: float32 sums in another order differ in the last digits.
_TOLERANCE = 1e-5
#: That a round has at least.
_ANSWERS = 8
#: Beside the file of a compiled workflow's model.
_COMPILED = "compiled_workflow"


def _measured(run: Run, row: str) -> Iterator[Line]:
    with ExitStack() as undo:
        servers = {
            "executor": undo.enter_context(run.contenders.fresh_ours(True, **_EXECUTOR)),
            "compiled": undo.enter_context(run.contenders.fresh_ours(True)),
        }
        for export in sorted(path.parent.name for path in TUTORIALS.glob("*/repository")):
            run.progress(f"{row}: {export}")
            yield from _compared(run, row, export, servers)


def _compared(run: Run, row: str, export: str, servers: dict[str, Container]) -> Iterator[Line]:
    model = run.contenders.archives.merlin(f"tutorial-{export}", export)
    sides = {name: Side(name, server.port, True) for name, server in servers.items()}
    payload = payloads.encode_binary(payloads.read_request(TUTORIALS / export / "request.json"))
    with servers["executor"].loaded(model):
        payload = sides["executor"].answered(model, payload, _TOLERANCE, export)
    loads = {
        name: partial(timed.time_load, sides[name], server, model, payload)
        for name, server in servers.items()
    }
    values = measure_in_turn(
        run.few_rounds, loads, run.teller(row, f"load of {export}"), warm=False
    )
    yield Line(row, f"{export}, load", "s", values, None, "compiled", "executor")
    with servers["executor"].loaded(model), servers["compiled"].loaded(model):
        sends = {}
        for name, side in sides.items():
            side.check(model, payload, export)
            started = time.perf_counter()
            side.check(model, payload, export)
            seconds = long_enough(run.seconds, time.perf_counter() - started, _ANSWERS)
            target = side.target(run.scratch, model, payload)
            sends[name] = partial(timed.measure_p50, target, seconds)
        values = measure_in_turn(run.rounds, sends, run.teller(row, export), warm=run.warm)
        note = _describe_form(servers["compiled"], model)
    yield Line(row, f"{export}, p50", "s", values, None, "compiled", "executor", note)


def _describe_form(server: Container, model: str) -> str:
    """How many of its workflows are compiled, whole or in part."""
    repository = Path(server.triton_argument("model-repository"))
    workflows = [*repository.glob(f"{model}*/**/workflow")]
    compiled = sum((found.parent / _COMPILED).exists() for found in workflows)
    return f"{compiled} of {len(workflows)} workflows compiled"


ROWS = (
    Row(
        "tutorials",
        "The tutorials' workflows",
        "The exports of tests/golden/tutorials in two containers, one with default settings, one "
        "that serves Merlin's executor. Load: POST /models to its 200; then wrk on one connection "
        "with the export's own request, in binary. Answers are compared with the executor's "
        "before anything is timed.",
        _measured,
    ),
)
