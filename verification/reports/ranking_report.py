"""The findings of a comparison of two archives, as data. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ensemble_tools.answers.exchange import Refusal, Reply, TensorAnswer
from verification.comparing.comparison import Agreement, compare
from verification.ranking.bounds import Bound, list_broken
from verification.ranking.changes import Change, list_changes
from verification.ranking.tally import Tally
from verification.reports.report import Cost


@dataclass(frozen=True)
class Asked:
    """One request and what became of it, without the answers."""

    request: str
    #: Empty where the archive answered.
    old_refusal: str = ""
    new_refusal: str = ""
    #: Both answers have the same bits.
    equal: bool = False
    #: OLD gives the same bits when it is asked again.
    repeats: bool = True
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True)
class ArchiveSide:
    """One of the two archives."""

    title: str
    archive: str
    #: How it is served.
    form: str
    #: Operators that draw random numbers.
    random: tuple[str, ...] = ()


@dataclass(frozen=True)
class RankingReport:
    """The result for two archives."""

    old: ArchiveSide
    new: ArchiveSide
    asked: tuple[Asked, ...]
    tallies: tuple[Tally, ...]
    #: Of the same targets: OLD beside OLD, asked again.
    own: tuple[Tally, ...]
    costs: tuple[Cost, ...]
    #: The K of the overlaps that are shown first.
    places: tuple[int, ...]
    bounds: tuple[Bound, ...] = ()
    #: Inputs that the two declare differently, a sentence each.
    inputs: tuple[str, ...] = ()

    @property
    def answered(self) -> int:
        """Requests that both answer."""
        return sum(not (asked.old_refusal or asked.new_refusal) for asked in self.asked)

    @property
    def equal(self) -> int:
        """Requests that both answer with the same bits."""
        return sum(asked.equal for asked in self.asked)

    @property
    def is_equal(self) -> bool:
        """Whether every answer has the same bits: there is nothing to measure."""
        return 0 < self.equal == len(self.asked) - len(self.refused_by_both)

    @property
    def compared(self) -> tuple[tuple[Tally, Tally], ...]:
        """Targets that have lists of both, and OLD's own."""
        both = zip(self.tallies, self.own, strict=True)
        return tuple((tally, own) for tally, own in both if tally.lists)

    @property
    def chance(self) -> tuple[str, ...]:
        """Requests that OLD answers otherwise when it is asked again."""
        return tuple(asked.request for asked in self.asked if not asked.repeats)

    @property
    def refused_by_new(self) -> tuple[Asked, ...]:
        """Requests that OLD alone answers."""
        return tuple(it for it in self.asked if it.new_refusal and not it.old_refusal)

    @property
    def refused_by_old(self) -> tuple[Asked, ...]:
        """Requests that NEW alone answers."""
        return tuple(it for it in self.asked if it.old_refusal and not it.new_refusal)

    @property
    def refused_by_both(self) -> tuple[Asked, ...]:
        """Requests that nobody answers."""
        return tuple(it for it in self.asked if it.old_refusal and it.new_refusal)

    @property
    def is_within(self) -> bool:
        """Whether NEW answers all that OLD answers, in OLD's form, and holds the bounds."""
        return not self.failures

    @property
    def failures(self) -> tuple[str, ...]:
        """Why NEW may not take OLD's place, a sentence each."""
        return tuple(self._list_failures())

    def list_changes(self, *, breaks: bool) -> Iterator[str]:
        """Outputs of another form, a sentence each, with the requests that show it."""
        requests: dict[str, list[str]] = {}
        for asked in self.asked:
            for change in asked.changes:
                if change.breaks is breaks:
                    sentence = f"{change.output}: {change.sentence}"
                    requests.setdefault(sentence, []).append(asked.request)
        for sentence, titles in requests.items():
            yield f"{sentence} ({name_requests(titles)})"

    def _list_failures(self) -> Iterator[str]:
        if not self.answered:
            yield f"no request is answered by both, of {len(self.asked)}"
        if not self.answered and (both := self.refused_by_both):
            titles = name_requests([it.request for it in both])
            yield f"both refuse {titles}: OLD: {both[0].old_refusal}; NEW: {both[0].new_refusal}"
        if refused := self.refused_by_new:
            titles = name_requests([it.request for it in refused])
            yield f"NEW refuses what OLD answers ({titles}): {refused[0].new_refusal}"
        yield from self.list_changes(breaks=True)
        for tally in self.tallies:
            requests: dict[str, list[str]] = {}
            for request, reason in tally.mismatches:
                requests.setdefault(reason, []).append(request)
            for reason, of_reason in requests.items():
                yield f"{tally.target.name}: {reason} ({name_requests(of_reason)})"
        if self.answered and not self.is_equal:
            yield from list_broken(self.bounds, self.tallies)


def name_requests(titles: Sequence[str]) -> str:
    """The first one, and how many more."""
    first, *more = dict.fromkeys(titles)
    return f"{first} and {len(more)} more" if more else first


def make_asked(request: str, old: Reply, new: Reply, again: Reply) -> Asked:
    """The result of a request without its answers; again: OLD's second one."""
    changes = (
        tuple(list_changes(old, new))
        if isinstance(old, TensorAnswer) and isinstance(new, TensorAnswer)
        else ()
    )
    return Asked(
        request,
        _read_refusal(old),
        _read_refusal(new),
        _is_equal(old, new),
        _is_equal(old, again) or isinstance(old, Refusal),
        changes,
    )


def _is_equal(old: Reply, new: Reply) -> bool:
    return compare(old, new, bit_for_bit=True).verdict is Agreement.EQUAL


def _read_refusal(reply: Reply) -> str:
    return reply.message or "no reason is given" if isinstance(reply, Refusal) else ""
