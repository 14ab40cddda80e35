"""Random requests: right ones, wrong ones in every way that can be thought of, and mere noise.

A case is made again from its seed and number.
"""

from __future__ import annotations

import base64
import copy
import gzip
import json
import random
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from tests.reliability.corpus.hostile_requests import KINDS, body, hostile_requests, tensor
from tests.reliability.reading import Reading, read
from tests.support.protocol import BINARY

Ending = Literal["keep", "half_close", "close"]

#: Models by the rank of their tensors.
MODELS = {"flat": 1, "square": 2}

_WORDS = (
    "",
    "a",
    "é",
    "\u4e2d\u6587",
    "\U0001f600",
    "a\\b",
    'say "x"',
    "\t\n",
    "x" * 40,
    "out of memory",
)
_ODD: tuple[object, ...] = (
    -1,
    0,
    1,
    2,
    127,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 40,
    1 << 61,
    (1 << 63) - 1,
    1 << 63,
    1 << 64,
    -(1 << 63),
    10**30,
    0.5,
    -0.0,
    1e308,
    1e-320,
    True,
    False,
    None,
    "",
    "x" * 300,
    "out of memory",
    "CUDA out of memory",
    "\ud83d\ude00",
    "FP32",
    "../..",
    [],
    {},
    [[]],
    [{}],
    {"a": 1},
    [1, [2, [3]]],
    "1",
)
_NUMBERS = (
    "1e400",
    "-1e400",
    "01",
    ".5",
    "1.",
    "1E+2",
    "-",
    "0x10",
    "NaN",
    "Infinity",
    "-Infinity",
    "1_0",
    "9" * 400,
    "1e-400",
    "0.1e1",
    "--1",
    "4611686018427387904",
    "4294967296",
    "+1",
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_KEYS = ("name", "shape", "datatype", "data", "parameters", "inputs", "outputs", "id", "x", "")
_PARAMETERS = (
    "classification",
    "binary_data",
    "binary_data_size",
    "binary_data_output",
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "priority",
    "timeout",
    "shared_memory_region",
    "shared_memory_byte_size",
    "shared_memory_offset",
    "triton_enable_empty_final_response",
    "x",
)
_MOST = (1 << 63) - 1
_UPGRADES = (
    (
        ("Connection", "Upgrade, HTTP2-Settings"),
        ("Upgrade", "h2c"),
        ("HTTP2-Settings", "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA"),
    ),
    (("Connection", "upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")),
    (("Upgrade", "h2c, x/1"), ("Connection", "keep-alive"), ("Connection", "upgrade")),
)
_METHODS = ("GET", "PUT", "HEAD", "OPTIONS", "PATCH", "TRACE", "FOO", "post")


@dataclass(frozen=True)
class Request:
    """One to be rendered. chunks: sizes of the chunks it is cut into; None: with a length.

    raw: sent as it stands instead; nothing is known of it. length: told instead of the right one.
    """

    method: str = "POST"
    path: str = "/models/flat/invoke"
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    chunks: tuple[int, ...] | None = None
    raw: bytes | None = None
    length: int | None = None

    def render(self) -> bytes:
        """Its bytes."""
        if self.raw is not None:
            return self.raw
        lines = [f"{self.method} {self.path} HTTP/1.1", "Host: x"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.chunks is None:
            lines.append(
                f"Content-Length: {len(self.body) if self.length is None else self.length}"
            )
            content = self.body
        else:
            lines.append("Transfer-Encoding: chunked")
            content = _chunked(self.body, self.chunks)
        return "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + content

    def reading(self) -> Reading:
        """What it says; a caller of the container must be told so."""
        parts = self.path.split("/")
        plain = self.raw is None and self.length is None and self.method == "POST"
        if not plain or len(parts) != 4 or parts[1] != "models" or parts[3] != "invoke":
            return Reading("either", "no invocation")
        if parts[2] not in MODELS:
            return Reading("either", "another model")
        return read(list(self.headers), self.body, MODELS[parts[2]])


def _chunked(content: bytes, sizes: tuple[int, ...]) -> bytes:
    """As chunks of these sizes, the sizes again and again."""
    pieces, place, number = [], 0, 0
    while place < len(content):
        piece = content[place : place + sizes[number % len(sizes)]]
        pieces.append(b"%x\r\n%b\r\n" % (len(piece), piece))
        place += len(piece)
        number += 1
    return b"".join([*pieces, b"0\r\n\r\n"])


@dataclass(frozen=True)
class Case:
    """Requests that follow each other on one connection, without a wait between them.

    cuts: how many writes they are sent in. ending: what the caller does once all is sent: waits for
    the answers, says first that it will send no more, or leaves without them.
    """

    number: int
    trait: str
    requests: tuple[Request, ...]
    cuts: int = 1
    ending: Ending = "keep"

    def as_json(self) -> dict[str, object]:
        """What --replay reads."""
        return {
            "number": self.number,
            "trait": self.trait,
            "cuts": self.cuts,
            "ending": self.ending,
            "requests": [
                {
                    **vars(one),
                    "body": base64.b64encode(one.body).decode(),
                    "raw": None if one.raw is None else base64.b64encode(one.raw).decode(),
                }
                for one in self.requests
            ],
        }


def from_json(kept: dict[str, Any]) -> Case:
    """The case that as_json was made of."""
    requests = tuple(
        Request(
            **{
                **one,
                "headers": tuple((name, value) for name, value in one["headers"]),
                "chunks": None if one["chunks"] is None else tuple(one["chunks"]),
                "body": base64.b64decode(one["body"]),
                "raw": None if one["raw"] is None else base64.b64decode(one["raw"]),
            }
        )
        for one in kept["requests"]
    )
    return Case(kept["number"], kept["trait"], requests, kept["cuts"], kept["ending"])


def case(seed: int, number: int) -> Case:
    """The case of that number; the same for the same seed."""
    chance = random.Random(f"{seed} {number}")
    (make,) = chance.choices([one for one, _ in _MAKERS], [weight for _, weight in _MAKERS])
    return replace(make(chance), number=number)


# -- what is right


def _right(chance: random.Random) -> Request:
    model = "flat" if chance.random() < 0.7 else "square"
    if chance.random() < 0.25:
        return _binary(chance, model)
    content = json.dumps(_document(chance, MODELS[model]), ensure_ascii=chance.random() < 0.5)
    return Request(path=f"/models/{model}/invoke", body=content.encode())


def _document(chance: random.Random, rank: int) -> dict[str, Any]:
    kinds = chance.sample(["FP32", "INT64", "BYTES", "BOOL"], chance.randint(1, 3))
    inputs = [_input(chance, kind, rank) for kind in kinds]
    document: dict[str, Any] = {"inputs": inputs}
    if chance.random() < 0.3:
        document["id"] = chance.choice(["1", "request-7", "é"])
    if chance.random() < 0.2:
        document["parameters"] = {chance.choice(["note", "x"]): chance.choice(["y", 3, True])}
    if chance.random() < 0.3:
        wanted = chance.sample(kinds, chance.randint(1, len(kinds)))
        document["outputs"] = [_wanted(chance, kind) for kind in wanted]
    return document


def _wanted(chance: random.Random, kind: str) -> dict[str, Any]:
    output: dict[str, Any] = {"name": f"OUT_{kind}"}
    if chance.random() < 0.3:
        output["parameters"] = {"binary_data": chance.random() < 0.5}
    return output


def _input(chance: random.Random, kind: str, rank: int) -> dict[str, Any]:
    shape = _shape(chance, rank)
    count = shape[0] * (shape[1] if rank == 2 else 1)
    values = [_VALUES[kind](chance) for _ in range(count)]
    data: list[Any] = values
    if rank == 2 and chance.random() < 0.5:
        data = [values[row * shape[1] : (row + 1) * shape[1]] for row in range(shape[0])]
    return tensor(kind, shape, data)


def _shape(chance: random.Random, rank: int) -> list[int]:
    if chance.random() < 0.003:
        return [chance.randint(3000, 12_000)] + [1] * (rank - 1)  # large: translated
    return [chance.randint(1, 6) for _ in range(rank)]


def _fp32(chance: random.Random) -> float | int:
    if chance.random() < 0.3:
        return chance.randint(-1000, 1000)
    return chance.choice([chance.uniform(-1e3, 1e3), chance.uniform(-1e38, 1e38), 1e-40, 0.1])


def _int64(chance: random.Random) -> int:
    return chance.randint(-9, 9) if chance.random() < 0.5 else chance.randint(-1 << 63, _MOST)


_VALUES: dict[str, Callable[[random.Random], object]] = {
    "FP32": _fp32,
    "INT64": _int64,
    "BYTES": lambda chance: chance.choice(_WORDS),
    "BOOL": lambda chance: chance.random() < 0.5,
}


def _binary(chance: random.Random, model: str) -> Request:
    rank = MODELS[model]
    inputs, tails = [], []
    for kind in chance.sample(KINDS, chance.randint(1, 3)):
        shape = _shape(chance, rank)
        content = _content(chance, kind, shape[0] * (shape[1] if rank == 2 else 1))
        inputs.append(
            {
                "name": f"IN_{kind}",
                "datatype": kind,
                "shape": shape,
                "parameters": {"binary_data_size": len(content)},
            }
        )
        tails.append(content)
    head = json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode()
    return _with_head(f"/models/{model}/invoke", head, b"".join(tails))


def _with_head(path: str, head: bytes, tail: bytes, size: object = None) -> Request:
    told = len(head) if size is None else size
    media = ("Content-Type", f"{BINARY};json-header-size={told}")
    return Request(path=path, headers=(media,), body=head + tail)


def _content(chance: random.Random, kind: str, count: int) -> bytes:
    if kind == "BYTES":
        words = [chance.choice((*_WORDS, "\x00")).encode() for _ in range(count)]
        return b"".join(struct.pack("<I", len(word)) + word for word in words)
    if kind == "BOOL":
        return bytes(chance.randrange(2) for _ in range(count))
    width = {"FP32": 4, "INT64": 8, "FP16": 2}[kind]
    return chance.randbytes(width * count)


# -- what is made of it


def _one(trait: str, request: Request, **more: Any) -> Case:
    return Case(0, trait, (request,), **more)


def _valid(chance: random.Random) -> Case:
    return _one("right", _right(chance))


def _cut(chance: random.Random) -> Case:
    return _one("in pieces", _right(chance), cuts=chance.randint(2, 6))


def _in_chunks(chance: random.Random) -> Case:
    sizes = tuple(chance.choice([1, 2, 7, 64, 1000]) for _ in range(20))
    return _one("in chunks", replace(_right(chance), chunks=sizes))


def _half_closed(chance: random.Random) -> Case:
    return _one("half-closed", _right(chance), ending="half_close")


def _abandoned(chance: random.Random) -> Case:
    return _one("abandoned", _right(chance), ending="close")


def _compressed(chance: random.Random) -> Case:
    request = _right(chance)
    kind = chance.choice(["gzip", "deflate"])
    content = gzip.compress(request.body) if kind == "gzip" else zlib.compress(request.body)
    if chance.random() < 0.4:
        content = _noise(chance, content)
    headers = (*request.headers, ("Content-Encoding", kind))
    return _one("compressed", replace(request, headers=headers, body=content))


def _small_bomb(chance: random.Random) -> Case:
    content = gzip.compress(
        body(tensor("FP32", [1], [1])) + b" " * chance.choice([1 << 20, 40 << 20])
    )
    return _one("bomb", Request(headers=(("Content-Encoding", "gzip"),), body=content))


def _pipelined(chance: random.Random) -> Case:
    requests = tuple(_right(chance) for _ in range(chance.randint(2, 5)))
    return Case(0, "pipelined", requests, cuts=chance.randint(1, 3))


def _wishing_to_upgrade(chance: random.Random) -> Case:
    """As Java's client and `curl --http2` send it; nothing is upgraded, so all is as without."""
    requests = []
    for _ in range(chance.randint(1, 3)):
        request = _right(chance)
        if chance.random() < 0.3:
            request = replace(request, chunks=(chance.choice([1, 7, 1000]),))
        if chance.random() < 0.7:
            request = replace(request, headers=(*request.headers, *chance.choice(_UPGRADES)))
        requests.append(request)
    return Case(0, "wishing to upgrade", tuple(requests), cuts=chance.choice([1, 1, 2, 5, 400]))


def _garbage_behind(chance: random.Random) -> Case:
    garbage = Request(raw=chance.randbytes(chance.randint(1, 200)) + b"\r\n\r\n")
    return Case(0, "garbage behind", (_right(chance), garbage), ending="half_close")


def _odd_node(chance: random.Random) -> Case:
    rank = chance.choice([1, 2])
    document = _document(chance, rank)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        _change(chance, document)
    path = "/models/flat/invoke" if rank == 1 else "/models/square/invoke"
    content = json.dumps(document).encode("utf-8", "surrogatepass")
    return _one("odd JSON", Request(path=path, body=content))


def _change(chance: random.Random, document: dict[str, Any]) -> None:
    """Something of it becomes something else, goes, or comes besides."""
    holders = [one for one in _holders(document) if one]
    if not holders:
        return
    holder = chance.choice(holders)
    key = chance.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    what = chance.random()
    if what < 0.55:
        holder[key] = copy.deepcopy(chance.choice(_ODD))
    elif what < 0.7:
        del holder[key]
    elif isinstance(holder, dict):
        if what < 0.85:
            odd = copy.deepcopy(chance.choice(_ODD))
            holder["parameters"] = {chance.choice(_PARAMETERS): odd}
        else:
            holder[chance.choice(_KEYS)] = copy.deepcopy(holder[key])
    else:
        holder.insert(key, copy.deepcopy(chance.choice([*_ODD, holder[key]])))


def _holders(value: Any) -> list[Any]:
    found = [value]
    for one in found:  # grows while it is read
        inner = one.values() if isinstance(one, dict) else one
        found += [each for each in inner if isinstance(each, (dict, list))]
    return found


def _odd_number(chance: random.Random) -> Case:
    request = _right(chance)
    places = list(_NUMBER.finditer(request.body))
    if not places or request.headers:
        return _odd_node(chance)
    place = chance.choice(places)
    number = chance.choice(_NUMBERS).encode()
    content = request.body[: place.start()] + number + request.body[place.end() :]
    return _one("odd number", replace(request, body=content))


def _twice(chance: random.Random) -> Case:
    request = replace(_right(chance), headers=())
    key = chance.choice(_KEYS)
    value = json.dumps(chance.choice(_ODD))
    content = b'{"%b": %b, ' % (key.encode(), value.encode()) + request.body[1:]
    return _one("a key twice", replace(request, body=content))


def _nested(chance: random.Random) -> Case:
    depth = chance.choice([2, 10, 99, 101, 500, 2000])
    opening, closing = chance.choice([(b"[", b"]"), (b'{"a":', b"}")])
    deep = opening * depth + b"1" + closing * (depth if chance.random() < 0.7 else 0)
    place = chance.choice(
        [
            b'{"inputs":[{"name":"IN_FP32","datatype":"FP32","shape":[1],"data":%b}]}',
            b'{"parameters":{"x":%b},"inputs":[]}',
            b"%b",
            b'{"inputs":%b}',
        ]
    )
    return _one("nested", Request(body=place % deep))


def _changed_bytes(chance: random.Random) -> Case:
    request = _right(chance)
    return _one("changed bytes", replace(request, body=_noise(chance, request.body)))


def _noise(chance: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 5])):
        place = chance.randrange(len(changed) + 1)
        what = chance.random()
        if what < 0.4 and place < len(changed):
            changed[place] = chance.randrange(256)
        elif what < 0.6:
            changed[place:place] = chance.randbytes(chance.randint(1, 4))
        elif what < 0.8:
            del changed[place : place + chance.randint(1, 9)]
        else:
            changed[place:place] = changed[: chance.randint(0, 60)]
    return bytes(changed)


def _odd_binary(chance: random.Random) -> Case:
    request = _binary(chance, "flat")
    size = int(request.headers[0][1].partition("size=")[2])
    head, tail = request.body[:size], request.body[size:]
    document = json.loads(head)
    what = chance.random()
    if what < 0.4:
        parameters = chance.choice(document["inputs"])["parameters"]
        parameters["binary_data_size"] = chance.choice(_ODD)
    elif what < 0.7:
        chance.choice(document["inputs"])["shape"] = [chance.choice(_ODD)]
    else:
        tail = _noise(chance, tail) if tail else b"x"
    head = json.dumps(document).encode("utf-8", "surrogatepass")
    return _one("odd binary", _with_head(request.path, head, tail))


def _odd_head_size(chance: random.Random) -> Case:
    request = _binary(chance, "flat")
    size = int(request.headers[0][1].partition("size=")[2])
    told = chance.choice(
        [
            0,
            -1,
            size - 1,
            size + 1,
            len(request.body),
            len(request.body) + 1,
            1 << 31,
            1 << 63,
            1 << 64,
            "",
            "x",
            "1.5",
            f"0{size}",
            f"+{size}",
            f"{size},{size}",
        ]
    )
    return _one(
        "odd header size", _with_head(request.path, request.body[:size], request.body[size:], told)
    )


def _odd_headers(chance: random.Random) -> Case:
    request = _right(chance)
    name, value = chance.choice(
        [
            ("X-Note", "x" * chance.choice([10, 1000, 3000, 9000, 20_000])),
            ("Content-Type", chance.choice(["text/plain", "", "a;b;c", "a/b; x=" + "y" * 500])),
            ("Content-Encoding", chance.choice(["br", "gzip, gzip", "identity", "GZIP"])),
            ("Accept-Encoding", chance.choice(["gzip", "deflate", "*", "gzip;q=0"])),
            ("Inference-Header-Content-Length", str(chance.choice(_ODD))),
            ("X-Amzn-SageMaker-Target-Model", "../../x"),
            ("triton_grpc_error", "true"),
            ("Connection", chance.choice(["close", "keep-alive", "Host", "upgrade"])),
            ("Expect", chance.choice(["100-continue", "200-ok"])),
            ("Upgrade", "websocket"),
            ("Transfer-Encoding", chance.choice(["identity", "gzip", "chunked, chunked"])),
            ("é", "ü"),
        ]
    )
    ending: Ending = "half_close" if name in ("Expect", "Transfer-Encoding", "Upgrade") else "keep"
    headers = (*request.headers, (name, value))
    return _one("odd headers", replace(request, headers=headers), ending=ending)


def _odd_target(chance: random.Random) -> Case:
    path = chance.choice(
        [
            "/",
            "*",
            "/ping",
            "/models",
            "/models/",
            "/models/none/invoke",
            "/models/flat",
            "//models",
            "/models/flat/invoke?x=1",
            "/models/%66lat/invoke",
            "/v2",
            "/models/../v2/health/live",
            "/models/flat/invoke/",
            "/models/fl%00at/invoke",
            "/models/" + "x" * 3000 + "/invoke",
            "/invocations",
            "/models/é/invoke",
            "http://x/models/flat/invoke",
        ]
    )
    method = chance.choice(["POST", "POST", *_METHODS])
    request = replace(_right(chance), path=path, method=method)
    return _one("odd target", request, ending="half_close")


def _wrong_length(chance: random.Random) -> Case:
    request = _right(chance)
    length = len(request.body) + chance.choice([-20, -1, 1, 50, 1 << 40, -(1 << 40)])
    return _one("a wrong length", replace(request, length=length), ending="half_close")


def _odd_http(chance: random.Random) -> Case:
    raw = _right(chance).render()
    end = raw.index(b"\r\n\r\n") + 4
    changed = _noise(chance, raw[:end]) + raw[end:]
    return _one("odd HTTP", Request(raw=changed), ending="half_close")


def _odd_load(chance: random.Random) -> Case:
    document = {"model_name": chance.choice(_ODD), "url": chance.choice(_ODD)}
    return _one("odd load", Request(path="/models", body=json.dumps(document).encode()))


#: The largest are tried by `beside`, alone: they take seconds each.
_SLOW = (
    "gzip of",
    "512 MB",
    "1,000,000 chunks",
    "an endless",
    "100,000 inputs",
    "2^31",
    "2^32",
    "2^29",
)


def _known(chance: random.Random) -> Case:
    hostile = chance.choice(
        [one for one in hostile_requests() if not any(word in one.name for word in _SLOW)]
    )
    made = hostile.make("/models/flat/invoke")
    raw = made if isinstance(made, bytes) else b"".join(made)
    return _one(f"known: {hostile.name}", Request(raw=raw), ending="half_close")


#: What is made, and how often.
_MAKERS: tuple[tuple[Callable[[random.Random], Case], float], ...] = (
    (_valid, 25),
    (_cut, 2),
    (_in_chunks, 4),
    (_half_closed, 2),
    (_abandoned, 1),
    (_compressed, 3),
    (_small_bomb, 0.02),
    (_pipelined, 5),
    (_wishing_to_upgrade, 2),
    (_garbage_behind, 1),
    (_odd_node, 25),
    (_odd_number, 5),
    (_twice, 3),
    (_nested, 2),
    (_changed_bytes, 8),
    (_odd_binary, 5),
    (_odd_head_size, 2),
    (_odd_headers, 3),
    (_odd_target, 3),
    (_wrong_length, 1),
    (_odd_http, 2),
    (_odd_load, 1),
    (_known, 0.1),
)
