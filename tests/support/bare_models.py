"""ONNX files and SavedModels that say what their tensors are, written field by field."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: A tensor: its name, its type's number in the format, its sizes; a text is a size with a name.
Described = tuple[str, int, Sequence[int | str]]


def varint(number: int) -> bytes:
    """As protobuf writes it; a negative one as 64 bits."""
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of an integer, of bytes or of a text."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def onnx_model(
    inputs: Iterable[Described], outputs: Iterable[Described], weights: Iterable[str] = ()
) -> bytes:
    """A ModelProto: IR version, producer, and a graph with a node and weights."""
    graph = onnx_graph(inputs, outputs, weights)
    return field(1, 3) + field(2, "pytorch") + field(7, graph) + field(8, field(2, 17))


def onnx_graph(
    inputs: Iterable[Described], outputs: Iterable[Described], weights: Iterable[str] = ()
) -> bytes:
    """A GraphProto; up to IR version 3 the weights are inputs, too."""
    graph = field(1, field(4, "Gemm"))
    for name in weights:
        graph += field(5, field(1, 2) + field(2, 1) + field(8, name) + field(9, bytes(4000)))
        graph += field(11, _onnx_value((name, 1, (2, 500))))
    graph += b"".join(field(11, _onnx_value(it)) for it in inputs)
    return graph + b"".join(field(12, _onnx_value(it)) for it in outputs)


def _onnx_value(described: Described) -> bytes:
    name, data_type, sizes = described
    dims = (field(2, it) if isinstance(it, str) else field(1, it) for it in sizes)
    shape = b"".join(field(1, dim) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, data_type) + field(2, shape)))


def saved_model(
    inputs: Iterable[Described],
    outputs: Iterable[Described],
    signature: str = "serving_default",
    tag: str = "serve",
) -> bytes:
    """A SavedModel of one graph with one signature beside that of TensorFlow itself."""
    ends = b"".join(field(1, _tf_entry(it)) for it in inputs)
    ends += b"".join(field(2, _tf_entry(it)) for it in outputs)
    own = field(1, "__saved_model_init_op") + field(2, field(2, _tf_entry(("op", 7, ()))))
    graph = field(1, field(4, tag)) + field(2, bytes(1000)) + field(5, own)
    graph += field(5, field(1, signature) + field(2, ends + field(3, "predict")))
    return field(1, 1) + field(2, graph)


def _tf_entry(described: Described) -> bytes:
    name, data_type, sizes = described
    shape = b"".join(field(2, field(1, it)) for it in sizes if isinstance(it, int))
    info = field(1, f"{name}:0") + field(2, data_type) + field(3, shape)
    return field(1, name) + field(2, info)
