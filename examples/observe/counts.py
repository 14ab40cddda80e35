"""Three counts of the same invocations, side by side. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from examples.observe.relay import Counts

#: In the report: requests that the platform answered itself.
NOT_ASKED = "none"
#: A container that did not answer in time counts its caller as gone.
_GONE = {"0": "499"}


def count_report(report: Mapping[str, Any]) -> tuple[Counts, int]:
    """What report.json says that containers answered, and how much never reached one."""
    found: Counts = Counter()
    refused = 0
    for model in report["models"]:
        for status, count in model["container_statuses"].items():
            if status == NOT_ASKED:
                refused += count
            else:
                found[model["target_model"], _GONE.get(status, status)] += count
    return found, refused


def count_series(series: Iterable[Mapping[str, Any]]) -> Counts:
    """What Prometheus answered to a query by target_model and code."""
    found: Counts = Counter()
    for one in series:
        labels = one["metric"]
        found[labels.get("target_model", ""), labels["code"]] += round(float(one["value"][1]))
    return found


def agree(prometheus: Counts, pages: Counts, callers: Counts) -> bool:
    """To the request, for every target model and status; and something was asked."""
    present = [+counts for counts in (prometheus, pages, callers)]
    return bool(present[0]) and present[0] == present[1] == present[2]


def write_table(prometheus: Counts, pages: Counts, callers: Counts) -> str:
    """A line for each target model and status; ≠ behind those that differ."""
    rows = sorted({*+prometheus, *+pages, *+callers})
    width = max([len("target model"), *(len(target or "(none)") for target, _ in rows)])
    lines = [f"{'target model':{width}}  status  Prometheus  containers  callers"]
    for row in rows:
        three = prometheus[row], pages[row], callers[row]
        differ = "" if len(set(three)) == 1 else "  ≠"
        target, status = row[0] or "(none)", row[1]
        lines.append(
            f"{target:{width}}  {status:>6}  {three[0]:10}  {three[1]:10}  {three[2]:7}{differ}"
        )
    sums = [sum(counts.values()) for counts in (prometheus, pages, callers)]
    lines.append(f"{'all':{width}}  {'':>6}  {sums[0]:10}  {sums[1]:10}  {sums[2]:7}")
    return "\n".join(lines)
