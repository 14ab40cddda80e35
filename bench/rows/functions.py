"""Workflows with functions of the user's in the middle, beside Merlin's executor."""

from __future__ import annotations

from collections.abc import Iterator

from bench import payloads
from bench.measure import Line, ratio_at_most, value_at_most
from bench.models import find_export
from bench.proc import list_descendants, read_proportional_mb
from bench.rows.row import Row, Run
from bench.rows.tutorials import TOLERANCE, Servers, both_forms, compare
from bench.servers import Container, Side

#: tests/golden/functions, with a function and without, and the tutorial that has most of them.
SESSIONS = ("dates", "behind_groupby", "own_operator", "with_filter")
TUTORIAL = "t4r_end_to_end"
EXPORTS = (*SESSIONS, "without", TUTORIAL)

_P50 = {**dict.fromkeys(SESSIONS, ratio_at_most(0.12)), TUTORIAL: ratio_at_most(0.1)}
_LOAD = {TUTORIAL: ratio_at_most(0.25)}
_ONE_MORE = value_at_most(60)


def _measured(run: Run, row: str) -> Iterator[Line]:
    for export in EXPORTS:
        with both_forms(run) as servers:
            yield from compare(run, row, export, servers, _LOAD.get(export), _P50.get(export))
            run.progress(f"{row}: memory of {export}")
            yield from _memory(run, row, export, servers)


def _memory(run: Run, row: str, export: str, servers: Servers) -> Iterator[Line]:
    taken = {form: _load_two(run, export, server) for form, server in servers.items()}
    first = {form: [values[0]] for form, values in taken.items()}
    more = {form: [values[1] - values[0]] for form, values in taken.items()}
    goal = _ONE_MORE if export in _P50 else None
    yield Line(row, f"{export}, memory of the first", "MB", first, None, "compiled", "executor")
    yield Line(row, f"{export}, memory of one more", "MB", more, goal, "compiled", "executor")


def _load_two(run: Run, export: str, server: Container) -> list[float]:
    """MB of all processes of models and interpreters, with a copy loaded, and with two."""
    payload = payloads.read_example(find_export(export), TOLERANCE)
    side, taken = Side(server.name, server.port, True), []
    for number in range(2):
        model = run.contenders.archives.merlin(f"functions-{export}-{number}", export)
        server.load(model)
        side.check(model, payload, "after a load")
        below = {child.pid for child in list_descendants(server.process.pid)}
        taken.append(read_proportional_mb(below - {server.triton.pid}))
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
        _measured,
    ),
)
