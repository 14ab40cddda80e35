"""Invocations: latency at one connection and throughput at sixteen, of each kind of payload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from bench import payloads, wrk
from bench.measure import Goal, Line, ratio_at_least, ratio_at_most
from bench.payloads import Payload
from bench.rows.row import Row, Run
from bench.wrk import Target

_FEATURES = 140


@dataclass(frozen=True)
class Kind:
    """A payload of one size, and what makes the model that it is sent to."""

    what: str
    make: Callable[[], Payload]
    prepare_model: Callable[[Run], str]
    in_short: bool = True


def prepare_identity(run: Run, datatype: str = "FP32", rank: int = 1) -> str:
    """The identity model of that data type and rank, loaded in all three; its name."""
    name = f"identity-{datatype.lower()}-{rank}d"
    run.contenders.archives.write_identity(name, datatype, rank)
    run.contenders.keep_loaded(name)
    return name


def _prepare_features(run: Run) -> str:
    name = run.contenders.archives.write_features(f"features-{_FEATURES}", _FEATURES)
    run.contenders.keep_loaded(name)
    return name


def _measure_latencies(goal: Goal | None, kinds: tuple[Kind, ...], run: Run) -> Iterator[Line]:
    for kind in kinds:
        if kind.in_short or not run.short:
            targets, size = _list_targets(run, kind)
            note = f"request of {size / 1e3:,.0f} KB" if size > 1000 else ""
            values = run.send(kind.what, targets)
            yield Line(f"{kind.what}, p50", "s", values, goal, note=note)


def _measure_throughput(goal: Goal | None, kinds: tuple[Kind, ...], run: Run) -> Iterator[Line]:
    for kind in kinds:
        targets, _ = _list_targets(run, kind)
        what = f"{kind.what}, 16 connections"
        values = run.send(what, targets, wrk.measure_rate)
        yield Line(f"{what}, throughput", "requests/s", values, goal)


def _list_targets(run: Run, kind: Kind) -> tuple[dict[str, Target], int]:
    """By contender, and the size of the request."""
    model, payload = kind.prepare_model(run), kind.make()
    targets = {
        name: run.prepare_target(server, model, payload, kind.what)
        for name, server in run.contenders.servers.items()
    }
    return targets, len(payload.body)


def _json(
    what: str,
    datatype: str,
    count: int,
    *,
    in_short: bool = True,
    columns: int | None = None,
) -> Kind:
    """Random values; with columns a matrix."""
    make = partial(payloads.make_json, datatype, count, columns=columns)
    model = partial(prepare_identity, datatype=datatype, rank=2 if columns else 1)
    return Kind(f"JSON {what}", make, model, in_short)


def _strings(what: str, make: Callable[[], Payload]) -> Kind:
    return Kind(f"JSON BYTES{what}", make, partial(prepare_identity, datatype="BYTES"))


def _binary(megabytes: int) -> Kind:
    make = partial(payloads.make_binary, megabytes * 10**6)
    return Kind(f"binary {megabytes} MB", make, prepare_identity)


def _features(rows: int) -> Kind:
    make = partial(payloads.make_features, _FEATURES, rows)
    return Kind(f"JSON {_FEATURES} features, {rows} rows", make, _prepare_features)


_HOW_LATENCY = (
    "wrk, one thread and one connection, the same request over and over to a Python model that "
    "answers what it was given; rival, limit and ours in turn, the median of the rounds' p50. "
    "Each contender's answer is compared value by value before anything is timed."
)
_HOW_THROUGHPUT = (
    "wrk, one thread and 16 connections, the same request over and over; rival, limit and ours "
    "in turn, the median of the rounds' requests a second."
)
_SHORT = {
    "small_json_p50",
    "small_json_throughput_16",
    "binary_1mb",
    "json_190kb",
    "json_1_9mb",
    "json_int64",
}
_BINARY, _LARGE, _OTHER = ratio_at_most(1.15), ratio_at_most(0.33), ratio_at_most(0.7)
_1_9_MB = _json("FP32 1.9 MB", "FP32", 100_000)

#: Name, title, goal, and the kinds of payloads.
_TABLE: tuple[tuple[str, str, Goal | None, tuple[Kind, ...]], ...] = (
    (
        "small_json_p50",
        "Small JSON, one connection",
        ratio_at_most(1.6),
        (Kind("small JSON, 1 connection", payloads.make_small, prepare_identity),),
    ),
    (
        "small_json_throughput_16",
        "Small JSON, sixteen connections",
        ratio_at_least(0.8),
        (Kind("small JSON", payloads.make_small, prepare_identity),),
    ),
    ("binary_1mb", "Binary, 1 MB", _BINARY, (_binary(1),)),
    ("binary_5mb", "Binary, 5 MB", _BINARY, (_binary(5),)),
    (
        "json_middling",
        "JSON where it begins to be translated",
        None,
        (
            _json("FP32 32 KB", "FP32", 1_700),
            _json("FP32 65 KB", "FP32", 3_450),
            _json("FP32 130 KB", "FP32", 6_800),
        ),
    ),
    ("json_190kb", "JSON of 10 000 FP32", _LARGE, (_json("FP32 190 KB", "FP32", 10_000),)),
    ("json_1_9mb", "JSON of 100 000 FP32", _LARGE, (_1_9_MB,)),
    (
        "json_1_9mb_throughput_16",
        "JSON of 100 000 FP32, sixteen connections",
        None,
        (_1_9_MB,),
    ),
    ("json_5_5mb", "JSON of 290 000 FP32", _LARGE, (_json("FP32 5.5 MB", "FP32", 290_000),)),
    (
        "json_int64",
        "JSON of INT64 ids",
        _OTHER,
        (
            _json("INT64 200 KB", "INT64", 18_500),
            _json("INT64 2 MB", "INT64", 185_000, in_short=False),
        ),
    ),
    (
        "json_fp64",
        "JSON of FP64 with 17 digits",
        _OTHER,
        (_json("FP64 200 KB", "FP64", 10_300), _json("FP64 2 MB", "FP64", 103_000)),
    ),
    (
        "json_bytes",
        "JSON of strings",
        _OTHER,
        (
            _json("BYTES 200 KB", "BYTES", 13_000),
            _json("BYTES 2 MB", "BYTES", 130_000),
            _strings(" without escapes 200 KB", partial(payloads.make_strings, 13_500)),
            _strings(", one string of 200 KB", partial(payloads.make_long_string, 200_000)),
        ),
    ),
    (
        "json_bool",
        "JSON of booleans",
        _OTHER,
        (_json("BOOL 200 KB", "BOOL", 36_000), _json("BOOL 2 MB", "BOOL", 360_000)),
    ),
    (
        "json_nested",
        "JSON of nested lists, FP32 in two dimensions",
        _OTHER,
        (
            _json("nested 200 KB", "FP32", 10_000, columns=100),
            _json("nested 2 MB", "FP32", 100_000, columns=100),
        ),
    ),
    ("json_features", f"JSON of {_FEATURES} features", _OTHER, (_features(8), _features(64))),
)


def _make_row(name: str, title: str, goal: Goal | None, kinds: tuple[Kind, ...]) -> Row:
    how, measure = _HOW_LATENCY, _measure_latencies
    if name.endswith("_throughput_16"):
        how, measure = _HOW_THROUGHPUT, _measure_throughput
    return Row(name, title, how, partial(measure, goal, kinds), name in _SHORT)


ROWS = tuple(_make_row(*row) for row in _TABLE)
