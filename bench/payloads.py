"""Requests to the identity models, and what their answers must hold."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterable, Mapping
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
class Payload:
    """A body, the size of the JSON at its front where the rest is binary, and the right answer."""

    body: bytes
    expected: Expected
    json_size: int | None = None

    def headers(self, sagemaker: bool) -> dict[str, str]:
        """As SageMaker's contract wants them, or as Triton's HTTP port does."""
        if self.json_size is None:
            return {"Content-Type": "application/json"}
        if sagemaker:
            return {"Content-Type": f"{_BINARY};json-header-size={self.json_size}"}
        return {"Content-Type": "application/octet-stream", _JSON_SIZE: str(self.json_size)}

    def fault(self, headers: Mapping[str, str], body: bytes, exact: bool = True) -> str | None:
        """What is wrong with an answer's tensors, or None; header names are lower case.

        Not exact: FP64 may be off by what tritonserver's parser is.
        """
        media, _, size = headers.get("content-type", "").partition(";json-header-size=")
        size = size if media == _BINARY else headers.get(_JSON_SIZE.lower(), "")
        head = int(size) if size else len(body)
        if self.json_size is not None and not size:
            return "an answer in JSON to a request for binary"
        return self.expected.fault(json.loads(body[:head])["outputs"], body[head:], exact)

    def answered(self, headers: Mapping[str, str], body: bytes, tolerance: float) -> Payload:
        """The same request, with an answer to it in binary as the right one."""
        head = int(headers["content-type"].partition(";json-header-size=")[2])
        tail, tensors = body[head:], []
        for output in json.loads(body[:head])["outputs"]:
            values, tail = _taken(output, tail)
            shape = tuple(output["shape"])
            tensors.append(PayloadTensor(output["name"], output["datatype"], shape, values))
        return replace(self, expected=Expected(tuple(tensors), tolerance))


@dataclass(frozen=True)
class PayloadTensor:
    """One output: values are flat, in row order."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: NDArray[Any]


@dataclass(frozen=True)
class Expected:
    """Right values, equal bit for bit; floats may be off by tolerance, relative to each value."""

    outputs: tuple[PayloadTensor, ...]
    tolerance: float = 0.0

    def fault(self, outputs: list[dict[str, Any]], tail: bytes, exact: bool) -> str | None:
        """What differs, or None; tail holds the values that are not in the JSON."""
        expected = {tensor.name: tensor for tensor in self.outputs}
        if {output["name"] for output in outputs} != set(expected):
            return f"outputs {sorted(output['name'] for output in outputs)}"
        for got in outputs:  # binary values come in their order
            tensor = expected[got["name"]]
            if (got["datatype"], tuple(got["shape"])) != (tensor.datatype, tensor.shape):
                return f"{tensor.name}: {got['datatype']} {got['shape']}"
            values, tail = _taken(got, tail)
            if not self._agree(values, tensor.values, exact):
                return f"{tensor.name}: other values than expected"
        return None

    def _agree(self, found: NDArray[Any], expected: NDArray[Any], exact: bool) -> bool:
        if self.tolerance and found.shape == expected.shape and expected.dtype.kind == "f":
            return bool(np.allclose(found, expected, rtol=self.tolerance, atol=1e-12))
        if expected.dtype == np.float64 and found.dtype == np.float64 and not exact:
            return bool((abs(found - expected) <= _OFF_BY * np.spacing(expected)).all())
        if expected.dtype == np.object_:
            return bool(found.tolist() == expected.tolist())
        return bool(found.dtype == expected.dtype and found.tobytes() == expected.tobytes())


def small() -> Payload:
    """70 bytes of JSON: two FP32 values."""
    return from_array("FP32", np.array([1, 2], np.float32))


def json_values(datatype: str, count: int, *, columns: int | None = None) -> Payload:
    """Random values as JSON; with columns a matrix, in nested lists. The same at each call."""
    return from_array(datatype, _random(datatype, count), columns)


def features(count: int, rows: int) -> Payload:
    """FP32 columns IN_0, IN_1 ..., one value a row; the answer has them side by side."""
    columns = _random("FP32", count * rows).reshape(count, rows, 1)
    tensors = [_described(f"IN_{n}", "FP32", column) for n, column in enumerate(columns)]
    expected = PayloadTensor("OUT", "FP32", (rows, count), columns[:, :, 0].T.reshape(-1))
    return Payload(_body(tensors), Expected((expected,)))


def plain_strings(count: int) -> Payload:
    """Ids in ASCII without escapes."""
    ids = np.random.default_rng(7).integers(10**6, 10**7, count).tolist()
    return from_array("BYTES", np.array([f"user-{number}" for number in ids], dtype=np.object_))


def long_string(size: int) -> Payload:
    """One string of so many letters: a picture or a document in base64."""
    text = base64.b64encode(np.random.default_rng(7).bytes(size * 3 // 4)).decode()
    return from_array("BYTES", np.array([text], dtype=np.object_))


def binary_bytes(size: int) -> Payload:
    """FP32 values of so many bytes in the binary form; the answer is wanted in it too."""
    values = _random("FP32", size // 4)
    tensor = values.astype("<f4").tobytes()
    described = {
        "name": "IN",
        "datatype": "FP32",
        "shape": [len(values)],
        "parameters": {"binary_data_size": len(tensor)},
    }
    wanted = [{"name": "OUT", "parameters": {"binary_data": True}}]
    head = json.dumps({"inputs": [described], "outputs": wanted}, separators=(",", ":")).encode()
    expected = Expected((PayloadTensor("OUT", "FP32", values.shape, values),))
    return Payload(head + tensor, expected, json_size=len(head))


def from_array(datatype: str, values: NDArray[Any], columns: int | None = None) -> Payload:
    """The values as JSON numbers: FP32 as the doubles they are, with up to 17 digits."""
    shaped = values.reshape(-1, columns) if columns else values
    body = _body([_described("IN", datatype, shaped)])
    return Payload(body, Expected((PayloadTensor("OUT", datatype, shaped.shape, values),)))


def read_request(path: Path) -> tuple[PayloadTensor, ...]:
    """A request in JSON, its tensors as numpy has them."""
    inputs = json.loads(path.read_text("utf-8"))["inputs"]
    return tuple(map(_read_tensor, inputs))


def batch(
    tensors: Iterable[PayloadTensor], count: int, group: str | None = None
) -> tuple[PayloadTensor, ...]:
    """So many of a request's rows, from the first again when they have all been taken.

    group: the column by which a model groups its rows; then so many groups are taken, each with a
    number of its own.
    """
    columns = {tensor.name: tensor for tensor in tensors}
    if group is not None:
        return _groups(columns, count, columns[group])
    taken: list[PayloadTensor] = []
    for name, tensor in columns.items():
        if name.endswith(_OFFSETS):
            continue
        stem = name.removesuffix(_VALUES)
        if stem != name:
            taken += _lists(tensor, columns[stem + _OFFSETS], count)
        else:
            rows = tensor.values.reshape(tensor.shape)
            chosen = rows[np.arange(count) % len(rows)]
            taken.append(PayloadTensor(name, tensor.datatype, chosen.shape, chosen.reshape(-1)))
    return tuple(taken)


def _lists(
    values: PayloadTensor, offsets: PayloadTensor, count: int
) -> tuple[PayloadTensor, PayloadTensor]:
    starts = offsets.values
    rows = np.split(values.values, starts[1:-1])
    chosen = [rows[place % len(rows)] for place in range(count)]
    joined = np.concatenate(chosen)
    ends = np.cumsum([0, *map(len, chosen)]).astype(starts.dtype)
    return (
        PayloadTensor(values.name, values.datatype, joined.shape, joined),
        PayloadTensor(offsets.name, offsets.datatype, ends.shape, ends),
    )


def _groups(
    columns: Mapping[str, PayloadTensor], count: int, group: PayloadTensor
) -> tuple[PayloadTensor, ...]:
    numbers = np.unique(group.values)
    places = [np.flatnonzero(group.values == numbers[row % len(numbers)]) for row in range(count)]
    rows = np.concatenate(places)
    own: NDArray[Any] = np.repeat(np.arange(1, count + 1), list(map(len, places)))
    return tuple(
        PayloadTensor(
            name,
            tensor.datatype,
            rows.shape,
            own.astype(tensor.values.dtype) if tensor is group else tensor.values[rows],
        )
        for name, tensor in columns.items()
    )


def encode_binary(tensors: Iterable[PayloadTensor]) -> Payload:
    """The tensors in the binary form; answers are wanted in it too. What is right is not known."""
    described, parts = [], []
    for tensor in tensors:
        part = _packed(tensor)
        size = {"binary_data_size": len(part)}
        described.append(
            {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": list(tensor.shape),
                "parameters": size,
            }
        )
        parts.append(part)
    request = {"inputs": described, "parameters": {"binary_data_output": True}}
    head = json.dumps(request, separators=(",", ":")).encode()
    return Payload(head + b"".join(parts), Expected(()), json_size=len(head))


def _packed(tensor: PayloadTensor) -> bytes:
    if tensor.datatype != "BYTES":
        return bytes(tensor.values.tobytes())
    texts = [text.encode() for text in tensor.values]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def read_example(directory: Path, tolerance: float = TOLERANCE) -> Payload:
    """An export's request.json, and its expected.json, which Merlin computed."""
    outputs = json.loads((directory / "expected.json").read_text())["outputs"]
    tensors = map(_read_tensor, outputs)
    body = (directory / "request.json").read_bytes()
    return Payload(body, Expected(tuple(tensors), tolerance))


def _read_tensor(tensor: Mapping[str, Any]) -> PayloadTensor:
    shape, values = tuple(tensor["shape"]), _values(tensor, b"")
    return PayloadTensor(tensor["name"], tensor["datatype"], shape, values)


def _described(name: str, datatype: str, values: NDArray[Any]) -> dict[str, Any]:
    written = values.astype(np.float64) if datatype == "FP32" else values
    shape = list(values.shape)
    return {"name": name, "datatype": datatype, "shape": shape, "data": written.tolist()}


def _body(tensors: list[dict[str, Any]]) -> bytes:
    text = json.dumps({"inputs": tensors}, separators=(",", ":"), ensure_ascii=False)
    return text.encode()


def _taken(output: Mapping[str, Any], tail: bytes) -> tuple[NDArray[Any], bytes]:
    """An output's values, and the binary ones behind them."""
    if "data" in output:
        return _values(output, tail), tail
    size = output.get("parameters", {}).get("binary_data_size", len(tail))
    return _values(output, tail[:size]), tail[size:]


def _values(output: Mapping[str, Any], tail: bytes) -> NDArray[Any]:
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


def _random(datatype: str, count: int) -> NDArray[Any]:
    source = np.random.default_rng(7)
    if datatype == "INT64":
        return source.integers(0, 10**10, count, dtype=np.int64)
    if datatype == "BOOL":
        return source.integers(0, 2, count).astype(np.bool_)
    if datatype == "BYTES":
        kinds = ("item-{}", "größe-{}", 'a "{}"', "user:{}")
        ids = source.integers(10**6, 10**7, count).tolist()
        words = [kinds[place % 4].format(number) for place, number in enumerate(ids)]
        return np.array(words, dtype=np.object_)
    return source.random(count, dtype=np.float64 if datatype == "FP64" else np.float32)
