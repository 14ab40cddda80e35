"""The findings of a verification, as data. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ensemble_tools.answers.exchange import TensorRequest
from verification.comparing.comparison import USUAL, Agreement, Comparison, Names
from verification.serving.memory import Memory


@dataclass(frozen=True)
class Outcome:
    """One request and what it showed."""

    request: TensorRequest
    comparison: Comparison
    #: The comparison of the form with compiled workflows.
    compiled: Comparison | None = None

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparisons, one for each form that is compared."""
        return (self.comparison,) if self.compiled is None else (self.comparison, self.compiled)

    @property
    def is_answered(self) -> bool:
        """Whether every form answers, be it in another way."""
        verdicts = [comparison.verdict for comparison in self.comparisons]
        return all(verdict.is_answered or verdict is Agreement.DIFFERENT for verdict in verdicts)


@dataclass(frozen=True)
class WorkflowReport:
    """A step that is an NVTabular workflow: compiled, unless there is a reason."""

    model: str
    #: Kinds of compiled operators, and how many of each.
    operators: Mapping[str, int] = field(default_factory=dict)
    not_compiled: str = ""
    #: Requests to this step alone, compiled beside NVTabular itself.
    outcomes: tuple[Outcome, ...] = ()
    #: Why NVTabular runs the other operators.
    left_to_nvtabular: tuple[str, ...] = ()


@dataclass(frozen=True)
class Timing:
    """Seconds of one form: the median and the 95th percentile of so many requests."""

    requests: int
    p50: float
    p95: float


@dataclass(frozen=True)
class Cost:
    """The cost of one form: seconds to load, memory of its processes, time of a request."""

    form: str
    load_s: float
    memory: Memory | None
    timing: Timing | None


@dataclass(frozen=True)
class Report:
    """The result for one archive."""

    archive: str
    form: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    #: Operators that draw random numbers.
    random: tuple[str, ...]
    tolerance: float
    outcomes: tuple[Outcome, ...]
    costs: tuple[Cost, ...]
    #: The request that was timed, empty for none.
    timed: str = ""
    #: Empty where workflows are not to be compiled.
    workflows: tuple[WorkflowReport, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs and something was compared."""
        return all(finding.is_equal for finding in self.findings)

    @property
    def conclusions(self) -> tuple[str, ...]:
        """A sentence for each form, and for each workflow that was asked alone."""
        return tuple(finding.conclusion for finding in self.findings)

    @property
    def summary(self) -> str:
        """The differences; where there are none, the first comparison, and how many there are."""
        if different := [finding.conclusion for finding in self.findings if not finding.is_equal]:
            return "; ".join(different)
        first, *more = self.conclusions
        return f"{first} ({1 + len(more)} comparisons, all equal)" if more else first

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The results that conclusions are drawn from."""
        return tuple(self._list_findings())

    def _list_findings(self) -> Iterator[Finding]:
        forms = max((len(outcome.comparisons) for outcome in self.outcomes), default=1)
        for number in range(forms):
            of_form = [outcome.comparisons[number] for outcome in self.outcomes]
            yield Finding(of_form, self.tolerance)
        for workflow in self.workflows:
            if workflow.outcomes:
                alone = [outcome.comparison for outcome in workflow.outcomes]
                yield Finding(alone, 0.0, f"{workflow.model} alone, ")


@dataclass(frozen=True)
class Finding:
    """The result of all requests to one form."""

    comparisons: Sequence[Comparison]
    tolerance: float
    #: What is asked, empty for the entry model.
    subject: str = ""

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs and something was compared; that at the entry model at least."""
        verdicts = self._counts
        compared = bool(self.subject) or any(verdict.is_answered for verdict in verdicts)
        return compared and not any(verdict.is_failure for verdict in verdicts)

    @property
    def _counts(self) -> Counter[Agreement]:
        return Counter(comparison.verdict for comparison in self.comparisons)

    @property
    def conclusion(self) -> str:
        names = self.comparisons[0].names if self.comparisons else USUAL
        subject = self.subject or ("" if names == USUAL else f"{names.form.partition(' ')[2]}, ")
        word, colon, rest = self._make_sentence(names).partition(": ")
        return f"{word}{colon}{subject}{rest}"

    def _make_sentence(self, names: Names) -> str:
        verdicts = self._counts
        failed = sum(count for verdict, count in verdicts.items() if verdict.is_failure)
        answered = sum(count for verdict, count in verdicts.items() if verdict.is_answered)
        total = len(self.comparisons)
        if failed:
            return (
                f"DIFFERENT: {failed} of {total} requests are not answered as {names.right} "
                "answers them"
            )
        if not answered and self.subject:
            return f"NOT COMPARED: neither form answers any of the {total} requests"
        if not answered:
            return (
                f"NOT VERIFIED: neither form answers any of the {total} requests, so that nothing "
                "is compared; give requests that the model takes with --requests FILE"
            )
        how = {
            Agreement.WITHIN_TOLERANCE: f"within the tolerance of {self.tolerance:g}",
            Agreement.SAME_DISTRIBUTION: "in distribution",
        }
        ways = [text for verdict, text in how.items() if verdicts[verdict]]
        rest = [
            f"{verdicts[verdict]} {text}"
            for verdict, text in (
                (Agreement.BOTH_REFUSE, "refused by both"),
                (Agreement.ONLY_SERVED, f"refused by {names.right} alone"),
                (Agreement.BY_DESIGN, "refused by design"),
            )
            if verdicts[verdict]
        ]
        how_equal = f" ({', '.join(ways)})" if ways else ""
        alike = "alike" if ways else "with the same numbers"
        others = "".join(f"; {text}" for text in rest)
        return (
            f"EQUAL{how_equal}: {answered} of {total} requests are answered by both {alike}{others}"
        )
