"""A compiled workflow of every operator that counts, its requests, and their count in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ensemble_tools.workflows.program import Means, Program, Step, Table, program_text
from ensemble_tools.workflows.runtime.feature_counts import BUCKETS
from ensemble_tools.workflows.runtime.operations.categorify import Categorify
from ensemble_tools.workflows.runtime.operations.filling import Fill
from ensemble_tools.workflows.runtime.operations.scaling import Normalize, Scale
from ensemble_tools.workflows.runtime.operations.table_joins import Join
from ensemble_tools.workflows.runtime.operations.target_encoding import TargetEncode
from ensemble_tools.workflows.runtime.program import COUNTS, LoadedProgram
from ensemble_tools.workflows.runtime.tensors import InputColumn, OutputColumn
from ensemble_tools.workflows.tables import write_tables
from tests.support.category_files import parquet, span

_RANDOM = np.random.default_rng(5)
USERS = _RANDOM.permutation(np.arange(100, 300))
TAGS = np.array([f"tag{number}".encode() for number in _RANDOM.permutation(50)])
#: A user's number among USERS with that of a tag among TAGS.
PAIRS = [(user, (7 * user) % 50) for user in range(80)]
GENRES = _RANDOM.permutation(np.arange(40))
CODES = np.arange(21) + 0.5
#: Of the users and tags, those that JoinGroupby and TargetEncoding know; a tag is in one fold.
JOINED, ENCODED, FOLDS = USERS[:150], TAGS[:30], 3
LOW, HIGH = 18, 64
MEAN, STD = 10.0, 2.5


def sizes(vocabulary: Sequence[Any]) -> Any:
    """Rows that each category was fitted to."""
    return np.arange(len(vocabulary), 0, -1) ** 2


def write_program(directory: Path, counts: bool) -> Path:
    """Publish it in a version's directory; the directory of its counts."""
    tables, sources = directory / "tables", directory / "sources"
    for folder in (tables, sources, *([directory / COUNTS] if counts else [])):
        folder.mkdir(parents=True)
    rows = write_tables(_tables(sources), tables)
    (tables / "program.json").write_text(program_text(_program(), rows))
    return directory / COUNTS


def load_program(directory: Path) -> LoadedProgram:
    """As a model's process loads it."""
    return LoadedProgram(directory / "tables")


def make_requests(seed: int, count: int, most_rows: int = 30) -> list[dict[str, Any]]:
    """Requests with unseen values and nulls, and with so few values that none is sampled."""
    random = np.random.default_rng(seed)
    return [_request(random, int(random.integers(1, most_rows))) for _ in range(count)]


def count_in_numpy(requests: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By column, what is counted of all requests."""
    came = {name: np.concatenate([it[name] for it in requests]) for name in requests[0]}
    tags = came["tag"].astype("S")
    price = came["price"].astype(np.float64)
    filled = np.where(np.isnan(price), 0.0, price)
    finite = filled[np.isfinite(filled)]
    age, code = came["age"].astype(np.float64), came["code"]
    users, tag_numbers = (
        _places(values, known) for values, known in ((came["user"], USERS), (tags, TAGS))
    )
    pairs = {pair: place for place, pair in enumerate(PAIRS)}
    both = np.array([pairs.get(pair, -1) for pair in zip(users, tag_numbers, strict=True)])
    rows = len(users)
    return {
        "user": _of_places(users, USERS),
        "tag": _of_places(tag_numbers, TAGS),
        "user_tag": _of_places(both, PAIRS),
        "genres": _of_places(_places(came["genres__values"], GENRES), GENRES),
        "code": _of_places(_places(code, CODES), CODES, np.isnan(code)),
        "user (JoinGroupby)": {"values": rows, "unseen": _absent(came["user"], JOINED)},
        "tag (TargetEncoding)": {"values": rows, "unseen": _absent(tags, ENCODED)},
        "price": {
            "values": rows,
            "nulls": int(np.isnan(price).sum()),
            "finite": len(finite),
            "sum": finite.sum(),
            "sum_of_squares": (finite**2).sum(),
        },
        "age": {"values": rows, "outside": int(((age < LOW) | (age > HIGH)).sum())},
    }


def fitted_buckets(vocabulary: Sequence[Any]) -> tuple[int, ...]:
    """The rows that its categories were fitted to, by bucket."""
    buckets: Any = np.arange(len(vocabulary)) * BUCKETS // len(vocabulary)
    return tuple(int(sizes(vocabulary)[buckets == bucket].sum()) for bucket in range(BUCKETS))


def _of_places(places: Any, vocabulary: Sequence[Any], nulls: Any = False) -> dict[str, Any]:
    nulls = np.zeros(len(places), bool) | nulls
    known = places[(places >= 0) & ~nulls] * BUCKETS // len(vocabulary)
    return {
        "values": len(places),
        "nulls": int(nulls.sum()),
        "unseen": int(((places < 0) & ~nulls).sum()),
        "buckets": tuple(np.bincount(known, minlength=BUCKETS).tolist()),
    }


def _places(values: Any, vocabulary: Any) -> Any:
    """Where each stands in a vocabulary, -1 for nowhere."""
    is_equal = np.asarray(values)[:, None] == np.asarray(vocabulary)[None, :]
    return np.where(is_equal.any(axis=1), is_equal.argmax(axis=1), -1)


def _absent(values: Any, known: Any) -> int:
    return int((~np.isin(values, known)).sum())


def _request(random: np.random.Generator, rows: int) -> dict[str, Any]:
    lengths = random.integers(0, 5, rows)
    code = random.choice([*CODES, 99.5, np.nan], rows)
    code[0] = CODES[0]  # Categorify refuses a column of nulls
    price = random.normal(12, 3, rows).astype(np.float32)
    price[random.random(rows) < 0.1] = np.nan
    price[random.random(rows) < 0.05] = np.inf
    return {
        "user": random.integers(80, 320, rows),
        "tag": random.choice([*TAGS, b"new", b"tag1234567"], rows).astype(object),
        "price": price,
        "genres__values": random.integers(-3, 43, lengths.sum()),
        "genres__offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        "age": random.integers(1, 90, rows).astype(np.int32),
        "code": code,
    }


def _tables(sources: Path) -> list[Table]:
    def file(name: str, labelled: Sequence[Any] = (), **columns: Any) -> Path:
        count = len(next(iter(columns.values())))
        if len(labelled):
            columns[f"{name}_size"] = sizes(labelled)
        return parquet(sources / f"{name}.parquet", span(0, count), **columns)

    tags = [tag.decode() for tag in TAGS]
    users, of_users = ([pair[part] for pair in PAIRS] for part in (0, 1))
    pair_columns = {"user": USERS[users], "tag": [tags[number] for number in of_users]}
    encoded = [tag.decode() for tag in ENCODED]
    folds: Any = np.arange(len(encoded)) % FOLDS
    sums: dict[str, Any] = {"count": np.ones(len(encoded)), "label_sum": np.ones(len(encoded))}
    return [
        Table(file("user", USERS, user=USERS), ("user",), ("int",), shift=3),
        Table(file("tag", TAGS, tag=tags), ("tag",), ("text",), shift=6),
        Table(file("user_tag", PAIRS, **pair_columns), ("user", "tag"), ("int", "text"), shift=3),
        Table(file("genres", GENRES, genres=GENRES), ("genres",), ("int",), shift=3),
        Table(file("code", CODES, code=CODES), ("code",), ("float",), shift=3),
        Table(
            file("joined", user=JOINED, user_count=np.arange(len(JOINED))),
            ("user",),
            ("whole",),
            beside=("user_count",),
        ),
        Table(
            file("encoded", __fold__=folds, tag=encoded, **sums),
            ("__fold__", "tag"),
            ("whole", "text"),
            means=Means(None, 20.0, (0.5,)),
        ),
    ]


def _program() -> Program:
    plain = {name: number for number, name in enumerate(("user", "tag", "price"))}
    inputs = (
        *(InputColumn(name, (name,), name == "tag") for name in plain),
        InputColumn("genres", ("genres__values", "genres__offsets"), False),
        InputColumn("age", ("age",), False),
        InputColumn("code", ("code",), False),
    )

    def categorify(table: int, *columns: str, buckets: int | None = None) -> Categorify:
        return Categorify(table, 1, buckets, "int64", columns)

    steps = [
        (Join(5, (("user_count", None),), ("user",)), (0,), "JoinGroupby", ("user",)),
        (categorify(0, "user"), (0,), "Categorify", ("user",)),
        (categorify(1, "tag", buckets=4), (1,), "Categorify", ("tag",)),
        (categorify(2, "user", "tag"), (0, 1), "Categorify", ("user_tag",)),
        (categorify(3, "genres"), (3,), "Categorify", ("genres",)),
        (categorify(4, "code"), (5,), "Categorify", ("code",)),
        (
            TargetEncode(6, (0.5,), FOLDS, None, ("float32",), False),
            (1,),
            "TargetEncoding",
            ("tag",),
        ),
        (Fill(0), (2,), "FillMissing", ("price",)),
        (Normalize(MEAN, STD, "float32", "price"), (13,), "Normalize", ("price",)),
        (Scale(LOW, HIGH, "float32", "age"), (4,), "NormalizeMinMax", ("age",)),
        (categorify(0, "user"), (0,), "Categorify", ("user",)),  # once more, as tags make it
    ]
    written = tuple(
        Step(operation, reads, (6 + number,), operator, columns)
        for number, (operation, reads, operator, columns) in enumerate(steps)
    )
    outputs = tuple(
        OutputColumn(f"out{number}", (f"out{number}",), 6 + number, number == 4, dtype, (None,))
        for number, dtype in enumerate(["f8", *["i8"] * 5, *["f8"] * 4, "i8"])
    )
    return Program(inputs, written, outputs, 17, ())
