"""A run as Markdown, and as the table that is printed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from bench import quantities
from bench.machine import Facts
from bench.measure import Line, Outcome
from bench.quantities import format_gibibytes, format_ratio

#: The table's columns, around those of the contenders.
_FIRST, _LAST = ("measured",), ("compared with", "ratio", "goal", "reached")

#: Of each core: above it something else took a good part of the machine.
_BUSY = 0.3


@dataclass(frozen=True)
class Suite:
    """What is compared: a title for the page, how to read it, and the contenders in their order.

    round_seconds: of load in each round, where nothing else is asked for.
    """

    title: str
    reading: str
    contenders: tuple[str, ...]
    round_seconds: float


FRONTEND = Suite(
    "Measurements: the container beside Triton's own SageMaker frontend",
    "Rival: tritonserver's own SageMaker frontend, as upstream's serve script starts it (with "
    "auto-completion of configs, which its loads wait for). Limit: tritonserver asked directly. "
    "Ours: the container. Values are medians over the rounds; a ratio is ours divided by what it "
    "is compared with. The goals were set before the first measurement, and a missed one is shown "
    "as missed. Machines are noisy: figures of one run compare with each other, not with another "
    "run's.",
    ("rival", "limit", "ours"),
    round_seconds=2.0,
)

WORKFLOWS = Suite(
    "Measurements: NVTabular workflows, served as they were exported and compiled",
    "Executor: the export as Merlin serves it (SERVE_REWRITE=executor, SERVE_COMPILE=off). "
    "Ensemble: the ensemble in the executor's place, with NVTabular in it (SERVE_COMPILE=off). "
    "Compiled: the container's default settings, the workflow a program of numpy. The transform is "
    "the workflow alone, delivered as a single model; executor and ensemble run the same one, "
    "which stands under executor. Requests and answers are binary, so that JSON takes no part. "
    "Values are medians over the rounds, in each of which all forms are measured in turn; a ratio "
    "is that of compiled to executor where nothing else is said. Machines are noisy: figures of "
    "one run compare with each other, not with another run's.",
    ("executor", "ensemble", "compiled"),
    round_seconds=1.0,
)

OBSERVING = Suite(
    "Measurements: what it costs that operators are told",
    "Nothing: a container that tells nothing (SERVE_METRICS=off, SERVE_ACCESS_LOG=off). Ours: "
    "default settings, which count every invocation and write a line for each that fails. Every "
    "line: a line of JSON for each invocation as well (SERVE_ACCESS_LOG=all). Values are medians "
    "over the rounds; a ratio is ours divided by nothing. Machines are noisy: figures of one run "
    "compare with each other, not with another run's.",
    ("nothing", "ours", "every line"),
    round_seconds=0.5,
)


@dataclass(frozen=True)
class Report:
    """One run. started in seconds since 1970, failures: row -> what went wrong there."""

    facts: Facts
    started: float
    seconds: float
    short: bool
    rounds: int
    round_seconds: float
    outcomes: tuple[Outcome, ...]
    failures: Mapping[str, str]
    suite: Suite = FRONTEND

    @property
    def head(self) -> tuple[str, ...]:
        """The table's columns."""
        return list_columns(self.suite.contenders)

    @property
    def lines(self) -> tuple[Line, ...]:
        """Of all rows."""
        return tuple(line for outcome in self.outcomes for line in outcome.lines)

    @property
    def verdict(self) -> str:
        """How many goals are reached, in a sentence; failed measurements are named."""
        judged = [line.reached for line in self.lines if line.reached is not None]
        sentence = f"{sum(judged)} of {len(judged)} goals reached"
        if self.failures:
            sentence += f"; could not be measured: {', '.join(self.failures)}"
        return sentence

    @property
    def caution(self) -> str:
        """A sentence where the machine had other things to do; else empty."""
        load = self.facts["load_before"]
        if load < _BUSY * self.facts["cores"]:
            return ""
        return f"The machine was busy before the run began (load average {load:g}): read with care."

    @property
    def where(self) -> tuple[tuple[str, str], ...]:
        """Machine, versions and rounds, as pairs of name and value."""
        facts = self.facts
        dirty = " with changes that are not committed" if facts["dirty"] else ""
        length = "short" if self.short else "full"
        return (
            ("date", f"{datetime.fromtimestamp(self.started, timezone.utc):%Y-%m-%d %H:%M} UTC"),
            ("CPU", f"{facts['cpu']}, {facts['cores']} cores"),
            ("memory", format_gibibytes(facts["memory_bytes"])),
            ("load average before", f"{facts['load_before']:g}"),
            ("system", facts["system"]),
            ("commit", facts["commit"] + dirty),
            ("tritonserver", facts["tritonserver"]),
            ("Python", facts["python"]),
            ("wrk", facts["wrk"]),
            (
                "run",
                f"{length}: {self.rounds} rounds of {self.round_seconds:g} s, "
                f"{self.seconds:.0f} s in all",
            ),
        )


def list_columns(contenders: Sequence[str]) -> tuple[str, ...]:
    """The table's columns."""
    return (*_FIRST, *contenders, *_LAST)


def list_cells(line: Line, contenders: Sequence[str]) -> tuple[str, ...]:
    """One row of the table, as the report's head names its columns."""
    return (
        line.what,
        *(quantities.format_quantity(line.median(name), line.unit) for name in contenders),
        _against(line, contenders),
        format_ratio(line.ratio),
        quantities.format_goal(line),
        quantities.format_reached(line),
    )


def format_table(report: Report) -> str:
    """The table for a terminal, with the verdict under it."""
    among = report.suite.contenders
    rows = [report.head, *(list_cells(line, among) for line in report.lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            _aligned(place, cell, width, len(among)) for place, (cell, width) in enumerate(pairs)
        )
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    failures = [f"failed: {row}: {reason}" for row, reason in report.failures.items()]
    ruled = [lines[0].rstrip(), "-" * len(lines[0]), *(line.rstrip() for line in lines[1:])]
    cautions = [report.caution] if report.caution else []
    return "\n".join([*ruled, "", *failures, *cautions, report.verdict]) + "\n"


def format_markdown(report: Report) -> str:
    """report.md: the same with everything around it."""
    return "\n".join(_markdown(report)) + "\n"


def _against(line: Line, contenders: Sequence[str]) -> str:
    if line.against is None or line.against in contenders:
        return line.against or "–"
    return f"{line.against}: {quantities.format_quantity(line.median(line.against), line.unit)}"


def _aligned(place: int, cell: str, width: int, contenders: int) -> str:
    """Numbers to the right: the contenders' and, behind what it is compared with, the ratio."""
    is_number = 0 < place <= contenders or place == contenders + 2
    return cell.rjust(width) if is_number else cell.ljust(width)


def _markdown(report: Report) -> Iterator[str]:
    yield "# Measurements\n"
    yield f"**{report.verdict}.**\n"
    yield report.suite.reading + "\n"
    if report.caution:
        yield report.caution + "\n"
    yield from write_markdown_table(("", ""), report.where)
    yield ""
    among = report.suite.contenders
    yield from write_markdown_table(report.head, [list_cells(line, among) for line in report.lines])
    for row, reason in report.failures.items():
        yield f"\n**{row} could not be measured**: {reason}"
    for outcome in report.outcomes:
        yield f"\n## {outcome.title} (`{outcome.name}`)\n"
        yield outcome.how + "\n"
        if outcome.profile:
            yield f"Where it goes, as profiled on two cores: {outcome.profile}\n"
        for line in outcome.lines:
            rounds = (f"{name} {quantities.format_spread(line, name)}" for name in line.values)
            note = f" ({line.note})" if line.note else ""
            yield f"- {line.what}{note}. Lowest to highest round: {'; '.join(rounds)}."


def write_markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Line by line."""
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '∣') for cell in row)} |"
