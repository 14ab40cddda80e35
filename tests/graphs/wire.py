"""Requests and answers of the v2 protocol in its binary form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.graphs.tensors import Tensors, datatype, from_bytes, to_bytes


def request_body(request: Mapping[str, Any]) -> tuple[bytes, int]:
    """The body of a request that wants a binary answer, and the size of the JSON in front."""
    contents = [to_bytes(array) for array in request.values()]
    inputs = [
        {
            "name": name,
            "datatype": datatype(array),
            "shape": list(array.shape),
            "parameters": {"binary_data_size": len(content)},
        }
        for (name, array), content in zip(request.items(), contents, strict=True)
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    return head + b"".join(contents), len(head)


def answer_tensors(body: bytes, head_size: int) -> Tensors:
    """The tensors of a binary answer."""
    tensors, place = {}, head_size
    for output in json.loads(body[:head_size])["outputs"]:
        size = output["parameters"]["binary_data_size"]
        content = body[place : place + size]
        tensors[output["name"]] = from_bytes(content, output["datatype"], output["shape"])
        place += size
    return tensors
