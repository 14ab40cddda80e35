"""A report as JSON for programs; `version` counts the changes that would break a reader. No I/O."""

from __future__ import annotations

import json
import math
from typing import Any

from verification.comparing.comparison import Comparison, Difference
from verification.reports.report import Cost, Outcome, Report, WorkflowReport

FORMAT, VERSION = "merlin-sagemaker-verify", 1


def to_json(report: Report) -> str:
    """One object, indented; a number that JSON has no word for is a string."""
    return json.dumps(build_document(report), indent=2, allow_nan=False)


def build_document(report: Report) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "archive": report.archive,
        "equal": report.is_equal,
        "conclusion": "\n".join(report.conclusions),
        "served_as": report.form,
        "reasons": list(report.reasons),
        "notes": list(report.notes),
        "random_operators": list(report.random),
        "tolerance": report.tolerance,
        "requests": [_write_outcome(outcome) for outcome in report.outcomes],
        "workflows": [_write_workflow(workflow) for workflow in report.workflows],
        "timed_request": report.timed or None,
        "costs": [write_cost(cost) for cost in report.costs],
    }


def _write_outcome(outcome: Outcome) -> dict[str, Any]:
    request, comparison = outcome.request, outcome.comparison
    return {
        "request": request.title,
        "ordinary": request.ordinary,
        "rows": request.rows,
        "inputs": {name: str(tensor) for name, tensor in request.tensors.items()},
        **_write_comparison(comparison),
        "compiled": None if outcome.compiled is None else _write_comparison(outcome.compiled),
    }


def _write_comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "result": comparison.verdict.name.lower(),
        "failure": comparison.verdict.is_failure,
        "outputs": [_write_difference(difference) for difference in comparison.outputs],
        "details": list(comparison.details),
    }


def _write_workflow(workflow: WorkflowReport) -> dict[str, Any]:
    return {
        "model": workflow.model,
        "compiled": not workflow.not_compiled,
        "operators": dict(workflow.operators),
        "reason": workflow.not_compiled or None,
        "kept": list(workflow.left_to_nvtabular),
        "requests": [_write_outcome(outcome) for outcome in workflow.outcomes],
    }


def _write_difference(difference: Difference) -> dict[str, Any]:
    return {
        "name": difference.output,
        "executor": difference.executor,
        "served": difference.served,
        "equal": difference.equal,
        "largest_absolute_difference": _write_number(difference.absolute),
        "largest_relative_difference": _write_number(difference.relative),
    }


def write_cost(cost: Cost) -> dict[str, Any]:
    memory, timing = cost.memory, cost.timing
    return {
        "form": cost.form,
        "load_s": cost.load_s,
        "p50_s": timing.p50 if timing else None,
        "p95_s": timing.p95 if timing else None,
        "timed_requests": timing.requests if timing else 0,
        "processes": memory.processes if memory else None,
        "resident_bytes": memory.resident if memory else None,
        "proportional_bytes": memory.proportional if memory else None,
    }


def _write_number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
