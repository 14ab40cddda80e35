"""Picture -> Drawing: every box, line and word, in its place and colour."""

from __future__ import annotations

from itertools import pairwise

from ensemble_tools.explain.drawing.box_contents import fit_contents
from ensemble_tools.explain.drawing.lettering import drawable, fitted, width, wrapped
from ensemble_tools.explain.drawing.numbered_reasons import badge_numbers, number_reasons
from ensemble_tools.explain.drawing.shapes import (
    Box,
    Curve,
    Disc,
    Drawing,
    Point,
    Polygon,
    Shape,
    Text,
)
from ensemble_tools.explain.drawing.sheet_layout import Panel, edge_ports, lay_out
from ensemble_tools.explain.drawing.style import (
    BODY,
    CAST,
    EDGE,
    FAINT,
    FORMS,
    HEAD,
    HEAD_HEIGHT,
    INK,
    KINDS,
    LINE,
    MARGIN,
    PAD,
    PANELS,
    PAPER,
    REFUSED,
    SMALL,
    SOFT,
    TITLE,
)
from ensemble_tools.explain.errors import NotDrawable
from ensemble_tools.explain.fold import folded
from ensemble_tools.explain.picture import (
    ANSWER,
    REQUEST,
    Edge,
    Node,
    Picture,
    Side,
)

#: Boxes after folding; beyond it nobody finds anything.
MOST_DRAWN = 1500
#: What is shown of longer lists: reasons, lines between the sides. _LISTED: up to so many boxes of
#: a side, so many columns of each (0: their number).
_REASONS, _LINES = 14, 60
_LISTED = ((16, 6), (40, 3), (MOST_DRAWN, 0))


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
            node.id: fit_contents(node, listed) for side in picture.sides for node in side.nodes
        }
        self._sizes = {name: content.size for name, content in self._contents.items()}
        self._layout = lay_out(picture, self._sizes)
        self._width = self._layout.width
        self._badges = badge_numbers(picture)
        self._shapes: list[Shape] = []
        self._dots: list[Disc] = []

    def drawing(self) -> Drawing:
        panels = self._layout.panels
        self._head()
        for panel in panels:
            self._panel(panel)
        if len(panels) == 2:
            self._correspond(*panels)
        for panel in panels:
            self._edges(panel)
        for panel in panels:
            for node in panel.side.nodes:
                self._box(node, *self._layout.middle(panel, node.id))
        self._add(*self._dots)
        end = self._foot(self._layout.bottom + 26)
        paper = Box(0.5, 0.5, self._width - 1, end - 1, PAPER, "#d5dbe2", 1, 10)
        return Drawing(
            self._width, end, (paper, *self._shapes), self._heading(), self._description()
        )

    def _add(self, *shapes: Shape) -> None:
        self._shapes.extend(shapes)

    def _heading(self) -> str:
        return drawable(f"{self._picture.model_name}: {self._picture.form or 'refused'}")

    def _description(self) -> str:
        """For those who cannot see it."""
        parts = [f"{side.title}: {len(side.nodes)} boxes" for side in self._picture.sides]
        reasons = (reason.text for _, reason in number_reasons(self._picture)[:_REASONS])
        return drawable("; ".join([*parts, *reasons]))

    def _head(self) -> None:
        picture, y = self._picture, MARGIN + 18
        name = fitted(picture.model_name, TITLE, self._width * 0.45)
        self._add(Text(MARGIN, y, name, TITLE, INK, bold=True))
        form = f"served as {picture.form}" if picture.form else "refused"
        x, colour = MARGIN + width(name, TITLE) + 16, FORMS.get(picture.form or "", REFUSED)
        across = width(form, BODY) + 22
        self._add(Box(x, y - 17, across, 23, colour, None, 0, 11.5))
        self._add(Text(x + across / 2, y - 1, form, BODY, PAPER, "middle"))
        path = fitted(picture.archive, SMALL, self._width - 2 * MARGIN)
        self._add(Text(MARGIN, y + 22, path, SMALL, SOFT))

    def _panel(self, panel: Panel) -> None:
        side_name = panel.side.nodes[0].id.partition(".")[0] if panel.side.nodes else "triton"
        fill, stroke = PANELS[side_name]
        top = MARGIN + HEAD_HEIGHT - 18
        across = panel.right - panel.left
        self._add(Box(panel.left, top, across, self._layout.bottom - top, fill, stroke, 1, 10))
        caption = self._caption(panel.side, side_name)
        title = fitted(panel.side.title, 15.0, across - 36)
        self._add(Text(panel.left + 18, top + 27, title, 15.0, INK, bold=True))
        room = across - 36 - width(title, 15.0)
        if width(caption, SMALL) < room - 20:
            self._add(Text(panel.right - 18, top + 27, caption, SMALL, SOFT, "end"))

    def _caption(self, side: Side, side_name: str) -> str:
        models = {
            node.id.replace("triton.after.", "triton.model."): node.folded  # one model, twice
            for node in side.nodes
            if node.kind not in (REQUEST, ANSWER)
        }
        count = sum(models.values())
        noun = "operator" if side_name == "merlin" else "model"
        counted = f"{count} {noun}{'s' if count != 1 else ''}"
        ensemble = side_name == "triton" and "ensemble" in (self._picture.form or "")
        return f"ensemble of {counted}" if ensemble else counted

    def _correspond(self, left: Panel, right: Panel) -> None:
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
                x1, y1 = self._layout.middle(left, first)
                x2, y2 = self._layout.middle(right, second)
                x1 += self._sizes[first].width / 2
                x2 -= self._sizes[second].width / 2
                y1, y2, bend = y1 + shift, y2 + shift, (x2 - x1) / 2
                curve = ((x1 + bend, y1), (x2 - bend, y2), (x2, y2))
                self._add(Curve((x1, y1), (curve,), FAINT, 1.3, (4, 4)))
                self._dots += [Disc(x1, y1, 3, SOFT), Disc(x2, y2, 3, SOFT)]

    def _edges(self, panel: Panel) -> None:
        leaving, entering = edge_ports(panel, self._sizes)
        for edge in panel.side.edges:
            rows = panel.placed.rows
            if rows[edge.source] >= rows[edge.target]:
                self._beside(panel, edge)
                continue
            key = (edge.source, edge.target)
            x1, y1 = self._layout.middle(panel, edge.source)
            x2, y2 = self._layout.middle(panel, edge.target)
            x1 += leaving[key]
            x2 += entering[key]
            y1 += self._sizes[edge.source].height / 2
            y2 -= self._sizes[edge.target].height / 2
            bends = [
                (x + panel.offset, self._layout.middles[row] + half * self._layout.heights[row] / 2)
                for row, x in panel.bends(key)
                for half in (-1, 1)
            ]
            cast = any(flow.is_cast for flow in edge.flows)
            self._line([(x1, y1), *bends, (x2, y2 - 5)], CAST if cast else EDGE, edge.calls)
            self._add(
                Polygon(((x2, y2), (x2 - 4, y2 - 8), (x2 + 4, y2 - 8)), CAST if cast else EDGE)
            )
            label = self._edge_label(edge, panel)
            if label:
                self._chip(label, x2, y2 - 19, CAST if cast else SOFT)

    def _beside(self, panel: Panel, edge: Edge) -> None:
        """A call between boxes of one row."""
        x1, y1 = self._layout.middle(panel, edge.source)
        x2, y2 = self._layout.middle(panel, edge.target)
        way = 1 if x2 > x1 else -1
        x1 += way * self._sizes[edge.source].width / 2
        x2 -= way * self._sizes[edge.target].width / 2
        self._line([(x1, y1), (x2, y2)], EDGE, edge.calls)

    def _line(self, points: list[Point], colour: str, dashed: bool) -> None:
        segments = []
        for (x1, y1), (x2, y2) in pairwise(points):
            if abs(x2 - x1) < 0.5:
                segments.append(((x1, y1), (x2, y2), (x2, y2)))
                continue
            bend = (y2 - y1) * 0.5
            segments.append(((x1, y1 + bend), (x2, y2 - bend), (x2, y2)))
        self._add(Curve(points[0], tuple(segments), colour, 1.5, (6, 4) if dashed else None))

    def _edge_label(self, edge: Edge, panel: Panel) -> str:
        """Casts, and which columns an edge carries when it is not all of them."""
        casts = [flow for flow in edge.flows if flow.is_cast]
        if casts:
            more = f" and {len(casts) - 1} more" if len(casts) > 1 else ""
            first = casts[0]
            return f"{first.target_name}: {first.source_dtype} to {first.target_dtype}{more}"
        if edge.calls:
            return "calls"
        source = next(node for node in panel.side.nodes if node.id == edge.source)
        if not edge.flows or len(edge.flows) == len(source.outputs) or source.folded > 1:
            return ""
        names = [flow.source_name for flow in edge.flows]
        return ", ".join(names) if len(names) <= 2 else f"{len(names)} of {len(source.outputs)}"

    def _chip(self, label: str, x: float, y: float, colour: str) -> None:
        label = fitted(label, SMALL - 1, 150)
        across = width(label, SMALL - 1) + 12
        self._add(Box(x - across / 2, y - 8, across, 16, PAPER, "#dfe4ea", 1, 8))
        self._add(Text(x, y + 3.5, label, SMALL - 1, colour, "middle"))

    def _box(self, node: Node, x: float, y: float) -> None:
        content = self._contents[node.id]
        across, high = content.size.width, content.size.height
        left, top = x - across / 2, y - high / 2
        colour = KINDS.get(node.kind, ("#64748b", ""))[0]
        if node.folded > 1:
            self._add(Box(left + 5, top + 5, across, high, PAPER, colour, 1.2, 6))
        self._add(Box(left, top, across, high, colour, None, 0, 6))
        self._add(Box(left + 5, top + 1.2, across - 6.2, high - 2.4, PAPER, None, 0, 5))
        self._add(Box(left, top, across, high, None, colour, 1.2, 6))
        line = top + PAD + 9
        self._add(Text(left + 5 + PAD, line, content.title, HEAD, INK, bold=True))
        for detail in content.details:
            line += LINE - 1
            self._add(Text(left + 5 + PAD, line, detail, SMALL, SOFT))
        if content.rows:
            line += 8
            rule = (
                (left + 5 + PAD, line),
                (left + across - PAD, line),
                (left + across - PAD, line),
            )
            self._add(Curve((left + 5 + PAD, line), (rule,), "#e3e8ee", 1))
            line -= 1
        for name, kind in content.rows:
            line += LINE
            self._add(Text(left + 5 + PAD, line, name, BODY, INK if kind else SOFT))
            self._add(Text(left + across - PAD, line, kind, SMALL, SOFT, "end"))
        if node.id in self._picture.refused_at:
            self._add(Box(left - 3, top - 3, across + 6, high + 6, None, REFUSED, 2, 8))
        for place_of, number in enumerate(self._badges.get(node.id, ())):
            centre = left + across - 6 - place_of * 21
            self._badge(centre, top, number)

    def _badge(self, x: float, y: float, number: int) -> None:
        self._add(Disc(x, y, 9.5, PAPER), Disc(x, y, 8.5, INK))
        self._add(Text(x, y + 3.6, str(number), 10.0, PAPER, "middle", bold=True))

    def _foot(self, y: float) -> float:
        """The key, then reasons, refusal and notes in words; where they end."""
        y = self._key(y)
        room = self._width - 2 * MARGIN
        if self._picture.refusal is not None:
            y = self._words(y, f"Refused: {self._picture.refusal}", room, REFUSED, lines=8)
        reasons = number_reasons(self._picture)
        for number, reason in reasons[:_REASONS]:
            if number is not None:
                self._badge(MARGIN + 9, y - 4, number)
            else:
                self._add(Disc(MARGIN + 9, y - 4, 2.5, SOFT))
            y = self._words(y, reason.text, room - 28, INK, indent=28)
        if len(reasons) > _REASONS:
            rest = f"… {len(reasons) - _REASONS} more reasons: explain --format text lists them"
            y = self._words(y, rest, room - 28, SOFT, indent=28)
        for note in self._picture.notes[:_REASONS]:
            y = self._words(y, f"Note: {note}", room, SOFT)
        return y + MARGIN - 16

    def _words(
        self, y: float, text: str, room: float, colour: str, indent: float = 0, lines: int = 4
    ) -> float:
        for line in wrapped(text, BODY, min(room, 1100.0), lines):
            self._add(Text(MARGIN + indent, y, line, BODY, colour))
            y += LINE
        return y + 5

    def _key(self, y: float) -> float:
        kinds = dict.fromkeys(
            node.kind for side in self._picture.sides for node in side.nodes if node.kind in KINDS
        )
        words = dict.fromkeys(KINDS[kind] for kind in kinds if KINDS[kind][1])
        x = MARGIN
        for colour, word in words:
            across = 18 + width(word, SMALL) + 20
            if x + across > self._width - MARGIN:
                x, y = MARGIN, y + LINE
            self._add(Box(x, y - 10, 12, 12, colour, None, 0, 3))
            self._add(Text(x + 18, y, word, SMALL, SOFT))
            x += across
        return y + 28 if words else y
