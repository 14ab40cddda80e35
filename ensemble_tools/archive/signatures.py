"""Which tensors a model's file takes and gives, as far as the file itself says so.

ONNX and TensorFlow write names, types and shapes into their files, as their backends read them to
complete a config. forest_file.py and torchscript_file.py read files that say less.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ensemble_tools.archive.files import read_with
from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.archive.wire_format import Message, NotReadable, Span, open_message

#: Tensors in one direction; models have some ten.
_MAX_TENSORS = 1_000


@dataclass(frozen=True)
class Signature:
    """The tensors of a model in the file's order; dims: their whole shapes."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


def read_onnx(path: Path) -> Signature | None:
    """An ONNX file's tensors, None where one is unsaid; blocking. Raises as read_with does."""
    return read_with(path, partial(_read, _read_onnx))


def find_no_tensor(path: Path) -> str:
    """The first input or output of an ONNX file that is a sequence, a map or the like; empty
    where all are tensors. Raises as read_with does.
    """
    return read_with(path, _find_no_tensor) or ""


def read_external_files(path: Path) -> frozenset[str]:
    """The names of the files with an ONNX file's weights, as it has them; as read_onnx.

    Empty for one without such, and for what cannot be read.
    """
    return read_with(path, _read_external_files) or frozenset()


def read_saved_model(path: Path) -> Signature | None:
    """The tensors of a SavedModel's saved_model.pb, as read_onnx."""
    return read_with(path, partial(_read, _read_saved_model))


_Tensors = Iterable[TensorSpec | None]


def _read(
    read: Callable[[Message], tuple[_Tensors, _Tensors] | None], file: BinaryIO
) -> Signature | None:
    try:
        tensors = read(open_message(file))
        inputs, outputs = (_read_all(it) for it in tensors) if tensors else ((), ())
    except NotReadable:
        return None
    return Signature(inputs, outputs) if inputs and outputs else None


def _read_all(tensors: _Tensors) -> tuple[TensorSpec, ...]:
    """The tensors; none where one of them is not known."""
    known: dict[str, TensorSpec] = {}
    for tensor in tensors:
        if tensor is None or tensor.name in known or len(known) == _MAX_TENSORS:
            return ()
        known[tensor.name] = tensor
    return tuple(known.values())


# --- ONNX (onnx/onnx.proto) -----------------------------------------------------------------------

_ONNX_TYPES = {
    1: "TYPE_FP32",
    2: "TYPE_UINT8",
    3: "TYPE_INT8",
    4: "TYPE_UINT16",
    5: "TYPE_INT16",
    6: "TYPE_INT32",
    7: "TYPE_INT64",
    8: "TYPE_STRING",
    9: "TYPE_BOOL",
    10: "TYPE_FP16",
    11: "TYPE_FP64",
    12: "TYPE_UINT32",
    13: "TYPE_UINT64",
    16: "TYPE_BF16",
}

#: Fields of a type: sequence, map, sparse tensor, optional.
_NO_TENSORS = (4, 5, 8, 9)


def _read_onnx(model: Message) -> tuple[_Tensors, _Tensors] | None:
    graph = model.first(7)
    if graph is None:
        return None
    parts: dict[int, list[Message]] = {5: [], 11: [], 12: []}
    for number, value in graph.fields():
        if number in parts and isinstance(value, Span):
            parts[number].append(graph.at(value))
    # Up to IR version 3 the weights stand among the inputs, too.
    weights = {it.text(8) for it in parts[5]}
    inputs = [it for it in parts[11] if it.text(1) not in weights]
    return map(_read_onnx_tensor, inputs), map(_read_onnx_tensor, parts[12])


#: Message -> in which of its fields messages lead to weights in other files, and which they are.
_ONNX_WAYS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}


def _read_external_files(file: BinaryIO) -> frozenset[str]:
    files = set()
    waiting = [("model", open_message(file))]
    try:
        while waiting:
            kind, message = waiting.pop()
            if kind == "entry":
                if message.text(1) == "location":
                    files.add(message.text(2))
                continue
            ways = _ONNX_WAYS[kind]
            for number, value in message.fields():
                if number in ways and isinstance(value, Span):
                    waiting.append((ways[number], message.at(value)))
    except NotReadable:
        pass
    return frozenset(files)


def _read_onnx_tensor(value: Message) -> TensorSpec | None:
    name, kind = value.text(1), value.first(2)
    tensor = kind.first(1) if kind else None
    shape = tensor.first(2) if tensor else None
    data_type = _ONNX_TYPES.get(tensor.integer(1) or 0) if tensor else None
    if not name or shape is None or data_type is None:
        return None
    dims = tuple(_read_size(it.integer(1)) for it in shape.messages(1))
    if 0 in dims:  # no config can declare that
        return None
    return TensorSpec(name, data_type, dims or (1,))  # a scalar, as ONNX Runtime's backend has it


def _find_no_tensor(file: BinaryIO) -> str:
    try:
        graph = open_message(file).first(7)
        values = [it for number in (11, 12) for it in graph.messages(number)] if graph else []
        kinds = {it.text(1): it.first(2) for it in values}
        names = (it for it, kind in kinds.items() if kind and _holds(kind, _NO_TENSORS))
        return next(names, "")
    except NotReadable:
        return ""


def _holds(message: Message, numbers: Collection[int]) -> bool:
    return any(number in numbers for number, _ in message.fields())


def _read_size(size: int | None) -> int:
    return -1 if size is None or size < 0 else size


# --- SavedModel (tensorflow/core/protobuf/saved_model.proto, meta_graph.proto) --------------------

_TF_TYPES = {
    1: "TYPE_FP32",
    2: "TYPE_FP64",
    3: "TYPE_INT32",
    4: "TYPE_UINT8",
    5: "TYPE_INT16",
    6: "TYPE_INT8",
    7: "TYPE_STRING",
    9: "TYPE_INT64",
    10: "TYPE_BOOL",
    17: "TYPE_UINT16",
    19: "TYPE_FP16",
    22: "TYPE_UINT32",
    23: "TYPE_UINT64",
}
_TAG, _SIGNATURE = "serve", "serving_default"


def _read_saved_model(saved: Message) -> tuple[_Tensors, _Tensors] | None:
    for graph in saved.messages(2):
        info = graph.first(1)
        if info is None or _TAG not in info.texts(4):
            continue
        for entry in graph.messages(5):
            signature = entry.first(2)
            if entry.text(1) == _SIGNATURE and signature is not None:
                inputs, outputs = signature.messages(1), signature.messages(2)
                return map(_read_tf_tensor, inputs), map(_read_tf_tensor, outputs)
    return None


def _read_tf_tensor(entry: Message) -> TensorSpec | None:
    name, info = entry.text(1), entry.first(2)
    shape = info.first(3) if info else None
    data_type = _TF_TYPES.get(info.integer(2) or 0) if info else None
    if not name or shape is None or data_type is None or shape.integer(3):
        return None
    dims = tuple(_read_size(it.integer(1) or 0) for it in shape.messages(2))
    return TensorSpec(name, data_type, dims) if dims else None  # no config can declare a scalar
