"""A layered layout (Sugiyama's): ranks by longest path, order by barycentre, x by least squares.

Boxes of several sides share their rows, so that what corresponds stands side by side. Edges that
pass over rows are led through them by points of their own, which keeps them off the boxes.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_SWEEPS = 12
#: How much more a bend of a long edge weighs than a box that is off its neighbours' middle.
_POINT_WEIGHT = 6.0
_POINT_WIDTH = 10.0
_GAP = 26.0


@dataclass(frozen=True)
class Size:
    """Of a box, in the picture's units."""

    width: float
    height: float


@dataclass
class Placed:
    """Where one side's boxes stand.

    centres: of each box, x. rows: of each box, its row. routes: for each edge, row and x of its
    points between its ends, from the top down. left, right: the outermost sides.
    """

    centres: dict[str, float]
    rows: dict[str, int]
    routes: dict[tuple[str, str], list[tuple[int, float]]]
    left: float
    right: float


def joint_ranks(
    edges: Iterable[tuple[str, str]], nodes: Iterable[str], pairs: Iterable[tuple[str, str]]
) -> dict[str, int]:
    """Rows for all nodes: each below what feeds it, pairs in one row, late where it is needed late.

    Pairs are let go where they would make a circle; so is every row, where the edges make one.
    """
    listed, drawn = list(dict.fromkeys(nodes)), list(edges)
    merged = {node: node for node in listed}
    for first, second in pairs:
        merged[second] = merged[first]
    ranks = _longest(drawn, merged)
    if ranks is None:
        merged = {node: node for node in listed}
        ranks = _longest(drawn, merged) or dict.fromkeys(listed, 0)
    return {node: ranks[merged[node]] for node in listed}


def _longest(edges: Sequence[tuple[str, str]], merged: Mapping[str, str]) -> dict[str, int] | None:
    below: dict[str, set[str]] = {node: set() for node in merged.values()}
    above: dict[str, set[str]] = {node: set() for node in merged.values()}
    for source, target in edges:
        if merged[source] != merged[target]:
            below[merged[source]].add(merged[target])
            above[merged[target]].add(merged[source])
    waiting = {node: len(feeding) for node, feeding in above.items()}
    ready = [node for node, count in waiting.items() if count == 0]
    ordered: list[str] = []
    while ready:
        node = ready.pop()
        ordered.append(node)
        for other in below[node]:
            waiting[other] -= 1
            if waiting[other] == 0:
                ready.append(other)
    if len(ordered) < len(below):
        return None
    ranks = dict.fromkeys(ordered, 0)
    for node in ordered:
        ranks[node] = max((ranks[other] + 1 for other in above[node]), default=0)
    for node in reversed(ordered):  # what hangs on the request alone moves down to who needs it
        if below[node] and all(not above[other] for other in above[node]) and above[node]:
            ranks[node] = max(ranks[node], min(ranks[other] for other in below[node]) - 1)
    return ranks


def split_crowded(
    ranks: Mapping[str, int],
    sides: Sequence[Sequence[str]],
    sizes: Mapping[str, Size],
    width: float,
) -> dict[str, int]:
    """Ranks renumbered so that no side needs more than `width` for the boxes of one."""
    parts: dict[str, int] = {}
    needed = dict.fromkeys(ranks.values(), 1)
    for side in sides:
        inside: dict[int, list[str]] = {}
        for node in side:
            inside.setdefault(ranks[node], []).append(node)
        for rank, members in inside.items():
            total = sum(sizes[node].width + _GAP for node in members)
            rows = math.ceil(total / width)
            each = math.ceil(len(members) / rows)
            parts.update({node: number // each for number, node in enumerate(members)})
            needed[rank] = max(needed[rank], rows)
    starts, start = {}, 0
    for rank in sorted(needed):
        starts[rank] = start
        start += needed[rank]
    return {node: starts[rank] + parts[node] for node, rank in ranks.items()}


def place(
    nodes: Sequence[str],
    edges: Sequence[tuple[str, str]],
    rows: Mapping[str, int],
    sizes: Mapping[str, Size],
    apart: frozenset[tuple[str, str]] = frozenset(),
) -> Placed:
    """Order and x of one side's boxes; rows come from joint_ranks.

    apart: edges that do not run together with others from the same box.
    """
    layers, links, paths = _with_points(nodes, edges, rows, apart)
    up: dict[str, list[str]] = {item: [] for layer in layers.values() for item in layer}
    down: dict[str, list[str]] = {item: [] for item in up}
    for source, target in links:
        down[source].append(target)
        up[target].append(source)
    _order(layers, up, down)
    centres = _centres(layers, up, down, sizes)
    left = min((centres[n] - sizes[n].width / 2 for n in nodes), default=0.0)
    right = max((centres[n] + sizes[n].width / 2 for n in nodes), default=0.0)
    points = [centres[item] for layer in layers.values() for item in layer]
    left, right = min([left, *points]), max([right, *points])
    routes = {edge: [(row, centres[point]) for row, point in path] for edge, path in paths.items()}
    return Placed({node: centres[node] for node in nodes}, dict(rows), routes, left, right)


def _with_points(
    nodes: Sequence[str],
    edges: Sequence[tuple[str, str]],
    rows: Mapping[str, int],
    apart: frozenset[tuple[str, str]],
) -> tuple[
    dict[int, list[str]],
    list[tuple[str, str]],
    dict[tuple[str, str], list[tuple[int, str]]],
]:
    """Rows with a point of each edge that passes, links between neighbouring rows, paths of edges.

    Edges that leave one node together share their points: they run as one until they part.
    """
    layers: dict[int, list[str]] = {}
    for node in nodes:
        layers.setdefault(rows[node], []).append(node)
    links: dict[tuple[str, str], None] = {}
    paths: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for source, target in edges:
        last, path = source, []
        for row in range(rows[source] + 1, rows[target]):
            point = f"\0{source}\0{row}" + (target if (source, target) in apart else "")
            if point not in layers.setdefault(row, []):
                layers[row].append(point)
            links[last, point] = None
            path.append((row, point))
            last = point
        links[last, target] = None
        paths[source, target] = path
    return layers, list(links), paths


def _order(
    layers: dict[int, list[str]], up: Mapping[str, list[str]], down: Mapping[str, list[str]]
) -> None:
    """Barycentre sweeps, down and up in turn; the order with the fewest crossings is kept."""
    best, fewest = {row: list(layer) for row, layer in layers.items()}, None
    for sweep in range(_SWEEPS):
        neighbours = up if sweep % 2 == 0 else down
        for row in sorted(layers, reverse=sweep % 2 == 1):
            position = (
                {
                    item: number / max(1, len(layer))
                    for layer in layers.values()
                    for number, item in enumerate(layer)
                }
                if sweep == 0
                else _positions(layers, row, sweep)
            )
            layer = layers[row]
            own = {item: number / max(1, len(layer)) for number, item in enumerate(layer)}
            layer.sort(key=lambda item: _mean(neighbours[item], position, own[item]))
        crossings = _crossings(layers, down)
        if fewest is None or crossings < fewest:
            best, fewest = {row: list(layer) for row, layer in layers.items()}, crossings
    layers.update(best)


def _positions(layers: Mapping[int, list[str]], row: int, sweep: int) -> dict[str, float]:
    beside = layers.get(row - 1 if sweep % 2 == 0 else row + 1, [])
    return {item: number / max(1, len(beside)) for number, item in enumerate(beside)}


def _mean(items: Sequence[str], position: Mapping[str, float], otherwise: float) -> float:
    known = [position[item] for item in items if item in position]
    return sum(known) / len(known) if known else otherwise


def _crossings(layers: Mapping[int, list[str]], down: Mapping[str, list[str]]) -> int:
    """Pairs of links that cross, counted row by row through insertion into a sorted list."""
    total = 0
    for row, layer in layers.items():
        place_of = {item: number for number, item in enumerate(layers.get(row + 1, []))}
        seen: list[int] = []
        for item in layer:
            ends = sorted(place_of[other] for other in down[item] if other in place_of)
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _centres(
    layers: Mapping[int, list[str]],
    up: Mapping[str, list[str]],
    down: Mapping[str, list[str]],
    sizes: Mapping[str, Size],
) -> dict[str, float]:
    """Each item as near as may be to the middle of its neighbours, none over another."""
    widths = {
        item: sizes[item].width if item in sizes else _POINT_WIDTH
        for layer in layers.values()
        for item in layer
    }
    centres: dict[str, float] = {}
    for layer in layers.values():
        total, x = sum(widths[item] + _GAP for item in layer), 0.0
        for item in layer:
            centres[item] = x + widths[item] / 2 - total / 2
            x += widths[item] + _GAP
    for sweep in range(_SWEEPS):
        sources = (up, down)[sweep % 2 : sweep % 2 + 1] if sweep < _SWEEPS - 2 else (up, down)
        for row in sorted(layers, reverse=sweep % 2 == 1):
            layer = layers[row]
            wishes, weights = [], []
            for item in layer:
                around = [centres[other] for links in sources for other in links[item]]
                wishes.append(sum(around) / len(around) if around else centres[item])
                weights.append(_POINT_WEIGHT if item not in sizes else 1.0 if around else 0.2)
            centres.update(zip(layer, _spaced(layer, wishes, weights, widths), strict=True))
    return centres


def _spaced(
    layer: Sequence[str],
    wishes: Sequence[float],
    weights: Sequence[float],
    widths: Mapping[str, float],
) -> list[float]:
    """The least squares answer that keeps the order and the gaps: isotonic regression, pooled."""
    offsets, offset = [], 0.0
    for number, item in enumerate(layer):
        if number:
            offset += (widths[layer[number - 1]] + widths[item]) / 2 + _GAP
        offsets.append(offset)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for wish, weight, offset in zip(wishes, weights, offsets, strict=True):
        pools.append((wish - offset, weight, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (mean, heavy, count), (other, light, more) = pools[-2], pools[-1]
            together = heavy + light
            pools[-2:] = [((mean * heavy + other * light) / together, together, count + more)]
    means = [mean for mean, _, count in pools for _ in range(count)]
    return [mean + offset for mean, offset in zip(means, offsets, strict=True)]
