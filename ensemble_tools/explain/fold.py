"""Large pictures made small enough to look at: like boxes become one that says how many it is.

1. Boxes of one kind, label and depth whose neighbours are alike too, and theirs in turn, are one:
   parallel branches of one make become one branch. Where too many are left, fewer turns are asked
   for; without any, a row has one box of each kind.
2. Boxes of one kind in a row, where nothing enters or leaves between them, are one.

3. Where hundreds are left, boxes of neighbouring depths are one, whatever they are.

Boxes of one depth never reach one another, and bands of depths only lead
down, so folding makes no circles.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from graphlib import TopologicalSorter

from ensemble_tools.explain.picture import (
    ANSWER,
    REQUEST,
    Box,
    CarriedTensor,
    DrawnTensor,
    Edge,
    LeftOut,
    Picture,
    Reason,
    Side,
    Workflow,
)

#: Boxes of one side that are still read one by one.
MOST_UNFOLDED = 40
#: Boxes that folding should come down to; from _BEARABLE on, boxes of unlike kinds are folded too.
_WANTED, _BEARABLE = 40, 120
_BANDS = 24
#: Fewer are drawn one by one while there is room.
_FEWEST_ALIKE = 3

_Groups = list[list[str]]
_Way = Callable[[Side], _Groups]


def folded(picture: Picture) -> Picture:
    """The same picture where both sides are small; else with boxes folded, on every side."""
    if all(len(side.nodes) <= MOST_UNFOLDED for side in picture.sides):
        return picture
    merged_into = {node.id: node.id for side in picture.sides for node in side.nodes}
    merlin, triton = picture.merlin, picture.triton
    for ways, most in ((_WAYS, _WANTED), ((_find_bands,), _BEARABLE)):
        if max(len(side.nodes) for side in (merlin, triton) if side is not None) > most:
            merlin = _fold_side(merlin, ways, merged_into)
            triton = _fold_side(triton, ways, merged_into)
    return replace(
        picture,
        merlin=merlin,
        triton=triton,
        correspondences=tuple(
            dict.fromkeys(
                (merged_into[first], merged_into[second])
                for first, second in picture.correspondences
            )
        ),
        reasons=tuple(
            Reason(reason.text, tuple(dict.fromkeys(merged_into[node] for node in reason.nodes)))
            for reason in picture.reasons
        ),
        refused_at=tuple(dict.fromkeys(merged_into[node] for node in picture.refused_at)),
        left_out=tuple(
            LeftOut(merged_into[unread.node], unread.tensors) for unread in picture.left_out
        ),
    )


def _fold_side(side: Side | None, ways: Iterable[_Way], merged_into: dict[str, str]) -> Side | None:
    """The side, folded in as many ways as it takes.

    merged_into: where each node of the picture went; it is changed.
    """
    for find in ways:
        if side is None or len(side.nodes) <= _WANTED:
            break
        side, moved = _merge_groups(side, find(side), in_a_row=find is _find_rows)
        merged_into.update({node: moved.get(box, box) for node, box in merged_into.items()})
    return side


def _neighbours(side: Side) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    above: dict[str, set[str]] = {node.id: set() for node in side.nodes}
    below: dict[str, set[str]] = {node.id: set() for node in side.nodes}
    for edge in side.edges:
        above[edge.target].add(edge.source)
        below[edge.source].add(edge.target)
    return above, below


def _find_alike(side: Side, turns: int) -> _Groups:
    above, below = _neighbours(side)
    depths = _depths(side, above)
    classes = _number(
        {
            node.id: (node.kind, _label(node), depths[node.id])
            + ((node.id,) if node.kind in (REQUEST, ANSWER) else ())
            for node in side.nodes
        }
    )
    for _ in range(turns):
        classes = _number(
            {
                node: (
                    class_number,
                    frozenset(classes[other] for other in above[node]),
                    frozenset(classes[other] for other in below[node]),
                )
                for node, class_number in classes.items()
            }
        )
    groups: dict[int, list[str]] = {}
    for node, class_number in classes.items():
        groups.setdefault(class_number, []).append(node)
    return [group for group in groups.values() if len(group) >= (_FEWEST_ALIKE if turns else 2)]


def _find_bands(side: Side) -> _Groups:
    above, _ = _neighbours(side)
    depths = _depths(side, above)
    deepest = max(depths.values()) + 1
    groups: dict[int, list[str]] = {}
    for node in side.nodes:
        if node.kind not in (REQUEST, ANSWER):
            groups.setdefault(depths[node.id] * _BANDS // deepest, []).append(node.id)
    return [group for group in groups.values() if len(group) > 1]


def _number(keys: Mapping[str, Hashable]) -> dict[str, int]:
    """The same number for equal keys."""
    numbers: dict[Hashable, int] = {}
    return {node: numbers.setdefault(key, len(numbers)) for node, key in keys.items()}


def _depths(side: Side, above: Mapping[str, set[str]]) -> dict[str, int]:
    """The longest way down to each node; nodes come after those that feed them."""
    depths: dict[str, int] = {}
    for node in side.nodes:
        depths[node.id] = max((depths[other] + 1 for other in above[node.id]), default=0)
    return depths


def _sort_nodes(nodes: Iterable[Box], edges: Iterable[Edge]) -> tuple[Box, ...]:
    """The nodes, each after those that feed it; as they were where that leaves a choice."""
    by_id = {node.id: node for node in nodes}
    above: dict[str, set[str]] = {name: set() for name in by_id}
    for edge in edges:
        above[edge.target].add(edge.source)
    return tuple(by_id[name] for name in TopologicalSorter(above).static_order())


def _find_rows(side: Side) -> _Groups:
    above, below = _neighbours(side)
    kinds = {node.id: node.kind for node in side.nodes}
    groups: dict[str, list[str]] = {}
    for node in side.nodes:  # those above come first
        only = next(iter(above[node.id])) if len(above[node.id]) == 1 else None
        if only is not None and len(below[only]) == 1 and kinds[only] == kinds[node.id]:
            groups[node.id] = groups.pop(only, [only])
            groups[node.id].append(node.id)
    return [group for group in groups.values() if len(group) >= _FEWEST_ALIKE]


def _label(node: Box) -> str:
    """A Merlin operator's class, a Triton model's backend: names all differ."""
    if node.folded > 1:
        return node.title.partition(" ")[2]
    if _is_operator(node):
        return node.title.partition(" ")[2]
    return "generated" if node.kind == "generated" else node.detail


def _is_operator(node: Box) -> bool:
    return node.title.startswith("#")


def _merge_groups(side: Side, groups: _Groups, *, in_a_row: bool) -> tuple[Side, dict[str, str]]:
    moved = {node.id: node.id for node in side.nodes}
    moved.update({node: group[-1] for group in groups for node in group})
    nodes = {node.id: node for node in side.nodes}
    for group in groups:
        nodes[group[-1]] = _merge_nodes([nodes[name] for name in group], in_a_row)
    remaining = [node for name, node in nodes.items() if moved[name] == name]
    edges = tuple(_join_edges(side.edges, moved))
    return replace(side, nodes=_sort_nodes(remaining, edges), edges=edges), moved


def _merge_nodes(group: list[Box], in_a_row: bool) -> Box:
    last = group[-1]
    kinds = [entry for node in group for entry in _kinds_in(node)]
    counts: dict[str, int] = {}
    for noun, number in kinds:
        counts[noun] = counts.get(noun, 0) + number
    count = sum(counts.values())
    if len(counts) == 1:
        title = f"{count} {next(iter(counts))}" + (" in a row" if in_a_row else "")
        detail = f"{_name_of(group[0])} … {_name_of(last)}"
    else:
        title = f"{count} {'operators' if last.id.startswith('merlin') else 'models'}"
        detail = ", ".join(f"{number} {noun}" for noun, number in counts.items())
    outputs = last.outputs if in_a_row else _unite(node.outputs for node in group)
    return replace(
        last,
        title=title,
        detail=detail,
        outputs=outputs,
        folded=count,
        within=(),
        holds=tuple(counts.items()),
        workflow=_common_workflow(group),
    )


def _common_workflow(group: list[Box]) -> Workflow | None:
    """The workflow of boxes that are all compiled, or all not; None for others."""
    if len({node.workflow.mark if node.workflow else "" for node in group}) > 1:
        return None
    reasons = {node.workflow.not_compiled for node in group if node.workflow}
    return group[-1].workflow if len(reasons) <= 1 else Workflow((), "for several reasons")


def _kinds_in(node: Box) -> tuple[tuple[str, int], ...]:
    return node.holds or ((_label(node) + ("" if _is_operator(node) else " models"), 1),)


def _name_of(node: Box) -> str:
    if node.folded > 1:
        return node.detail.partition(" … ")[0]
    return node.model or node.title.partition(" ")[0]


def _unite(outputs: Iterable[tuple[DrawnTensor, ...]]) -> tuple[DrawnTensor, ...]:
    return tuple({tensor.name: tensor for group in outputs for tensor in group}.values())


def _join_edges(edges: Iterable[Edge], moved: Mapping[str, str]) -> list[Edge]:
    flows: dict[tuple[str, str, bool], dict[CarriedTensor, None]] = {}
    for edge in edges:
        source, target = moved[edge.source], moved[edge.target]
        if source != target:
            key = (source, target, edge.calls)
            flows.setdefault(key, {}).update(dict.fromkeys(edge.flows))
    return [
        Edge(source, target, tuple(carried), calls)
        for (source, target, calls), carried in flows.items()
    ]


_WAYS: tuple[_Way, ...] = tuple(
    way for turns in (8, 2, 1, 0) for way in (partial(_find_alike, turns=turns), _find_rows)
)
