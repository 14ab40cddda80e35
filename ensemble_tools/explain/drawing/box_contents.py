"""The words of one box, cut to its size."""

from __future__ import annotations

from dataclasses import dataclass

from ensemble_tools.explain.drawing.layered_layout import Size
from ensemble_tools.explain.drawing.lettering import fitted, width
from ensemble_tools.explain.drawing.style import BODY, BOX_LEAST, BOX_MOST, HEAD, LINE, PAD, SMALL
from ensemble_tools.explain.picture import Node, Tensor


@dataclass(frozen=True)
class BoxContents:
    """The words of one box, cut to its size. rows: name, type."""

    title: str
    details: tuple[str, ...]
    rows: tuple[tuple[str, str], ...]
    size: Size


def fit_contents(node: Node, listed: int) -> BoxContents:
    """The box's words; listed: how many tensors are named, 0 for their number alone."""
    most = BOX_MOST - 2 * PAD - 5
    title = fitted(node.title, HEAD, most)
    details = [fitted(node.detail, SMALL, most)] if node.detail else []
    if node.kind in ("step", "ensemble", "model") and node.model:
        origin = f"from {node.model}" if node.folded == 1 else ""
        details += [fitted(origin, SMALL, most)] if origin else []
    if node.workflow is not None:
        details.append(fitted(node.workflow.mark, SMALL, most))
    if node.within:
        details.append(fitted(f"inside {' / '.join(node.within)}", SMALL, most))
    rows = _fit_rows(node.outputs, listed, most)
    widths = [width(title, HEAD) + 12, *(width(detail, SMALL) for detail in details)]
    widths += [width(name, BODY) + (22 + width(kind, SMALL) if kind else 0) for name, kind in rows]
    across = min(BOX_MOST, max(BOX_LEAST, *(known + 2 * PAD + 5 for known in widths)))
    high = 2 * PAD + 10 + (LINE - 1) * len(details) + (LINE * len(rows) + 8 if rows else 0)
    return BoxContents(title, tuple(details), tuple(rows), Size(across, high))


def _fit_rows(tensors: tuple[Tensor, ...], listed: int, most: float) -> list[tuple[str, str]]:
    if not tensors:
        return []
    if listed == 0:
        return [(f"{len(tensors)} column{'s' if len(tensors) != 1 else ''}", "")]
    shown = tensors if len(tensors) <= listed + 1 else tensors[:listed]
    rows = []
    for tensor in shown:
        kind = fitted(_describe_type(tensor), SMALL, most * 0.45)
        rows.append((fitted(tensor.name, BODY, most - width(kind, SMALL) - 22), kind))
    if len(shown) < len(tensors):
        rows.append((f"… {len(tensors) - len(shown)} more", ""))
    return rows


def _describe_type(tensor: Tensor) -> str:
    shape = "" if tensor.shape is None else f" {list(tensor.shape)}".replace(" ", "")
    ragged = " list" if tensor.ragged else ""
    return f"{tensor.dtype or '?'}{' ' + shape if shape else ''}{ragged}"
