"""What compiling NVTabular workflows is worth: executor, ensemble and compiled ensemble."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from bench import payloads
from bench.errors import BenchError
from bench.measure import Goal, Line, Unit, measure_in_turn, ratio_at_most
from bench.models import WIDE, find_export, is_workflow
from bench.payloads import Payload, PayloadTensor
from bench.proc import Process, read_private_mb, read_proportional_mb
from bench.rows import timed
from bench.rows.row import Row, Run
from bench.servers import Container, Side
from bench.wrk import Target

_FORMS = ("executor", "ensemble", "compiled")
#: Of the transform alone: the executor's and the ensemble's are one.
_ALONE = ("executor", "compiled")

_BATCHES = (1, 5, 64, 1024)
_USUAL = 5
#: That a round has at least, on one connection and on sixteen, unless that takes too long.
_ANSWERS, _ANSWERS_OF_16 = 8, 64
_LONGEST_S = 12.0

#: Parts of an export.
TRANSFORM, PREDICTOR, WHOLE = "transform", "predictor", "whole export"

_LOAD, _MEMORY, _P50, _NEVER_ABOVE = map(ratio_at_most, (0.1, 0.15, 0.15, 1.0))


@dataclass(frozen=True)
class _Export:
    """group: the column by which it groups its rows, where it does."""

    name: str
    group: str | None = None


@dataclass(frozen=True)
class _Subject:
    """A model in the forms that are compared, with its requests by number of rows."""

    name: str
    sides: Mapping[str, Side]
    servers: Mapping[str, Container]
    requests: Mapping[int, Payload]

    def stubs(self, form: str) -> list[Process]:
        """Its processes, those of its steps included."""
        return self.servers[form].steps(self.name)


def _measured(export: _Export, run: Run, row: str) -> Iterator[Line]:
    archives, source = run.contenders.archives, find_export(export.name)
    run.progress(f"{row}: its archives")
    whole = archives.merlin(f"whole-{export.name}", export.name)
    alone = archives.workflow(f"alone-{export.name}", export.name)
    request = payloads.read_request(source / "request.json")
    taken = archives.inputs(alone)
    with run.contenders.fresh_forms(*_FORMS) as servers, ExitStack() as undo:
        run.progress(f"{row}: what the executor answers")
        served = _subject(whole, servers, request, export.group)
        own = [tensor for tensor in request if tensor.name in taken]
        transform = _subject(alone, servers, own, export.group)
        yield _loads(run, row, export.name, served, _FORMS, None)
        yield _loads(run, row, f"{export.name}, transform", transform, _ALONE, _LOAD)
        for form, server in servers.items():
            undo.enter_context(server.loaded(whole, *([alone] if form in _ALONE else [])))
            example = payloads.read_example(source)
            served.sides[form].check(whole, example, "the request beside the export")
        _check_compiled(served)
        _check_compiled(transform)
        yield from _invocations(run, row, export.name, served, transform)
        yield from _memory(row, export.name, served, transform)


def _subject(
    model: str,
    servers: Mapping[str, Container],
    request: Iterable[PayloadTensor],
    group: str | None,
) -> _Subject:
    """With a request for each number of rows; the executor's answers are the right ones."""
    tensors = tuple(request)
    sides = {form: Side(form, server.port, True) for form, server in servers.items()}
    sent = {rows: payloads.encode_binary(payloads.batch(tensors, rows, group)) for rows in _BATCHES}
    with servers["executor"].loaded(model):
        requests = {
            rows: sides["executor"].answered(model, payload, payloads.TOLERANCE, f"{rows} rows")
            for rows, payload in sent.items()
        }
    return _Subject(model, sides, servers, requests)


def _loads(
    run: Run, row: str, what: str, subject: _Subject, forms: tuple[str, ...], goal: Goal | None
) -> Line:
    loads = {
        form: partial(
            timed.time_load,
            subject.sides[form],
            subject.servers[form],
            subject.name,
            subject.requests[_USUAL],
        )
        for form in forms
    }
    values = measure_in_turn(
        run.few_rounds, loads, run.teller(row, f"load of {subject.name}"), warm=False
    )
    return _line(row, f"{what}, load", "s", values, goal)


def _check_compiled(subject: _Subject) -> None:
    """Figures of what was not compiled would be lies."""
    compiled, workflows = subject.servers["compiled"].count_compiled(subject.name)
    if not workflows or compiled < workflows:
        log = subject.servers["compiled"].log.read_text("utf-8")
        why = " ".join(line for line in log.splitlines() if "not_compiled" in line)
        raise BenchError(f"{subject.name}: its workflow was not compiled {why[-1000:]}")


def _invocations(
    run: Run, row: str, what: str, served: _Subject, transform: _Subject
) -> Iterator[Line]:
    for rows in _BATCHES:
        whole = _targets(run, served, _FORMS, rows)
        alone = _targets(run, transform, _ALONE, rows)
        both = {**whole, **alone}
        sends = {
            key: partial(timed.measure_p50, target, long_enough(run.seconds, took, _ANSWERS))
            for key, (target, took) in both.items()
        }
        values = measure_in_turn(run.rounds, sends, run.teller(row, f"{rows} rows"), warm=run.warm)
        note = f"request of {len(served.requests[rows].body) / 1e3:,.1f} KB"
        yield _line(row, f"{what}, {rows} rows, p50", "s", _of(values, whole), None, note)
        goal = _P50 if rows == _USUAL else _NEVER_ABOVE
        yield _line(row, f"{what}, transform of {rows} rows, p50", "s", _of(values, alone), goal)
        if rows == _USUAL:
            sends = {
                key: partial(
                    timed.measure_rate, target, long_enough(run.seconds, took, _ANSWERS_OF_16)
                )
                for key, (target, took) in both.items()
            }
            rates = measure_in_turn(
                run.rounds, sends, run.teller(row, "16 connections"), warm=run.warm
            )
            title = f"{rows} rows on 16 connections"
            yield _line(row, f"{what}, {title}", "requests/s", _of(rates, whole))
            yield _line(row, f"{what}, transform of {title}", "requests/s", _of(rates, alone))


def _targets(
    run: Run, subject: _Subject, forms: tuple[str, ...], rows: int
) -> dict[tuple[str, str], tuple[Target, float]]:
    """By (model, form), with the seconds of one answer, after each was compared."""
    targets = {}
    for form in forms:
        side, payload = subject.sides[form], subject.requests[rows]
        side.check(subject.name, payload, f"{rows} rows")
        started = time.perf_counter()
        side.check(subject.name, payload, f"{rows} rows")
        took = time.perf_counter() - started
        target = side.target(run.scratch, subject.name, payload)
        targets[subject.name, form] = (target, took)
    return targets


def long_enough(seconds: float, answer: float, answers: int) -> float:
    """The seconds of load, or more where so many answers need more, within a bound."""
    return max(seconds, min(answer * answers, _LONGEST_S))


def _of(
    values: Mapping[tuple[str, str], list[float]], targets: Iterable[tuple[str, str]]
) -> dict[str, list[float]]:
    """By form."""
    return {form: values[model, form] for model, form in targets}


def _memory(row: str, what: str, served: _Subject, transform: _Subject) -> Iterator[Line]:
    """After all the requests, with everything loaded."""
    parts = {form: _by_part(served.stubs(form)) for form in _FORMS}
    sums = {form: [sum(found.values())] for form, found in parts.items()}
    note = "; ".join(f"{form}: {_list_parts(found)}" for form, found in parts.items())
    yield _line(row, f"{what}, memory of its processes", "MB", sums, None, note)
    pids = {form: [stub.pid for stub in transform.stubs(form)] for form in _ALONE}
    values = {form: [read_proportional_mb(found)] for form, found in pids.items()}
    yield _line(row, f"{what}, transform, memory", "MB", values, _MEMORY)
    values = {form: [read_private_mb(found)] for form, found in pids.items()}
    yield _line(row, f"{what}, transform, memory that is not shared", "MB", values)


def _by_part(stubs: list[Process]) -> dict[str, float]:
    parts: dict[str, float] = {}
    for stub in stubs:
        part = part_of(stub.command[1])
        parts[part] = parts.get(part, 0.0) + read_proportional_mb([stub.pid])
    return parts


def part_of(path: str) -> str:
    """Which part of an export a process runs, by the path of its model; some run all of it."""
    if is_workflow(path):
        return TRANSFORM
    return PREDICTOR if "predict" in path else WHOLE


def _list_parts(parts: Mapping[str, float]) -> str:
    return ", ".join(f"{part} {size:,.0f} MB" for part, size in sorted(parts.items()))


def _line(
    row: str,
    what: str,
    unit: Unit,
    values: Mapping[str, list[float]],
    goal: Goal | None = None,
    note: str = "",
) -> Line:
    return Line(row, what, unit, values, goal, "compiled", "executor", note)


_HOW = (
    "Three containers side by side, one for each form. Load: POST /models to its 200, then an "
    "invocation whose answer is compared with the executor's, then an unload; with everything "
    "loaded, wrk with a binary request of so many rows, on one connection (p50), or on sixteen; "
    "then the proportional set size of the model's Python processes, and of it what no other "
    "process has. Answers are compared with the executor's before anything is timed."
)
_PROFILE = (
    "a compiled workflow's load is half the process that writes its tables (0.1 s of that are "
    "Python's imports of numpy and pyarrow; a vocabulary of a million takes 0.2 s more), half the "
    "start of the model's own process, Python and numpy, like that of any small Python model. "
    "Reading and compiling take 15 ms. NVTabular is forked from an interpreter that has imported "
    "it, and reads its category files at the first request; so is the predictor with torch."
)

EXPORTS = (
    _Export("dense"),
    _Export("ragged"),
    _Export("session", group="session_id"),
    _Export("two_workflows"),
    _Export(WIDE),
)
_KINDS = {
    "dense": "",
    "ragged": "",
    "session": " Rows are whole sessions, of four lengths.",
    "two_workflows": " The transform alone is the user's workflow, the first of the two.",
    WIDE: " 40 columns, 5 of them lists, one vocabulary of a million; made by "
    "examples/merlin/export_wide.py.",
}

ROWS = tuple(
    Row(
        f"workflow_{export.name}",
        f"The export {export.name}",
        _HOW + _KINDS[export.name],
        partial(_measured, export),
        profile=_PROFILE,
    )
    for export in EXPORTS
)
