"""Which generated steps there are: what every conversion and inline operator is put into. No I/O.

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

from ensemble_tools.ensembles.conversions import Conversion
from ensemble_tools.ensembles.edges import InputPlan
from ensemble_tools.ensembles.producers import ANSWER, FromCall, FromInline
from ensemble_tools.ensembles.wiring import Inline, Source, Wiring
from ensemble_tools.errors import GraphNotExpressible
from ensemble_tools.setting_names import EXECUTOR_REMEDY

#: Names of generated steps, as if they were model directories of the archive.
_CONVERT, _OPERATORS = "convert", "operators"


@dataclass(frozen=True)
class GeneratedStep:
    """A step that is published beside the archive's models."""

    name: str
    level: int
    #: The conversions that it carries out with numpy.
    conversions: tuple[Conversion, ...] = ()
    #: The calls (by key, or ANSWER) that it feeds by running inline operators with Merlin.
    readers: tuple[str, ...] = ()


@dataclass(frozen=True)
class Placement:
    """The generated steps by level, and the depth of each call by its key."""

    steps: tuple[GeneratedStep, ...]
    depths: Mapping[str, int]

    @property
    def deepest(self) -> int:
        """The level behind all calls."""
        return max(self.depths.values(), default=0)


def put_into_steps(
    wiring: Wiring, plans: Mapping[str, InputPlan], taken: frozenset[str], path: Path
) -> Placement:
    """Put conversions and inline operators into steps.

    taken: names of models of the archive. path names the graph in messages. Raises
    GraphNotExpressible where the executor itself takes less than its parts would.
    """
    depths = _find_depths(wiring)
    deepest = max(depths.values(), default=0)
    last = {key: depths[key] - 1 if key != ANSWER else deepest for key in plans}
    merlin = _find_merlin_level(wiring, plans, last, path)
    readers = tuple(
        key
        for key, plan in plans.items()
        if merlin is not None and (plan.merlin or (plan.conversions and last[key] == merlin))
    )
    conversions = [
        conversion
        for key, plan in plans.items()
        if key not in readers
        for conversion in plan.conversions
    ]
    levels = _choose_levels(conversions, depths, last)
    steps = [
        GeneratedStep("", level, conversions=tuple(placed)) for level, placed in levels.items()
    ]
    if merlin is not None:
        steps.append(GeneratedStep("", merlin, readers=readers))
    return Placement(_name_steps(steps, taken), depths)


def drop_idle_calls(wiring: Wiring, plans: Mapping[str, InputPlan]) -> Wiring:
    """The wiring without idle calls that no inline operator's step comes to.

    Such a step stands in front of the deepest reader that it feeds, and Merlin's code makes every
    call up to there. Where it feeds the answer, that is all of them.
    """
    if not wiring.idle or plans[ANSWER].merlin:
        return wiring
    depths = _find_depths(wiring)
    levels = [
        depths[key] - 1 for key, plan in plans.items() if plan.merlin and key not in wiring.idle
    ]
    last = max(levels, default=0)
    calls = tuple(
        call for call in wiring.calls if call.key not in wiring.idle or depths[call.key] <= last
    )
    return replace(wiring, calls=calls)


def choose_free_name(preferred: str, taken: set[str] | frozenset[str]) -> str:
    """The name itself, or with the first number behind it that makes it a new one."""
    number, name = 1, preferred
    while name in taken:
        number += 1
        name = f"{preferred}_{number}"
    return name


def _find_depths(wiring: Wiring) -> dict[str, int]:
    """Every call's depth by its key."""
    calls: dict[str, int] = {}
    inlines: dict[str, int] = {}

    def find_depth(source: Source) -> int | None:
        """None while that is not known yet."""
        if isinstance(source.producer, FromCall):
            return calls.get(source.producer.key)
        if isinstance(source.producer, FromInline):
            return inlines.get(source.producer.key)
        return 0

    def find_deepest(reads: tuple[Source, ...]) -> int | None:
        depths = [find_depth(source) for source in reads]
        known = [depth for depth in depths if depth is not None]
        return max(known, default=0) if len(known) == len(depths) else None

    # Both are in an order in which each finds what it depends on; an inline operator stands behind
    # the calls it reads, and in front of those that read it.
    waiting = dict(wiring.inlines)
    for call in wiring.calls:
        for key, inline in [*waiting.items()]:
            depth = find_deepest(inline.reads)
            if depth is not None:
                inlines[key] = depth
                del waiting[key]
        depth = find_deepest(call.reads)
        assert depth is not None, "a call stands behind all that it reads"
        above = max((calls[key] for key in call.above if key in calls), default=0)
        calls[call.key] = 1 + max(depth, above)
    return calls


def _find_merlin_level(
    wiring: Wiring,
    plans: Mapping[str, InputPlan],
    last: Mapping[str, int],
    path: Path,
) -> int | None:
    """The level of the step that runs inline operators; None where there are none."""
    levels = {last[key] for key, plan in plans.items() if plan.merlin}
    if not levels:
        return None
    inlines = [*wiring.inlines.values()]
    obstacle = _find_obstacle(wiring, inlines, levels)
    if obstacle:
        operator, columns = inlines[0].operator, inlines[0].columns
        raise GraphNotExpressible(path, operator, columns, obstacle, EXECUTOR_REMEDY)
    return levels.pop()


def _find_obstacle(wiring: Wiring, inlines: list[Inline], levels: set[int]) -> str:
    """Why no step can run the inline operators, empty for nothing."""
    models = [model for inline in inlines for model in inline.models]
    # 1. It calls a model itself, which a step of an ensemble cannot see.
    if models:
        return f"this operator runs in Merlin and calls the model {models[0]} itself"
    # 2. The step would be all there is.
    if not wiring.calls:
        return "nothing but inline operators: an ensemble around them saves nothing"
    # 3. One step cannot stand at two places, and two would take more than the executor does.
    if len(levels) > 1:
        return (
            "inline operators stand at several places between the models, "
            "and a process with Merlin for each would take more than the executor does"
        )
    # 4. Merlin's code names a model when it calls it, and not which call of it that is.
    if len({call.model_name for call in wiring.calls}) < len(wiring.calls):
        return "inline operators stand beside two calls of one model, which cannot be told apart"
    return ""


def _choose_levels(
    conversions: list[Conversion], depths: Mapping[str, int], last: Mapping[str, int]
) -> dict[int, list[Conversion]]:
    """As few levels as cover all ranges: always the earliest end of a range that is not covered."""

    def find_first(conversion: Conversion) -> int:
        producers = [tensor.producer for tensor in conversion.reads]
        return max(
            (depths[producer.key] for producer in producers if isinstance(producer, FromCall)),
            default=0,
        )

    levels: dict[int, list[Conversion]] = {}
    waiting = sorted(conversions, key=lambda conversion: last[conversion.reader])
    while waiting:
        level = last[waiting[0].reader]
        levels[level] = [each for each in waiting if find_first(each) <= level]
        waiting = [each for each in waiting if find_first(each) > level]
    return levels


def _name_steps(steps: list[GeneratedStep], taken: frozenset[str]) -> tuple[GeneratedStep, ...]:
    names = set(taken)
    named = []
    for step in sorted(steps, key=lambda step: (step.level, bool(step.readers))):
        name = choose_free_name(_OPERATORS if step.readers else _CONVERT, names)
        names.add(name)
        named.append(replace(step, name=name))
    return tuple(named)
