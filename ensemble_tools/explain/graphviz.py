"""A picture as SVG or PNG, drawn by Graphviz: two frames of boxes, and the reasons in words below.

Names come from archives: `plain` writes everything but printable ASCII as an escape, and Graphviz's
own marks as HTML's, so no name can end a label, and each can be told from every other one.
"""

from __future__ import annotations

import html
import subprocess
import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from ensemble_tools.errors import EnsembleToolsError
from ensemble_tools.explain.fold import folded
from ensemble_tools.explain.picture import (
    ANSWER,
    REQUEST,
    Box,
    DrawnTensor,
    Edge,
    Picture,
    Reason,
    Side,
)
from ensemble_tools.explain.styles import INK, PLAIN, REFUSED, SOFT, STYLES

#: Seconds for a drawing; 500 operators, folded, take less than one.
TIMEOUT = 120.0
#: Letters of a name and of a type in a box, and of a line of the words below; lines of one reason.
_NAME, _TYPE, _WORDS, _LINES = 40, 24, 110, 4
#: What is shown of longer lists: reasons or notes, and dashed lines between the sides.
_REASONS, _PAIRS = 14, 60
#: What each reason is about, and numbers at one box.
_SUBJECTS, _BADGES = 3, 4
#: Up to so many boxes on a side, so many columns of each are named; of more they are counted.
_LISTED = ((16, 6), (40, 3))
#: A PNG has twice the pixels that CSS gives an inch, and at most 40 inches: 236 MB while drawn.
_OPTIONS = {"svg": (), "png": ("-Gdpi=192", "-Gsize=40,40")}

_FONT: Final = "Helvetica,Arial,sans-serif"
_FRAMES = {"merlin": ("#f7faf0", "#d3e2b4"), "triton": ("#f3f7fd", "#c6d9f0")}
_EDGE, _CAST, _FAINT = "#7d8996", "#c2410c", "#aab4c0"
_FORMS = {
    "pure ensemble": "#3f7d20",
    "the only step itself": "#3f7d20",
    "ensemble with generated steps": "#b45309",
    "executor": "#b45309",
    "as delivered": "#2563eb",
}


class NoGraphviz(EnsembleToolsError):
    """Pictures are for people's machines: where nothing is drawn, as in an image, it is not."""

    def __init__(self) -> None:
        super().__init__(
            "pictures are drawn by Graphviz, and there is no `dot` on the PATH; install it "
            "(apt-get install graphviz), or use --format text, json or mermaid"
        )


class GraphvizFailed(EnsembleToolsError):
    """Graphviz is there and draws nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(f"Graphviz's `dot`: {message}; use --format text, json or mermaid")


def draw(picture: Picture, format_name: str) -> bytes:
    """The picture as a file of this format, svg or png. Raises NoGraphviz, GraphvizFailed."""
    command = ["dot", f"-T{format_name}", *_OPTIONS[format_name]]
    written = dot(picture).encode()
    try:
        drawn = subprocess.run(command, input=written, capture_output=True, timeout=TIMEOUT)
    except FileNotFoundError:
        raise NoGraphviz from None
    except subprocess.TimeoutExpired:
        raise GraphvizFailed(f"took more than {TIMEOUT:g} s") from None
    if drawn.returncode != 0:
        raise GraphvizFailed(" ".join(drawn.stderr.decode(errors="replace").split()))
    return drawn.stdout


def dot(picture: Picture) -> str:
    """The picture in Graphviz's language."""
    picture = folded(picture)
    return "\n".join(_lines(picture)) + "\n"


def plain(text: str, most: int = _WORDS) -> str:
    """The text as a label holds it: the middle left out of what is longer, nothing but ASCII."""
    text = _escaped(text)
    if len(text) > most:
        text = f"{text[: most * 2 // 3]}…{text[-(most // 3) :]}"
    return _marked(text)


def _escaped(text: str) -> str:
    return "".join(
        char if char.isascii() and char.isprintable() else _as_escape(char) for char in text
    )


def _as_escape(char: str) -> str:
    return "…" if char == "…" else char.encode("unicode_escape").decode()


def _marked(text: str) -> str:
    """As HTML: Graphviz 2.43 misreads a ] at the end of a word, and takes \\ for an escape."""
    return html.escape(text).replace("\\", "&#92;").replace("]", "&#93;") or " "


def _lines(picture: Picture) -> Iterator[str]:
    names = {node.id: f"n{number}" for number, node in enumerate(_nodes(picture))}
    yield f'digraph "{plain(picture.model_name)}: {plain(picture.form or "refused")}" {{'
    yield f'  graph [newrank=true, nodesep=0.3, ranksep=0.45, pad=0.3, fontname="{_FONT}",'
    yield f"    fontsize=11, labelloc=b, labeljust=l, label=<{_foot(picture)}>]"
    yield f'  node [shape=box, style="rounded,filled", margin="0.1,0.06", fontname="{_FONT}",'
    yield f'    fontsize=11, fontcolor="{INK}", penwidth=1.3]'
    yield f'  edge [color="{_EDGE}", arrowsize=0.7, fontname="{_FONT}", fontsize=10]'
    yield "  subgraph cluster_all {"
    yield f"    pencolor=transparent; labelloc=t; label=<{_head(picture)}>"
    most = max((len(side.nodes) for side in picture.sides), default=0)
    listed = next((count for boxes, count in _LISTED if most <= boxes), 0)
    yield "    top [style=invis, shape=point, ordering=out]"
    for side in picture.sides:
        yield from _frame(side, picture, names, listed)
    for side in picture.sides:  # the first one is on the left, in every Graphviz
        yield f"    top -> {names[side.nodes[0].id]} [style=invis]"
    yield "  }"
    yield from _correspondences(picture, names)
    yield "}"


def _nodes(picture: Picture) -> Iterator[Box]:
    return (node for side in picture.sides for node in side.nodes)


def _frame(side: Side, picture: Picture, names: dict[str, str], listed: int) -> Iterator[str]:
    whose = side.nodes[0].id.partition(".")[0] if side.nodes else "triton"
    fill, line = _FRAMES[whose]
    title = f'<FONT POINT-SIZE="14"><B>{plain(side.title)}</B></FONT>'
    heading = _left(f"{title}   {_small(_caption(side, whose, picture.form or ''))}")
    yield f"    subgraph cluster_{whose} {{"
    yield f'      style="rounded,filled"; fillcolor="{fill}"; pencolor="{line}"; margin=14'
    yield f"      labeljust=l; label=<{_table([heading])}>"
    badges = _badge_numbers(picture)
    for node in side.nodes:
        style = STYLES.get(node.kind, PLAIN)
        pen = f'color="{REFUSED}", penwidth=3' if node.id in picture.refused_at else ""
        copies = "peripheries=2" if node.folded > 1 else ""
        shown = [f'fillcolor="{style.fill}"', pen or f'color="{style.line}"', copies]
        label = _box(node, badges.get(node.id, ()), listed)
        attributes = ", ".join(attribute for attribute in shown if attribute)
        yield f"      {names[node.id]} [{attributes}, label=<{label}>]"
    by_id = {node.id: node for node in side.nodes}
    for edge in side.edges:
        ends = f"{names[edge.source]} -> {names[edge.target]}"
        yield f"      {ends} [{_arrow(edge, by_id[edge.source])}]"
    yield "    }"


def _caption(side: Side, whose: str, form: str) -> str:
    models = {
        node.id.replace("triton.after.", "triton.model."): node.folded  # one model, twice
        for node in side.nodes
        if node.kind not in (REQUEST, ANSWER)
    }
    count = sum(models.values())
    noun = "operator" if whose == "merlin" else "model"
    counted = f"{count} {noun}{'s' if count != 1 else ''}"
    return f"ensemble of {counted}" if whose == "triton" and "ensemble" in form else counted


def _box(node: Box, badges: Iterable[int], listed: int) -> str:
    title = f'<FONT POINT-SIZE="13"><B>{plain(node.title, _NAME)}</B></FONT>'
    marks = "".join(_badge(number) for number in badges)
    rows = [f'<TR><TD ALIGN="LEFT">{title}</TD>{marks}</TR>']
    rows += [_left(_small(plain(detail, _NAME))) for detail in _details(node)]
    columns = _columns(node.outputs, listed)
    head = _table(rows)
    if not columns:
        return head
    return _table([f"<TR><TD>{head}</TD></TR>", "<HR/>", f"<TR><TD>{_table(columns)}</TD></TR>"])


def _details(node: Box) -> Iterator[str]:
    if node.detail:
        yield node.detail
    if node.kind in ("step", "ensemble", "model") and node.model and node.folded == 1:
        yield f"from {node.model}"
    if node.workflow is not None:
        yield node.workflow.mark
    if node.within:
        yield f"inside {' / '.join(node.within)}"


def _columns(tensors: tuple[DrawnTensor, ...], listed: int) -> list[str]:
    if not tensors:
        return []
    if listed == 0:
        return [_left(_small(f"{len(tensors)} column{'s' if len(tensors) != 1 else ''}"))]
    shown = tensors if len(tensors) <= listed + 1 else tensors[:listed]
    rows = [
        f'<TR><TD ALIGN="LEFT">{plain(tensor.name, _NAME)}</TD>'
        f'<TD ALIGN="RIGHT">{_small(plain(_type(tensor), _TYPE))}</TD></TR>'
        for tensor in shown
    ]
    more = len(tensors) - len(shown)
    return [*rows, _left(_small(f"… {more} more"))] if more else rows


def _type(tensor: DrawnTensor) -> str:
    shape = "" if tensor.shape is None else f" {list(tensor.shape)}".replace(" ", "")
    ragged = " list" if tensor.ragged else ""
    return f"{tensor.dtype or '?'}{' ' + shape if shape else ''}{ragged}"


def _arrow(edge: Edge, source: Box) -> str:
    """Casts, and which columns an edge carries when it is not all of them."""
    dashed = ", style=dashed" if edge.calls else ""
    casts = [flow for flow in edge.flows if flow.is_cast]
    if casts:
        more = f" and {len(casts) - 1} more" if len(casts) > 1 else ""
        first = casts[0]
        label = f"{first.target_name}: {first.source_dtype} to {first.target_dtype}{more}"
        return f'color="{_CAST}", fontcolor="{_CAST}", label=< {plain(label, _NAME)}>{dashed}'
    if edge.calls:
        return f'fontcolor="{SOFT}", label=< calls>{dashed}'
    if not edge.flows or len(edge.flows) == len(source.outputs) or source.folded > 1:
        return ""
    names = [flow.source_name for flow in edge.flows]
    label = ", ".join(names) if len(names) <= 2 else f"{len(names)} of {len(source.outputs)}"
    return f'fontcolor="{SOFT}", label=< {plain(label, _NAME)}>'


def _correspondences(picture: Picture, names: dict[str, str]) -> Iterator[str]:
    """A dashed line from each operator to the model that does the same, beside it if it can be."""
    pairs = [pair for pair in picture.correspondences if names.keys() >= set(pair)]
    if len(pairs) > _PAIRS:
        pairs = [pairs[0], pairs[-1]]
    for first, second in pairs:
        style = f'style=dashed, color="{_FAINT}", dir=both, arrowhead=dot, arrowtail=dot'
        ends = f"{names[first]} -> {names[second]}"
        yield f"  {ends} [minlen=0, weight=10, arrowsize=0.4, {style}]"


def _head(picture: Picture) -> str:
    colour = _FORMS.get(picture.form or "", REFUSED)
    form = plain(f"served as {picture.form}" if picture.form else "refused")
    name = f'<FONT POINT-SIZE="20"><B>{plain(picture.model_name, _NAME)}</B></FONT>'
    served = f'<FONT COLOR="{colour}" POINT-SIZE="13"><B>{form}</B></FONT>'
    return _table([_left(f"{name}   {served}"), _left(_small(plain(picture.archive)))])


def _foot(picture: Picture) -> str:
    """The key, then the refusal, reasons and notes in words."""
    kinds = dict.fromkeys(node.kind for node in _nodes(picture) if node.kind in STYLES)
    key = dict.fromkeys((STYLES[kind].line, STYLES[kind].meaning) for kind in kinds)
    rows = []
    if key:
        cells = [f'<FONT COLOR="{line}">■</FONT> {_small(lines)}' for line, lines in key]
        rows.append(_row("", "   ".join(cells)))
    if picture.refusal is not None:
        lines = _wrapped(f"Refused: {picture.refusal}", 2 * _LINES)
        rows.append(_row("", f'<FONT COLOR="{REFUSED}">{lines}</FONT>'))
    reasons = _number_reasons(picture)
    for number, reason in reasons[:_REASONS]:
        mark = f"<B>{number}</B>" if number is not None else "•"
        rows.append(_row(mark, _wrapped(reason.text)))
    if len(reasons) > _REASONS:
        rest = f"… {len(reasons) - _REASONS} more reasons: explain --format text lists them"
        rows.append(_row("", _small(rest)))
    for note in picture.notes[:_REASONS]:
        rows.append(_row("", _small(_wrapped(f"Note: {note}"))))
    return _table(rows)


def _badge_numbers(picture: Picture) -> dict[str, tuple[int, ...]]:
    """The numbers of the reasons at each box, the last on the left."""
    numbers_at: dict[str, list[int]] = {}
    for number, reason in _number_reasons(picture):
        if number is not None:
            for node in reason.nodes:
                numbers_at.setdefault(node, []).append(number)
    return {node: tuple(reversed(numbers[:_BADGES])) for node, numbers in numbers_at.items()}


def _number_reasons(picture: Picture) -> list[tuple[int | None, Reason]]:
    """Reasons for the whole first and without a number, then those for places; like ones joined."""
    joined: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for reason in picture.reasons:
        subject, colon, cause = reason.text.partition(": ")
        key = (cause if colon else reason.text, reason.nodes)
        joined.setdefault(key, []).append(subject if colon else "")
    reasons = [
        Reason(f"{_join_subjects(subjects)}{cause}", nodes)
        for (cause, nodes), subjects in joined.items()
    ]
    overall: list[tuple[int | None, Reason]] = [
        (None, reason) for reason in reasons if not reason.nodes
    ]
    return overall + list(enumerate((reason for reason in reasons if reason.nodes), start=1))


def _join_subjects(subjects: list[str]) -> str:
    named = "; ".join(subjects[:_SUBJECTS])
    rest = f" and {len(subjects) - _SUBJECTS} more" if len(subjects) > _SUBJECTS else ""
    return f"{named}{rest}: " if named else ""


def _wrapped(text: str, lines: int = _LINES) -> str:
    rows = textwrap.wrap(_escaped(text), _WORDS, max_lines=lines, placeholder=" …")
    return '<BR ALIGN="LEFT"/>'.join(_marked(row) for row in rows) + '<BR ALIGN="LEFT"/>'


def _row(mark: str, text: str) -> str:
    return f'<TR><TD VALIGN="TOP">{mark}</TD><TD ALIGN="LEFT" BALIGN="LEFT">{text}</TD></TR>'


def _left(text: str) -> str:
    return f'<TR><TD ALIGN="LEFT">{text}</TD></TR>'


def _badge(number: int) -> str:
    bold = f'<FONT COLOR="#ffffff" POINT-SIZE="9"><B> {number} </B></FONT>'
    return f'<TD STYLE="ROUNDED" BGCOLOR="{INK}">{bold}</TD>'


def _small(text: str) -> str:
    return f'<FONT COLOR="{SOFT}" POINT-SIZE="10">{text}</FONT>'


def _table(rows: list[str]) -> str:
    attributes = 'BORDER="0" CELLBORDER="0" CELLSPACING="2" CELLPADDING="1"'
    return f"<TABLE {attributes}>{''.join(rows)}</TABLE>" if rows else " "
