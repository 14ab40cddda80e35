"""A comparison of two archives as text for people. No I/O."""

from __future__ import annotations

from collections.abc import Iterator

from verification.ranking.bounds import explain_none
from verification.ranking.tally import KENDALL, QUANTILES, SAME_FIRST, SPEARMAN, Tally, name_overlap
from verification.reports.ranking_report import Asked, RankingReport, Side, name_requests
from verification.reports.text_report import clean, format_cost, format_table

_SHOWN_QUANTILES = (0.05, 0.5, 0.95)


def write_ranking_lines(report: RankingReport) -> Iterator[str]:
    """The report's lines."""
    for side in (report.old, report.new):
        yield f"{side.title}  {clean(side.archive)}  ({side.form})"
    for side in (report.old, report.new):
        yield from _write_notes(side)
    for sentence in report.inputs:
        yield f"input {clean(sentence)}"
    yield ""
    yield from _write_requests(report)
    for sentence in report.list_changes(breaks=False):
        yield f"output {clean(sentence)}"
    if report.chance:
        yield (
            f"OLD answers otherwise when it is asked again ({name_requests(report.chance)}): `OLD "
            "again` has the means of its own two answers"
        )
    for tally, own in zip(report.tallies, report.own, strict=True):
        yield ""
        yield from _write_tally(tally, own, report)
    if report.costs:
        yield ""
        yield from _write_costs(report)
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


def _write_notes(side: Side) -> Iterator[str]:
    if side.random:
        yield (
            f"note: {side.title}: {', '.join(side.random)} draws random numbers: its answers "
            "differ from call to call, and so do the figures"
        )


def _write_requests(report: RankingReport) -> Iterator[str]:
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


def _write_refusal(asked: Asked) -> Iterator[str]:
    for title, message in (("OLD", asked.old_refusal), ("NEW", asked.new_refusal)):
        if message:
            yield f"    {title}: {clean(message)}"


def _write_tally(tally: Tally, own: Tally, report: RankingReport) -> Iterator[str]:
    yield f"{clean(tally.target.name)}: {describe_lists(tally)}"
    rows, unmeasured = [], []
    for measure, places in list_measures(report):
        summary = tally.summarize(measure)
        if not summary.lists:
            unmeasured.append(f"{measure}: not measured: {explain_none(places, tally)}")
            continue
        figures = (summary.mean, summary.median, summary.low, summary.lowest)
        cells = [f"{figure:.4f}" for figure in figures]
        if report.chance:
            cells.insert(1, f"{own.summarize(measure).mean:.4f}")
        rows.append((measure, *cells, str(summary.lists), clean(summary.lowest_request)))
    if rows:
        head = ["measure", "mean", "median", "5 % below", "lowest", "lists", "lowest at"]
        if report.chance:
            head.insert(2, "OLD again")
        yield from format_table(head, rows)
    yield from unmeasured
    first = tally.summarize(SAME_FIRST)
    if first.lists:
        changes = 100 * (1 - first.mean)
        yield f"the first item changes in {changes:.2f} % of {_count(first.lists, 'list')}"
    yield from _write_shift(tally)


def list_measures(report: RankingReport) -> Iterator[tuple[str, int]]:
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


def _write_shift(tally: Tally) -> Iterator[str]:
    for title, nans in zip(("OLD", "NEW"), tally.nans, strict=True):
        if nans:
            have = "it has" if nans == 1 else "they have"
            yield f"{title} scores {_count(nans, 'item')} NaN: {have} no place"
    if tally.repeats:
        yield f"{tally.repeats} ids come twice in a list: the first place counts"
    shift = tally.summarize_shift()
    if shift is None:
        return
    of_shown = [
        f"{100 * part:g} %: {shift.quantiles[QUANTILES.index(part)]:+.4g}"
        for part in _SHOWN_QUANTILES
    ]
    yield (
        f"score shift (NEW less OLD) of {shift.items} items: mean {shift.mean:+.4g}, largest "
        f"{shift.largest:.4g}, quantiles {', '.join(of_shown)}"
    )


def _write_costs(report: RankingReport) -> Iterator[str]:
    head = ("archive", "p50", "p95", "memory", "of which own", "processes", "load")
    yield from format_table(head, [format_cost(cost) for cost in report.costs])
    timings = [cost.timing.requests for cost in report.costs if cost.timing]
    if timings:
        yield f"time: {max(timings)} requests of each, in turns"
    yield (
        "memory: resident memory of the python processes (RSS); its own part counts shared pages "
        "by share (PSS)"
    )
