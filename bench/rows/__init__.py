"""What is measured: tables of rows, in the order in which they are printed."""

from __future__ import annotations

from collections.abc import Mapping

from bench.rows import (
    beside,
    fairness,
    fitting,
    invoking,
    loading,
    merlin,
    observing,
    process,
    sharing,
    tutorials,
    workflows,
)
from bench.rows.row import Row, Run, Suite

__all__ = ["SUITES", "Row", "Run", "Suite"]

#: By the name that the command line gives them; the first is measured where none is named.
SUITES: Mapping[str, Suite] = {
    "frontend": Suite(
        "Rival: tritonserver's own SageMaker frontend, as upstream's serve script starts it (with "
        "auto-completion of configs, which its loads wait for). Limit: tritonserver asked "
        "directly. Ours: the container. Values are medians over the rounds; a ratio is ours "
        "divided by what it is compared with. The goals were set before the first measurement, "
        "and a missed one is shown as missed. Machines are noisy: figures of one run compare with "
        "each other, not with another run's.",
        ("rival", "limit", "ours"),
        2.0,
        (*loading.ROWS, *invoking.ROWS, *beside.ROWS, *merlin.ROWS, *process.ROWS),
    ),
    "workflows": Suite(
        "Executor: the export as Merlin serves it (SERVE_REWRITE=executor, SERVE_COMPILE=off). "
        "Ensemble: the ensemble in the executor's place, with NVTabular in it (SERVE_COMPILE=off). "
        "Compiled: the container's default settings, the workflow a program of numpy. Each load is "
        "a first one: no tables are kept (SERVE_TABLE_CACHE_MB=0). The "
        "transform is the workflow alone, delivered as a single model; executor and ensemble run "
        "the same one, which stands under executor. Requests and answers are binary, so that JSON "
        "takes no part. Values are medians over the rounds, in each of which all forms are "
        "measured in turn; a ratio is that of compiled to executor where nothing else is said. "
        "Machines are noisy: figures of one run compare with each other, not with another run's.",
        ("executor", "ensemble", "compiled"),
        1.0,
        (*workflows.ROWS, *tutorials.ROWS, *sharing.ROWS, *fitting.ROWS),
    ),
    "observing": Suite(
        "Nothing: a container that tells nothing (SERVE_METRICS=off, SERVE_ACCESS_LOG=off). Ours: "
        "default settings, which count every invocation and write a line for each that fails. "
        "Every line: a line of JSON for each invocation as well (SERVE_ACCESS_LOG=all). Captured: "
        "default settings, and every request captured to a directory (SERVE_CAPTURE). Values are "
        "medians over the rounds; a ratio is ours divided by nothing. Machines are noisy: figures "
        "of one run compare with each other, not with another run's.",
        ("nothing", "ours", "every line", "captured"),
        0.5,
        observing.ROWS,
    ),
    "fairness": Suite(
        "Rival: tritonserver's own SageMaker frontend. Ours: the container with default settings. "
        "Limited: the container with SERVE_RATE_LIMIT. Values are medians over the rounds; a ratio "
        "is the others' p99 beside the flood divided by theirs without it, behind the same server. "
        "Machines are noisy: figures of one run compare with each other, not with another run's.",
        ("rival", "ours", "limited"),
        5.0,
        fairness.ROWS,
    ),
}
