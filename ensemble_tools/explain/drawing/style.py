"""What boxes, lines and words look like: colours, sizes of letters, and distances in pixels."""

from __future__ import annotations

from ensemble_tools.explain.picture import ANSWER, REQUEST

INK, SOFT, FAINT, PAPER = "#1c2430", "#5b6673", "#aab4c0", "#ffffff"
EDGE, CAST = "#7d8996", "#c2410c"
PANELS = {"merlin": ("#f3f8e8", "#d3e2b4"), "triton": ("#eef4fb", "#c6d9f0")}
#: What a box is: the colour of its edge, and what the key calls it.
KINDS = {
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
FORMS = {
    "pure ensemble": "#3f7d20",
    "the only step itself": "#3f7d20",
    "ensemble with generated steps": "#b45309",
    "executor": "#b45309",
    "as delivered": "#2563eb",
}
REFUSED = "#b91c1c"

TITLE, HEAD, BODY, SMALL = 22.0, 13.5, 12.0, 11.0
MARGIN, PAD, ROW_GAP, GUTTER = 28.0, 11.0, 46.0, 76.0
LINE = 17.0
BOX_LEAST, BOX_MOST = 150.0, 290.0
SIDE_WIDTH = 1700.0
HEAD_HEIGHT, PANEL_HEAD = 74.0, 44.0
