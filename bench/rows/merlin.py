"""What the rewrite is worth: Merlin exports in their serving form against the executor.

And, in short, what compiling is worth; the suite `workflows` measures that at length.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from bench import payloads
from bench.contenders import FORMS
from bench.measure import Line, measure_in_turn, ratio_at_most
from bench.models import EXPORTS
from bench.proc import read_proportional_mb
from bench.rows import timed
from bench.rows.row import Row, Run
from bench.servers import Container, Side

_EXPORTS = ("dense", "session", "two_workflows")


def _serving_vs_executor(run: Run, row: str) -> Iterator[Line]:
    contenders = run.contenders
    with contenders.fresh_ours(True, **FORMS["executor"]) as executor:
        for export in _EXPORTS:
            model = contenders.archives.merlin(f"merlin-{export}", export)
            run.progress(f"{row}: loading {export} twice")
            with contenders.ours.loaded(model), executor.loaded(model):
                yield from _compared(run, row, export, model, executor)


def _compared(run: Run, row: str, export: str, model: str, executor: Container) -> Iterator[Line]:
    payload = payloads.read_example(EXPORTS / export)
    ours = run.contenders.ours
    sides, memory = {}, {}
    for name, server in (("executor", executor), ("ours", ours)):
        side = Side(name, server.port, True)
        side.check(model, payload, export)
        target = side.target(run.scratch, model, payload)
        sides[name] = partial(timed.measure_p50, target, run.seconds)
    values = measure_in_turn(run.few_rounds, sides, run.teller(row, export))
    yield Line(row, f"Merlin {export}, p50", "s", values, ratio_at_most(0.85), against="executor")
    processes = {}
    for name, server in (("executor", executor), ("ours", ours)):
        stubs = [stub.pid for stub in server.steps(model)]
        memory[name], processes[name] = [read_proportional_mb(stubs)], len(stubs)
    yield Line(
        row,
        f"Merlin {export}, memory of its processes",
        "MB",
        memory,
        against="executor",
        note=f"executor: {processes['executor']} processes, serving form: {processes['ours']}",
    )


def _compiled(run: Run, row: str) -> Iterator[Line]:
    """The transform alone: it is what compiling changes."""
    contenders = run.contenders
    model = contenders.archives.workflow("transform-dense", "dense")
    names = contenders.archives.inputs(model)
    request = payloads.read_request(EXPORTS / "dense" / "request.json")
    payload = payloads.encode_binary(tensor for tensor in request if tensor.name in names)
    with contenders.fresh_ours(True, **FORMS["ensemble"]) as original:
        servers = {"NVTabular": original, "ours": contenders.ours}
        sides = {name: Side(name, server.port, True) for name, server in servers.items()}
        with original.loaded(model), contenders.ours.loaded(model):
            payload = sides["NVTabular"].answered(
                model, payload, payloads.TOLERANCE, "the transform"
            )
            sends = {}
            for name, side in sides.items():
                side.check(model, payload, "the transform")
                target = side.target(run.scratch, model, payload)
                sends[name] = partial(timed.measure_p50, target, run.seconds)
            values = measure_in_turn(run.few_rounds, sends, run.teller(row, "p50"))
        yield Line(
            row,
            "Merlin dense, transform of 5 rows, p50",
            "s",
            values,
            ratio_at_most(0.15),
            against="NVTabular",
        )
        loads = {
            name: partial(timed.time_load, sides[name], server, model, payload)
            for name, server in servers.items()
        }
        values = measure_in_turn(run.few_rounds, loads, run.teller(row, "load"), warm=False)
        yield Line(
            row,
            "Merlin dense, load of the transform",
            "s",
            values,
            against="NVTabular",
            note="NVTabular is forked from a warm interpreter; ours writes its tables first",
        )


ROWS = (
    Row(
        "merlin_serving_vs_executor",
        "Merlin exports: serving form against executor",
        "The same export in two containers, one with default settings, one with "
        "SERVE_REWRITE=executor and SERVE_COMPILE=off, which serves Merlin's executor itself; wrk "
        "on one connection, in turn, with the export's request.json, whose answer is compared with "
        "Merlin's own. Memory is the proportional set size of the model's Python processes after "
        "that.",
        _serving_vs_executor,
        profile=(
            "nearly all of the executor's time, and half of its memory, is NVTabular's: pandas on "
            "a few rows. Ours has a compiled workflow, and its process shares torch with others."
        ),
    ),
    Row(
        "merlin_compiled",
        "A Merlin workflow: compiled against NVTabular",
        "The workflow of the export dense alone, as a single model, in two containers, one with "
        "default settings, one with SERVE_COMPILE=off; binary requests of 5 rows, whose answers "
        "are compared. make bench-workflows measures more of it.",
        _compiled,
        in_short=True,
    ),
)
