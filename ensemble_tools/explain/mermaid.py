"""A picture as a Mermaid flowchart, for Markdown pages.

Names come from archives: in a label everything but letters, digits and harmless marks is written as
Mermaid's entity code (#code;), and ids are our own, so no name can end a label or add a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ensemble_tools.errors import shortened
from ensemble_tools.explain.fold import folded
from ensemble_tools.explain.picture import Box, DrawnTensor, Edge, Picture, Side, Workflow
from ensemble_tools.explain.styles import INK, STYLES

_LISTED = 6
_HARMLESS = re.compile(r"[A-Za-z0-9 _.,:()/-]")
_BREAK = "<br/>"


def mermaid(picture: Picture) -> str:
    """The picture as Mermaid's text."""
    return "\n".join(_lines(folded(picture))) + "\n"


def label(text: str) -> str:
    """The text as it may stand between quotes."""
    return "".join(
        char if _HARMLESS.fullmatch(char) else f"#{ord(char)};" for char in shortened(text)
    )


def _lines(picture: Picture) -> Iterator[str]:
    yield "flowchart LR"
    names = {
        node.id: f"n{number}"
        for number, node in enumerate(node for side in picture.sides for node in side.nodes)
    }
    for number, side in enumerate(picture.sides):
        yield from _side(side, f"side{number}", names)
    for first, second in picture.correspondences:
        yield f"  {names[first]} -.- {names[second]}"
    if picture.refusal is not None:
        yield f'  refused["refused: {label(picture.refusal)}"]'
    kinds = {node.kind for side in picture.sides for node in side.nodes} & STYLES.keys()
    for kind in sorted(kinds):
        style = STYLES[kind]
        yield f"  classDef kind_{kind} fill:{style.fill},stroke:{style.line},color:{INK}"


def _side(side: Side, name: str, names: dict[str, str]) -> Iterator[str]:
    yield f'  subgraph {name}["{label(side.title)}"]'
    yield "    direction TB"
    for node in side.nodes:
        yield f"    {names[node.id]}{_node(node)}"
    for edge in side.edges:
        yield f"    {names[edge.source]} {_arrow(edge)} {names[edge.target]}"
    yield "  end"


def _node(node: Box) -> str:
    lines = [label(node.title)] + ([label(node.detail)] if node.detail else [])
    lines += [_workflow(node.workflow)] if node.workflow else []
    lines += [_tensor(tensor) for tensor in node.outputs[:_LISTED]]
    if len(node.outputs) > _LISTED:
        lines.append(label(f"… {len(node.outputs) - _LISTED} more"))
    kind = f":::kind_{node.kind}" if node.kind in STYLES else ""
    text = _BREAK.join(lines)
    return f'["{text}"]{kind}' if kind else f'(["{text}"])'


def _workflow(workflow: Workflow) -> str:
    reasons = [workflow.not_compiled] if workflow.not_compiled else workflow.kept
    lines = [] if workflow.not_compiled and workflow.pickled else [workflow.mark]
    return _BREAK.join(
        label(line) for line in (*lines, *(f"not compiled: {reason}" for reason in reasons))
    )


def _tensor(tensor: DrawnTensor) -> str:
    shape = f" {list(tensor.shape)}" if tensor.shape is not None else ""
    return label(f"{tensor.name}: {tensor.dtype or '?'}{shape}{' list' if tensor.ragged else ''}")


def _arrow(edge: Edge) -> str:
    casts = [flow for flow in edge.flows if flow.is_cast]
    if casts:
        first = casts[0]
        types = f"{first.source_dtype} → {first.target_dtype}"
        return f'-->|"{label(f"{first.target_name}: {types}")}"|'
    if edge.calls:
        return '-.->|"calls"|'
    return f'-->|"{len(edge.flows)}"|' if edge.flows else "-->"
