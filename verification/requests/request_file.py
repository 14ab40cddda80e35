"""A file of requests: one request of the v2 protocol as JSON, or a list of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ensemble_tools.answers.exchange import TensorRequest, make_tensor
from ensemble_tools.answers.tensors import NUMPY_TYPES, Tensor
from verification.errors import RequestsUnusable

_A_REQUEST = (
    'a request of the v2 protocol, {"inputs": [{"name": …, "datatype": …, "shape": …, "data": …}]},'
    " or a list of them"
)


def read_requests(path: Path) -> tuple[TensorRequest, ...]:
    """The requests of the file, in order; raises RequestsUnusable."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestsUnusable(
            path, "", f"it cannot be read ({error.strerror})", "a file of JSON"
        ) from error
    except (ValueError, RecursionError) as error:
        raise RequestsUnusable(path, "", f"it is no JSON ({error})", _A_REQUEST) from error
    listed = content if isinstance(content, list) else [content]
    if not listed:
        raise RequestsUnusable(path, "", "an empty list", _A_REQUEST)
    return tuple(_read_request(path, number, request) for number, request in enumerate(listed, 1))


def _read_request(path: Path, number: int, content: Any) -> TensorRequest:
    where = f"request {number}"
    inputs = content.get("inputs") if isinstance(content, dict) else None
    if not isinstance(inputs, list) or not inputs:
        raise RequestsUnusable(path, where, "no list `inputs` in it", _A_REQUEST)
    tensors: dict[str, Tensor] = {}
    for tensor in inputs:
        name = tensor.get("name") if isinstance(tensor, dict) else None
        if not isinstance(name, str):
            raise RequestsUnusable(path, where, "an input without a name", _A_REQUEST)
        tensors[name] = _read_tensor(path, f"{where}, input {name!r}", tensor)
    return TensorRequest(f"{where} of {path.name}", tensors)


def _read_tensor(path: Path, where: str, content: dict[str, Any]) -> Tensor:
    data_type, shape, data = (content.get(key) for key in ("datatype", "shape", "data"))
    if data_type not in NUMPY_TYPES:
        expected = f"one of {', '.join(NUMPY_TYPES)}"
        raise RequestsUnusable(path, where, f"the datatype {data_type!r}", expected)
    if not isinstance(shape, list) or not all(_is_size(size) for size in shape):
        raise RequestsUnusable(path, where, f"the shape {shape!r}", "a list of sizes such as [5]")
    if not isinstance(data, list):
        raise RequestsUnusable(path, where, "no list `data`", "the values as JSON, nested or flat")
    try:
        return Tensor(str(data_type), make_tensor(data, str(data_type), shape))
    except (TypeError, ValueError, OverflowError) as error:
        raise RequestsUnusable(
            path, where, f"its data do not fit ({error})", f"{data_type} values for shape {shape}"
        ) from error


def _is_size(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 0
