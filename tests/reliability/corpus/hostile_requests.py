"""Requests that have ended, stopped or misled a tritonserver, each as a function that makes it.

They go to the model `target`, which is EVERYTHING below. `allowed`: what they may be answered with;
a caller's fault is never a 5xx. Besides, none may hurt anybody else.
"""

from __future__ import annotations

import functools
import gzip
import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tests.reliability.wire import request
from tests.support.models import PythonModel
from tests.support.protocol import BINARY

Raw = bytes | Iterable[bytes]
_REFUSED = (400,)
_MIB = 1 << 20

#: Answers every input that it is given.
_EVERYTHING = """
class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([
                pb_utils.Tensor(tensor.name().replace("IN_", "OUT_"), tensor.as_numpy())
                for tensor in request.inputs()
            ])
            for request in requests
        ]
"""
KINDS = ("FP32", "INT64", "BYTES", "BOOL", "FP16")


def everything(dims: str = "[-1]") -> PythonModel:
    """An identity of the optional inputs IN_FP32, IN_INT64, IN_BYTES, IN_BOOL and IN_FP16."""
    tensors = "".join(
        f'{side} {{ name: "{name}_{kind}" data_type: {_triton_type(kind)} dims: {dims}{more} }}\n'
        for side, name, more in (("input", "IN", " optional: true"), ("output", "OUT", ""))
        for kind in KINDS
    )
    return PythonModel(_EVERYTHING, tensors=tensors)


def _triton_type(kind: str) -> str:
    return "TYPE_STRING" if kind == "BYTES" else f"TYPE_{kind}"


@dataclass(frozen=True)
class HostileRequest:
    """make: the bytes to send, given the path of an invocation.

    allowed: the statuses that it may have; 0: the connection may be closed without an answer.
    family: what it is one of, in the table's words.
    """

    name: str
    family: str
    make: Callable[[str], Raw]
    allowed: tuple[int, ...] = _REFUSED


def tensor(kind: str, shape: Sequence[object], data: object, **more: object) -> dict[str, object]:
    """One input in JSON."""
    return {"name": f"IN_{kind}", "datatype": kind, "shape": [*shape], "data": data, **more}


def body(*inputs: object, **more: object) -> bytes:
    """A request's JSON."""
    return json.dumps({"inputs": [*inputs], **more}).encode()


_GOOD = tensor("FP32", [2], [1.0, 2.0])


def _json(content: Callable[[], bytes], *headers: tuple[str, str]) -> Callable[[str], bytes]:
    return lambda path: request(path, content(), headers)


# -- shapes that the data do not have

_SHAPES: dict[str, list[int]] = {
    "2^31": [1 << 31],
    "2^32": [1 << 32],
    "2^40": [1 << 40],
    "2^61": [1 << 61],
    "2^62": [1 << 62],
    "2^63-1": [(1 << 63) - 1],
    "(2^63-1)x4": [(1 << 63) - 1, 4],
    "2^29": [1 << 29],
}
_TWO = {"FP32": [1, 1], "FP16": [1, 1], "BYTES": ["a", "b"], "BOOL": [True, False]}


def shapes() -> Iterator[HostileRequest]:
    """Element counts beyond the data, beyond memory, beyond 64 bits."""
    for label, shape in _SHAPES.items():
        for kind in _TWO if label in ("2^40", "2^62", "(2^63-1)x4") else ("FP32",):
            content = functools.partial(body, tensor(kind, shape, _TWO[kind]))
            yield HostileRequest(
                f"shape {label} of {kind}", "a shape that the data do not have", _json(content)
            )
    yield HostileRequest(
        "shape of a negative length",
        "a shape that the data do not have",
        _json(lambda: body(tensor("FP32", [-2], [1, 1]))),
    )


# -- nesting


def _nested(opening: bytes, depth: int, closing: bytes = b"") -> bytes:
    return opening * depth + closing * depth


def nesting() -> Iterator[HostileRequest]:
    """JSON so deep that a reader that calls itself runs out of stack."""
    family = "JSON nested without end"
    deep = b'{"inputs":[{"name":"IN_FP32","datatype":"FP32","shape":[1],"data":%s}]}'
    contents: dict[str, Callable[[], bytes]] = {
        "60,000 [ in data": lambda: deep % _nested(b"[", 60_000, b"]"),
        "1,000,000 [ as a body": lambda: _nested(b"[", 1_000_000),
        "1,000,000 { as a body": lambda: _nested(b'{"a":', 1_000_000),
        "1,000,000 [ in parameters": lambda: b'{"parameters":' + _nested(b"[", 1_000_000) + b"}",
    }
    for name, content in contents.items():
        yield HostileRequest(name, family, _json(content))


# -- compressed


@functools.cache
def bomb(size: int) -> bytes:
    """A good request and so many bytes of blanks behind it, as gzip; 2 GB in 2 MB.

    A piece of 1 MB is compressed once: after a full flush each is the same bytes.
    """
    good, blanks = body(_GOOD), b" " * _MIB
    deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    first = deflater.compress(good) + deflater.flush(zlib.Z_FULL_FLUSH)
    piece = deflater.compress(blanks) + deflater.flush(zlib.Z_FULL_FLUSH)
    count, check = size // _MIB, zlib.crc32(good)
    for _ in range(count):
        check = zlib.crc32(blanks, check)
    trailer = struct.pack("<II", check, (len(good) + count * _MIB) & 0xFFFFFFFF)
    head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"  # RFC 1952
    return head + first + piece * count + deflater.flush() + trailer


def bombs() -> Iterator[HostileRequest]:
    """Small bodies that inflate to what no machine has."""
    family = "a body that inflates without end"
    for label, size in (("512 MB", 512 * _MIB), ("2 GB", 2048 * _MIB)):
        yield HostileRequest(
            f"gzip of {label}",
            family,
            _json(functools.partial(bomb, size), ("Content-Encoding", "gzip")),
            (400, 413),
        )
    yield HostileRequest(
        "gzip that is cut off",
        family,
        _json(lambda: gzip.compress(body(_GOOD))[:-12], ("Content-Encoding", "gzip")),
    )


# -- what the envelope says


def _outputs(kind: str, **parameters: object) -> dict[str, object]:
    return {"outputs": [{"name": f"OUT_{kind}", "parameters": parameters}]}


_STRINGS = tensor("BYTES", [2], ["a", "b"])
_EMPTY = tensor("FP32", [0], [])

#: name -> family, body.
_ENVELOPES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "classification of strings": (
        "classification of what has no order",
        lambda: body(_STRINGS, **_outputs("BYTES", classification=1)),
    ),
    "classification of nothing": (
        "classification of what has no order",
        lambda: body(_EMPTY, **_outputs("FP32", classification=1)),
    ),
    "classification: -1": (
        "a parameter of a wrong type",
        lambda: body(_GOOD, **_outputs("FP32", classification=-1)),
    ),
    "classification: 10^12": (
        "a parameter of a wrong type",
        lambda: body(_GOOD, **_outputs("FP32", classification=10**12)),
    ),
    "parameters: 5": ("a parameter of a wrong type", lambda: body(_GOOD, parameters=5)),
    "parameters of an input: 5": (
        "a parameter of a wrong type",
        lambda: body({**_GOOD, "parameters": 5}),
    ),
    "binary_data: 1": (
        "a parameter of a wrong type",
        lambda: body(_GOOD, **_outputs("FP32", binary_data=1)),
    ),
    "sequence_id of 300 characters": (
        "a parameter of a wrong type",
        lambda: body(_GOOD, parameters={"sequence_id": "x" * 300, "sequence_start": True}),
    ),
    "numbers in BYTES": (
        "data of another type",
        lambda: body(tensor("BYTES", [2], [1, 2])),
    ),
    "FP16 in JSON, named `out of memory`": (
        "a caller's words that mean a shortage",
        lambda: body({**tensor("FP16", [2], [1, 2]), "name": "out of memory"}),
    ),
    "an unknown input named `CUDA out of memory`": (
        "a caller's words that mean a shortage",
        lambda: body({**_GOOD, "name": "CUDA out of memory"}),
    ),
    "shared_memory_region of an input": (
        "shared memory of others",
        lambda: body(
            {
                "name": "IN_FP32",
                "datatype": "FP32",
                "shape": [2],
                "parameters": {"shared_memory_region": "x", "shared_memory_byte_size": 8},
            }
        ),
    ),
    "shared_memory_region of an output": (
        "shared memory of others",
        lambda: body(
            _GOOD, **_outputs("FP32", shared_memory_region="x", shared_memory_byte_size=8)
        ),
    ),
    "100,000 outputs": (
        "more outputs than the model has",
        lambda: body(_GOOD, outputs=[{"name": f"o{n}"} for n in range(100_000)]),
    ),
    "100,000 times one output": (
        "more outputs than the model has",
        lambda: body(_GOOD, outputs=[{"name": "OUT_FP32"}] * 100_000),
    ),
    "100,000 inputs": (
        "more inputs than the model has",
        lambda: body(*({**_GOOD, "name": f"i{n}"} for n in range(100_000))),
    ),
    "no object": ("no request", lambda: b"[]"),
    "nothing but blanks": ("no request", lambda: b" " * 1000),
    "not UTF-8": ("no request", lambda: b'{"inputs":[{"name":"\xff\xfe"}]}'),
}


def envelopes() -> Iterator[HostileRequest]:
    """JSON that says what it may not say."""
    for name, (family, content) in _ENVELOPES.items():
        allowed = (200, 400) if name in _MAY_BE_TAKEN else _REFUSED
        yield HostileRequest(name, family, _json(content), allowed)


#: The protocol leaves it open whether these are right.
_MAY_BE_TAKEN = ("100,000 times one output", "classification: 10^12")


# -- binary requests


def binary(head: bytes, tail: bytes, size: object = None) -> Callable[[str], bytes]:
    """A request in the binary form, with a JSON size that may be wrong."""
    told = len(head) if size is None else size
    media = ("Content-Type", f"{BINARY};json-header-size={told}")
    return lambda path: request(path, head + tail, [media])


def _sized(kind: str, shape: Sequence[int], size: object) -> bytes:
    given = {"name": f"IN_{kind}", "datatype": kind, "shape": [*shape]}
    return json.dumps({"inputs": [{**given, "parameters": {"binary_data_size": size}}]}).encode()


def binaries() -> Iterator[HostileRequest]:
    """Sizes in the binary form that are not those of the body."""
    family = "binary sizes that are not the body's"
    eight = struct.pack("<2f", 1, 2)
    sizes = (-8, 7, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 64, "8", None, 8.5)
    for size in sizes:
        head = _sized("FP32", [2], size)
        yield HostileRequest(f"binary_data_size {size}", family, binary(head, eight))
    for shape in ([1 << 62], [1 << 40], [(1 << 63) - 1, 4]):
        head = _sized("FP32", shape, 8)
        yield HostileRequest(f"binary, shape {shape}", family, binary(head, eight))
    lying = struct.pack("<I", 0xFFFFFFFF) + b"ab"
    head = _sized("BYTES", [1], len(lying))
    yield HostileRequest("BYTES longer than the body", family, binary(head, lying))
    head = _sized("FP32", [2], 8)
    for told in (-1, 0, 1 << 31, 1 << 63, "x", len(head) + 9):
        yield HostileRequest(f"json-header-size {told}", family, binary(head, eight, told))


# -- HTTP


def _chunked(path: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Sent in writes of 64 KB, so that the chunks and not the writes are many."""
    yield (f"POST {path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    batch, size = [], 0
    for chunk in chunks:
        batch.append(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        size += len(batch[-1])
        if size > 65536:
            yield b"".join(batch)
            batch, size = [], 0
    yield b"".join([*batch, b"0\r\n\r\n"])


def _tiny_chunks(path: str) -> Iterator[bytes]:
    return _chunked(path, (b" " for _ in range(1_000_000)))


def _endless_header(path: str) -> Iterator[bytes]:
    yield f"POST {path} HTTP/1.1\r\nHost: x\r\nX-Long: ".encode()
    for _ in range(512):
        yield b"x" * 65536  # 32 MB without an end of the line
    yield b"\r\nContent-Length: 0\r\n\r\n"


def _models_body(_: str) -> Iterator[bytes]:
    size = 512 * _MIB
    yield f"POST /models HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
    for _number in range(512):
        yield b" " * _MIB


def _form(path: str) -> bytes:
    content = b"a=" + b"%41" * 1_700_000
    return request(path, content, [("Content-Type", "application/x-www-form-urlencoded")])


def _long_header(size: int) -> Callable[[str], bytes]:
    return lambda path: request(path, body(_GOOD), [("X-Long", "x" * size)])


#: 0: a connection may be closed on what is no HTTP, or goes on for ever.
_CUT = (0, 400, 413, 431)


def framing() -> Iterator[HostileRequest]:
    """HTTP that is too long, too finely cut, or none."""
    for size in (7, 9, 12, 15, 32, 60):
        yield HostileRequest(
            f"a header of {size} KB", "a long header", _long_header(size * 1024), (200, 400, 431)
        )
    many = [(f"X-{number}", "y" * 50) for number in range(5000)]
    yield HostileRequest(
        "5,000 headers",
        "a long header",
        lambda path: request(path, body(_GOOD), many),
        (0, 200, 400, 431),
    )
    yield HostileRequest("an endless header line", "a long header", _endless_header, _CUT)
    yield HostileRequest("1,000,000 chunks", "many tiny chunks", _tiny_chunks, (0, 400, 413))
    yield HostileRequest("512 MB to POST /models", "a large body", _models_body, _CUT)
    yield HostileRequest("5 MB as a form", "a large body", _form)
    yield HostileRequest("an empty body", "no request", lambda path: request(path, b""))
    yield HostileRequest(
        "no HTTP", "no request", lambda _: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n", _CUT
    )


def hostile_requests() -> list[HostileRequest]:
    """All of them; their names are different."""
    families = (shapes, nesting, bombs, envelopes, binaries, framing)
    return [one for family in families for one in family()]
