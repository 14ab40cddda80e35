"""A picture as JSON, for programs. The schema is docs/explain-format.md.

`version` counts the changes that would break a reader.
"""

from __future__ import annotations

import json
from typing import Any

from ensemble_tools.explain.picture import Box, Edge, Picture, Side

FORMAT, VERSION = "merlin-sagemaker-explain", 1


def to_json(picture: Picture) -> str:
    """One object, indented; ASCII, so that any byte of a name survives any terminal."""
    return json.dumps(document(picture), indent=2) + "\n"


def document(picture: Picture) -> dict[str, Any]:
    """The object; lists are tuples in it."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "archive": picture.archive,
        "model_name": picture.model_name,
        "served_as": picture.form,
        "entry": picture.entry,
        "refusal": picture.refusal,
        "refused_at": picture.refused_at,
        "request": [vars(tensor) for tensor in picture.request],
        "answer": [vars(tensor) for tensor in picture.answer],
        "merlin": _side(picture.merlin),
        "triton": _side(picture.triton),
        "correspondences": [
            {"merlin": first, "triton": second} for first, second in picture.correspondences
        ],
        "reasons": [vars(reason) for reason in picture.reasons],
        "left_out": [vars(unread) for unread in picture.left_out],
        "notes": picture.notes,
    }


def _side(side: Side | None) -> dict[str, Any] | None:
    if side is None:
        return None
    return {
        "nodes": [_node(node) for node in side.nodes],
        "edges": [_edge(edge) for edge in side.edges],
    }


def _node(node: Box) -> dict[str, Any]:
    return {
        "id": node.id,
        "kind": node.kind,
        "title": node.title,
        "detail": node.detail,
        "model": node.model,
        "within": node.within,
        "outputs": [vars(tensor) for tensor in node.outputs],
        "workflow": None
        if node.workflow is None
        else {
            "compiled": not node.workflow.not_compiled,
            "operators": dict(node.workflow.operators),
            "reason": node.workflow.not_compiled or None,
            "kept": node.workflow.kept,
            "recognised": node.workflow.recognised or None,
            "pickle": node.workflow.pickled,
        },
    }


def _edge(edge: Edge) -> dict[str, Any]:
    return {
        "source": edge.source,
        "target": edge.target,
        "calls": edge.calls,
        "tensors": [
            {
                "source_name": flow.source_name,
                "target_name": flow.target_name,
                "given": flow.source_dtype,
                "wanted": flow.target_dtype,
            }
            for flow in edge.flows
        ],
    }
