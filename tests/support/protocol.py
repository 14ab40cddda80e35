"""Requests of the v2 protocol to the small models, and what their answers say."""

from __future__ import annotations

import json
from collections.abc import Sequence

import httpx
import numpy as np

BINARY = "application/vnd.sagemaker-triton.binary+json"


def infer(data: Sequence[float], name: str = "IN") -> dict[str, object]:
    """A request with one FP32 vector."""
    return {"inputs": [{"name": name, "datatype": "FP32", "shape": [len(data)], "data": [*data]}]}


def binary(data: Sequence[float]) -> tuple[bytes, int]:
    """The same in the binary form, OUT wanted in it too; and the size of the JSON in front."""
    tensor = np.array(data, dtype="<f4").tobytes()
    head = {
        "inputs": [
            {
                "name": "IN",
                "datatype": "FP32",
                "shape": [len(data)],
                "parameters": {"binary_data_size": len(tensor)},
            }
        ],
        "outputs": [{"name": "OUT", "parameters": {"binary_data": True}}],
    }
    text = json.dumps(head).encode()
    return text + tensor, len(text)


def sized(size: object) -> str:
    """The binary media type with a size of the JSON part."""
    return f"{BINARY};json-header-size={size}"


def values(answer: httpx.Response, output: str = "OUT") -> list[object]:
    """The data of one output of an answer, which must be a 200 in JSON."""
    assert answer.status_code == 200, answer.text
    tensors = {tensor["name"]: tensor["data"] for tensor in answer.json()["outputs"]}
    return list(tensors[output])


def binary_values(answer: httpx.Response, output: str = "OUT") -> list[float]:
    """The data of the one output of a binary answer; the media type must tell the JSON's size."""
    assert answer.status_code == 200, answer.text
    media, _, size = answer.headers["content-type"].partition(";json-header-size=")
    assert media == BINARY
    head, tensor = answer.content[: int(size)], answer.content[int(size) :]
    (described,) = json.loads(head)["outputs"]
    assert described["name"] == output
    assert described["parameters"]["binary_data_size"] == len(tensor)
    return [float(number) for number in np.frombuffer(tensor, dtype="<f4")]


def complaint(answer: httpx.Response) -> str:
    """The sentence of an error, whose body must have the contract's shape."""
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert list(body) == ["error"], body
    sentence = body["error"]
    assert isinstance(sentence, str)
    assert sentence
    assert "\n" not in sentence
    return sentence
