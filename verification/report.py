"""What a verification found, as data; pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from verification.comparison import Comparison, Verdict
from verification.exchange import Request
from verification.memory import Memory


@dataclass(frozen=True)
class Outcome:
    """One request and what it showed."""

    request: Request
    comparison: Comparison


@dataclass(frozen=True)
class Timing:
    """Of one form, in seconds: the median and the 95th percentile of so many requests."""

    requests: int
    p50: float
    p95: float


@dataclass(frozen=True)
class Cost:
    """What one form takes: seconds to load, memory of its processes, time of a request."""

    form: str
    load_s: float
    memory: Memory | None
    timing: Timing | None


@dataclass(frozen=True)
class Report:
    """timed: the request that was timed, empty for none. random: operators that draw numbers."""

    archive: str
    form: str
    reasons: tuple[str, ...]
    notes: tuple[str, ...]
    random: tuple[str, ...]
    tolerance: float
    outcomes: tuple[Outcome, ...]
    costs: tuple[Cost, ...]
    timed: str = ""

    @property
    def counts(self) -> Counter[Verdict]:
        """How many requests showed what."""
        return Counter(outcome.comparison.verdict for outcome in self.outcomes)

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs and something was compared."""
        verdicts = self.counts
        return any(one.is_answered for one in verdicts) and not any(
            one.is_failure for one in verdicts
        )

    @property
    def conclusion(self) -> str:
        """One sentence."""
        verdicts = self.counts
        failed = sum(count for one, count in verdicts.items() if one.is_failure)
        answered = sum(count for one, count in verdicts.items() if one.is_answered)
        total = len(self.outcomes)
        if failed:
            return (
                f"DIFFERENT: {failed} of {total} requests are not answered as the executor answers "
                "them"
            )
        if not answered:
            return (
                f"NOT VERIFIED: neither form answers any of the {total} requests, so that nothing "
                "is compared; give requests that the model takes with --requests FILE"
            )
        how = {
            Verdict.WITHIN_TOLERANCE: f"within the tolerance of {self.tolerance:g}",
            Verdict.SAME_DISTRIBUTION: "in distribution",
        }
        ways = [text for one, text in how.items() if verdicts[one]]
        rest = [
            f"{verdicts[one]} {text}"
            for one, text in (
                (Verdict.BOTH_REFUSE, "refused by both"),
                (Verdict.ONLY_SERVED, "refused by the executor alone"),
            )
            if verdicts[one]
        ]
        how_equal = f" ({', '.join(ways)})" if ways else ""
        alike = "alike" if ways else "with the same numbers"
        others = "".join(f"; {one}" for one in rest)
        return (
            f"EQUAL{how_equal}: {answered} of {total} requests are answered by both {alike}{others}"
        )
