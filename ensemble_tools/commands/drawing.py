"""Picture -> Drawing: where each box, line and word stands, and in which colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from ensemble_tools.commands.errors import NotDrawable
from ensemble_tools.commands.fold import folded
from ensemble_tools.commands.layered_layout import (
    Placed,
    Size,
    joint_ranks,
    place,
    split_crowded,
)
from ensemble_tools.commands.lettering import drawable, fitted, width, wrapped
from ensemble_tools.commands.picture import (
    ANSWER,
    REQUEST,
    Edge,
    Node,
    Picture,
    Reason,
    Side,
    Tensor,
)
from ensemble_tools.commands.shapes import (
    Box,
    Curve,
    Disc,
    Drawing,
    Point,
    Polygon,
    Shape,
    Text,
)

#: Boxes after folding; beyond it nobody finds anything.
MOST_DRAWN = 1500
#: What is shown of longer lists: reasons, what each is about, numbers at one box, lines between
#: the sides. _LISTED: up to so many boxes of a side, so many columns of each (0: their number).
_REASONS, _SUBJECTS, _BADGES, _LINES = 14, 3, 4, 60
_LISTED = ((16, 6), (40, 3), (MOST_DRAWN, 0))

_INK, _SOFT, _FAINT, _PAPER = "#1c2430", "#5b6673", "#aab4c0", "#ffffff"
_EDGE, _CAST = "#7d8996", "#c2410c"
_PANELS = {"merlin": ("#f3f8e8", "#d3e2b4"), "triton": ("#eef4fb", "#c6d9f0")}
#: What a box is: the colour of its edge, and what the key calls it.
_KINDS = {
    REQUEST: ("#475569", ""),
    ANSWER: ("#475569", ""),
    "call": ("#6a9a00", "calls a model"),
    "selection": ("#94a3b8", "chooses columns"),
    "inline": ("#d97706", "runs Python inside the executor"),
    "subgraph": ("#7c3aed", "holds a graph"),
    "step": ("#2563eb", "model of the archive"),
    "model": ("#2563eb", "model of the archive"),
    "generated": ("#d97706", "generated step"),
    "ensemble": ("#1e3a8a", "ensemble of the archive"),
    "executor": ("#b45309", "Merlin's executor"),
}
_FORMS = {
    "pure ensemble": "#3f7d20",
    "the only step itself": "#3f7d20",
    "ensemble with generated steps": "#b45309",
    "executor": "#b45309",
    "as delivered": "#2563eb",
}
_REFUSED = "#b91c1c"

_TITLE, _HEAD, _BODY, _SMALL = 22.0, 13.5, 12.0, 11.0
_MARGIN, _PAD, _ROW_GAP, _GUTTER = 28.0, 11.0, 46.0, 76.0
_LINE = 17.0
_BOX_LEAST, _BOX_MOST = 150.0, 290.0
_SIDE_WIDTH = 1700.0
_HEAD_HEIGHT, _PANEL_HEAD = 74.0, 44.0


@dataclass(frozen=True)
class _Content:
    """The words of one box, cut to its size. rows: name, type."""

    title: str
    details: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    size: Size


@dataclass(frozen=True)
class _Block:
    """A side in its place: offset of x, its extent, and the rows in which it has boxes."""

    side: Side
    placed: Placed
    offset: float
    left: float
    right: float
    full_rows: frozenset[int]


def draw(picture: Picture) -> Drawing:
    """The whole picture. Raises NotDrawable when even folded it has too many boxes."""
    picture = folded(picture)
    count = sum(len(side.nodes) for side in picture.sides)
    if count > MOST_DRAWN:
        raise NotDrawable(count, MOST_DRAWN)
    return _Sheet(picture).drawing()


class _Sheet:
    """One picture in the making: shapes are collected in the order in which they are drawn."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        most = max((len(side.nodes) for side in picture.sides), default=0)
        listed = next(count for boxes, count in _LISTED if most <= boxes)
        self._contents = {
            node.id: _content(node, listed) for side in picture.sides for node in side.nodes
        }
        self._sizes = {name: content.size for name, content in self._contents.items()}
        self._badges = _badges(picture)
        self._shapes: list[Shape] = []
        self._dots: list[Disc] = []

    def drawing(self) -> Drawing:
        blocks, heights = self._blocks()
        least = 640.0
        full = max((block.right for block in blocks), default=0.0) + _MARGIN
        self._width = max(full, least + 2 * _MARGIN)
        tops, y = [], _MARGIN + _HEAD_HEIGHT + _PANEL_HEAD
        for height in heights:
            tops.append(y)
            y += height + _ROW_GAP
        bottom = y - _ROW_GAP + _PAD + 6 if heights else _MARGIN + _HEAD_HEIGHT
        self._heights = heights
        self._middles = [top + height / 2 for top, height in zip(tops, heights, strict=True)]
        self._head()
        for block in blocks:
            self._panel(block, bottom)
        if len(blocks) == 2:
            self._correspond(*blocks)
        for block in blocks:
            self._edges(block)
        for block in blocks:
            for node in block.side.nodes:
                self._box(node, *self._middle(block, node.id))
        self._add(*self._dots)
        end = self._foot(bottom + 26)
        paper = Box(0.5, 0.5, self._width - 1, end - 1, _PAPER, "#d5dbe2", 1, 10)
        return Drawing(
            self._width, end, (paper, *self._shapes), self._heading(), self._description()
        )

    # --- where things stand ---

    def _blocks(self) -> tuple[list[_Block], list[float]]:
        sides = self._picture.sides
        nodes = [node.id for side in sides for node in side.nodes]
        edges = [(edge.source, edge.target) for side in sides for edge in side.edges]
        ranks = joint_ranks(edges, nodes, self._picture.correspondences)
        per_side = [[node.id for node in side.nodes] for side in sides]
        rows = split_crowded(ranks, per_side, self._sizes, _SIDE_WIDTH)
        heights = [0.0] * (max(rows.values(), default=-1) + 1)
        for name, row in rows.items():
            heights[row] = max(heights[row], self._sizes[name].height)
        blocks, x = [], _MARGIN
        for side, names in zip(sides, per_side, strict=True):
            drawn = [
                (edge.source, edge.target)
                for edge in side.edges
                if rows[edge.source] < rows[edge.target]
            ]
            calls = frozenset((edge.source, edge.target) for edge in side.edges if edge.calls)
            own = {name: rows[name] for name in names}
            placed = place(names, drawn, own, self._sizes, calls)
            inner = max(placed.right - placed.left, 260.0)
            slack = inner - (placed.right - placed.left)
            left, right = x, x + inner + 2 * 18
            blocks.append(
                _Block(
                    side,
                    placed,
                    left + 18 + slack / 2 - placed.left,
                    left,
                    right,
                    frozenset(placed.rows.values()),
                )
            )
            x = right + _GUTTER
        return blocks, heights

    def _middle(self, block: _Block, name: str) -> Point:
        return block.placed.centres[name] + block.offset, self._middles[block.placed.rows[name]]

    # --- what is drawn ---

    def _add(self, *shapes: Shape) -> None:
        self._shapes.extend(shapes)

    def _heading(self) -> str:
        return drawable(f"{self._picture.model_name}: {self._picture.form or 'refused'}")

    def _description(self) -> str:
        """For those who cannot see it."""
        parts = [f"{side.title}: {len(side.nodes)} boxes" for side in self._picture.sides]
        reasons = (reason.text for _, reason in _numbered(self._picture)[:_REASONS])
        return drawable("; ".join([*parts, *reasons]))

    def _head(self) -> None:
        picture, y = self._picture, _MARGIN + 18
        name = fitted(picture.model_name, _TITLE, self._width * 0.45)
        self._add(Text(_MARGIN, y, name, _TITLE, _INK, bold=True))
        form = f"served as {picture.form}" if picture.form else "refused"
        x, colour = _MARGIN + width(name, _TITLE) + 16, _FORMS.get(picture.form or "", _REFUSED)
        across = width(form, _BODY) + 22
        self._add(Box(x, y - 17, across, 23, colour, None, 0, 11.5))
        self._add(Text(x + across / 2, y - 1, form, _BODY, _PAPER, "middle"))
        path = fitted(picture.archive, _SMALL, self._width - 2 * _MARGIN)
        self._add(Text(_MARGIN, y + 22, path, _SMALL, _SOFT))

    def _panel(self, block: _Block, bottom: float) -> None:
        whose = block.side.nodes[0].id.partition(".")[0] if block.side.nodes else "triton"
        fill, stroke = _PANELS[whose]
        top = _MARGIN + _HEAD_HEIGHT - 18
        across = block.right - block.left
        self._add(Box(block.left, top, across, bottom - top, fill, stroke, 1, 10))
        counted = self._counted(block.side, whose)
        title = fitted(block.side.title, 15.0, across - 36)
        self._add(Text(block.left + 18, top + 27, title, 15.0, _INK, bold=True))
        room = across - 36 - width(title, 15.0)
        if width(counted, _SMALL) < room - 20:
            self._add(Text(block.right - 18, top + 27, counted, _SMALL, _SOFT, "end"))

    def _counted(self, side: Side, whose: str) -> str:
        models = {
            node.id.replace("triton.after.", "triton.model."): node.folded  # one model, twice
            for node in side.nodes
            if node.kind not in (REQUEST, ANSWER)
        }
        count = sum(models.values())
        noun = "operator" if whose == "merlin" else "model"
        counted = f"{count} {noun}{'s' if count != 1 else ''}"
        ensemble = whose == "triton" and "ensemble" in (self._picture.form or "")
        return f"ensemble of {counted}" if ensemble else counted

    def _correspond(self, left: _Block, right: _Block) -> None:
        """A dashed line from each operator to the model that does the same.

        A line goes behind the boxes between; dots at its ends say where it begins. The lines of one
        row lie one below the other: those of the inner boxes of the left side first.
        """
        pairs = [
            (first, second)
            for first, second in self._picture.correspondences
            if first in left.placed.centres and second in right.placed.centres
        ]
        if len(pairs) > _LINES:
            pairs = [pairs[0], pairs[-1]]
        rows: dict[int, list[tuple[str, str]]] = {}
        for pair in pairs:
            rows.setdefault(left.placed.rows[pair[0]], []).append(pair)
        for row in rows.values():
            row.sort(key=lambda pair: -left.placed.centres[pair[0]])
            for number, (first, second) in enumerate(row):
                shift = max(-20.0, min(20.0, (number - (len(row) - 1) / 2) * 8.0))
                (x1, y1), (x2, y2) = self._middle(left, first), self._middle(right, second)
                x1 += self._sizes[first].width / 2
                x2 -= self._sizes[second].width / 2
                y1, y2, bend = y1 + shift, y2 + shift, (x2 - x1) / 2
                curve = ((x1 + bend, y1), (x2 - bend, y2), (x2, y2))
                self._add(Curve((x1, y1), (curve,), _FAINT, 1.3, (4, 4)))
                self._dots += [Disc(x1, y1, 3, _SOFT), Disc(x2, y2, 3, _SOFT)]

    def _edges(self, block: _Block) -> None:
        out, into = _ports(block, self._sizes)
        for edge in block.side.edges:
            rows = block.placed.rows
            if rows[edge.source] >= rows[edge.target]:
                self._beside(block, edge)
                continue
            key = (edge.source, edge.target)
            x1, y1 = self._middle(block, edge.source)
            x2, y2 = self._middle(block, edge.target)
            x1 += out[key]
            x2 += into[key]
            y1 += self._sizes[edge.source].height / 2
            y2 -= self._sizes[edge.target].height / 2
            bends = [
                (x + block.offset, self._middles[row] + half * self._heights[row] / 2)
                for row, x in _bends(block, key)
                for half in (-1, 1)
            ]
            cast = any(flow.is_cast for flow in edge.flows)
            self._line([(x1, y1), *bends, (x2, y2 - 5)], _CAST if cast else _EDGE, edge.calls)
            self._add(
                Polygon(((x2, y2), (x2 - 4, y2 - 8), (x2 + 4, y2 - 8)), _CAST if cast else _EDGE)
            )
            label = self._edge_label(edge, block)
            if label:
                self._chip(label, x2, y2 - 19, _CAST if cast else _SOFT)

    def _beside(self, block: _Block, edge: Edge) -> None:
        """A call between boxes of one row."""
        (x1, y1), (x2, y2) = self._middle(block, edge.source), self._middle(block, edge.target)
        way = 1 if x2 > x1 else -1
        x1 += way * self._sizes[edge.source].width / 2
        x2 -= way * self._sizes[edge.target].width / 2
        self._line([(x1, y1), (x2, y2)], _EDGE, edge.calls)

    def _line(self, points: list[Point], colour: str, dashed: bool) -> None:
        segments = []
        for (x1, y1), (x2, y2) in pairwise(points):
            if abs(x2 - x1) < 0.5:
                segments.append(((x1, y1), (x2, y2), (x2, y2)))
                continue
            bend = (y2 - y1) * 0.5
            segments.append(((x1, y1 + bend), (x2, y2 - bend), (x2, y2)))
        self._add(Curve(points[0], tuple(segments), colour, 1.5, (6, 4) if dashed else None))

    def _edge_label(self, edge: Edge, block: _Block) -> str:
        """Casts, and which columns an edge carries when it is not all of them."""
        casts = [flow for flow in edge.flows if flow.is_cast]
        if casts:
            more = f" and {len(casts) - 1} more" if len(casts) > 1 else ""
            return f"{casts[0].target_name}: {casts[0].given} to {casts[0].wanted}{more}"
        if edge.calls:
            return "calls"
        source = next(node for node in block.side.nodes if node.id == edge.source)
        if not edge.flows or len(edge.flows) == len(source.outputs) or source.folded > 1:
            return ""
        names = [flow.source_name for flow in edge.flows]
        return ", ".join(names) if len(names) <= 2 else f"{len(names)} of {len(source.outputs)}"

    def _chip(self, label: str, x: float, y: float, colour: str) -> None:
        label = fitted(label, _SMALL - 1, 150)
        across = width(label, _SMALL - 1) + 12
        self._add(Box(x - across / 2, y - 8, across, 16, _PAPER, "#dfe4ea", 1, 8))
        self._add(Text(x, y + 3.5, label, _SMALL - 1, colour, "middle"))

    def _box(self, node: Node, x: float, y: float) -> None:
        content = self._contents[node.id]
        across, high = content.size.width, content.size.height
        left, top = x - across / 2, y - high / 2
        colour = _KINDS.get(node.kind, ("#64748b", ""))[0]
        if node.folded > 1:
            self._add(Box(left + 5, top + 5, across, high, _PAPER, colour, 1.2, 6))
        self._add(Box(left, top, across, high, colour, None, 0, 6))
        self._add(Box(left + 5, top + 1.2, across - 6.2, high - 2.4, _PAPER, None, 0, 5))
        self._add(Box(left, top, across, high, None, colour, 1.2, 6))
        line = top + _PAD + 9
        self._add(Text(left + 5 + _PAD, line, content.title, _HEAD, _INK, bold=True))
        for detail in content.details:
            line += _LINE - 1
            self._add(Text(left + 5 + _PAD, line, detail, _SMALL, _SOFT))
        if content.rows:
            line += 8
            rule = (
                (left + 5 + _PAD, line),
                (left + across - _PAD, line),
                (left + across - _PAD, line),
            )
            self._add(Curve((left + 5 + _PAD, line), (rule,), "#e3e8ee", 1))
            line -= 1
        for name, kind in content.rows:
            line += _LINE
            self._add(Text(left + 5 + _PAD, line, name, _BODY, _INK if kind else _SOFT))
            self._add(Text(left + across - _PAD, line, kind, _SMALL, _SOFT, "end"))
        if node.id in self._picture.refused_at:
            self._add(Box(left - 3, top - 3, across + 6, high + 6, None, _REFUSED, 2, 8))
        for place_of, number in enumerate(self._badges.get(node.id, ())):
            centre = left + across - 6 - place_of * 21
            self._badge(centre, top, number)

    def _badge(self, x: float, y: float, number: int) -> None:
        self._add(Disc(x, y, 9.5, _PAPER), Disc(x, y, 8.5, _INK))
        self._add(Text(x, y + 3.6, str(number), 10.0, _PAPER, "middle", bold=True))

    def _foot(self, y: float) -> float:
        """The key, then reasons, refusal and notes in words; where they end."""
        y = self._key(y)
        room = self._width - 2 * _MARGIN
        if self._picture.refusal is not None:
            y = self._words(y, f"Refused: {self._picture.refusal}", room, _REFUSED, lines=8)
        reasons = _numbered(self._picture)
        for number, reason in reasons[:_REASONS]:
            if number is not None:
                self._badge(_MARGIN + 9, y - 4, number)
            else:
                self._add(Disc(_MARGIN + 9, y - 4, 2.5, _SOFT))
            y = self._words(y, reason.text, room - 28, _INK, indent=28)
        if len(reasons) > _REASONS:
            rest = f"… {len(reasons) - _REASONS} more reasons: explain --format text lists them"
            y = self._words(y, rest, room - 28, _SOFT, indent=28)
        for note in self._picture.notes[:_REASONS]:
            y = self._words(y, f"Note: {note}", room, _SOFT)
        return y + _MARGIN - 16

    def _words(
        self, y: float, text: str, room: float, colour: str, indent: float = 0, lines: int = 4
    ) -> float:
        for line in wrapped(text, _BODY, min(room, 1100.0), lines):
            self._add(Text(_MARGIN + indent, y, line, _BODY, colour))
            y += _LINE
        return y + 5

    def _key(self, y: float) -> float:
        kinds = dict.fromkeys(
            node.kind for side in self._picture.sides for node in side.nodes if node.kind in _KINDS
        )
        words = dict.fromkeys(_KINDS[kind] for kind in kinds if _KINDS[kind][1])
        x = _MARGIN
        for colour, word in words:
            across = 18 + width(word, _SMALL) + 20
            if x + across > self._width - _MARGIN:
                x, y = _MARGIN, y + _LINE
            self._add(Box(x, y - 10, 12, 12, colour, None, 0, 3))
            self._add(Text(x + 18, y, word, _SMALL, _SOFT))
            x += across
        return y + 28 if words else y


def _content(node: Node, listed: int) -> _Content:
    """The box's words; listed: how many tensors are named, 0 for their number alone."""
    most = _BOX_MOST - 2 * _PAD - 5
    title = fitted(node.title, _HEAD, most)
    details = [fitted(node.detail, _SMALL, most)] if node.detail else []
    if node.kind in ("step", "ensemble", "model") and node.model:
        wanted = f"from {node.model}" if node.folded == 1 else ""
        details += [fitted(wanted, _SMALL, most)] if wanted else []
    if node.workflow is not None:
        details.append(fitted(node.workflow.mark, _SMALL, most))
    if node.within:
        details.append(fitted(f"inside {' / '.join(node.within)}", _SMALL, most))
    rows = _rows(node.outputs, listed, most)
    widths = [width(title, _HEAD) + 12, *(width(detail, _SMALL) for detail in details)]
    widths += [
        width(name, _BODY) + (22 + width(kind, _SMALL) if kind else 0) for name, kind in rows
    ]
    across = min(_BOX_MOST, max(_BOX_LEAST, *(known + 2 * _PAD + 5 for known in widths)))
    high = 2 * _PAD + 10 + (_LINE - 1) * len(details) + (_LINE * len(rows) + 8 if rows else 0)
    return _Content(title, tuple(details), tuple(rows), Size(across, high))


def _rows(tensors: tuple[Tensor, ...], listed: int, most: float) -> list[tuple[str, str]]:
    if not tensors:
        return []
    if listed == 0:
        return [(f"{len(tensors)} column{'s' if len(tensors) != 1 else ''}", "")]
    shown = tensors if len(tensors) <= listed + 1 else tensors[:listed]
    rows = []
    for tensor in shown:
        kind = fitted(_kind(tensor), _SMALL, most * 0.45)
        rows.append((fitted(tensor.name, _BODY, most - width(kind, _SMALL) - 22), kind))
    if len(shown) < len(tensors):
        rows.append((f"… {len(tensors) - len(shown)} more", ""))
    return rows


def _kind(tensor: Tensor) -> str:
    shape = "" if tensor.shape is None else f" {list(tensor.shape)}".replace(" ", "")
    ragged = " list" if tensor.ragged else ""
    return f"{tensor.dtype or '?'}{' ' + shape if shape else ''}{ragged}"


def _badges(picture: Picture) -> dict[str, tuple[int, ...]]:
    """The numbers of the reasons at each box, the last on the left."""
    found: dict[str, list[int]] = {}
    for number, reason in _numbered(picture):
        if number is not None:
            for node in reason.nodes:
                found.setdefault(node, []).append(number)
    return {node: tuple(reversed(numbers[:_BADGES])) for node, numbers in found.items()}


def _numbered(picture: Picture) -> list[tuple[int | None, Reason]]:
    """Reasons for the whole first and without a number, then those for places; like ones joined."""
    joined: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in picture.reasons:
        subject, colon, cause = one.text.partition(": ")
        key = (cause if colon else one.text, one.nodes)
        joined.setdefault(key, []).append(subject if colon else "")
    reasons = [
        Reason(f"{_listing(subjects)}{cause}", nodes) for (cause, nodes), subjects in joined.items()
    ]
    overall: list[tuple[int | None, Reason]] = [(None, one) for one in reasons if not one.nodes]
    return overall + list(enumerate((one for one in reasons if one.nodes), start=1))


def _listing(subjects: list[str]) -> str:
    named = "; ".join(subjects[:_SUBJECTS])
    rest = f" and {len(subjects) - _SUBJECTS} more" if len(subjects) > _SUBJECTS else ""
    return f"{named}{rest}: " if named else ""


def _ports(
    block: _Block, sizes: Mapping[str, Size]
) -> tuple[dict[tuple[str, str], float], dict[tuple[str, str], float]]:
    """Where edges leave and enter, from the box's middle: in the order of where they go."""
    out: dict[tuple[str, str], float] = {}
    into: dict[tuple[str, str], float] = {}
    for mine, found, whose, other in _ends(block, out, into):
        mine.sort(key=lambda key: _next_x(block, key, whose, other))
        room = sizes[mine[0][whose]].width * 0.6
        places = list(dict.fromkeys(_port(block, key, whose) for key in mine))
        step = min(34.0, room / max(1, len(places) - 1))
        for key in mine:
            number = places.index(_port(block, key, whose))
            found[key] = (number - (len(places) - 1) / 2) * step
    return out, into


def _ends(
    block: _Block, out: dict[tuple[str, str], float], into: dict[tuple[str, str], float]
) -> Iterator[tuple[list[tuple[str, str]], dict[tuple[str, str], float], int, int]]:
    for node in block.side.nodes:
        keys = [(edge.source, edge.target) for edge in block.side.edges]
        leaving = [key for key in keys if key[0] == node.id]
        entering = [key for key in keys if key[1] == node.id]
        if leaving:
            yield leaving, out, 0, 1
        if entering:
            yield entering, into, 1, 0


def _bends(block: _Block, key: tuple[str, str]) -> list[tuple[int, float]]:
    return [bend for bend in block.placed.routes.get(key, []) if bend[0] in block.full_rows]


def _port(block: _Block, key: tuple[str, str], whose: int) -> object:
    """Edges that leave one box for one bend leave it as one."""
    bends = _bends(block, key)
    return bends[0] if bends and whose == 0 else key


def _next_x(block: _Block, key: tuple[str, str], whose: int, other: int) -> float:
    route = _bends(block, key)
    if route:
        return route[0][1] if whose == 0 else route[-1][1]
    return block.placed.centres[key[other]]
