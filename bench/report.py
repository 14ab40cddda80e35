"""What a run measured, as report.md and as the table that is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.measure import Line
from bench.results import Measured
from bench.rows import Suite
from bench.tables import (
    ENVIRONMENT,
    count_goals,
    describe_run,
    format_spread,
    list_cells,
    list_columns,
)

#: Of each core: above it something else took a good part of the machine.
_BUSY = 0.3


@dataclass(frozen=True)
class Report:
    """lines: by row. failures: why a row could not be measured."""

    suite: Suite
    measured: Measured
    lines: Mapping[str, Sequence[Line]]
    failures: Mapping[str, str]

    @property
    def _verdict(self) -> str:
        every = [line for lines in self.lines.values() for line in lines]
        failed = f"; could not be measured: {', '.join(self.failures)}" if self.failures else ""
        return f"{count_goals(every)} reached{failed}"

    @property
    def _caution(self) -> str:
        facts = self.measured.facts
        load = facts["load_before"]
        if load < _BUSY * facts["cores"]:
            return ""
        return f"The machine was busy before the run began (load average {load:g}): read with care."

    @property
    def _table(self) -> str:
        """In Markdown, its columns as wide as their widest cells."""
        contenders = self.suite.contenders
        every = [line for lines in self.lines.values() for line in lines]
        head, *rows = list_columns(contenders), *(list_cells(it, contenders) for it in every)
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        rule = ["-" * width for width in widths]
        return "\n".join(
            f"| {' | '.join(map(str.ljust, cells, widths))} |" for cells in (head, rule, *rows)
        )

    def format_for_terminal(self) -> str:
        """The table, what failed, and how many goals are reached."""
        failures = [f"failed: {row}: {reason}" for row, reason in self.failures.items()]
        cautions = [self._caution] if self._caution else []
        return "\n".join([self._table, "", *failures, *cautions, self._verdict]) + "\n"

    def format_page(self) -> str:
        """report.md: also how each row was measured, and the spread of its rounds."""
        return ENVIRONMENT.get_template("report.jinja").render(
            suite=self.suite,
            measured=self.measured,
            lines=self.lines,
            failures=self.failures,
            verdict=self._verdict,
            caution=self._caution,
            table=self._table,
            run=describe_run(self.measured),
            spread=format_spread,
        )
