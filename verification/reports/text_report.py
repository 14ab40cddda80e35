"""A report as text for people: sentences around two tables. No I/O."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

from ensemble_tools.serving.opened_archive import describe_operators
from verification.comparing.comparison import Agreement, Comparison, Difference
from verification.reports.report import Cost, Outcome, Report, WorkflowReport

_MIB = 1024 * 1024
#: Rows of one result; of ordinary requests that are answered alike the others are counted.
_MOST_ROWS = 20
#: Requests that one sentence is said of.
_MOST_TITLES = 20


def write_text_lines(report: Report) -> Iterator[str]:
    """The report's lines, for people."""
    yield f"archive      {clean(report.archive)}"
    yield f"served as    {report.form}"
    for reason in report.reasons:
        yield f"because: {clean(reason)}"
    for note in report.notes:
        yield f"note: {clean(note)}"
    if report.random:
        yield (
            f"random: {', '.join(report.random)} draws random numbers; answers are compared by "
            "data type, shape and distribution"
        )
    for workflow in report.workflows:
        yield from _write_workflow(workflow)
    yield ""
    head = ["request", "rows", "answer", "result", "largest difference"]
    if any(outcome.compiled for outcome in report.outcomes):
        head += ["compiled", "largest difference"]
    shown, folded = _fold(report.outcomes)
    yield from format_table(head, [_list_cells(outcome) for outcome in shown])
    for results, outcomes in folded.items():
        requests = "1 request" if len(outcomes) == 1 else f"{len(outcomes)} requests"
        largest = _format_largest([form for outcome in outcomes for form in outcome.comparisons])
        difference = "" if largest in ("0", "-") else f", largest difference {largest}"
        yield f"{requests} more: {', compiled '.join(results)}{difference}"
    yield from _write_details(report.outcomes)
    for workflow in report.workflows:
        yield from _write_details(workflow.outcomes, f"{workflow.model} alone, ")
    if report.costs:
        yield ""
        yield from _write_costs(report)
    yield ""
    yield from map(clean, report.conclusions)


def _fold(
    outcomes: Sequence[Outcome],
) -> tuple[list[Outcome], dict[tuple[str, ...], list[Outcome]]]:
    """(outcomes that have a row each, others by their results): a capture has thousands."""
    shown: list[Outcome] = []
    folded: dict[tuple[str, ...], list[Outcome]] = {}
    rows: Counter[tuple[str, ...]] = Counter()
    for outcome in outcomes:
        results = tuple(form.result for form in outcome.comparisons)
        rows[results] += 1
        is_plain = outcome.request.ordinary and all(
            form.verdict.is_answered for form in outcome.comparisons
        )
        if is_plain and rows[results] > _MOST_ROWS:
            folded.setdefault(results, []).append(outcome)
        else:
            shown.append(outcome)
    return shown, folded


def _write_workflow(workflow: WorkflowReport) -> Iterator[str]:
    name = clean(workflow.model)
    if not workflow.not_compiled:
        how = "compiled in part" if workflow.left_to_nvtabular else "compiled"
        yield f"{how}: {name}: numpy  ({clean(describe_operators(workflow.operators))})"
    for reason in [workflow.not_compiled] if workflow.not_compiled else workflow.left_to_nvtabular:
        yield f"not compiled: {name}: {clean(reason)}"


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as their widest cell; the last one is not padded."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _list_cells(outcome: Outcome) -> tuple[str, ...]:
    comparison, rows = outcome.comparison, outcome.request.rows
    answers = ", ".join(
        f"{clean(output.output)} {output.executor}" for output in comparison.outputs
    )
    return (
        clean(outcome.request.title),
        "" if rows is None else str(rows),
        (answers or "-") if len(answers) <= 60 else f"{len(comparison.outputs)} tensors",
        *(cell for form in outcome.comparisons for cell in (form.result, _format_largest([form]))),
    )


def _format_largest(comparisons: Sequence[Comparison]) -> str:
    compared = (Agreement.EQUAL, Agreement.WITHIN_TOLERANCE, Agreement.DIFFERENT)
    outputs = [
        output for form in comparisons if form.verdict in compared for output in form.outputs
    ]
    if not outputs:
        return "-"
    worst = max(outputs, key=_rate_badness)
    if math.isnan(worst.absolute):
        return "-"
    return "0" if worst.absolute == 0 else f"{worst.absolute:.3g} (relative {worst.relative:.1e})"


def _rate_badness(difference: Difference) -> float:
    return math.inf if math.isnan(difference.absolute) else difference.absolute


def _write_details(outcomes: Sequence[Outcome], subject: str = "") -> Iterator[str]:
    """The reasons of a result that is not `equal`; a sentence once, however often it is said."""
    titles_of: dict[tuple[str, ...], list[str]] = {}
    for outcome in outcomes:
        details = tuple(
            dict.fromkeys(detail for form in outcome.comparisons for detail in form.details)
        )
        if details:
            titles_of.setdefault(details, []).append(outcome.request.title)
    for details, titles in titles_of.items():
        yield ""
        more = len(titles) - _MOST_TITLES
        others = f"; and {more} more" if more > 0 else ""
        yield f"{clean(subject)}{'; '.join(map(clean, titles[:_MOST_TITLES]))}{others}:"
        for detail in details:
            yield f"    {clean(detail)}"


def _write_costs(report: Report) -> Iterator[str]:
    yield from format_table(
        ("form", "p50", "p95", "memory", "of which own", "processes", "load", "largest difference"),
        [
            (*format_cost(cost), _format_largest_of_form(report, number))
            for number, cost in enumerate(report.costs)
        ],
    )
    if report.timed:
        timings = [cost.timing.requests for cost in report.costs if cost.timing]
        yield f"time: {max(timings)} requests `{clean(report.timed)}` of each, in turns"
    yield (
        "memory: resident memory of the python processes (RSS); its own part counts shared pages "
        "by share (PSS)"
    )


def _format_largest_of_form(report: Report, number: int) -> str:
    """The largest difference of a form's answers; the first one is what they differ from."""
    if number == 0:
        return "-"
    of_each = [outcome.comparisons for outcome in report.outcomes]
    return _format_largest([forms[number - 1] for forms in of_each if len(forms) >= number])


def format_cost(cost: Cost) -> tuple[str, ...]:
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


def clean(text: str) -> str:
    """Names come from archives: what a terminal would obey is shown escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
