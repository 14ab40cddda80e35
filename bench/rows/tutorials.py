"""The tutorials' workflows beside Merlin's executor, each in the form in which it is served."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench import payloads
from bench.measure import Goal, Line, measure_in_turn
from bench.models import TUTORIALS, find_export
from bench.payloads import Payload
from bench.rows import timed
from bench.rows.row import Row, Run
from bench.rows.workflows import long_enough
from bench.servers import Container, Side

_FORMS: Mapping[str, Mapping[str, str]] = {
    "executor": {"SERVE_REWRITE": "executor", "SERVE_COMPILE": "off"},
    "compiled": {},
}
#: float32 sums in another order differ in the last digits.
TOLERANCE = 1e-5
#: That a round has at least.
_ANSWERS = 8
#: Loads that count, of each of so many exports.
_LOADS = 2
#: Beside the file of a compiled workflow's model.
_COMPILED = "compiled_workflow"

Servers = Mapping[str, Container]


@contextlib.contextmanager
def both_forms(run: Run) -> Iterator[Servers]:
    """A container with default settings, and one that serves Merlin's executor."""
    with ExitStack() as undo:
        yield {
            form: undo.enter_context(run.contenders.fresh_ours(True, **settings))
            for form, settings in _FORMS.items()
        }


def _measured(run: Run, row: str) -> Iterator[Line]:
    with both_forms(run) as servers:
        for export in sorted(path.parent.name for path in TUTORIALS.glob("*/repository")):
            yield from compare(run, row, export, servers)


def compare(
    run: Run,
    row: str,
    export: str,
    servers: Servers,
    load_goal: Goal | None = None,
    p50_goal: Goal | None = None,
) -> Iterator[Line]:
    """The load and the p50 of an export in both forms; the load that comes first does not count."""
    run.progress(f"{row}: {export}")
    model = run.contenders.archives.merlin(f"{row}-{export}", export)
    payload = payloads.encode_binary(payloads.read_request(find_export(export) / "request.json"))
    sides = {form: Side(form, server.port, True) for form, server in servers.items()}
    with servers["executor"].loaded(model), servers["compiled"].loaded(model):
        payload = sides["executor"].answered(model, payload, TOLERANCE, export)
        sends = {form: _send(run, side, model, payload) for form, side in sides.items()}
        p50s = measure_in_turn(run.few_rounds, sends, run.teller(row, export), warm=run.warm)
        note = _describe_form(servers["compiled"], model)
    loads = {
        form: partial(timed.time_load, side, servers[form], model, payload)
        for form, side in sides.items()
    }
    took = measure_in_turn(_LOADS, loads, run.teller(row, f"load of {export}"), warm=False)
    yield Line(row, f"{export}, load", "s", took, load_goal, "compiled", "executor")
    yield Line(row, f"{export}, p50", "s", p50s, p50_goal, "compiled", "executor", note)


def _send(run: Run, side: Side, model: str, payload: Payload) -> Callable[[], float]:
    """Measures the p50, for long enough by an answer that was compared."""
    side.check(model, payload, model)
    started = time.perf_counter()
    side.check(model, payload, model)
    seconds = long_enough(run.seconds, time.perf_counter() - started, _ANSWERS)
    return partial(timed.measure_p50, side.target(run.scratch, model, payload), seconds)


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
        "that serves Merlin's executor: wrk on one connection with the export's own request, in "
        "binary. Answers are compared with the executor's before anything is timed. Then POST "
        "/models to its 200, and an unload, each twice.",
        _measured,
    ),
)
