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

from ensemble_tools.commands.picture import (
    ANSWER,
    REQUEST,
    Edge,
    Flow,
    LeftOut,
    Node,
    Picture,
    Reason,
    Side,
    Tensor,
    Workflow,
)

#: Boxes of one side that are still read one by one.
MOST_UNFOLDED = 40
#: Boxes that folding should come down to; from _BEARABLE on, boxes of unlike kinds are folded too.
_WANTED, _BEARABLE = 40, 120
_BANDS = 24
#: Fewer are drawn one by one while there is room.
_ALIKE = 3

_Groups = list[list[str]]
_Way = Callable[[Side], _Groups]


def folded(picture: Picture) -> Picture:
    """The same picture where both sides are small; else with boxes folded, on every side."""
    if all(len(side.nodes) <= MOST_UNFOLDED for side in picture.sides):
        return picture
    now: dict[str, str] = {node.id: node.id for side in picture.sides for node in side.nodes}
    merlin, triton = picture.merlin, picture.triton
    for ways, wanted in ((_WAYS, _WANTED), ((_in_bands,), _BEARABLE)):
        if max(len(side.nodes) for side in (merlin, triton) if side is not None) > wanted:
            merlin = _folded_side(merlin, ways, now)
            triton = _folded_side(triton, ways, now)
    return replace(
        picture,
        merlin=merlin,
        triton=triton,
        correspondences=tuple(
            dict.fromkeys((now[first], now[second]) for first, second in picture.correspondences)
        ),
        reasons=tuple(
            Reason(reason.text, tuple(dict.fromkeys(now[node] for node in reason.nodes)))
            for reason in picture.reasons
        ),
        refused_at=tuple(dict.fromkeys(now[node] for node in picture.refused_at)),
        left_out=tuple(LeftOut(now[left.node], left.tensors) for left in picture.left_out),
    )


def _folded_side(side: Side | None, ways: Iterable[_Way], now: dict[str, str]) -> Side | None:
    """The side, folded in as many ways as it takes; now: where each node of the picture went."""
    for find in ways:
        if side is None or len(side.nodes) <= _WANTED:
            break
        side, moved = _merged(side, find(side), in_a_row=find is _in_a_row)
        now.update({node: moved.get(place, place) for node, place in now.items()})
    return side


def _neighbours(side: Side) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    above: dict[str, set[str]] = {node.id: set() for node in side.nodes}
    below: dict[str, set[str]] = {node.id: set() for node in side.nodes}
    for edge in side.edges:
        above[edge.target].add(edge.source)
        below[edge.source].add(edge.target)
    return above, below


def _alike(side: Side, turns: int) -> _Groups:
    above, below = _neighbours(side)
    depths = _depths(side, above)
    classes = _numbered(
        {
            node.id: (node.kind, _label(node), depths[node.id])
            + ((node.id,) if node.kind in (REQUEST, ANSWER) else ())
            for node in side.nodes
        }
    )
    for _ in range(turns):
        classes = _numbered(
            {
                node: (
                    one,
                    frozenset(classes[other] for other in above[node]),
                    frozenset(classes[other] for other in below[node]),
                )
                for node, one in classes.items()
            }
        )
    groups: dict[int, list[str]] = {}
    for node, one in classes.items():
        groups.setdefault(one, []).append(node)
    return [group for group in groups.values() if len(group) >= (_ALIKE if turns else 2)]


def _in_bands(side: Side) -> _Groups:
    above, _ = _neighbours(side)
    depths = _depths(side, above)
    deepest = max(depths.values()) + 1
    groups: dict[int, list[str]] = {}
    for node in side.nodes:
        if node.kind not in (REQUEST, ANSWER):
            groups.setdefault(depths[node.id] * _BANDS // deepest, []).append(node.id)
    return [group for group in groups.values() if len(group) > 1]


def _numbered(keys: Mapping[str, Hashable]) -> dict[str, int]:
    """The same number for equal keys."""
    numbers: dict[Hashable, int] = {}
    return {node: numbers.setdefault(key, len(numbers)) for node, key in keys.items()}


def _depths(side: Side, above: Mapping[str, set[str]]) -> dict[str, int]:
    """Of each node, the longest way down to it; nodes come after those that feed them."""
    depths: dict[str, int] = {}
    for node in side.nodes:
        depths[node.id] = max((depths[other] + 1 for other in above[node.id]), default=0)
    return depths


def _sorted(nodes: Iterable[Node], edges: Iterable[Edge]) -> tuple[Node, ...]:
    """The nodes, each after those that feed it; as they were where that leaves a choice."""
    by_id = {node.id: node for node in nodes}
    above: dict[str, set[str]] = {name: set() for name in by_id}
    for edge in edges:
        above[edge.target].add(edge.source)
    return tuple(by_id[name] for name in TopologicalSorter(above).static_order())


def _in_a_row(side: Side) -> _Groups:
    above, below = _neighbours(side)
    kinds = {node.id: node.kind for node in side.nodes}
    groups: dict[str, list[str]] = {}
    for node in side.nodes:  # those above come first
        only = next(iter(above[node.id])) if len(above[node.id]) == 1 else None
        if only is not None and len(below[only]) == 1 and kinds[only] == kinds[node.id]:
            groups[node.id] = groups.pop(only, [only])
            groups[node.id].append(node.id)
    return [group for group in groups.values() if len(group) >= _ALIKE]


def _label(node: Node) -> str:
    """Of a Merlin operator its class, of a Triton model its backend: names all differ."""
    if node.folded > 1:
        return node.title.partition(" ")[2]
    if _is_operator(node):
        return node.title.partition(" ")[2]
    return "generated" if node.kind == "generated" else node.detail


def _is_operator(node: Node) -> bool:
    return node.title.startswith("#")


def _merged(side: Side, groups: _Groups, *, in_a_row: bool) -> tuple[Side, dict[str, str]]:
    moved = {node.id: node.id for node in side.nodes}
    moved.update({node: group[-1] for group in groups for node in group})
    nodes = {node.id: node for node in side.nodes}
    made = {group[-1]: _one([nodes[name] for name in group], in_a_row) for group in groups}
    kept = tuple(made.get(node.id, node) for node in side.nodes if moved[node.id] == node.id)
    edges = tuple(_joined(side.edges, moved))
    return replace(side, nodes=_sorted(kept, edges), edges=edges), moved


def _one(group: list[Node], in_a_row: bool) -> Node:
    last = group[-1]
    held = [entry for node in group for entry in _held(node)]
    counts: dict[str, int] = {}
    for noun, number in held:
        counts[noun] = counts.get(noun, 0) + number
    count = sum(counts.values())
    if len(counts) == 1:
        title = f"{count} {next(iter(counts))}" + (" in a row" if in_a_row else "")
        detail = f"{_name(group[0])} … {_name(last)}"
    else:
        title = f"{count} {'operators' if last.id.startswith('merlin') else 'models'}"
        detail = ", ".join(f"{number} {noun}" for noun, number in counts.items())
    outputs = last.outputs if in_a_row else _union(node.outputs for node in group)
    return replace(
        last, title=title, detail=detail, outputs=outputs, folded=count, within=(),
        holds=tuple(counts.items()), workflow=_workflow(group),
    )  # fmt: skip


def _workflow(group: list[Node]) -> Workflow | None:
    """Of boxes that are all compiled, or all not, that; of others nothing."""
    if len({node.workflow.mark if node.workflow else "" for node in group}) > 1:
        return None
    reasons = {node.workflow.not_compiled for node in group if node.workflow}
    return group[-1].workflow if len(reasons) <= 1 else Workflow((), "for several reasons")


def _held(node: Node) -> tuple[tuple[str, int], ...]:
    return node.holds or ((_label(node) + ("" if _is_operator(node) else " models"), 1),)


def _name(node: Node) -> str:
    if node.folded > 1:
        return node.detail.partition(" … ")[0]
    return node.model or node.title.partition(" ")[0]


def _union(outputs: Iterable[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple({tensor.name: tensor for group in outputs for tensor in group}.values())


def _joined(edges: Iterable[Edge], moved: Mapping[str, str]) -> list[Edge]:
    flows: dict[tuple[str, str, bool], dict[Flow, None]] = {}
    for edge in edges:
        source, target = moved[edge.source], moved[edge.target]
        if source != target:
            key = (source, target, edge.calls)
            flows.setdefault(key, {}).update(dict.fromkeys(edge.flows))
    return [
        Edge(source, target, tuple(found), calls)
        for (source, target, calls), found in flows.items()
    ]


_WAYS: tuple[_Way, ...] = tuple(
    way for turns in (8, 2, 1, 0) for way in (partial(_alike, turns=turns), _in_a_row)
)
