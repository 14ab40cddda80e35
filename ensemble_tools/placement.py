"""PURE. Which generated steps there are: what every conversion and inline operator is put into.

Calls have a depth: 1 for a call that is fed by the request alone, one more than the deepest call it
depends on for any other. A generated step of level n runs behind calls of depth n or less and in
front of all deeper ones, so that steps of different levels can never wait for each other. What has
to be generated has a range of levels; as few levels as possible are chosen that cover all ranges.

Inline operators need a process with Merlin in it, as large as the executor itself. One such step
is worth its place; two would be more than the executor is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ensemble_tools.edges import ANSWER, Conversion, Feed
from ensemble_tools.errors import GraphNotExpressible
from ensemble_tools.wiring import Source, Wiring

#: Names of generated steps, as if they were model directories of the archive.
_CONVERT, _OPERATORS = "convert", "operators"


@dataclass(frozen=True)
class GeneratedStep:
    """A step that is published beside the archive's models.

    conversions: what it carries out with numpy. readers: the keys of the calls, and ANSWER, that it
    feeds by running inline operators with Merlin; a step does the one or the other.
    """

    name: str
    level: int
    conversions: tuple[Conversion, ...] = ()
    readers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placement:
    """The generated steps by level, and the depth of the deepest call."""

    steps: tuple[GeneratedStep, ...]
    depths: Mapping[str, int]

    @property
    def deepest(self) -> int:
        """The level behind all calls."""
        return max(self.depths.values(), default=0)


def place(
    wiring: Wiring, feeds: Mapping[str, Feed], taken: frozenset[str], path: Path
) -> Placement:
    """Put conversions and inline operators into steps.

    taken: names of models of the archive. path names the graph in messages. Raises
    GraphNotExpressible where the executor itself takes less than its parts would.
    """
    depths = _depths(wiring)
    deepest = max(depths.values(), default=0)
    last = {key: depths[key] - 1 if key != ANSWER else deepest for key in feeds}
    merlin = _merlin_level(wiring, feeds, last, path)
    readers = tuple(
        key
        for key, feed in feeds.items()
        if merlin is not None and (feed.merlin or (feed.conversions and last[key] == merlin))
    )
    conversions = [
        conversion
        for key, feed in feeds.items()
        if key not in readers
        for conversion in feed.conversions
    ]
    levels = _levels(conversions, depths, last)
    steps = [
        GeneratedStep("", level, conversions=tuple(placed)) for level, placed in levels.items()
    ]
    if merlin is not None:
        steps.append(GeneratedStep("", merlin, readers=readers))
    return Placement(_named(steps, taken), depths)


def without_idle_calls(wiring: Wiring, feeds: Mapping[str, Feed]) -> Wiring:
    """The wiring without idle calls that no inline operator's step comes to.

    Such a step stands in front of the deepest reader that it feeds, and Merlin's code makes every
    call up to there. Where it feeds the answer, that is all of them.
    """
    if not wiring.idle or feeds[ANSWER].merlin:
        return wiring
    depths = _depths(wiring)
    levels = [
        depths[key] - 1 for key, feed in feeds.items() if feed.merlin and key not in wiring.idle
    ]
    last = max(levels, default=0)
    kept = tuple(
        call for call in wiring.calls if call.key not in wiring.idle or depths[call.key] <= last
    )
    return replace(wiring, calls=kept)


def _depths(wiring: Wiring) -> dict[str, int]:
    depths: dict[str, int] = {}
    inline: dict[str, int] = {}

    def depth(source: Source) -> int:
        if source.producer is None:
            return 0
        found = depths if source.producer in depths else inline
        return found[source.producer]

    # Both are in an order in which each finds what it depends on; an inline operator stands behind
    # the calls it reads, and in front of those that read it.
    waiting = dict(wiring.inlines)
    for call in wiring.calls:
        for key in [*waiting]:
            reads = waiting[key].reads
            if all(_known(source, depths, inline) for source in reads):
                inline[key] = max(map(depth, reads), default=0)
                del waiting[key]
        depths[call.key] = 1 + max(map(depth, call.reads), default=0)
    return depths


def _known(source: Source, depths: Mapping[str, int], inline: Mapping[str, int]) -> bool:
    return source.producer is None or source.producer in depths or source.producer in inline


def _merlin_level(
    wiring: Wiring, feeds: Mapping[str, Feed], last: Mapping[str, int], path: Path
) -> int | None:
    levels = {last[key] for key, feed in feeds.items() if feed.merlin}
    if not levels:
        return None
    operators = list(wiring.inlines.values())
    label, columns = operators[0].operator, operators[0].columns
    remedy = "SERVE_REWRITE=auto serves the executor itself"
    models = [model for inline in operators for model in inline.models]
    if models:
        raise GraphNotExpressible(
            path, label, columns,
            f"this operator runs in Merlin and calls the model {models[0]} itself", remedy,
        )  # fmt: skip
    if not wiring.calls:
        raise GraphNotExpressible(
            path, label, columns,
            "nothing but inline operators: an ensemble around them saves nothing", remedy,
        )  # fmt: skip
    if len(levels) > 1:
        raise GraphNotExpressible(
            path, label, columns, "inline operators stand at several places between the models, "
            "and a process with Merlin for each would take more than the executor does", remedy,
        )  # fmt: skip
    if len({call.model_name for call in wiring.calls}) < len(wiring.calls):
        raise GraphNotExpressible(
            path, label, columns,
            "inline operators stand beside two calls of one model, which cannot be told apart",
            remedy,
        )  # fmt: skip
    return levels.pop()


def _levels(
    conversions: list[Conversion], depths: Mapping[str, int], last: Mapping[str, int]
) -> dict[int, list[Conversion]]:
    """As few levels as cover all ranges: always the earliest end of a range that is not covered."""

    def first(conversion: Conversion) -> int:
        return max((depths.get(tensor.producer or "", 0) for tensor in conversion.reads), default=0)

    levels: dict[int, list[Conversion]] = {}
    waiting = sorted(conversions, key=lambda conversion: last[conversion.reader])
    while waiting:
        level = last[waiting[0].reader]
        levels[level] = [one for one in waiting if first(one) <= level]
        waiting = [one for one in waiting if first(one) > level]
    return levels


def _named(steps: list[GeneratedStep], taken: frozenset[str]) -> tuple[GeneratedStep, ...]:
    names = set(taken)
    named = []
    for step in sorted(steps, key=lambda step: (step.level, bool(step.readers))):
        name = free_name(_OPERATORS if step.readers else _CONVERT, names)
        names.add(name)
        named.append(GeneratedStep(name, step.level, step.conversions, step.readers))
    return tuple(named)


def free_name(wanted: str, taken: set[str] | frozenset[str]) -> str:
    """The name itself, or with the first number behind it that makes it a new one."""
    number, name = 1, wanted
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name
