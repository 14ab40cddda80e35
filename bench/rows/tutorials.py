"""Tutorials, and workflows with functions of the user's, as served and beside the executor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from bench import payloads
from bench.measure import Goal, Line, ratio_at_most, value_at_most
from bench.models import TUTORIALS, find_export
from bench.payloads import Payload
from bench.rows.row import Row, Run
from bench.servers import Container, time_load

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
#: Loads that count, of each of so many exports.
_LOADS = 2
#: A round has at least so many.
_ANSWERS = 8

_Values = Mapping[str, list[float]]


def _measure_tutorials(run: Run) -> Iterator[Line]:
    with run.contenders.start_forms(*_FORMS) as servers:
        for export in sorted(path.parent.name for path in TUTORIALS.glob("*/repository")):
            yield from _compare(run, f"tutorials-{export}", export, servers)


def _measure_functions(run: Run) -> Iterator[Line]:
    for export in _FUNCTIONS:
        with run.contenders.start_forms(*_FORMS) as servers:
            goals = _LOAD.get(export), _P50.get(export)
            yield from _compare(run, f"functions-{export}", export, servers, *goals)
            run.progress(f"memory of {export}")
            yield from _measure_memory(run, export, servers)


def _compare(
    run: Run,
    name: str,
    export: str,
    servers: Mapping[str, Container],
    load_goal: Goal | None = None,
    p50_goal: Goal | None = None,
) -> Iterator[Line]:
    """The load and the p50 of an export in both forms."""
    run.progress(export)
    model = run.contenders.archives.copy_export(name, export)
    payload = payloads.encode_binary(payloads.read_request(find_export(export) / "request.json"))
    p50s, loads, note = measure_answers_and_loads(
        run, export, servers, model, payload, _TOLERANCE, _LOADS
    )
    yield Line(f"{export}, load", "s", loads, load_goal, "compiled", "executor")
    yield Line(f"{export}, p50", "s", p50s, p50_goal, "compiled", "executor", note)


def measure_answers_and_loads(
    run: Run,
    what: str,
    servers: Mapping[str, Container],
    model: str,
    payload: Payload,
    tolerance: float,
    loads: int,
) -> tuple[_Values, _Values, str]:
    """The p50s and the loads of a model, and how many of its workflows the second server compiled.

    What the first server answers is the right answer.

    The load that comes before the answers does not count. loads: how many do, of each server.
    """
    first, second = servers.values()
    with first.loaded(model), second.loaded(model):
        payload = first.take_answer(model, payload, tolerance, what)
        targets = {
            name: run.prepare_target(it, model, payload, what) for name, it in servers.items()
        }
        p50s = run.send(what, targets, rounds=run.few_rounds, warm=True, answers=_ANSWERS)
        compiled, workflows = second.count_compiled(model)
    sides = {name: partial(time_load, it, model, payload) for name, it in servers.items()}
    times = run.take_turns(f"load of {what}", sides, rounds=loads, warm=False)
    return p50s, times, f"{compiled} of {workflows} workflows compiled"


def _measure_memory(run: Run, export: str, servers: Mapping[str, Container]) -> Iterator[Line]:
    sizes = {form: _load_two(run, export, server) for form, server in servers.items()}
    first = {form: [alone] for form, (alone, _) in sizes.items()}
    more = {form: [both - alone] for form, (alone, both) in sizes.items()}
    goal = _ONE_MORE if export in _P50 else None
    yield Line(f"{export}, memory of the first", "MB", first, None, "compiled", "executor")
    yield Line(f"{export}, memory of one more", "MB", more, goal, "compiled", "executor")


def _load_two(run: Run, export: str, server: Container) -> list[float]:
    """MB of all processes of models and interpreters, with a copy loaded, and with two."""
    example = payloads.read_example(find_export(export), _TOLERANCE)
    sizes = []
    for number in range(2):
        model = run.contenders.archives.copy_export(f"functions-{export}-{number}", export)
        server.load(model)
        server.check(model, example, "after a load")
        sizes.append(server.measure_models_mb())
    return sizes


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
        _measure_functions,
    ),
    Row(
        "tutorials",
        "The tutorials' workflows",
        "The exports of tests/golden/tutorials in two containers, one with default settings, one "
        "that serves Merlin's executor: wrk on one connection with the export's own request, in "
        "binary. Answers are compared with the executor's before anything is timed. Then POST "
        "/models to its 200, and an unload, each twice.",
        _measure_tutorials,
    ),
)
