"""PURE. A report as text for people: sentences around two tables."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ensemble_tools.commands.archive import counted
from verification.comparison import Comparison, Difference, Verdict
from verification.report import Cost, Outcome, Report, WorkflowReport

_MIB = 1024 * 1024


def text_lines(report: Report) -> Iterator[str]:
    """Everything."""
    yield f"archive      {_clean(report.archive)}"
    yield f"served as    {report.form}"
    for reason in report.reasons:
        yield f"because: {_clean(reason)}"
    for note in report.notes:
        yield f"note: {_clean(note)}"
    if report.random:
        yield (
            f"random: {', '.join(report.random)} draws random numbers; answers are compared by "
            "data type, shape and distribution"
        )
    for workflow in report.workflows:
        yield from _workflow_lines(workflow)
    yield ""
    head = ["request", "rows", "answer", "result", "largest difference"]
    if any(one.compiled for one in report.outcomes):
        head += ["compiled", "largest difference"]
    yield from table(head, [_request_row(one) for one in report.outcomes])
    yield from _details(report.outcomes)
    for workflow in report.workflows:
        yield from _details(workflow.outcomes, f"{workflow.model} alone, ")
    if report.costs:
        yield ""
        yield from _cost_lines(report)
    yield ""
    yield from map(_clean, report.conclusions)


def _workflow_lines(workflow: WorkflowReport) -> Iterator[str]:
    name = _clean(workflow.model)
    if not workflow.not_compiled:
        how = "compiled in part" if workflow.kept else "compiled"
        yield f"{how}: {name}: numpy  ({_clean(counted(workflow.operators))})"
    for reason in [workflow.not_compiled] if workflow.not_compiled else workflow.kept:
        yield f"not compiled: {name}: {_clean(reason)}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; the last one is not padded."""
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _request_row(outcome: Outcome) -> tuple[str, ...]:
    found, rows = outcome.comparison, outcome.request.rows
    answers = ", ".join(f"{_clean(one.output)} {one.executor}" for one in found.outputs) or "-"
    return (
        _clean(outcome.request.title),
        "" if rows is None else str(rows),
        answers if len(answers) <= 60 else f"{len(found.outputs)} tensors",
        *(cell for one in outcome.comparisons for cell in (one.result, _largest(one))),
    )


def _largest(found: Comparison) -> str:
    return _largest_of([found])


def _largest_of(found: Sequence[Comparison]) -> str:
    compared = (Verdict.EQUAL, Verdict.WITHIN_TOLERANCE, Verdict.DIFFERENT)
    outputs = [output for one in found if one.verdict in compared for output in one.outputs]
    if not outputs:
        return "-"
    worst = max(outputs, key=_badness)
    if math.isnan(worst.absolute):
        return "-"
    return "0" if worst.absolute == 0 else f"{worst.absolute:.3g} (relative {worst.relative:.1e})"


def _badness(one: Difference) -> float:
    return math.inf if math.isnan(one.absolute) else one.absolute


def _details(outcomes: Sequence[Outcome], subject: str = "") -> Iterator[str]:
    """What stands behind a result that is not `equal`; a sentence once, however often it is said."""  # noqa: E501  # one sentence
    told: dict[tuple[str, ...], list[str]] = {}
    for outcome in outcomes:
        details = tuple(
            dict.fromkeys(detail for one in outcome.comparisons for detail in one.details)
        )
        if details:
            told.setdefault(details, []).append(outcome.request.title)
    for details, titles in told.items():
        yield ""
        yield f"{_clean(subject)}{'; '.join(map(_clean, titles))}:"
        for detail in details:
            yield f"    {_clean(detail)}"


def _cost_lines(report: Report) -> Iterator[str]:
    yield from table(
        ("form", "p50", "p95", "memory", "of which own", "processes", "load",
         "largest difference"),
        [(*_cost_row(cost), _of_form(report, place)) for place, cost in enumerate(report.costs)],
    )  # fmt: skip
    if report.timed:
        timings = [cost.timing.requests for cost in report.costs if cost.timing]
        yield f"time: {max(timings)} requests `{_clean(report.timed)}` of each, in turns"
    yield (
        "memory: resident memory of the python processes (RSS); its own part counts shared pages "
        "by share (PSS)"
    )


def _of_form(report: Report, place: int) -> str:
    """The largest difference of a form's answers; the first one is what they differ from."""
    if place == 0:
        return "-"
    return _largest_of(
        [one.comparisons[place - 1] for one in report.outcomes if len(one.comparisons) >= place]
    )


def _cost_row(cost: Cost) -> tuple[str, ...]:
    memory, timing = cost.memory, cost.timing
    return (
        cost.form,
        f"{timing.p50 * 1000:.2f} ms" if timing else "-",
        f"{timing.p95 * 1000:.2f} ms" if timing else "-",
        f"{memory.resident / _MIB:.0f} MiB" if memory else "-",
        f"{memory.proportional / _MIB:.0f} MiB" if memory and memory.proportional else "-",
        f"{memory.processes}" if memory else "-",
        f"{cost.load_s:.2f} s",
    )


def _clean(text: str) -> str:
    """Names come from archives: what a terminal would obey is shown escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
