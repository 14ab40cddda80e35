"""Where the sides of a picture, their boxes and the ends of their edges stand on the sheet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ensemble_tools.explain.drawing.layered_layout import (
    Placed,
    Size,
    joint_ranks,
    place,
    split_crowded,
)
from ensemble_tools.explain.drawing.shapes import Point
from ensemble_tools.explain.drawing.style import (
    GUTTER,
    HEAD_HEIGHT,
    MARGIN,
    PAD,
    PANEL_HEAD,
    ROW_GAP,
    SIDE_WIDTH,
)
from ensemble_tools.explain.picture import Picture, Side

#: Widths of a sheet without its margins, and of what is in a panel; and a panel's own margin.
_LEAST_WIDTH, _LEAST_INNER, _PANEL_MARGIN = 640.0, 260.0, 18

#: An edge: the ids of its source and its target; and which of its ends is meant.
EdgeKey = tuple[str, str]
_SOURCE, _TARGET = 0, 1


@dataclass(frozen=True)
class Panel:
    """A side in its place: offset of x, its extent, and the rows in which it has boxes."""

    side: Side
    placed: Placed
    offset: float
    left: float
    right: float
    full_rows: frozenset[int]

    def bends(self, edge: EdgeKey) -> list[tuple[int, float]]:
        """Rows with boxes that the edge passes, and x there before the offset; from the top."""
        return [bend for bend in self.placed.routes.get(edge, []) if bend[0] in self.full_rows]


@dataclass(frozen=True)
class SheetLayout:
    """All panels. heights, middles: of each row, in y; bottom: where panels end."""

    panels: tuple[Panel, ...]
    width: float
    heights: tuple[float, ...]
    middles: tuple[float, ...]
    bottom: float

    def middle(self, panel: Panel, node: str) -> Point:
        """The middle of a box."""
        return panel.placed.centres[node] + panel.offset, self.middles[panel.placed.rows[node]]


def lay_out(picture: Picture, sizes: Mapping[str, Size]) -> SheetLayout:
    """Place every box of the picture; sizes: of each box, by its id."""
    rows = _choose_rows(picture, sizes)
    heights = [0.0] * (max(rows.values(), default=-1) + 1)
    for name, row in rows.items():
        heights[row] = max(heights[row], sizes[name].height)
    panels: list[Panel] = []
    for side in picture.sides:
        left = panels[-1].right + GUTTER if panels else MARGIN
        panels.append(_make_panel(side, rows, sizes, left))
    full = max((panel.right for panel in panels), default=0.0) + MARGIN
    tops, y = [], MARGIN + HEAD_HEIGHT + PANEL_HEAD
    for height in heights:
        tops.append(y)
        y += height + ROW_GAP
    return SheetLayout(
        panels=tuple(panels),
        width=max(full, _LEAST_WIDTH + 2 * MARGIN),
        heights=tuple(heights),
        middles=tuple(top + height / 2 for top, height in zip(tops, heights, strict=True)),
        bottom=y - ROW_GAP + PAD + 6 if heights else MARGIN + HEAD_HEIGHT,
    )


def _choose_rows(picture: Picture, sizes: Mapping[str, Size]) -> dict[str, int]:
    nodes = [node.id for side in picture.sides for node in side.nodes]
    edges = [(edge.source, edge.target) for side in picture.sides for edge in side.edges]
    ranks = joint_ranks(edges, nodes, picture.correspondences)
    per_side = [[node.id for node in side.nodes] for side in picture.sides]
    return split_crowded(ranks, per_side, sizes, SIDE_WIDTH)


def _make_panel(
    side: Side, rows: Mapping[str, int], sizes: Mapping[str, Size], left: float
) -> Panel:
    names = [node.id for node in side.nodes]
    drawn = [
        (edge.source, edge.target) for edge in side.edges if rows[edge.source] < rows[edge.target]
    ]
    calls = frozenset((edge.source, edge.target) for edge in side.edges if edge.calls)
    placed = place(names, drawn, {name: rows[name] for name in names}, sizes, calls)
    inner = max(placed.right - placed.left, _LEAST_INNER)
    slack = inner - (placed.right - placed.left)
    return Panel(
        side,
        placed,
        left + _PANEL_MARGIN + slack / 2 - placed.left,
        left,
        left + inner + 2 * _PANEL_MARGIN,
        frozenset(placed.rows.values()),
    )


def edge_ports(
    panel: Panel, sizes: Mapping[str, Size]
) -> tuple[dict[EdgeKey, float], dict[EdgeKey, float]]:
    """Where edges leave and enter, from the box's middle: in the order of where they go."""
    leaving: dict[EdgeKey, float] = {}
    entering: dict[EdgeKey, float] = {}
    for edges, own_end in _edges_by_box(panel.side):
        edges.sort(key=lambda edge: _next_x(panel, edge, own_end))
        room = sizes[edges[0][own_end]].width * 0.6
        places = list(dict.fromkeys(_port(panel, edge, own_end) for edge in edges))
        step = min(34.0, room / max(1, len(places) - 1))
        for edge in edges:
            number = places.index(_port(panel, edge, own_end))
            offset = (number - (len(places) - 1) / 2) * step
            (leaving if own_end == _SOURCE else entering)[edge] = offset
    return leaving, entering


def _edges_by_box(side: Side) -> Iterator[tuple[list[EdgeKey], int]]:
    """The edges that leave each box, and those that enter it, with the end that is at the box."""
    keys = [(edge.source, edge.target) for edge in side.edges]
    for node in side.nodes:
        for own_end in (_SOURCE, _TARGET):
            edges = [key for key in keys if key[own_end] == node.id]
            if edges:
                yield edges, own_end


def _port(panel: Panel, edge: EdgeKey, own_end: int) -> object:
    """Edges that leave one box for one bend leave it as one."""
    bends = panel.bends(edge)
    return bends[0] if bends and own_end == _SOURCE else edge


def _next_x(panel: Panel, edge: EdgeKey, own_end: int) -> float:
    bends = panel.bends(edge)
    if bends:
        return bends[0][1] if own_end == _SOURCE else bends[-1][1]
    return panel.placed.centres[edge[_TARGET if own_end == _SOURCE else _SOURCE]]
