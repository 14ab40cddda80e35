"""Requests to the identity models, and what their answers must hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
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

_DTYPES = {"FP32": np.float32, "FP64": np.float64, "INT64": np.int64, "BOOL": np.bool_}


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


@dataclass(frozen=True)
class Tensor:
    """One output: values are flat, in row order."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: NDArray[Any]


@dataclass(frozen=True)
class Expected:
    """Right values, equal bit for bit where tolerance is 0, else relative to each value."""

    outputs: tuple[Tensor, ...]
    tolerance: float = 0.0

    def fault(self, outputs: list[dict[str, Any]], tail: bytes, exact: bool) -> str | None:
        """What differs, or None; tail holds the values that are not in the JSON."""
        found = {output["name"]: output for output in outputs}
        if set(found) != {tensor.name for tensor in self.outputs}:
            return f"outputs {sorted(found)}"
        for tensor in self.outputs:
            got = found[tensor.name]
            if (got["datatype"], tuple(got["shape"])) != (tensor.datatype, tensor.shape):
                return f"{tensor.name}: {got['datatype']} {got['shape']}"
            values = _values(got, tail)
            if not self._agree(values, tensor.values, exact):
                return f"{tensor.name}: other values than expected"
        return None

    def _agree(self, found: NDArray[Any], expected: NDArray[Any], exact: bool) -> bool:
        if self.tolerance:
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
    expected = Expected((Tensor("OUT", "FP32", values.shape, values),))
    return Payload(head + tensor, expected, json_size=len(head))


def from_array(datatype: str, values: NDArray[Any], columns: int | None = None) -> Payload:
    """The values as JSON numbers: FP32 as the doubles they are, with up to 17 digits."""
    shaped = values.reshape(-1, columns) if columns else values
    written = shaped.astype(np.float64) if datatype == "FP32" else shaped
    tensor = {
        "name": "IN",
        "datatype": datatype,
        "shape": list(shaped.shape),
        "data": written.tolist(),
    }
    text = json.dumps({"inputs": [tensor]}, separators=(",", ":"), ensure_ascii=False)
    return Payload(text.encode(), Expected((Tensor("OUT", datatype, shaped.shape, values),)))


def from_example(directory: Path, tolerance: float) -> Payload:
    """An export's request.json, and its expected.json, which Merlin computed."""
    outputs = json.loads((directory / "expected.json").read_text())["outputs"]
    tensors = (
        Tensor(one["name"], one["datatype"], tuple(one["shape"]), _values(one, b""))
        for one in outputs
    )
    body = (directory / "request.json").read_bytes()
    return Payload(body, Expected(tuple(tensors), tolerance))


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
