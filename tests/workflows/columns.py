"""Input columns of random workflows: what they are fitted on, and what is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from tests.workflows.exchange import Tensors

STRING, BOOL = "string", "bool"
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")

WORDS = [
    "ale",
    "beer",
    "cider",
    "a b",
    "A",
    "a",
    "",
    "0",
    "7",
    "1.5",
    "nan",
    "None",
    "true",
    " x",
    "x ",
    "<NA>",
    "tab\there",
    "line\nend",
    "'quoted'",
    "long" * 20,
    "null",
    "-1",
    "1e3",
]
FOREIGN_WORDS = ["käse", "日本", "\U0001f600", "É", "ß", "\u0301x", "\u200b"]
UNSEEN_WORDS = [b"never seen", b"z", b"NaN", b"NULL", b"7.0", b"07", b" ", b"beer ", b"BEER"]
NUL_WORDS = [b"beer\x00", b"\x00beer", b"be\x00er", b"\x00", b"ale\x00\x00"]
FOREIGN_BYTES = [word.encode() for word in FOREIGN_WORDS] + [b"\xff\xfe", b"\x80"]

NUMPY = {
    "TYPE_BOOL": "bool",
    "TYPE_UINT8": "uint8",
    "TYPE_UINT16": "uint16",
    "TYPE_UINT32": "uint32",
    "TYPE_UINT64": "uint64",
    "TYPE_INT8": "int8",
    "TYPE_INT16": "int16",
    "TYPE_INT32": "int32",
    "TYPE_INT64": "int64",
    "TYPE_FP16": "float16",
    "TYPE_FP32": "float32",
    "TYPE_FP64": "float64",
    "TYPE_STRING": "object",
}


@dataclass(frozen=True)
class Column:
    """A column of the frame. pool: the values that fitting sees; width: of lists of one length."""

    name: str
    dtype: str
    ragged: bool
    pool: tuple[Any, ...]
    null_share: float = 0.0
    width: int = 0

    def __str__(self) -> str:
        kind = f"lists of {self.width} " if self.width else "lists of " if self.ragged else ""
        nulls = f", {self.null_share:.0%} null" if self.null_share else ""
        few = ", ".join(repr(value) for value in self.pool[:4])
        return f"{self.name!r}: {kind}{self.dtype}{nulls}, {len(self.pool)} values ({few}, ...)"


def random_column(name: str, random: Random, *, dtype: str = "", ragged: bool | None = None) -> Any:
    """A column of any kind, or of the kind that is given."""
    if ragged is None:
        ragged = random.random() < 0.3
    if not dtype:
        if ragged:
            dtype = random.choice(["int64", "int64", "int32", "float32", "float64", STRING])
        else:
            common = ["int64", "int64", "int32", "float32", "float32", "float64", "float64"]
            rare = random.choice(["int16", "int8", "uint8", BOOL, "uint32", "uint16"])
            dtype = random.choice([*common, STRING, STRING, STRING, rare])
    pool = _pool(dtype, random)
    null_share = 0.0
    if dtype in FLOATS and random.random() < 0.5:
        null_share = random.choice([0.05, 0.3, 0.6])
    if dtype == STRING and random.random() < 0.4:
        null_share = random.choice([0.05, 0.3])
    if ragged:
        null_share = 0.0 if random.random() < 0.8 else null_share / 2
    return Column(name, dtype, ragged, pool, null_share)


def _pool(dtype: str, random: Random) -> tuple[Any, ...]:
    """Values that fitting sees."""
    if dtype == BOOL:
        return (True, False) if random.random() < 0.9 else (True,)
    if dtype == STRING:
        words = WORDS + FOREIGN_WORDS if random.random() < 0.3 else WORDS
        chosen = random.sample(words, random.randint(1, 9))
        chosen += [f"w{number}" for number in range(random.choice([0, 0, 5, 30]))]
        return tuple(chosen)
    if dtype in FLOATS:
        style = random.random()
        if style < 0.08:
            return (random.choice([0.0, 1.5, 3.0, 0.1, -2.0]),)
        if style < 0.25:
            return tuple(float(number) for number in range(random.randint(2, 9)))
        if style < 0.3:
            return (1e30, -1e30, 1.0, 1e-30, 0.0)
        scale = random.choice([1.0, 1.0, 100.0, 1e-3, 1e6])
        center = random.choice([0.0, 0.0, 5.0, 1000.0])
        return tuple(random.gauss(center, scale) for _ in range(random.choice([3, 20, 50])))
    limits = np.iinfo(dtype)
    style = random.random()
    if style < 0.06:
        return (random.choice([0, 1, 7, 100]),)
    if style < 0.16:
        spread = [int(limits.min), int(limits.max), 0, 1, 5]
        return tuple(spread[: random.randint(2, 5)])
    if style < 0.3 and limits.min < 0:
        return tuple(range(-random.randint(1, 9), random.randint(1, 9)))
    if style < 0.45 and limits.max > 2**31:
        start = random.choice([2**31 - 5, 2**40, 2**53 - 3, 2**62])
        start = start if start + 20 < limits.max else 2**31 - 5
        return tuple(range(start, start + random.randint(2, 9)))
    start = random.choice([0, 0, 1, 1, 50])
    return tuple(range(start, start + random.choice([2, 5, 12, 40])))


def frame(columns: Sequence[Column], rows: int, random: Random) -> Any:
    """Rows to fit a workflow on."""
    return pd.DataFrame({column.name: series(column, rows, random) for column in columns})


def series(column: Column, rows: int, random: Random) -> Any:
    """A column of such a frame."""
    if not column.ragged and not column.width:
        values = [_fitted(column, random) for _ in range(rows)]
        if column.dtype == STRING:
            return pd.Series(values, dtype=object)
        return pd.Series(np.array(values, dtype=column.dtype))
    longest = random.choice([2, 4, 6])
    lists: list[Any] = []
    # Of an empty list in the first row NVTabular does not see what it holds; at times it must not.
    shortest = 1 if random.random() < 0.7 else 0
    for _ in range(rows):
        length = column.width or random.randint(shortest, longest)
        values = [_fitted(column, random) for _ in range(length)]
        if column.dtype == STRING:
            lists.append(values)
        else:
            lists.append(np.array(values, dtype=column.dtype))
    return pd.Series(lists)


def _fitted(column: Column, random: Random) -> Any:
    if random.random() < column.null_share:
        return None if column.dtype == STRING else float("nan")
    # The front of the pool comes more often, so that counts differ.
    place = min(random.randrange(len(column.pool)), random.randrange(len(column.pool)))
    return column.pool[place]


@dataclass(frozen=True)
class Flavor:
    """How a request's values are drawn: shares of what is not seen in fitting."""

    name: str
    unseen: float = 0.0
    extreme: float = 0.0
    foreign: bool = False
    nuls: bool = False
    nulls: bool = True


FLAVORS = (
    Flavor("seen"),
    Flavor("seen, no nulls", nulls=False),
    Flavor("some unseen", unseen=0.3),
    Flavor("all unseen", unseen=1.0),
    Flavor("some extreme", unseen=0.2, extreme=0.2),
    Flavor("all extreme", extreme=1.0),
)
RARE_FLAVORS = (Flavor("foreign strings", foreign=True), Flavor("strings with NULs", nuls=True))


def request(
    columns: Sequence[Column],
    inputs: Sequence[Mapping[str, Any]],
    rows: int,
    flavor: Flavor,
    random: Random,
) -> Tensors:
    """The tensors of one request, for what Triton would take."""
    by_name = {column.name: column for column in columns}
    tensors: Tensors = {}
    lengths: dict[str, list[int]] = {}
    style = random.choice(["any", "any", "one length", "all empty", "first empty", "long"])
    for described in inputs:
        name = described["name"]
        dtype = NUMPY[described["data_type"]]
        if name in by_name:
            shape = [rows, *described["dims"][1:]]
            shape = [random.randint(1, 3) if size < 0 else size for size in shape]
            flat = _values(by_name[name], dtype, int(np.prod(shape)), flavor, random)
            tensors[name] = flat.reshape(shape)
            continue
        base, _, part = name.rpartition("__")
        if base not in lengths:
            lengths[base] = _lengths(rows, style, random)
        if part == "values":
            tensors[name] = _values(by_name[base], dtype, sum(lengths[base]), flavor, random)
        else:
            tensors[name] = np.cumsum([0, *lengths[base]]).astype(dtype)
    return tensors


def _lengths(rows: int, style: str, random: Random) -> list[int]:
    if style == "one length":
        return [random.choice([1, 2, 3, 3])] * rows
    if style == "all empty":
        return [0] * rows if random.random() < 0.7 else [1] * rows
    drawn = [random.choice([0, 1, 1, 2, 3, 5]) for _ in range(rows)]
    if style == "first empty" and rows:
        drawn[0] = 0
    if style == "long" and rows:
        drawn[random.randrange(rows)] = 40
    return drawn


def _values(column: Column, dtype: str, count: int, flavor: Flavor, random: Random) -> Any:
    if dtype == "object":
        array: Any = np.empty(count, dtype=np.object_)
        array[:] = [_word(column, flavor, random) for _ in range(count)]
        return array
    drawn = [_number(column, dtype, flavor, random) for _ in range(count)]
    if dtype == "bool":
        return np.array(drawn).astype("bool")
    with np.errstate(all="ignore"):
        return np.array(drawn, dtype=dtype)


def _word(column: Column, flavor: Flavor, random: Random) -> bytes:
    choice = random.random()
    if flavor.foreign and choice < 0.3:
        return random.choice(FOREIGN_BYTES)
    if flavor.nuls and choice < 0.3:
        return random.choice(NUL_WORDS)
    if choice < flavor.extreme:
        return random.choice([b"", b"None", b"nan", b"x" * 300, b"<NA>", b"0", b"1"])
    if choice < flavor.extreme + flavor.unseen:
        return random.choice(UNSEEN_WORDS)
    words = [str(word).encode() for word in column.pool]
    if not flavor.foreign:
        words = [word for word in words if word.isascii()] or [b"ale"]
    return random.choice(words)


def _number(column: Column, dtype: str, flavor: Flavor, random: Random) -> Any:
    choice = random.random()
    if dtype == "bool":
        return random.random() < 0.5
    extreme = choice < flavor.extreme
    unseen = choice < flavor.extreme + flavor.unseen
    if dtype in ("float16", *FLOATS):
        if flavor.nulls and column.null_share and random.random() < column.null_share:
            return float("nan")
        if extreme:
            return random.choice(_extreme_floats(dtype))
        if unseen:
            return random.choice(
                [random.gauss(0, 1), random.gauss(0, 1e4), -1.0, 0.5, 2.5, 12345.0]
            )
        value = random.choice(column.pool)
        return float(value) if not isinstance(value, str) else 1.0
    limits = np.iinfo(dtype)
    if extreme:
        return random.choice([int(limits.min), int(limits.max), 0, max(-1, int(limits.min)), 1])
    if unseen:
        value = random.choice([random.randrange(0, 127), max(-2, int(limits.min)), 99])
    else:
        chosen = random.choice(column.pool)
        value = int(chosen) if not isinstance(chosen, str) and np.isfinite(chosen) else 1
    return min(max(value, int(limits.min)), int(limits.max))


def _extreme_floats(dtype: str) -> list[float]:
    info = np.finfo(dtype)
    tiny = float(info.tiny)
    return [
        float("nan"),
        float("inf"),
        float("-inf"),
        -0.0,
        0.0,
        float(info.max),
        -float(info.max),
        tiny,
        float(info.smallest_subnormal),
        -float(info.smallest_subnormal),
        tiny / 2,
        -1.0,
        float(np.nextafter(np.array(-1, dtype), np.array(0, dtype))),
        0.1,
        1e20,
        16777217.0,
    ]


MALFORMED = (
    "offsets start at 1",
    "offsets start below 0",
    "offsets end early",
    "offsets end late",
    "offsets decrease",
    "no offsets",
    "a column is shorter",
    "a column is longer",
    "a column has two dimensions",
    "all columns have two dimensions",
    "a column is missing",
)


def malformed(tensors: Tensors, kind: str, random: Random) -> Tensors | None:
    """The request with a fault; nothing if it has no place for such a one."""
    made = dict(tensors)
    offsets = [name for name in made if name.endswith("__offsets")]
    plain = [name for name in made if not name.endswith(("__offsets", "__values"))]
    if "offsets" in kind:
        if not offsets:
            return None
        name = random.choice(offsets)
        array = made[name].copy()
        if kind == "offsets start at 1":
            array[0] = 1
        elif kind == "offsets start below 0":
            array[0] = random.choice([-1, -3, np.iinfo(array.dtype).min])
        elif kind == "offsets end early":
            array[-1] -= 1
        elif kind == "offsets end late":
            array[-1] += 1
        elif kind == "offsets decrease":
            if len(array) < 3:
                return None
            place = random.randrange(1, len(array) - 1)
            array[place] = array[-1] + 1
        else:
            array = array[:0]
        made[name] = array
        return made
    if kind == "a column is missing":
        del made[random.choice(list(made))]
        return made
    if not plain:
        return None
    name = random.choice(plain)
    if kind == "a column is shorter":
        made[name] = made[name][:-1]
    elif kind == "a column is longer":
        made[name] = np.concatenate([made[name], made[name][:1]])
    elif kind == "a column has two dimensions":
        array = made[name]
        made[name] = np.stack([array, array[::-1]], axis=1) if array.ndim == 1 else array
    else:
        made.update({name: made[name][:, None] for name in plain if made[name].ndim == 1})
    return made
