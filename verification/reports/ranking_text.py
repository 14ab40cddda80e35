"""A comparison of two archives as text for people. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from verification.ranking.bounds import explain_none
from verification.ranking.shifts import QUANTILES
from verification.ranking.tally import KENDALL, SAME_FIRST, SPEARMAN, Tally, name_overlap
from verification.reports.ranking_report import Asked, RankingReport, name_requests
from verification.reports.text_report import clean, format_cost, format_table

_SHOWN_QUANTILES = (0.05, 0.5, 0.95)


COST_HEAD = ("archive", "p50", "p95", "memory", "of which own", "processes", "load")


def write_ranking_lines(report: RankingReport) -> Iterator[str]:
    """The report's lines."""
    yield from describe_archives(report)
    yield ""
    yield from describe_requests(report)
    for tally, own in report.compared:
        head, rows = list_figures(tally, own, report)
        yield ""
        yield f"{clean(tally.target.name)}: {describe_lists(tally)}"
        if rows:
            yield from format_table(head, rows)
        yield from describe_target(tally, report)
    if report.costs:
        yield ""
        yield from format_table(COST_HEAD, [format_cost(cost) for cost in report.costs])
        yield from describe_costs(report)
    yield ""
    yield from conclude(report)


def conclude(report: RankingReport) -> Iterator[str]:
    """The result in a line, and each reason where it is no good one."""
    if report.failures:
        yield "NOT WITHIN:"
        for failure in report.failures:
            yield f"    {clean(failure)}"
        return
    bounds = ", ".join(map(str, report.bounds))
    if report.is_equal:
        requests = _count(report.equal, "request")
        yield f"EQUAL: NEW's answers have the same bits as OLD's ({requests})"
    elif bounds:
        yield f"WITHIN: {bounds}"
    else:
        yield "COMPARED: NEW answers what OLD answers, in the same form; no --at-least was given"


def describe_archives(report: RankingReport) -> Iterator[str]:
    """Both, how they are served, and the inputs that they declare differently."""
    for side in (report.old, report.new):
        yield f"{side.title}  {clean(side.archive)}  ({side.form})"
    for side in (report.old, report.new):
        if side.random:
            yield f"note: {side.title}: {', '.join(side.random)} draws random numbers"
    for sentence in report.inputs:
        yield f"input {clean(sentence)}"


def describe_requests(report: RankingReport) -> Iterator[str]:
    """How many were answered and refused, and why; which outputs are not alike."""
    yield (
        f"requests  {len(report.asked)}: {report.answered} answered by both, {report.equal} of "
        "them with the same bits"
    )
    for text, refused in (
        ("refused by NEW alone", report.refused_by_new),
        ("refused by OLD alone", report.refused_by_old),
        ("refused by both", report.refused_by_both),
    ):
        if refused:
            yield f"{text}: {len(refused)}: {name_requests([it.request for it in refused])}"
            yield from _write_refusal(refused[0])
    for sentence in report.list_changes(breaks=False):
        yield f"output {clean(sentence)}"
    if report.chance:
        yield (
            f"OLD answers otherwise when it is asked again ({name_requests(report.chance)}): `OLD "
            "again` has the means of its own two answers"
        )


def _write_refusal(asked: Asked) -> Iterator[str]:
    for title, message in (("OLD", asked.old_refusal), ("NEW", asked.new_refusal)):
        if message:
            yield f"    {title}: {clean(message)}"


def list_figures(
    tally: Tally, own: Tally, report: RankingReport
) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a target's table: the measures that have a list."""
    head = ["measure", "mean", "median", "5 % below", "lowest", "lists", "lowest at"]
    rows = []
    for measure, _ in _list_measures(report):
        summary = tally.summarize(measure)
        if summary.lists:
            figures = (summary.mean, summary.median, summary.low, summary.lowest)
            cells = [measure, *(f"{figure:.4f}" for figure in figures)]
            row = [*cells, str(summary.lists), clean(summary.lowest_request)]
            if report.chance:
                again = own.summarize(measure)
                row.insert(2, f"{again.mean:.4f}" if again.lists else "-")
            rows.append(row)
    if report.chance:
        head.insert(2, "OLD again")
    return head, rows


def describe_target(tally: Tally, report: RankingReport) -> Iterator[str]:
    """What was not measured and why, the first item, and the scores."""
    for measure, places in _list_measures(report):
        if not tally.summarize(measure).lists:
            yield f"{measure}: not measured: {explain_none(places, tally)}"
    first = tally.summarize(SAME_FIRST)
    if first.lists:
        changes = 100 * (1 - first.mean)
        yield f"the first item changes in {changes:.2f} % of {_count(first.lists, 'list')}"
    for title, nans in zip(("OLD", "NEW"), tally.nans, strict=True):
        if nans:
            have = "it has" if nans == 1 else "they have"
            yield f"{title} scores {_count(nans, 'item')} NaN: {have} no place"
    if tally.repeats:
        yield f"ids that come twice in a list: {tally.repeats}; the first place counts"
    yield from _describe_shift(tally)


def _list_measures(report: RankingReport) -> Iterator[tuple[str, int]]:
    """The measures that are shown, and the places that they look at."""
    yield SAME_FIRST, 1
    for places in report.places:
        yield name_overlap(places), places
    yield KENDALL, 1
    yield SPEARMAN, 1


def describe_lists(tally: Tally) -> str:
    """What is ranked, and by what."""
    kind = "ids in the order of the answer" if tally.is_listed else "candidates by their scores"
    lengths = f"{tally.shortest} to {tally.longest}"
    if tally.shortest == tally.longest:
        lengths = f"{tally.longest}"
    return f"{_count(tally.lists, 'list')} of {lengths} {kind}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _describe_shift(tally: Tally) -> Iterator[str]:
    shift = tally.shifts.summarize()
    if shift is not None:
        shown = [
            f"{100 * part:g} %: {quantile:+.4g}"
            for part, quantile in zip(QUANTILES, shift.quantiles, strict=True)
            if part in _SHOWN_QUANTILES
        ]
        by_lot = f" of {shift.sampled} of them, by lot" if shift.sampled < shift.items else ""
        yield (
            f"score shift (NEW less OLD) of {_count(shift.items, 'item')}: mean {shift.mean:+.4g}, "
            f"largest {shift.largest:.4g}, quantiles{by_lot} {', '.join(shown)}"
        )


def describe_costs(report: RankingReport) -> Iterator[str]:
    """What the figures are of."""
    timings = [cost.timing.requests for cost in report.costs if cost.timing]
    if timings:
        yield f"time: {max(timings)} requests of each, in turns"
    yield (
        "memory: resident memory of the python processes (RSS); its own part counts shared pages "
        "by share (PSS)"
    )
