"""Random inference requests, valid and invalid, as texts. No I/O.

A case is made from its seed and number alone. Most hold lists of over 2 KB, which are those that
are taken out of the text.

Left out, since tritonserver itself dies or hangs on them: shapes of many more elements than the
data have, and the classification of outputs that are empty or hold strings.
"""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias, TypeGuard

from tests.json_requests.served import COLUMNS, DATA_TYPES

#: A text, an object or a list of a request.
Node: TypeAlias = "bytes | Members | list[Node]"


@dataclass(frozen=True)
class Case:
    """A request to one of the models.

    head_size: the length of the JSON part of a binary request. traits: what is in it. long_doubles:
    FP64 texts of 16 and more digits are in it, which tritonserver does not read exactly.
    """

    number: int
    model: str
    body: bytes
    headers: Mapping[str, str]
    head_size: int | None
    traits: tuple[str, ...]
    long_doubles: bool


class Members(list["tuple[bytes, Node]"]):
    """An object: keys as they are written, and any of them more than once."""

    def place(self, key: bytes) -> int:
        return next(place for place, (name, _) in enumerate(self) if name == key)

    def put(self, key: bytes, value: Node) -> None:
        self[self.place(key)] = (key, value)

    def get(self, key: bytes) -> Node | None:
        return next((value for name, value in self if name == key), None)


def _is_list(node: Node | None) -> TypeGuard[list[Node]]:
    return isinstance(node, list) and not isinstance(node, Members)


def case(seed: int, number: int) -> Case:
    """The case of that number."""
    return _Making(Random(f"{seed}/{number}"), number).case()


#: The borders of the integer types, and what lies beside them.
_BORDERS = sorted(
    {
        sign * (1 << bits) + step
        for bits in (0, 7, 8, 15, 16, 31, 32, 53, 63, 64)
        for sign in (1, -1)
        for step in (-1, 0, 1)
    }
)
_RANGES = {
    **{f"INT{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}
_INTEGERS = tuple(_RANGES)
_ESCAPES = (
    r"\n",
    r"\"",
    r"\\",
    r"\/",
    r"\b",
    r"\t",
    r"\u0000",
    r"\u00e9",
    r"\ud83d\ude00",
    "é",
    "漢",
    "😀",
    "]",
    "[",
    r"\",",
    "],",
    ",",
    r"\"data\":[",
    "}",
    "{",
    "]}",
    " ",
    "\x7f",
    r"\u2028",
)
#: What is no element of most types, or no JSON at all.
_STRANGE = (
    "null",
    "true",
    "false",
    "1",
    "0",
    "-0",
    "-0.0",
    "1.0",
    "1.5",
    "-1",
    "1e2",
    "1E+2",
    "1e400",
    "-1e400",
    "5e-324",
    "4.9e-324",
    "2e-308",
    "1e-400",
    "NaN",
    "nan",
    "Inf",
    "inf",
    "Infinity",
    "-Infinity",
    "-Inf",
    "-NaN",
    '"1"',
    '"NaN"',
    '""',
    '"a"',
    "{}",
    '{"a":1}',
    "[]",
    "[[]]",
    "[1]",
    '["a"]',
    "[true]",
    "+1",
    "01",
    ".5",
    "1.",
    "0x10",
    "-",
    "1e",
    "1e+",
    "nul",
    "True",
    "'a'",
    r'"\ud800"',
    r'"\udc00\ud800"',
    r'"\x"',
    '"\t"',
    "",
    "//",
    "/**/1",
    "1_000",
    "--1",
    "1 2",
    '"a" "b"',
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "-9223372036854775809",
    "123456789012345678901234567890",
    "0.1",
    "3.4028236e38",
    "3.5e38",
    "1e39",
    "\x00",
    "\x0c1",
    "\u00a01",
    "\ufeff1",
    "9007199254740993",
    "16777217",
    "-0e0",
    "0e999",
)
_PARAMETERS = (
    b"1",
    b"0",
    b"-1",
    b"1.5",
    b"true",
    b"false",
    b'"x"',
    b'""',
    b"null",
    b"[]",
    b"[1]",
    b"{}",
    b"1e3",
    b"18446744073709551615",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"1e400",
    b"NaN",
    b'"\\u0000"',
    b'"\\ud800"',
    b"18446744073709551616",
    b'"data"',
    b"-0.0",
    b"0.1",
    b"1.0",
    b"0.30000000000000004",
    b"1e22",
    b"123456789.123456789",
    '"é"'.encode(),
)
_PARAMETER_NAMES = (
    b'"a"',
    b'"b"',
    b'"data"',
    b'"triton_x"',
    b'"triton_enable_empty_final_response"',
    b'"sequence_id"',
    b'"sequence_start"',
    b'"sequence_end"',
    b'"priority"',
    b'"timeout"',
    b'"binary_data_output"',
    b'"headers"',
    b'"binary_data"',
    b'"classification"',
    b'"binary_data_size"',
    b'""',
    '"é"'.encode(),
    b'"\\u0061"',
)
_OUTPUT_PARAMETERS = (
    b'"classification"',
    b'"binary_data"',
    b'"a"',
    b'"shared_memory_region"',
    b'"binary_data_size"',
)
#: How many of a tensor's elements are made; the others are repeated.
_DIFFERENT = 300
#: The count for which the model growing answers with empty outputs.
_NOTHING = -7
_SPACES = (b" ", b"\n", b"\t", b"\r", b"\r\n  ", b"    ")
_NO_SPACES = (b"\x0b", b"\x0c", b"\xc2\xa0", b"\x00", b"\xef\xbb\xbf", b"/* */", b"\x85")
_SHAPES = (
    "[]",
    "[0]",
    "[-1]",
    "[1]",
    "[2,0]",
    "[0,3]",
    "[1.0]",
    "[1.5]",
    '["1"]',
    "[null]",
    "[true]",
    "null",
    "3",
    '"3"',
    "{}",
    "[[3]]",
    "[-2,-3]",
    "[1,1]",
    "[1,1,1]",
    "[1,1,1,1]",
    "[-0]",
    "[1e1]",
)


@dataclass
class _Making:
    """One case in the making."""

    random: Random
    number: int
    traits: list[str] = field(default_factory=list)
    long_doubles: bool = False
    spaces: tuple[bytes, ...] = ()
    model: str = ""
    empty: bool = False

    def case(self) -> Case:
        self.spaces = _SPACES if self.chance(0.25) else ()
        self.model = self.random.choice(
            ("flat",) * 5
            + ("deep",) * 3
            + ("batched",) * 2
            + ("pair",) * 2
            + ("wide",) * 2
            + ("growing",) * 2
        )
        if self.chance(0.04):
            return self.binary_case()
        request = self.request()
        for _ in range(self.random.choice((0, 0, 0, 0, 1, 1, 1, 2))):
            self.spoil(request)
        body = self.text(request)
        if self.chance(0.1):
            body = self.spoil_text(body)
        headers = {}
        if self.chance(0.05):
            encoding, compress = self.random.choice(
                (("gzip", gzip.compress), ("deflate", zlib.compress))
            )
            self.traits.append(f"a {encoding} body")
            headers["Content-Encoding"] = encoding
            if self.chance(0.9):
                body = compress(body)
        if self.chance(0.05):
            headers["Accept-Encoding"] = self.random.choice(
                ("gzip", "deflate", "identity", "br", "*")
            )
            self.traits.append(f"accepts {headers['Accept-Encoding']}")
        return self.made(body, headers, None)

    def made(self, body: bytes, headers: Mapping[str, str], head_size: int | None) -> Case:
        traits = (self.model, *self.traits)
        return Case(self.number, self.model, body, headers, head_size, traits, self.long_doubles)

    def chance(self, of: float) -> bool:
        return self.random.random() < of

    # -- a valid request

    def request(self) -> Members:
        inputs: list[Node] = [self.tensor(*described) for described in self.described()]
        members: list[tuple[bytes, Node]] = [(b'"inputs"', inputs)]
        if self.chance(0.3):
            words = (
                b'"1"',
                b'"request \\"data\\":["',
                b'""',
                '"é"'.encode(),
                b'"\\u0041"',
                b"7",
                b"1.5",
                b"null",
            )
            members.append((b'"id"', self.random.choice(words[:5] if self.chance(0.9) else words)))
            self.traits.append("id")
        if self.chance(0.35):
            members.append((b'"parameters"', self.parameters(_PARAMETER_NAMES)))
            self.traits.append("parameters")
        if self.chance(0.45):
            members.append((b'"outputs"', self.outputs(inputs)))
            self.traits.append("outputs")
        if self.chance(0.3):
            self.random.shuffle(members)
        return Members(members)

    def described(self) -> list[tuple[str, str, list[int]]]:
        """(name, data type, shape) of each input."""
        if self.model == "growing":
            return [("IN_INT64", "INT64", [2])]
        if self.model == "wide":
            rows = self.random.randint(30, 150)
            return [(f"IN_{name}", each, [rows]) for name, each in COLUMNS.items()]
        types = ["FP32", "BYTES"] if self.model == "pair" else self.some_types()
        rank = {"flat": 1, "pair": 1, "batched": 2, "deep": 3}[self.model]
        first = self.random.randint(1, 8)
        return [(f"IN_{each}", each, self.shape(rank, first)) for each in types]

    def some_types(self) -> list[str]:
        known = [each for each in DATA_TYPES if each != "FP16" or self.chance(0.1)]
        return self.random.sample(known, self.random.choice((1, 1, 1, 2, 2, 3, 5)))

    def shape(self, rank: int, first: int) -> list[int]:
        kind = self.random.random()
        if kind < 0.12:
            count = self.random.randint(1, 12)
        elif kind < 0.95:
            count = self.random.randint(200, 2500)
        else:
            count = self.random.randint(9_000, 20_000)
        if rank == 1:
            return [count]
        if rank == 2:
            return [first, max(1, count // first)]
        second = self.random.randint(1, 6)
        return [max(1, count // (3 * second)), second, 3]

    def tensor(self, name: str, datatype: str, shape: list[int]) -> Members:
        self.traits.append(datatype)
        count = 1
        for size in shape:
            count *= size
        if self.model == "growing":
            count = self.random.choice((_NOTHING, 1, 9, 300, 20_000))
            self.empty = count == _NOTHING
            elements = [b"%d" % self.random.randrange(1 << 30), b"%d" % count]
        else:
            different = self.elements(datatype, min(count, _DIFFERENT))
            elements = different + self.random.choices(different, k=count - len(different))
        members: list[tuple[bytes, Node]] = [
            (b'"name"', json.dumps(name).encode()),
            (b'"shape"', json.dumps(shape).encode()),
            (b'"datatype"', json.dumps(datatype).encode()),
            (b'"data"', self.nested(elements, shape)),
        ]
        if self.chance(0.005 if self.model == "wide" else 0.1):
            members.append(
                (b'"parameters"', self.parameters((b'"a"', b'"data"', b'"binary_data"')))
            )
            self.traits.append("an input's parameters")
        if self.chance(0.3):
            self.random.shuffle(members)
        return Members(members)

    def elements(self, datatype: str, count: int) -> list[bytes]:
        """As many texts, all of them of the type or, for a few integers, over its borders."""
        random = self.random
        if datatype == "BOOL":
            return random.choices((b"true", b"false"), k=count)
        if datatype == "BYTES":
            return self.strings(count)
        if datatype in _RANGES:
            low, high = _RANGES[datatype]
            if self.chance(0.3):
                narrow = max(low, -20), min(high, 1000)
                return [b"%d" % random.randint(*narrow) for _ in range(count)]
            if self.chance(0.2):  # over the type's borders: cut to its bits
                self.traits.append("integers over the border")
                low, high = (0, (1 << 64) - 1) if low == 0 else (-(1 << 63), (1 << 63) - 1)
            return [b"%d" % random.randint(low, high) for _ in range(count)]
        return self.floats(datatype, count)

    def floats(self, datatype: str, count: int) -> list[bytes]:
        random = self.random
        kind = random.randrange(5)
        if kind == 0:
            texts = [f"{random.uniform(-1, 1):.4f}" for _ in range(count)]
        elif kind == 1:
            scale, digits = 10.0 ** random.randint(-3, 7), random.randint(1, 7)
            texts = [f"{random.uniform(-10, 10) * scale:.{digits}g}" for _ in range(count)]
        elif kind == 2:
            texts = [str(random.randint(-(10**15) + 1, 10**15 - 1)) for _ in range(count)]
        elif kind == 3:
            low, high = (-22, 7) if datatype == "FP64" else (-60, 23)
            texts = [
                f"{random.randint(-(10**14), 10**14)}{sign}{random.randint(low, high)}"
                for sign in random.choices("eE", k=count)
            ]
            if datatype == "FP64":
                self.traits.append("exponents")
        else:
            self.long_doubles |= datatype == "FP64"
            self.traits.append("long decimals")
            texts = [repr(random.gauss(0, 1)) for _ in range(count)]
        return [text.encode() for text in texts]

    def strings(self, count: int) -> list[bytes]:
        random = self.random
        kind = 0 if self.model == "wide" and self.chance(0.9) else random.randrange(3)
        if kind == 0:
            return [b'"%x"' % random.getrandbits(48) for _ in range(count)]
        if kind == 1:
            return [
                f'"{"".join(random.choices(_ESCAPES, k=random.randint(0, 6)))}"'.encode()
                for _ in range(count)
            ]
        lengths = (0, 1, 5, 254, 255, 256, 257, 300)
        return [b'"%s"' % (b"x" * random.choice(lengths)) for _ in range(min(count, 1200))] + [
            b'""' for _ in range(count - min(count, 1200))
        ]

    def nested(self, elements: list[bytes], shape: list[int]) -> Node:
        kind = self.random.random()
        if kind < 0.5 or (kind < 0.75 and len(shape) == 1):
            return list(elements)
        if kind < 0.85:
            return self.by_shape(elements, shape[1:])
        self.traits.append("irregular nesting")
        return self.irregular(elements, self.random.randint(1, 5))

    def by_shape(self, elements: Sequence[Node], sizes: list[int]) -> list[Node]:
        nested = list(elements)
        for size in reversed(sizes):
            nested = [nested[start : start + size] for start in range(0, len(nested), size)]
        return nested

    def irregular(self, elements: list[bytes], depth: int) -> list[Node]:
        nested: list[Node] = []
        place = 0
        uniform = self.chance(0.5)
        while place < len(elements):
            size = self.random.randint(1, max(1, len(elements) // 3))
            part = elements[place : place + size]
            place += size
            if depth > 1 and (uniform or self.chance(0.6)):
                nested.append(self.irregular(part, depth - 1))
            elif uniform or self.chance(0.5):
                nested.append(list(part))
            else:
                nested += part
            if self.chance(0.1):
                nested.append([])
        return nested

    def parameters(self, names: Sequence[bytes]) -> Members:
        if self.chance(0.65):  # only such as any request may have
            return Members(
                (b'"p%d"' % place, self.random.choice((b"1", b"true", b'"x"', b"-5", b"1.5")))
                for place in range(self.random.randint(0, 3))
            )
        chosen = self.random.choices(names, k=self.random.choice((0, 1, 1, 2, 3)))
        if not self.chance(0.1):
            chosen = [*dict.fromkeys(chosen)]
        return Members((name, self.parameter(name)) for name in chosen)

    def parameter(self, name: bytes) -> bytes:
        if b"binary_data" in name and self.chance(0.8):
            return self.random.choice((b"true", b"false"))
        if b"classification" in name and self.chance(0.8):
            return b"%d" % self.random.randint(0, 5)
        return self.random.choice(_PARAMETERS)

    def outputs(self, inputs: list[Node]) -> list[Node]:
        if self.model == "growing":
            names = ["FP64", "FP32", "INT64", "UINT64", "INT8", "BOOL", "BYTES"]
            names += ["FP16"] * self.chance(0.1)
        else:
            written = [each.get(b'"name"') for each in inputs if isinstance(each, Members)]
            names = [json.loads(name)[3:] for name in written if isinstance(name, bytes)]
        chosen = [
            f"OUT_{each}" for each in self.random.sample(names, self.random.randint(0, len(names)))
        ]
        if self.model != "growing" and self.chance(0.5):
            chosen.append("SEEN")
        if self.chance(0.05):
            chosen.append(self.random.choice(("nothing", "", "OUT_FP64", "IN_FP32", "é")))
        if chosen and self.chance(0.08):
            chosen.append(self.random.choice(chosen))
            self.traits.append("an output twice")
        return [self.output(name) for name in chosen]

    def output(self, name: str) -> Members:
        members = Members([(b'"name"', json.dumps(name).encode())])
        unclassified = self.empty or name == "SEEN" or name.endswith("_BYTES")
        if self.chance(0.5):
            parameters = (
                Members([(b'"binary_data"', self.random.choice((b"true", b"true", b"false")))])
                if self.chance(0.6)
                else self.parameters(_OUTPUT_PARAMETERS[unclassified:])
            )
            members.append((b'"parameters"', parameters))
        return members

    # -- what may be wrong with it

    def spoil(self, request: Members) -> None:
        inputs = request.get(b'"inputs"')
        named: Sequence[Callable[[Members, Members], str]] = (
            self.strange_element,
            self.strange_element,
            self.strange_element,
            self.strange_shape,
            self.strange_shape,
            self.other_count,
            self.other_count,
            self.other_data,
            self.member_twice,
            self.member_twice,
            self.member_gone,
            self.member_unknown,
            self.member_unknown,
            self.key_written_otherwise,
            self.elsewhere,
            self.other_type,
            self.data_in_two_places,
            self.null_member,
            self.mark,
        )
        if not _is_list(inputs) or not inputs:
            return
        tensor = self.random.choice(inputs)
        if isinstance(tensor, Members):
            self.traits.append(self.random.choice(named)(request, tensor))

    def strange_element(self, request: Members, tensor: Members) -> str:
        data = tensor.get(b'"data"')
        if not _is_list(data):
            return "nothing"
        while data and _is_list(data[0]) and self.chance(0.7):
            inner = self.random.choice(data)
            if not _is_list(inner):
                break
            data = inner
        strange = self.random.choice(
            (self.random.choice(_STRANGE), str(self.random.choice(_BORDERS)))
        ).encode()
        place = self.random.choice((0, len(data), self.random.randint(0, len(data))))
        if data and self.chance(0.7):
            data[min(place, len(data) - 1)] = strange
        else:
            data.insert(place, strange)
        return "a strange element"

    def strange_shape(self, request: Members, tensor: Members) -> str:
        with_shape = tensor.get(b'"shape"')
        if not isinstance(with_shape, bytes):
            return "nothing"
        try:
            shape = json.loads(with_shape)
        except ValueError:
            return "nothing"
        if self.chance(0.5) or not isinstance(shape, list) or not shape:
            tensor_shape = self.random.choice(_SHAPES)
        else:
            place = self.random.randrange(len(shape))
            if isinstance(shape[place], int):
                shape[place] += self.random.choice((-1, 1, 2, -shape[place], -2 * shape[place]))
            tensor_shape = json.dumps(shape)
        for place, (name, _) in enumerate(tensor):
            if name == b'"shape"':
                tensor[place] = (name, tensor_shape.encode())
        return "a strange shape"

    def other_count(self, request: Members, tensor: Members) -> str:
        data = tensor.get(b'"data"')
        if not _is_list(data) or not data:
            return "nothing"
        if self.chance(0.5):
            data.append(data[0])
        else:
            data.pop(self.random.randrange(len(data)))
        return "another count"

    def other_data(self, request: Members, tensor: Members) -> str:
        others: tuple[Node, ...] = (
            b"null",
            b"1",
            b'"x"',
            b"{}",
            b"[]",
            b"[[]]",
            b"true",
            b'"\\u0000data 0"',
            b"1.5",
        )
        return self.set_(tensor, b'"data"', self.random.choice(others), "no list as data")

    def set_(self, of: Members, key: bytes, value: Node, trait: str) -> str:
        for place, (name, _) in enumerate(of):
            if name == key:
                of[place] = (key, value)
                return trait
        return "nothing"

    def member_twice(self, request: Members, tensor: Members) -> str:
        of = self.random.choice((request, tensor))
        if not of:
            return "nothing"
        key, value = self.random.choice(of)
        others = [value, b"[]", b"{}", b"null", b'"x"', b"[1]", b"[1,2,3]"]
        if key == b'"data"' and _is_list(value):
            others += [value[::-1], [*value, *value], value[:-1]] * 2
        again = (key, self.random.choice(others))
        of.insert(self.random.randint(0, len(of)), again)
        return f"{key.decode()} twice"

    def member_gone(self, request: Members, tensor: Members) -> str:
        of = self.random.choice((request, tensor, tensor))
        if of:
            of.pop(self.random.randrange(len(of)))
        return "a member gone"

    def member_unknown(self, request: Members, tensor: Members) -> str:
        long: list[Node] = [b"%d" % number for number in range(self.random.choice((3, 900)))]
        words: list[Node] = [b'"%d"' % number for number in range(self.random.choice((3, 700)))]
        holder = Members([(b'"data"', long)])
        values: list[Node] = [b"1", b"null", b'"\\"data\\":[1,2"', b"1e400", long, words]
        values += [holder, holder, [holder, holder]]
        value = self.random.choice(values)
        key = self.random.choice(
            (b'"x"', b'"Data"', b'"datum"', b'"dat\\u0061x"', b'"content"', b'""', b'"inputs2"')
        )
        of = self.random.choice((request, tensor))
        of.insert(self.random.randint(0, len(of)), (key, value))
        return "an unknown member"

    def key_written_otherwise(self, request: Members, tensor: Members) -> str:
        of = self.random.choice((request, tensor, tensor))
        if not of:
            return "nothing"
        place = self.random.randrange(len(of))
        key, value = of[place]
        if len(key) < 3:
            return "nothing"
        letter = self.random.randrange(1, len(key) - 1)
        of[place] = (key[:letter] + b"\\u%04x" % key[letter] + key[letter + 1 :], value)
        return "a key with an escape"

    def elsewhere(self, request: Members, tensor: Members) -> str:
        names = (
            b'"binary_data_size"',
            b'"shared_memory_region"',
            b'"shared_memory_byte_size"',
            b'"shared_memory_offset"',
        )
        values = (b"0", b"4", b"-1", b'"x"', b"null", b"true", b"4.0", b"100")
        parameters = Members(
            (name, self.random.choice(values))
            for name in self.random.sample(names, self.random.randint(1, 2))
        )
        tensor.append((b'"parameters"', parameters))
        return "data elsewhere"

    def other_type(self, request: Members, tensor: Members) -> str:
        words = (*DATA_TYPES, "BF16", "INT7", "fp32", "", "TYPE_FP32")
        return self.set_(
            tensor,
            b'"datatype"',
            json.dumps(self.random.choice(words)).encode(),
            "another data type",
        )

    def data_in_two_places(self, request: Members, tensor: Members) -> str:
        data = tensor.get(b'"data"')
        if data is None:
            return "nothing"
        inner = Members([(b'"data"', data)])
        choices: tuple[tuple[Members, bytes, Node], ...] = (
            (tensor, b'"parameters"', inner),
            (request, b'"parameters"', inner),
            (request, b'"x"', inner),
            (tensor, b'"x"', inner),
            (request, b'"data"', data),
            (tensor, b'"more"', [b'"data"', data]),
        )
        of, key, value = self.random.choice(choices)
        of.insert(self.random.randint(0, len(of)), (key, value))
        return "data in an unusual place"

    def null_member(self, request: Members, tensor: Members) -> str:
        of = self.random.choice((request, tensor))
        if not of:
            return "nothing"
        place = self.random.randrange(len(of))
        of[place] = (
            of[place][0],
            self.random.choice(
                (b"null", b"[]", b"{}", b'""', b"1", b"[null]", b"[{}]", b"[[]]", b"true")
            ),
        )
        return "a member of another kind"

    def mark(self, request: Members, tensor: Members) -> str:
        """What the translation puts where a list was, with such a list elsewhere."""
        data = tensor.get(b'"data"')
        if not _is_list(data):
            return "nothing"
        self.set_(
            tensor,
            b'"data"',
            self.random.choice((b'"\\u0000data 0"', b'"\\u0000d\\u0061ta 0"')),
            "",
        )
        request.insert(self.random.randint(0, len(request)), (b'"x"', Members([(b'"data"', data)])))
        return "a mark as data"

    # -- text

    def space(self) -> bytes:
        return self.random.choice(self.spaces) if self.spaces and self.chance(0.3) else b""

    def text(self, node: Node) -> bytes:
        if isinstance(node, bytes):
            return node
        if isinstance(node, Members):
            members = [
                self.space()
                + key
                + self.space()
                + b":"
                + self.space()
                + self.text(value)
                + self.space()
                for key, value in node
            ]
            return b"{" + b",".join(members) + b"}"
        texts = [self.text(each) for each in node]
        if self.spaces:
            spaces = self.random.choices((*[b""] * 14, *self.spaces), k=2 * len(texts))
            parts = zip(spaces[::2], texts, spaces[1::2], strict=True)
            texts = [before + text + after for before, text, after in parts]
        return b"[" + b",".join(texts) + b"]"

    def spoil_text(self, text: bytes) -> bytes:
        random = self.random
        place = random.randrange(len(text) + 1)
        structure = [at for at, byte in enumerate(text) if byte in b'[]{},:"']
        if structure and self.chance(0.6):
            place = random.choice(structure)
        kind = random.randrange(9)
        self.traits.append(f"text spoilt, {kind}")
        if kind == 0:
            return text[:place] or b" "
        if kind == 1:
            return text + random.choice(
                (b" ", b"x", b"\n", b"\x00", b"{}", b"]", b"}", b",", b"\xff", text)
            )
        if kind == 2:
            return b"\xef\xbb\xbf" + text
        if kind == 3:
            return text[:place] + text[place + 1 :]
        if kind == 4:
            return (
                text[:place]
                + random.choice((b",", b"[", b"]", b"{", b"}", b'"', b":", b"\\", b"\x00", b"\n"))
                + text[place:]
            )
        if kind == 5:
            return (
                text[:place]
                + random.choice((b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8", b"\x80"))
                + text[place:]
            )
        if kind == 6:
            return text[:place] + random.choice(_NO_SPACES) + text[place:]
        if kind == 7:
            flipped = bytes([text[place % len(text)] ^ (1 << random.randrange(8))])
            return text[: place % len(text)] + flipped + text[place % len(text) + 1 :]
        other = random.choice(structure or [0])
        low, high = sorted((place, other))
        return text[:low] + text[high:] or b" "

    # -- binary

    def binary_case(self) -> Case:
        self.traits.append("a binary request")
        self.model = "flat"
        tensors = []
        inputs = []
        for datatype, kind in self.random.sample(
            (("FP32", "f"), ("INT64", "q"), ("FP16", "e"), ("BYTES", "")), 2
        ):
            count = self.random.randint(1, 900)
            if kind:
                raw = struct.pack(
                    f"<{count}{kind}", *(self.random.randint(0, 99) for _ in range(count))
                )
            else:
                raw = b"".join(
                    struct.pack("<I", size) + b"\xff" * size
                    for size in self.random.choices(range(9), k=count)
                )
            tensors.append(raw)
            inputs.append(
                {
                    "name": f"IN_{datatype}",
                    "datatype": datatype,
                    "shape": [count],
                    "parameters": {"binary_data_size": len(raw) + self.chance(0.05)},
                }
            )
        request: dict[str, object] = {"inputs": inputs}
        if self.chance(0.6):
            request["parameters"] = {"binary_data_output": self.chance(0.7)}
        head = json.dumps(request).encode()
        return self.made(head + b"".join(tensors), {}, len(head))
