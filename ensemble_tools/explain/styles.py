"""The colours of a picture's boxes, and the words that its key says of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BoxStyle:
    """The style of one kind of box."""

    fill: str
    line: str
    #: The words in the picture's key.
    meaning: str


STYLES = {
    "selection": BoxStyle("#f1f5f9", "#94a3b8", "chooses columns"),
    "call": BoxStyle("#f3f8e8", "#6a9a00", "calls a model"),
    "inline": BoxStyle("#fff7ed", "#d97706", "runs Python inside the executor"),
    "generated": BoxStyle("#fff7ed", "#d97706", "generated step"),
    "step": BoxStyle("#eef4fb", "#2563eb", "model of the archive"),
    "model": BoxStyle("#eef4fb", "#2563eb", "model of the archive"),
    "ensemble": BoxStyle("#eef4fb", "#1e3a8a", "ensemble of the archive"),
    "executor": BoxStyle("#fff7ed", "#b45309", "Merlin's executor"),
    "subgraph": BoxStyle("#f5f3ff", "#7c3aed", "holds a graph"),
}
#: Of the request and the answer.
PLAIN = BoxStyle("#ffffff", "#475569", "")
INK, SOFT, REFUSED = "#1c2430", "#5b6673", "#b91c1c"
