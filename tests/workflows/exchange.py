"""What passes between the two interpreters: tensors in a file, without pickle.

A case is a directory:

    workflow/         what Workflow.save wrote; or graph.json, as later NVTabulars write it
    config.pbtxt      what merlin-systems' exporter wrote for it
    inputs.json       of each tensor that Triton would take: name, data_type (TYPE_...), dims
    description.txt   the graph in words
    requests.bin      a list of requests, each a dict of name and array
    answers.bin       of each request what the original answers: such a dict, or an error's text
    compiled/         the program and its tables, where it is compiled

Strings are arrays of dtype object that hold bytes, as Triton's Python backend has them.
A file is eight bytes that hold the length of a JSON header, the header, then all arrays' bytes one
after the other; strings each with its length in four bytes in front.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Tensors = dict[str, Any]
#: Tensors, or the text of an error: its class and message.
Answer = dict[str, Any] | str

WORKFLOW, CONFIG, INPUTS = "workflow", "config.pbtxt", "inputs.json"
DESCRIPTION, REQUESTS, ANSWERS = "description.txt", "requests.bin", "answers.bin"
COMPILED = "compiled"
#: Where the generator keeps the workflow as graph.json, until that is a case of its own.
NO_PICKLE = "no_pickle"

#: Ways of operators that differ from the others.
VARIANTS = (
    "Categorify combo",
    "Categorify joint",
    "Categorify buckets",
    "Categorify single table",
    "Categorify of lists",
    "Categorify of texts",
    "Groupby on two",
    "Groupby in an order",
    "JoinExternal of lists",
    "JoinExternal with gaps",
    "JoinGroupby on two",
    "ListSlice filled up",
    "TargetEncoding with folds",
)

#: Cases whose columns bear the names that NVTabular uses while it works (names.py).
HOSTILE_NAMES = "hostile names"
#: Cases in which operators are in a graph of their own.
SUBGRAPH = "Subgraph"
#: Cases of which an operator reads lists that a function made.
LISTS_OF_FUNCTIONS = "lists of functions"

BYTES = "bytes"
#: What Triton's Python backend takes as a tensor, beside object arrays and np.bytes_ itself.
NUMBERS = frozenset({"bool", "float16", "float32", "float64"}) | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}


def to_bytes(array: Any) -> bytes:
    """Little-endian in C order; each string with its length in front, as Triton writes it."""
    if array.dtype.kind not in "OSU":
        return bytes(np.ascontiguousarray(array).tobytes())
    texts = [text if isinstance(text, bytes) else str(text).encode() for text in array.reshape(-1)]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def from_bytes(content: bytes, dtype: str, shape: Sequence[int]) -> Any:
    """What to_bytes wrote; strings are bytes objects."""
    if dtype != BYTES:
        return np.frombuffer(content, dtype=dtype).reshape(shape).copy()
    texts, place = [], 0
    while place < len(content):
        (size,) = struct.unpack_from("<I", content, place)
        texts.append(content[place + 4 : place + 4 + size])
        place += 4 + size
    array: Any = np.empty(len(texts), dtype=np.object_)
    array[:] = texts
    return array.reshape(shape)


def sent(name: str, array: Any) -> Any:
    """The array as pb_utils.Tensor takes it and the caller gets it. Raises what that raises."""
    dtype = array.dtype
    if dtype == np.object_:
        texts = [one if isinstance(one, bytes) else str(one).encode() for one in array.reshape(-1)]
        made: Any = np.empty(len(texts), dtype=np.object_)
        made[:] = texts
        return made.reshape(array.shape)
    if dtype.name not in NUMBERS:
        raise RuntimeError(
            f"Unable to cast Python instance of type <class 'NoneType'> to C++ type: the array "
            f"for tensor '{name}' is of dtype {dtype}"
        )
    return np.array(array, order="C")


def write_requests(path: Path, requests: Sequence[Tensors]) -> None:
    """A file of several requests."""
    write_answers(path, requests)


def read_requests(path: Path) -> list[Tensors]:
    """What write_requests wrote."""
    found = read_answers(path)
    return [request for request in found if not isinstance(request, str)]


def write_answers(path: Path, answers: Sequence[Answer]) -> None:
    """A file of several answers."""
    contents: list[bytes] = []
    listed = [
        answer if isinstance(answer, str) else _described(answer, contents) for answer in answers
    ]
    header = json.dumps(listed).encode()
    path.write_bytes(b"".join([struct.pack("<Q", len(header)), header, *contents]))


def read_answers(path: Path) -> list[Answer]:
    """What write_answers wrote."""
    whole = path.read_bytes()
    (size,) = struct.unpack_from("<Q", whole)
    place = 8 + size
    answers: list[Answer] = []
    for described in json.loads(whole[8:place]):
        if isinstance(described, str):
            answers.append(described)
            continue
        tensors: Tensors = {}
        for name, dtype, shape, length in described:
            tensors[name] = from_bytes(whole[place : place + length], dtype, shape)
            place += length
        answers.append(tensors)
    return answers


def _described(tensors: Mapping[str, Any], contents: list[bytes]) -> list[list[Any]]:
    """Of each array its name, dtype, shape and length; its bytes are put at the end of contents."""
    described = []
    for name, array in tensors.items():
        content = to_bytes(array)
        dtype = BYTES if array.dtype.kind in "OSU" else array.dtype.str
        described.append([name, dtype, list(array.shape), len(content)])
        contents.append(content)
    return described
