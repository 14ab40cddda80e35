"""Measures a SavedModel's constants as TensorFlow makes them, by their types and shapes.

A constant of one value and a shape is some bytes in the file, and that value so many times in
memory: TensorFlow makes it at the first request. Only what says so is read, as protobuf's messages
with the few fields that lead there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from ensemble_tools.archive.files import is_directory, names_in, read_bounded, size_of

SAVED_GRAPH, _VARIABLES = "saved_model.pb", "variables"
#: A larger one holds values, and stands for few times its size.
_MAX_BYTES = 64 * 1024 * 1024
#: Of a tensor, as TensorFlow takes them.
_MAX_DIMENSIONS = 254
#: Bytes of a value by TensorFlow's number of its type (types.proto); of others 4.
_WIDTHS = {2: 8, 4: 1, 5: 2, 6: 1, 7: 24, 8: 8, 9: 8, 10: 1, 14: 2, 17: 2, 18: 16, 19: 2, 23: 8}
#: Message -> its fields: name, number, type (another message, or empty for a number), repeated.
_FIELDS = {
    "SavedModel": [("meta_graphs", 2, "MetaGraph", True)],
    "MetaGraph": [("graph", 2, "Graph", False)],
    "Graph": [("nodes", 1, "Node", True), ("library", 2, "Library", False)],
    "Library": [("functions", 1, "Function", True)],
    "Function": [("nodes", 3, "Node", True)],
    "Node": [("attributes", 5, "Attribute", True)],
    "Attribute": [("value", 2, "Value", False)],
    "Value": [("tensor", 8, "Tensor", False)],
    "Tensor": [("type", 1, "", False), ("shape", 2, "Shape", False)],
    "Shape": [("dimensions", 2, "Dimension", True)],
    "Dimension": [("size", 1, "", False)],
}


def measure_constants(directory: Path) -> tuple[int, int] | None:
    """Bytes of a SavedModel's graph and variables, and of its constants as they are made.

    None for what is no SavedModel, or too long. Raises as read_with does.
    """
    data = read_bounded(directory / SAVED_GRAPH, _MAX_BYTES)
    if data is None or len(data) > _MAX_BYTES:
        return None
    try:
        model = _read_saved_model()()
        model.ParseFromString(data)
    except DecodeError:
        return None
    size = sum(_measure(node) for meta in model.meta_graphs for node in _walk_nodes(meta.graph))
    return len(data) + _measure_variables(directory / _VARIABLES), size


def _walk_nodes(graph: Any) -> Iterator[Any]:
    yield from graph.nodes
    for function in graph.library.functions:
        yield from function.nodes


def _measure(node: Any) -> int:
    return sum(
        _measure_tensor(attribute.value.tensor)
        for attribute in node.attributes
        if attribute.value.HasField("tensor")
    )


def _measure_tensor(tensor: Any) -> int:
    sizes = [int(dimension.size) for dimension in tensor.shape.dimensions[: _MAX_DIMENSIONS + 1]]
    if len(sizes) > _MAX_DIMENSIONS or any(size < 0 for size in sizes):
        return 0  # TensorFlow refuses it
    return math.prod(sizes) * _WIDTHS.get(int(tensor.type), 4)


def _measure_variables(directory: Path) -> int:
    if not is_directory(directory):
        return 0
    return sum(size_of(directory / name) or 0 for name in names_in(directory))


@cache
def _read_saved_model() -> Any:
    """The class of the outermost message."""
    file = descriptor_pb2.FileDescriptorProto(
        name="ensemble_tools/saved_model.proto", package="ensemble_tools.graph"
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, inside, repeated in fields:
            kind = descriptor_pb2.FieldDescriptorProto
            message.field.add(
                name=field,
                number=number,
                label=kind.LABEL_REPEATED if repeated else kind.LABEL_OPTIONAL,
                type=kind.TYPE_MESSAGE if inside else kind.TYPE_INT64,
                type_name=f".{file.package}.{inside}" if inside else None,
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName(f"{file.package}.SavedModel")
    return message_factory.GetMessageClass(descriptor)
