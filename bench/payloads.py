"""Requests to the identity models, and what their answers must hold."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Triton's own frontend and the container understand this media type; Triton's HTTP port has a
#: header instead.
_BINARY = "application/vnd.sagemaker-triton.binary+json"
_JSON_SIZE = "Inference-Header-Content-Length"

#: Units in the last place. tritonserver's JSON parser is not correctly rounded: FP64 of 16 and 17
#: digits may arrive so far off at the rival and the limit (seen on 2.51).
_OFF_BY = 2

#: float32 sums in another order differ in the last digits.
TOLERANCE = 1e-6

_DTYPES = {
    "FP32": np.float32,
    "FP64": np.float64,
    "INT64": np.int64,
    "INT32": np.int32,
    "INT8": np.int8,
    "BOOL": np.bool_,
}
#: A list column of rows of any length: their values one after the other, and where each begins.
_VALUES, _OFFSETS = "__values", "__offsets"


@dataclass(frozen=True)
class Tensor:
    """values have its shape; texts are objects."""

    name: str
    datatype: str
    values: NDArray[Any]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)


@dataclass(frozen=True)
class Payload:
    """A body, and the right answer to it.

    outputs must be equal bit for bit; floats may be off by the tolerance, relative to each value.
    json_size: of the JSON at the front, where the rest of the body is binary.
    """

    body: bytes
    outputs: tuple[Tensor, ...]
    tolerance: float = 0.0
    json_size: int | None = None

    def headers(self, sagemaker: bool) -> dict[str, str]:
        """As SageMaker's contract wants them, or as Triton's HTTP port does."""
        if self.json_size is None:
            return {"Content-Type": "application/json"}
        if sagemaker:
            return {"Content-Type": f"{_BINARY};json-header-size={self.json_size}"}
        return {"Content-Type": "application/octet-stream", _JSON_SIZE: str(self.json_size)}

    def find_fault(self, headers: Mapping[str, str], body: bytes, exact: bool = True) -> str | None:
        """What is wrong with an answer's tensors, or None; header names are lower case.

        Not exact: FP64 may be off by what tritonserver's parser is.
        """
        media, _, size = headers.get("content-type", "").partition(";json-header-size=")
        size = size if media == _BINARY else headers.get(_JSON_SIZE.lower(), "")
        if self.json_size is not None and not size:
            return "an answer in JSON to a request for binary"
        head = int(size) if size else len(body)
        outputs, tail = json.loads(body[:head])["outputs"], body[head:]
        expected = {tensor.name: tensor for tensor in self.outputs}
        if {output["name"] for output in outputs} != set(expected):
            return f"outputs {sorted(output['name'] for output in outputs)}"
        for output in outputs:  # binary values come in their order
            tensor = expected[output["name"]]
            if (output["datatype"], tuple(output["shape"])) != (tensor.datatype, tensor.shape):
                return f"{tensor.name}: {output['datatype']} {output['shape']}"
            values, tail = _split_off(output, tail)
            if not self._agree(values, tensor.values.reshape(-1), exact):
                return f"{tensor.name}: other values than expected"
        return None

    def _agree(self, answer: NDArray[Any], expected: NDArray[Any], exact: bool) -> bool:
        if self.tolerance and answer.shape == expected.shape and expected.dtype.kind == "f":
            return bool(np.allclose(answer, expected, rtol=self.tolerance, atol=1e-12))
        if expected.dtype == np.float64 and answer.dtype == np.float64 and not exact:
            return bool((abs(answer - expected) <= _OFF_BY * np.spacing(expected)).all())
        if expected.dtype == np.object_:
            return bool(answer.tolist() == expected.tolist())
        return bool(answer.dtype == expected.dtype and answer.tobytes() == expected.tobytes())

    def with_answer(self, headers: Mapping[str, str], body: bytes, tolerance: float) -> Payload:
        """The same request, with an answer to it in binary as the right one."""
        head = int(headers["content-type"].partition(";json-header-size=")[2])
        tail, tensors = body[head:], []
        for output in json.loads(body[:head])["outputs"]:
            values, tail = _split_off(output, tail)
            shaped = values.reshape(output["shape"])
            tensors.append(Tensor(output["name"], output["datatype"], shaped))
        return replace(self, outputs=tuple(tensors), tolerance=tolerance)


def make_small() -> Payload:
    """70 bytes of JSON: two FP32 values."""
    return encode_array("FP32", np.array([1, 2], np.float32))


def make_json(datatype: str, count: int, *, columns: int | None = None) -> Payload:
    """Random values as JSON; with columns a matrix, in nested lists. The same at each call."""
    values = _draw(datatype, count)
    return encode_array(datatype, values.reshape(-1, columns) if columns else values)


def make_features(count: int, rows: int) -> Payload:
    """FP32 columns IN_0, IN_1 ..., one value a row; the answer has them side by side."""
    columns = _draw("FP32", count * rows).reshape(count, rows, 1)
    tensors = [Tensor(f"IN_{number}", "FP32", column) for number, column in enumerate(columns)]
    return _encode_json(tensors, Tensor("OUT", "FP32", columns[:, :, 0].T))


def make_strings(count: int) -> Payload:
    """Ids in ASCII without escapes."""
    ids = np.random.default_rng(7).integers(10**6, 10**7, count).tolist()
    return encode_array("BYTES", np.array([f"user-{number}" for number in ids], dtype=np.object_))


def make_long_string(size: int) -> Payload:
    """One string of so many letters: a picture or a document in base64."""
    text = base64.b64encode(np.random.default_rng(7).bytes(size * 3 // 4)).decode()
    return encode_array("BYTES", np.array([text], dtype=np.object_))


def encode_array(datatype: str, values: NDArray[Any]) -> Payload:
    """The values as JSON numbers: FP32 as the doubles they are, with up to 17 digits."""
    return _encode_json([Tensor("IN", datatype, values)], Tensor("OUT", datatype, values))


def make_binary(size: int) -> Payload:
    """FP32 values of so many bytes in the binary form; the answer is asked for in it too."""
    values = _draw("FP32", size // 4)
    answer = {"outputs": [{"name": "OUT", "parameters": {"binary_data": True}}]}
    payload = encode_binary([Tensor("IN", "FP32", values)], answer)
    return replace(payload, outputs=(Tensor("OUT", "FP32", values),))


def read_request(path: Path) -> tuple[Tensor, ...]:
    """A request in JSON, its tensors as numpy has them."""
    return tuple(map(_read_tensor, json.loads(path.read_text("utf-8"))["inputs"]))


def read_example(directory: Path, tolerance: float = TOLERANCE) -> Payload:
    """An export's request.json, and its expected.json, which Merlin computed."""
    outputs = json.loads((directory / "expected.json").read_text())["outputs"]
    body = (directory / "request.json").read_bytes()
    return Payload(body, tuple(map(_read_tensor, outputs)), tolerance)


def repeat_rows(
    tensors: Iterable[Tensor], count: int, group: str | None = None
) -> tuple[Tensor, ...]:
    """So many of a request's rows, from the first again when there are no more.

    group: the column by which a model groups its rows; then there are so many groups, each with a
    number of its own.
    """
    columns = {tensor.name: tensor for tensor in tensors}
    if group is not None:
        return _repeat_groups(columns, count, columns[group])
    repeated: list[Tensor] = []
    for name, tensor in columns.items():
        stem = name.removesuffix(_VALUES)
        if stem != name:
            repeated += _repeat_lists(tensor, columns[stem + _OFFSETS], count)
        elif not name.endswith(_OFFSETS):
            rows: NDArray[Any] = np.arange(count) % len(tensor.values)
            repeated.append(replace(tensor, values=tensor.values[rows]))
    return tuple(repeated)


def _repeat_lists(values: Tensor, offsets: Tensor, count: int) -> tuple[Tensor, Tensor]:
    starts = offsets.values.reshape(-1)
    rows = np.split(values.values.reshape(-1), starts[1:-1])
    lists = [rows[index % len(rows)] for index in range(count)]
    ends = np.cumsum([0, *map(len, lists)]).astype(starts.dtype)
    return replace(values, values=np.concatenate(lists)), replace(offsets, values=ends)


def _repeat_groups(columns: Mapping[str, Tensor], count: int, group: Tensor) -> tuple[Tensor, ...]:
    groups = group.values.reshape(-1)
    numbers = np.unique(groups)
    indices = [np.flatnonzero(groups == numbers[row % len(numbers)]) for row in range(count)]
    rows = np.concatenate(indices)
    own: NDArray[Any] = np.repeat(np.arange(1, count + 1), list(map(len, indices)))
    return tuple(
        replace(
            tensor,
            values=own.astype(groups.dtype) if tensor is group else tensor.values.reshape(-1)[rows],
        )
        for tensor in columns.values()
    )


def encode_binary(tensors: Iterable[Tensor], answer: Mapping[str, object] | None = None) -> Payload:
    """The tensors in the binary form; the right answer is not known.

    answer: how the request asks for it; by default for all outputs in binary.
    """
    inputs, parts = [], []
    for tensor in tensors:
        parts.append(_pack(tensor))
        size = {"binary_data_size": len(parts[-1])}
        inputs.append({**_describe(tensor), "parameters": size})
    request = {"inputs": inputs, **(answer or {"parameters": {"binary_data_output": True}})}
    head = json.dumps(request, separators=(",", ":")).encode()
    return Payload(head + b"".join(parts), (), json_size=len(head))


def _encode_json(tensors: Sequence[Tensor], answer: Tensor) -> Payload:
    inputs = []
    for tensor in tensors:
        numbers = tensor.values.astype(np.float64) if tensor.datatype == "FP32" else tensor.values
        inputs.append({**_describe(tensor), "data": numbers.tolist()})
    text = json.dumps({"inputs": inputs}, separators=(",", ":"), ensure_ascii=False)
    return Payload(text.encode(), (answer,))


def _describe(tensor: Tensor) -> dict[str, object]:
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}


def _pack(tensor: Tensor) -> bytes:
    if tensor.datatype != "BYTES":
        return bytes(tensor.values.tobytes())
    texts = [text.encode() for text in tensor.values.reshape(-1)]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def _read_tensor(tensor: Mapping[str, Any]) -> Tensor:
    values = _read_values(tensor, b"").reshape(tensor["shape"])
    return Tensor(tensor["name"], tensor["datatype"], values)


def _split_off(output: Mapping[str, Any], tail: bytes) -> tuple[NDArray[Any], bytes]:
    """An output's values, and the binary ones behind them."""
    if "data" in output:
        return _read_values(output, tail), tail
    size = output.get("parameters", {}).get("binary_data_size", len(tail))
    return _read_values(output, tail[:size]), tail[size:]


def _read_values(output: Mapping[str, Any], tail: bytes) -> NDArray[Any]:
    """Flat."""
    datatype = output["datatype"]
    if "data" not in output:
        return np.frombuffer(tail, _DTYPES[datatype])
    flat = output["data"]
    if datatype == "BYTES":
        return np.array(flat, dtype=np.object_)
    if datatype in ("BOOL", "INT64") and not all(
        type(value) is (bool if datatype == "BOOL" else int) for value in flat
    ):
        return np.array(flat, dtype=np.object_)  # equal to nothing of the type that is expected
    return np.array(flat, dtype=_DTYPES.get(datatype, np.float64)).reshape(-1)


def _draw(datatype: str, count: int) -> NDArray[Any]:
    source = np.random.default_rng(7)
    if datatype == "INT64":
        return source.integers(0, 10**10, count, dtype=np.int64)
    if datatype == "BOOL":
        return source.integers(0, 2, count).astype(np.bool_)
    if datatype == "BYTES":
        kinds = ("item-{}", "größe-{}", 'a "{}"', "user:{}")
        ids = source.integers(10**6, 10**7, count).tolist()
        texts = [kinds[index % 4].format(number) for index, number in enumerate(ids)]
        return np.array(texts, dtype=np.object_)
    return source.random(count, dtype=np.float64 if datatype == "FP64" else np.float32)
