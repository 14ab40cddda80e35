"""Requests of the v2 protocol: a file of JSON, one or a list of them, or a data capture."""

from __future__ import annotations

import argparse
import json
import struct
from io import BytesIO
from pathlib import Path
from reprlib import repr as shorten
from typing import Any

from ensemble_tools.answers.exchange import TensorRequest, make_tensor, read_bytes
from ensemble_tools.answers.tensors import NUMPY_TYPES, Tensor
from verification.errors import RequestsUnusable
from verification.requests.capture_file import (
    CapturedRequest,
    add_unclosed,
    is_capture,
    read_capture,
)

#: Of the option --requests.
REQUESTS_HELP = (
    "JSON: one inference request of the v2 protocol, or a list of them; or a data capture: a file "
    "NAME.jsonl or NAME.jsonl.gz, or a directory of them, of one target model"
)
_REQUESTS = "a file of JSON, or a data capture: NAME.jsonl, NAME.jsonl.gz or a directory of them"
_A_REQUEST = (
    'a request of the v2 protocol, {"inputs": [{"name": …, "datatype": …, "shape": …, "data": …}]},'
    " or a list of them"
)


def parse_requests(text: str) -> Path:
    """Of the option --requests. Raises ArgumentTypeError for an address, and for no path."""
    if not text:
        raise argparse.ArgumentTypeError(f"the path is empty; expected {_REQUESTS}")
    if text.startswith("s3://"):
        copy = f"copy it first: aws s3 sync {text} DIR"
        raise argparse.ArgumentTypeError(f"{text} is no path; {copy}")
    if "://" in text and not Path(text).exists():
        raise argparse.ArgumentTypeError(f"{text} is no path; download it first")
    return Path(text)


def read_requests(path: Path) -> tuple[TensorRequest, ...]:
    """The requests of the file or capture, in order; raises RequestsUnusable."""
    if not path.exists():
        none = add_unclosed("there is no such file or directory", path)
        raise RequestsUnusable(path, "", none, _REQUESTS)
    if is_capture(path):
        return tuple(map(_read_captured, read_capture(path)))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RequestsUnusable(
            path, "", f"it cannot be read ({error.strerror})", _REQUESTS
        ) from error
    except (ValueError, RecursionError) as error:
        raise RequestsUnusable(path, "", f"it is no JSON ({error})", _A_REQUEST) from error
    listed = content if isinstance(content, list) else [content]
    if not listed:
        raise RequestsUnusable(path, "", "an empty list", _A_REQUEST)
    return tuple(
        _read_request(path, f"request {number}", request)
        for number, request in enumerate(listed, 1)
    )


def _read_captured(captured: CapturedRequest) -> TensorRequest:
    path, where, head_size = captured.path, captured.where, captured.head_size
    try:
        content = json.loads(captured.body[:head_size])
    except (ValueError, RecursionError) as error:
        found = f"the request is no JSON ({error})"
        raise RequestsUnusable(path, where, found, _A_REQUEST) from error
    return _read_request(path, where, content, captured.body[head_size:])


def _read_request(path: Path, where: str, content: Any, binary: bytes = b"") -> TensorRequest:
    """binary: the bytes of tensors that have none in the JSON."""
    inputs = content.get("inputs") if isinstance(content, dict) else None
    if not isinstance(inputs, list) or not inputs:
        raise RequestsUnusable(path, where, "no list `inputs` in it", _A_REQUEST)
    tensors: dict[str, Tensor] = {}
    unread = BytesIO(binary)
    for tensor in inputs:
        name = tensor.get("name") if isinstance(tensor, dict) else None
        if not isinstance(name, str):
            raise RequestsUnusable(path, where, "an input without a name", _A_REQUEST)
        if name in tensors:
            raise RequestsUnusable(path, where, f"two inputs {name!r}", _A_REQUEST)
        tensors[name] = _read_tensor(path, f"{where}, input {name!r}", tensor, unread)
    return TensorRequest(f"{where} of {path.name}", tensors)


def _read_tensor(path: Path, where: str, content: dict[str, Any], binary: BytesIO) -> Tensor:
    data_type, shape = content.get("datatype"), content.get("shape")
    data: Any = content.get("data")
    if not isinstance(data_type, str) or data_type not in NUMPY_TYPES:
        expected = f"one of {', '.join(NUMPY_TYPES)}"
        raise RequestsUnusable(path, where, f"the datatype {shorten(data_type)}", expected)
    if not isinstance(shape, list) or not all(_is_size(size) for size in shape):
        raise RequestsUnusable(
            path, where, f"the shape {shorten(shape)}", "a list of sizes such as [5]"
        )
    parameters = content.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if not isinstance(data, list) and not _is_size(size):
        raise RequestsUnusable(path, where, "no list `data`", "the values as JSON, nested or flat")
    try:
        if _is_size(size):
            return Tensor(data_type, read_bytes(binary.read(size), data_type, shape))
        return Tensor(data_type, make_tensor(data, data_type, shape))
    except (TypeError, ValueError, OverflowError, RecursionError, struct.error) as error:
        raise RequestsUnusable(
            path, where, f"its data do not fit ({error})", f"{data_type} values for shape {shape}"
        ) from error


def _is_size(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 0
