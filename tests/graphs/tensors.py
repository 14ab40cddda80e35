"""Tensors as v2's binary form has them, in files that both environments read.

A case is a directory:

    repository/     what Ensemble.export wrote
    case.json       seed, the model to ask, features, and what is random in the answer
    requests.json   a list of lists of tensors
    answers.json    what the executor itself answers: {"load": error or null, "answers": [...]}

A tensor's bytes are those of the v2 protocol's binary extension, in base64, so that every NaN and
every string arrives as itself.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Tensors = dict[str, Any]

DATATYPES = {
    "bool": "BOOL",
    "int8": "INT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "uint8": "UINT8",
    "uint16": "UINT16",
    "uint32": "UINT32",
    "uint64": "UINT64",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "object": "BYTES",
}
NUMPY_TYPES = {datatype: name for name, datatype in DATATYPES.items()}
REPOSITORY, CASE, REQUESTS, ANSWERS = "repository", "case.json", "requests.json", "answers.json"


def datatype(array: Any) -> str:
    """The array's data type in v2's words."""
    return DATATYPES[array.dtype.name]


def to_bytes(array: Any) -> bytes:
    """Little-endian in C order; each string with its length in front."""
    if array.dtype != np.object_:
        return bytes(np.ascontiguousarray(array).tobytes())
    texts = [text if isinstance(text, bytes) else str(text).encode() for text in array.reshape(-1)]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def from_bytes(content: bytes, datatype: str, shape: list[int]) -> Any:
    """What to_bytes wrote; strings are bytes objects."""
    if datatype != "BYTES":
        return np.frombuffer(content, dtype=NUMPY_TYPES[datatype]).reshape(shape).copy()
    texts, place = [], 0
    while place < len(content):
        (size,) = struct.unpack_from("<I", content, place)
        texts.append(content[place + 4 : place + 4 + size])
        place += 4 + size
    array: Any = np.empty(len(texts), dtype=np.object_)
    array[:] = texts
    return array.reshape(shape)


def to_json(tensors: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A list of tensors for a file."""
    return [
        {
            "name": name,
            "datatype": datatype(array),
            "shape": list(array.shape),
            "bytes": base64.b64encode(to_bytes(array)).decode(),
        }
        for name, array in tensors.items()
    ]


def from_json(tensors: list[dict[str, Any]]) -> Tensors:
    """What to_json made."""
    return {
        tensor["name"]: from_bytes(
            base64.b64decode(tensor["bytes"]), tensor["datatype"], tensor["shape"]
        )
        for tensor in tensors
    }


@dataclass(frozen=True)
class Answer:
    """Tensors, or the sentence of an error."""

    tensors: Tensors | None
    error: str = ""


@dataclass(frozen=True)
class Answers:
    """What one way of serving made of a case. load_error: empty if it loaded."""

    load_error: str
    answers: tuple[Answer, ...] = ()

    @property
    def served(self) -> int:
        """How many requests were answered with tensors."""
        return sum(answer.tensors is not None for answer in self.answers)


def served_version(directory: Path) -> int:
    """Of a model in a repository, the latest version that holds a file.

    An export with another version than 1 has one that holds none beside the executor's own.
    """
    versions = [
        int(path.name)
        for path in directory.iterdir()
        if path.name.isdigit() and any(file.is_file() for file in path.iterdir())
    ]
    return max(versions)


def read_case(directory: Path) -> dict[str, Any]:
    """case.json."""
    found: dict[str, Any] = json.loads((directory / CASE).read_text())
    return found


def write_requests(directory: Path, requests: list[Tensors]) -> None:
    """requests.json."""
    (directory / REQUESTS).write_text(json.dumps([to_json(request) for request in requests]))


def read_requests(directory: Path) -> list[Tensors]:
    """requests.json."""
    return [from_json(request) for request in json.loads((directory / REQUESTS).read_text())]


def write_answers(directory: Path, answers: Answers) -> None:
    """answers.json."""
    listed = [
        {"error": answer.error} if answer.tensors is None else {"tensors": to_json(answer.tensors)}
        for answer in answers.answers
    ]
    document = {"load_error": answers.load_error, "answers": listed}
    (directory / ANSWERS).write_text(json.dumps(document))


def read_answers(directory: Path) -> Answers:
    """answers.json."""
    document = json.loads((directory / ANSWERS).read_text())
    listed = [
        Answer(from_json(answer["tensors"]))
        if "tensors" in answer
        else Answer(None, answer["error"])
        for answer in document["answers"]
    ]
    return Answers(document["load_error"], tuple(listed))
