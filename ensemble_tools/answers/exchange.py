"""Requests, answers and refusals, in and out of bytes. No I/O.

The binary form of the v2 protocol: a JSON head, then the tensors' bytes one after the other.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from ensemble_tools.answers.tensors import (
    NUMPY_TYPES,
    STRINGS,
    Array,
    Tensor,
    Tensors,
    encode_strings,
)

HEAD_SIZE_HEADER = b"inference-header-content-length"


@dataclass(frozen=True)
class TensorRequest:
    """A request to a form."""

    title: str
    tensors: Tensors
    #: Whether it should be answered; others may be refused.
    ordinary: bool = True
    #: None where that is unknown.
    rows: int | None = None


@dataclass(frozen=True)
class TensorAnswer:
    """Output name -> tensor."""

    tensors: Tensors


@dataclass(frozen=True)
class Refusal:
    """A request that was not answered."""

    message: str
    #: The model or tritonserver said that the request cannot be carried out. Otherwise it was an
    #: accident: no answer in time, or a process that died.
    judged: bool = True


Reply = TensorAnswer | Refusal


def encode(tensors: Tensors) -> tuple[bytes, bytes]:
    """Head and bytes of a request that wants a binary answer."""
    contents = [_to_bytes(tensor) for tensor in tensors.values()]
    inputs = [
        {
            "name": name,
            "datatype": tensor.data_type,
            "shape": list(tensor.shape),
            "parameters": {"binary_data_size": len(content)},
        }
        for (name, tensor), content in zip(tensors.items(), contents, strict=True)
    ]
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    return head, b"".join(contents)


def decode(body: bytes, head_size: int) -> dict[str, Tensor]:
    """The tensors of an answer, binary or JSON each; raises ValueError for what is none."""
    tensors, offset = {}, head_size
    for output in json.loads(body[:head_size])["outputs"]:
        data_type, shape = str(output["datatype"]), [int(size) for size in output["shape"]]
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            array = make_tensor(output["data"], data_type, shape)
        else:
            array = read_bytes(body[offset : offset + size], data_type, shape)
            offset += size
        tensors[str(output["name"])] = Tensor(data_type, array)
    return tensors


def make_tensor(values: list[Any], data_type: str, shape: list[int]) -> Array:
    """JSON's values, nested or flat, as an array; raises ValueError, TypeError or OverflowError."""
    flat = list(_flatten(values))
    if data_type == STRINGS:
        texts = [text.encode() for text in flat if isinstance(text, str)]
        if len(texts) < len(flat):
            raise TypeError("not all of its values are strings")
        return encode_strings(texts).reshape(shape)
    kind = np.dtype(NUMPY_TYPES[data_type])
    if any(not isinstance(value, int | float) for value in flat):
        raise TypeError("not all of its values are numbers")
    if kind.kind in "iu" and any(value != int(value) for value in flat):
        raise TypeError("not all of its values are whole numbers")
    return np.array(flat, dtype=kind).reshape(shape)


def _flatten(values: Any) -> Any:
    if not isinstance(values, list):
        yield values
        return
    for value in values:
        yield from _flatten(value)


def _to_bytes(tensor: Tensor) -> bytes:
    if tensor.data_type != STRINGS:
        return bytes(np.ascontiguousarray(tensor.array).tobytes())
    return b"".join(struct.pack("<I", len(text)) + text for text in tensor.array.reshape(-1))


def read_bytes(content: bytes, data_type: str, shape: list[int]) -> Array:
    """A binary tensor's bytes as an array; raises ValueError, struct.error."""
    if data_type == STRINGS:
        return encode_strings(list(_read_texts(content))).reshape(shape)
    if data_type == "BF16":  # numpy has no such type: the upper half of a float32
        halves = np.frombuffer(content, dtype=np.uint16).astype(np.uint32) << 16
        return halves.view(np.float32).reshape(shape)
    return np.frombuffer(content, dtype=NUMPY_TYPES[data_type]).reshape(shape)


def _read_texts(content: bytes) -> Any:
    offset = 0
    while offset < len(content):
        (size,) = struct.unpack_from("<I", content, offset)
        if size > len(content) - offset - 4:
            raise ValueError(f"a string of {size} bytes, of which {len(content) - offset - 4} came")
        yield content[offset + 4 : offset + 4 + size]
        offset += 4 + size
