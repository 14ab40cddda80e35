"""What the rewrite is worth: Merlin exports in their serving form against the executor.

And, in short, what compiling is worth; the suite `workflows` measures that at length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench import payloads
from bench.contenders import FORMS
from bench.measure import Line, ratio_at_most
from bench.models import EXPORTS
from bench.proc import read_proportional_mb
from bench.rows.row import Row, Run
from bench.rows.tutorials import measure_answers_and_loads
from bench.servers import Container

_EXPORTS = ("dense", "session", "two_workflows")


def _compare_with_executor(run: Run) -> Iterator[Line]:
    contenders = run.contenders
    with contenders.start_ours("executor", FORMS["executor"]) as executor:
        servers = {"executor": executor, "ours": contenders.ours}
        for export in _EXPORTS:
            model = contenders.archives.copy_export(f"merlin-{export}", export)
            run.progress(f"loading {export} twice")
            with contenders.ours.loaded(model), executor.loaded(model):
                yield from _compare_export(run, export, model, servers)


def _compare_export(
    run: Run, export: str, model: str, servers: Mapping[str, Container]
) -> Iterator[Line]:
    example = payloads.read_example(EXPORTS / export)
    targets = {name: run.prepare_target(it, model, example) for name, it in servers.items()}
    values = run.send(export, targets, rounds=run.few_rounds, warm=True)
    yield Line(f"Merlin {export}, p50", "s", values, ratio_at_most(0.85), against="executor")
    stubs = {name: [it.pid for it in server.list_steps(model)] for name, server in servers.items()}
    memory = {name: [read_proportional_mb(pids)] for name, pids in stubs.items()}
    counts = f"executor: {len(stubs['executor'])} processes, serving form: {len(stubs['ours'])}"
    what = f"Merlin {export}, memory of its processes"
    yield Line(what, "MB", memory, against="executor", note=counts)


def _compare_with_nvtabular(run: Run) -> Iterator[Line]:
    """The transform alone: it is what compiling changes."""
    contenders = run.contenders
    model = contenders.archives.copy_workflow("transform-dense", "dense")
    inputs = contenders.archives.read_inputs(model)
    request = payloads.read_request(EXPORTS / "dense" / "request.json")
    payload = payloads.encode_binary(tensor for tensor in request if tensor.name in inputs)
    with contenders.start_ours("NVTabular", FORMS["ensemble"]) as original:
        servers = {"NVTabular": original, "ours": contenders.ours}
        p50s, loads, _ = measure_answers_and_loads(
            run, "the transform", servers, model, payload, payloads.TOLERANCE, run.few_rounds
        )
    what, goal = "Merlin dense, transform of 5 rows, p50", ratio_at_most(0.15)
    yield Line(what, "s", p50s, goal, against="NVTabular")
    note = "NVTabular is forked from a warm interpreter; ours writes its tables first"
    what = "Merlin dense, load of the transform"
    yield Line(what, "s", loads, against="NVTabular", note=note)


ROWS = (
    Row(
        "merlin_serving_vs_executor",
        "Merlin exports: serving form against executor",
        "The same export in two containers, one with default settings, one with "
        "SERVE_REWRITE=executor and SERVE_COMPILE=off, which serves Merlin's executor itself; wrk "
        "on one connection, in turn, with the export's request.json, whose answer is compared with "
        "Merlin's own. Memory is the proportional set size of the model's Python processes after "
        "that.",
        _compare_with_executor,
    ),
    Row(
        "merlin_compiled",
        "A Merlin workflow: compiled against NVTabular",
        "The workflow of the export dense alone, as a single model, in two containers, one with "
        "default settings, one with SERVE_COMPILE=off; binary requests of 5 rows, whose answers "
        "are compared. make bench-workflows measures more of it.",
        _compare_with_nvtabular,
        in_short=True,
    ),
)
