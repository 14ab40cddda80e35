"""Tutorials, and workflows with functions of the user's, as served and beside the executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from bench import payloads
from bench.measure import Goal, Line, measure_in_turn, ratio_at_most, value_at_most
from bench.models import TUTORIALS, find_export
from bench.payloads import Payload
from bench.rows import timed
from bench.rows.row import Row, Run
from bench.rows.workflows import long_enough
from bench.servers import Container, Side

#: tests/golden/functions, with a function and without, and the tutorial that has most of them.
_SESSIONS = ("dates", "behind_groupby", "own_operator", "with_filter")
_TUTORIAL = "t4r_end_to_end"
_FUNCTIONS = (*_SESSIONS, "without", _TUTORIAL)

_FORMS = ("executor", "compiled")
_P50 = {**dict.fromkeys(_SESSIONS, ratio_at_most(0.12)), _TUTORIAL: ratio_at_most(0.1)}
_LOAD = {_TUTORIAL: ratio_at_most(0.25)}
_ONE_MORE = value_at_most(60)
#: float32 sums in another order differ in the last digits.
_TOLERANCE = 1e-5
#: That a round has at least.
_ANSWERS = 8
#: Loads that count, of each of so many exports.
_LOADS = 2

_Servers = Mapping[str, Container]


def _tutorials(run: Run, row: str) -> Iterator[Line]:
    with run.contenders.fresh_forms(*_FORMS) as servers:
        for export in sorted(path.parent.name for path in TUTORIALS.glob("*/repository")):
            yield from _compare(run, row, export, servers)


def _functions(run: Run, row: str) -> Iterator[Line]:
    for export in _FUNCTIONS:
        with run.contenders.fresh_forms(*_FORMS) as servers:
            yield from _compare(run, row, export, servers, _LOAD.get(export), _P50.get(export))
            run.progress(f"{row}: memory of {export}")
            yield from _memory(run, row, export, servers)


def _compare(
    run: Run,
    row: str,
    export: str,
    servers: _Servers,
    load_goal: Goal | None = None,
    p50_goal: Goal | None = None,
) -> Iterator[Line]:
    """The load and the p50 of an export in both forms; the load that comes first does not count."""
    run.progress(f"{row}: {export}")
    model = run.contenders.archives.merlin(f"{row}-{export}", export)
    payload = payloads.encode_binary(payloads.read_request(find_export(export) / "request.json"))
    sides = {form: Side(form, server.port, True) for form, server in servers.items()}
    with servers["executor"].loaded(model), servers["compiled"].loaded(model):
        payload = sides["executor"].answered(model, payload, _TOLERANCE, export)
        sends = {form: _send(run, side, model, payload) for form, side in sides.items()}
        p50s = measure_in_turn(run.few_rounds, sends, run.teller(row, export), warm=run.warm)
        compiled, workflows = servers["compiled"].count_compiled(model)
        note = f"{compiled} of {workflows} workflows compiled"
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


def _memory(run: Run, row: str, export: str, servers: _Servers) -> Iterator[Line]:
    taken = {form: _load_two(run, export, server) for form, server in servers.items()}
    first = {form: [values[0]] for form, values in taken.items()}
    more = {form: [values[1] - values[0]] for form, values in taken.items()}
    goal = _ONE_MORE if export in _P50 else None
    yield Line(row, f"{export}, memory of the first", "MB", first, None, "compiled", "executor")
    yield Line(row, f"{export}, memory of one more", "MB", more, goal, "compiled", "executor")


def _load_two(run: Run, export: str, server: Container) -> list[float]:
    """MB of all processes of models and interpreters, with a copy loaded, and with two."""
    payload = payloads.read_example(find_export(export), _TOLERANCE)
    side, taken = Side(server.name, server.port, True), []
    for number in range(2):
        model = run.contenders.archives.merlin(f"functions-{export}-{number}", export)
        server.load(model)
        side.check(model, payload, "after a load")
        taken.append(server.measure_models_mb())
    return taken


ROWS = (
    Row(
        "functions",
        "Workflows with functions of the user's in the middle",
        "Session workflows of texts, prices and dates (tests/golden/functions), and a tutorial's "
        "with an XLNet behind it, each in two containers, one with default settings, one that "
        "serves Merlin's executor. Load: POST /models to its 200; then wrk on one connection with "
        "the export's own request, 55 events in 8 sessions, in binary. Answers are compared with "
        "the executor's before anything is timed. Memory: the proportional set sizes of everything "
        "below a container but its server and tritonserver, with one copy, interpreters with it, "
        "and what a second copy adds.",
        _functions,
    ),
    Row(
        "tutorials",
        "The tutorials' workflows",
        "The exports of tests/golden/tutorials in two containers, one with default settings, one "
        "that serves Merlin's executor: wrk on one connection with the export's own request, in "
        "binary. Answers are compared with the executor's before anything is timed. Then POST "
        "/models to its 200, and an unload, each twice.",
        _tutorials,
    ),
)
