"""What compiling NVTabular workflows is worth: executor, ensemble and compiled ensemble."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from bench import payloads
from bench.errors import BenchError
from bench.measure import Goal, Line, Unit, ratio_at_most
from bench.models import WIDE, find_export
from bench.payloads import Payload, Tensor
from bench.proc import read_private_mb, read_proportional_mb
from bench.rows.row import Row, Run
from bench.servers import Container, time_load
from bench.wrk import Target, measure_p50, measure_rate

_FORMS = ("executor", "ensemble", "compiled")
#: Of the transform alone: the executor's and the ensemble's are one.
_ALONE = ("executor", "compiled")

_BATCHES = (1, 5, 64, 1024)
_USUAL = 5
#: A round has at least so many, on one connection and on sixteen.
_ANSWERS, _ANSWERS_OF_16 = 8, 64

_LOAD, _MEMORY, _P50, _NEVER_ABOVE = map(ratio_at_most, (0.1, 0.15, 0.15, 1.0))


@dataclass(frozen=True)
class _Subject:
    """A model in the forms that are compared, with its requests by number of rows."""

    name: str
    forms: tuple[str, ...]
    servers: Mapping[str, Container]
    requests: Mapping[int, Payload]


def _measure(export: str, group: str | None, run: Run) -> Iterator[Line]:
    """group: the column by which the export groups its rows, where it does."""
    archives, source = run.contenders.archives, find_export(export)
    run.progress("its archives")
    whole = archives.copy_export(f"whole-{export}", export)
    alone = archives.copy_workflow(f"alone-{export}", export)
    request = payloads.read_request(source / "request.json")
    inputs = archives.read_inputs(alone)
    with run.contenders.start_forms(*_FORMS) as servers, ExitStack() as undo:
        run.progress("what the executor answers")
        served = _ask_executor(whole, _FORMS, servers, request, group)
        own = [tensor for tensor in request if tensor.name in inputs]
        transform = _ask_executor(alone, _ALONE, servers, own, group)
        yield _measure_loads(run, export, served, None)
        yield _measure_loads(run, f"{export}, transform", transform, _LOAD)
        example = payloads.read_example(source)
        for form, server in servers.items():
            undo.enter_context(server.loaded(whole, *([alone] if form in _ALONE else [])))
            server.check(whole, example, "the request beside the export")
        for subject in (served, transform):
            _check_compiled(subject)
        yield from _measure_invocations(run, export, served, transform)
        yield from _measure_memory(export, served, transform)


def _ask_executor(
    model: str,
    forms: tuple[str, ...],
    servers: Mapping[str, Container],
    request: Iterable[Tensor],
    group: str | None,
) -> _Subject:
    """Requests for each number of rows; the executor's answers are the right ones."""
    tensors = tuple(request)
    executor, requests = servers["executor"], {}
    with executor.loaded(model):
        for rows in _BATCHES:
            sent = payloads.encode_binary(payloads.repeat_rows(tensors, rows, group))
            requests[rows] = executor.take_answer(model, sent, payloads.TOLERANCE, f"{rows} rows")
    return _Subject(model, forms, servers, requests)


def _measure_loads(run: Run, what: str, subject: _Subject, goal: Goal | None) -> Line:
    model, request = subject.name, subject.requests[_USUAL]
    sides = {
        form: partial(time_load, subject.servers[form], model, request) for form in subject.forms
    }
    values = run.take_turns(f"load of {model}", sides, rounds=run.few_rounds, warm=False)
    return _make_line(f"{what}, load", "s", values, goal)


def _check_compiled(subject: _Subject) -> None:
    """Figures of what was not compiled would be lies."""
    server = subject.servers["compiled"]
    compiled, workflows = server.count_compiled(subject.name)
    if not workflows or compiled < workflows:
        log = server.log.read_text("utf-8")
        why = " ".join(line for line in log.splitlines() if "not_compiled" in line)
        raise BenchError(f"{subject.name}: its workflow was not compiled {why[-1000:]}")


def _measure_invocations(
    run: Run, export: str, served: _Subject, transform: _Subject
) -> Iterator[Line]:
    for rows in _BATCHES:
        targets = {
            (subject.name, form): run.prepare_target(
                subject.servers[form], subject.name, subject.requests[rows], f"{rows} rows"
            )
            for subject in (served, transform)
            for form in subject.forms
        }

        def send(
            what: str, timing: Callable[[Target, float], float], answers: int
        ) -> Iterator[dict[str, list[float]]]:
            """By form: of the whole export, then of the transform."""
            values = run.send(what, targets, timing, answers=answers)  # noqa: B023  # called here
            for subject in (served, transform):
                yield {form: values[subject.name, form] for form in subject.forms}

        whole, alone = send(f"{rows} rows", measure_p50, _ANSWERS)
        note = f"request of {len(served.requests[rows].body) / 1e3:,.1f} KB"
        yield _make_line(f"{export}, {rows} rows, p50", "s", whole, None, note)
        goal = _P50 if rows == _USUAL else _NEVER_ABOVE
        yield _make_line(f"{export}, transform of {rows} rows, p50", "s", alone, goal)
        if rows == _USUAL:
            what = f"{rows} rows on 16 connections"
            whole, alone = send(what, measure_rate, _ANSWERS_OF_16)
            yield _make_line(f"{export}, {what}", "requests/s", whole)
            yield _make_line(f"{export}, transform of {what}", "requests/s", alone)


def _measure_memory(export: str, served: _Subject, transform: _Subject) -> Iterator[Line]:
    """After all the requests, with everything loaded."""
    whole, alone = (
        {
            form: [it.pid for it in subject.servers[form].list_steps(subject.name)]
            for form in subject.forms
        }
        for subject in (served, transform)
    )
    for what, measure_mb, processes, goal in (
        ("memory of its processes", read_proportional_mb, whole, None),
        ("transform, memory", read_proportional_mb, alone, _MEMORY),
        ("transform, memory that is not shared", read_private_mb, alone, None),
    ):
        values = {form: [measure_mb(pids)] for form, pids in processes.items()}
        yield _make_line(f"{export}, {what}", "MB", values, goal)


def _make_line(
    what: str,
    unit: Unit,
    values: Mapping[str, list[float]],
    goal: Goal | None = None,
    note: str = "",
) -> Line:
    return Line(what, unit, values, goal, "compiled", "executor", note)


_HOW = (
    "Three containers side by side, one for each form. Load: POST /models to its 200, then an "
    "invocation whose answer is compared with the executor's, then an unload; with everything "
    "loaded, wrk with a binary request of so many rows, on one connection (p50), or on sixteen; "
    "then the proportional set size of the model's Python processes, and of it what no other "
    "process has. Answers are compared with the executor's before anything is timed."
)

#: Export, the column by which it groups its rows, and what is to be said of it.
_EXPORTS = (
    ("dense", None, ""),
    ("ragged", None, ""),
    ("session", "session_id", " Rows are whole sessions, of four lengths."),
    (
        "two_workflows",
        None,
        " The transform alone is the user's workflow, the first of the two.",
    ),
    (
        WIDE,
        None,
        " 40 columns, 5 of them lists, one vocabulary of a million; made by "
        "examples/merlin/export_wide.py.",
    ),
)

ROWS = tuple(
    Row(
        f"workflow_{export}",
        f"The export {export}",
        _HOW + kind,
        partial(_measure, export, group),
    )
    for export, group, kind in _EXPORTS
)
