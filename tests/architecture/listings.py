"""What is made in the pages: tables of what the code has, and the figures of bench/results.json.

    .venv/bin/python -m tests.architecture.listings

Each stands between two marks of its page, and is written there anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry

from bench.quoted import quote
from bench.results import read_results
from container.settings.reading import format_settings_table
from container.telemetry.capture.tally import CaptureTally
from container.telemetry.cloudwatch import make_counters
from container.telemetry.machine_gauges import MachineGauges
from container.telemetry.outside_counts import OutsideCounts
from serve.telemetry.exposition import FAMILIES
from serve.telemetry.metrics import Metrics
from simulator.tests.aws_calls import aws_calls
from tests.architecture.tutorials import tutorials

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- made by make listings -->", "<!-- end of the listing -->"


def decisions() -> str:
    """A row for each page of decisions, with numbers and headings; and the highest number."""
    rows = [
        f"| [{title}]({page.name}) | {', '.join(headings)} |"
        for page in _decision_pages()
        for title, *headings in [re.findall(r"^##? (.+)$", page.read_text(), re.MULTILINE)]
    ]
    highest = max(int(number) for number in re.findall(r"\b(\d+)\. ", "".join(rows)))
    table = "\n".join(["| page | decisions |", "|---|---|", *rows])
    return f"{table}\n\nThe highest number is {highest}."


def metrics() -> str:
    """Every metric of ours: its name, kind and labels, and what it says, with its unit."""
    cells = [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {meaning} |"
        for name, kind, labels, meaning in metric_rows()
    ]
    return "\n".join(["| metric | kind | labels | what it says |", "|---|---|---|---|", *cells])


def metric_rows() -> list[tuple[str, str, tuple[str, ...], str]]:
    """Every metric of ours: name, kind, labels and meaning, by name."""
    ours = [(it.name, it.kind, it.labels, it.meaning) for it in FAMILIES]
    machine = MachineGauges(lambda: 0, dict, OutsideCounts(interpreter_starts=lambda: {"torch": 0}))
    machine.refresh()
    metrics = Metrics()
    metrics.candidates.asked("m")
    metrics.candidates.answered("m", 0.0, 0.0, [(1, 1.0)])
    metrics.candidates.dropped("m")
    events = metrics.events
    make_counters(events)
    CaptureTally(events)
    return sorted((*ours, *_collected(events), *_collected(machine.registry)))


def _collected(registry: CollectorRegistry) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """The same of what prometheus_client counts."""
    ends = {"counter": "_total", "info": "_info"}
    for metric in registry.collect():
        labels = metric.samples[0].labels if metric.type != "info" else {}
        names = tuple(label for label in labels if label != "le")
        name = metric.name + ends.get(metric.type, "")
        yield name, metric.type, names, metric.documentation


LISTINGS = {
    ROOT / "docs/settings.md": lambda: format_settings_table().strip(),
    ROOT / "docs/metrics.md": metrics,
    ROOT / "docs/decisions/README.md": decisions,
    ROOT / "simulator/docs/aws-calls.md": aws_calls,
    ROOT / "docs/workflows.md": tutorials,
}


def with_listing(page: str, listing: str) -> str:
    """The page with this listing between its marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{listing}\n\n{END}{after}"


def _decision_pages() -> list[Path]:
    return sorted((ROOT / "docs/decisions").glob("[a-z]*.md"))


def main() -> None:
    """Write each listing into its page, and the figures into every page that quotes them."""
    for page, listing in LISTINGS.items():
        page.write_text(with_listing(page.read_text(), listing()))
    results = read_results()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        page.write_text(quote(page.read_text(), results))


if __name__ == "__main__":
    main()
