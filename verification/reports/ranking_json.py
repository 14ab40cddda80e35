"""A comparison of two archives as JSON for programs. No I/O."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from verification.ranking.shifts import QUANTILES
from verification.ranking.tally import Summary, Tally
from verification.reports.json_report import write_cost
from verification.reports.ranking_report import Asked, RankingReport

#: `version` counts the changes that would break a reader.
FORMAT, VERSION = "merlin-sagemaker-compare", 1


def to_ranking_json(report: RankingReport) -> str:
    """One object, indented."""
    return json.dumps(build_ranking_document(report), indent=2, allow_nan=False)


def build_ranking_document(report: RankingReport) -> dict[str, Any]:
    """The object; a measure without a list has null figures."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "old": asdict(report.old),
        "new": asdict(report.new),
        "within": report.is_within,
        "failures": list(report.failures),
        "bounds": [{"measure": it.measure, "at_least": it.least} for it in report.bounds],
        "requests": {
            "asked": len(report.asked),
            "answered_by_both": report.answered,
            "equal": report.equal,
            "old_answers_otherwise_again": list(report.chance),
            "refused_by_new": [_write_refusal(it) for it in report.refused_by_new],
            "refused_by_old": [_write_refusal(it) for it in report.refused_by_old],
            "refused_by_both": [_write_refusal(it) for it in report.refused_by_both],
        },
        "inputs": list(report.inputs),
        "outputs": [*report.list_changes(breaks=True), *report.list_changes(breaks=False)],
        "targets": [
            {**_write_tally(tally), "old_again": _write_measures(own)}
            for tally, own in zip(report.tallies, report.own, strict=True)
        ],
        "costs": [write_cost(cost) for cost in report.costs],
    }


def _write_refusal(asked: Asked) -> dict[str, str]:
    return {"request": asked.request, "old": asked.old_refusal, "new": asked.new_refusal}


def _write_tally(tally: Tally) -> dict[str, Any]:
    shift = tally.shifts.summarize()
    return {
        "scores": tally.target.scores,
        "ids": tally.target.ids,
        "lists": tally.lists,
        "shortest": tally.shortest,
        "longest": tally.longest,
        "ranked_by": "places" if tally.is_listed else "scores",
        "measures": _write_measures(tally),
        "score_shift": None
        if shift is None
        else {
            "items": shift.items,
            "mean": shift.mean,
            "largest": shift.largest,
            "sampled": shift.sampled,
            "quantiles": {
                f"{part:g}": value for part, value in zip(QUANTILES, shift.quantiles, strict=True)
            },
        },
        "nan_scores": {"old": tally.nans[0], "new": tally.nans[1]},
        "repeated_ids": tally.repeats,
    }


def _write_measures(tally: Tally) -> dict[str, Any]:
    return {name: _write_summary(tally.summarize(name)) for name in tally.measures}


def _write_summary(summary: Summary) -> dict[str, Any]:
    figures = {
        "mean": summary.mean,
        "median": summary.median,
        "quantile_0.05": summary.low,
        "lowest": summary.lowest,
    }
    return {
        "lists": summary.lists,
        **{name: None if math.isnan(value) else value for name, value in figures.items()},
        "lowest_request": summary.lowest_request or None,
    }
