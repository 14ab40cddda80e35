"""Invocations: latency at one connection and throughput at sixteen, of each kind of payload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from bench import payloads, wrk
from bench.measure import Goal, Line, in_turn, ratio_at_least, ratio_at_most
from bench.payloads import Payload
from bench.rows.row import Row, Run


@dataclass(frozen=True)
class Kind:
    """A payload of one size to the identity model of its data type and rank."""

    what: str
    datatype: str
    make: Callable[[], Payload]
    rank: int = 1
    in_short: bool = True


def identity(run: Run, datatype: str = "FP32", rank: int = 1) -> str:
    """The name of that model, loaded in rival and ours."""
    name = f"identity-{datatype.lower()}-{rank}d"
    run.contenders.archives.identity(name, datatype, rank)
    run.contenders.keep_loaded(name)
    return name


def _latencies(goal: Goal, kinds: tuple[Kind, ...], run: Run, row: str) -> Iterator[Line]:
    for kind in kinds:
        if run.short and not kind.in_short:
            continue
        model, payload = identity(run, kind.datatype, kind.rank), kind.make()
        targets = {}
        for side in run.contenders.sides:
            side.check(model, payload, kind.what)
            targets[side.name] = side.target(run.scratch, model, payload)
        values = in_turn(
            run.rounds,
            {name: partial(_p50, target, run.seconds) for name, target in targets.items()},
            run.teller(row, kind.what),
            warm=run.warm,
        )
        note = f"request of {len(payload.body) / 1e3:,.0f} KB" if len(payload.body) > 1000 else ""
        series = {"request_bytes": [float(len(payload.body))]}
        yield Line(row, f"{kind.what}, p50", "s", values, goal, note=note, series=series)


def _throughput(run: Run, row: str) -> Iterator[Line]:
    model, payload = identity(run), payloads.small()
    targets = {}
    for side in run.contenders.sides:
        side.check(model, payload, "small JSON")
        targets[side.name] = side.target(run.scratch, model, payload)
    sides = {name: partial(_rate, target, run.seconds) for name, target in targets.items()}
    values = in_turn(run.rounds, sides, run.teller(row, "16 connections"), warm=run.warm)
    what = "small JSON, 16 connections, throughput"
    yield Line(row, what, "requests/s", values, ratio_at_least(0.8))


def _p50(target: wrk.Target, seconds: float) -> float:
    return wrk.run(target, seconds).p50


def _rate(target: wrk.Target, seconds: float) -> float:
    return wrk.run(target, seconds, connections=16).per_second


def _json(what: str, datatype: str, count: int, in_short: bool = True) -> Kind:
    return Kind(what, datatype, partial(payloads.json_values, datatype, count), in_short=in_short)


def _nested(what: str, count: int) -> Kind:
    make = partial(payloads.json_values, "FP32", count, columns=100)
    return Kind(what, "FP32", make, rank=2)


def _binary(what: str, size: int) -> Kind:
    return Kind(what, "FP32", partial(payloads.binary_bytes, size))


def _row(name: str, title: str, goal: Goal, *kinds: Kind, in_short: bool = False) -> Row:
    return Row(name, title, _HOW_LATENCY, partial(_latencies, goal, kinds), in_short)


_HOW_LATENCY = (
    "wrk, one thread and one connection, the same request over and over to a Python model that "
    "answers what it was given; rival, limit and ours in turn, the median of the rounds' p50. "
    "Each contender's answer is compared value by value before anything is timed."
)
_HOW_THROUGHPUT = (
    "wrk, one thread and 16 connections, the same 70 bytes over and over; rival, limit and ours "
    "in turn, the median of the rounds' requests a second."
)
_BINARY, _LARGE, _OTHER = ratio_at_most(1.15), ratio_at_most(0.33), ratio_at_most(0.7)

ROWS = (
    _row(
        "small_json_p50", "Small JSON, one connection", ratio_at_most(1.6),
        Kind("small JSON, 1 connection", "FP32", payloads.small), in_short=True,
    ),
    Row(
        "small_json_throughput_16", "Small JSON, sixteen connections", _HOW_THROUGHPUT,
        _throughput, in_short=True,
    ),
    _row("binary_1mb", "Binary, 1 MB", _BINARY, _binary("binary 1 MB", 10**6), in_short=True),
    _row("binary_5mb", "Binary, 5 MB", _BINARY, _binary("binary 5 MB", 5 * 10**6)),
    _row(
        "json_190kb", "JSON of 10 000 FP32", _LARGE,
        _json("JSON FP32 190 KB", "FP32", 10_000), in_short=True,
    ),
    _row(
        "json_1_9mb", "JSON of 100 000 FP32", _LARGE,
        _json("JSON FP32 1.9 MB", "FP32", 100_000), in_short=True,
    ),
    _row(
        "json_5_5mb", "JSON of 290 000 FP32", _LARGE, _json("JSON FP32 5.5 MB", "FP32", 290_000)
    ),
    _row(
        "json_int64", "JSON of INT64 ids", _OTHER,
        _json("JSON INT64 200 KB", "INT64", 18_500),
        _json("JSON INT64 2 MB", "INT64", 185_000, in_short=False), in_short=True,
    ),
    _row(
        "json_fp64", "JSON of FP64 with 17 digits", _OTHER,
        _json("JSON FP64 200 KB", "FP64", 10_300), _json("JSON FP64 2 MB", "FP64", 103_000),
    ),
    _row(
        "json_bytes", "JSON of strings", _OTHER,
        _json("JSON BYTES 200 KB", "BYTES", 13_000), _json("JSON BYTES 2 MB", "BYTES", 130_000),
    ),
    _row(
        "json_bool", "JSON of booleans", _OTHER,
        _json("JSON BOOL 200 KB", "BOOL", 36_000), _json("JSON BOOL 2 MB", "BOOL", 360_000),
    ),
    _row(
        "json_nested", "JSON of nested lists, FP32 in two dimensions", _OTHER,
        _nested("JSON nested 200 KB", 10_000), _nested("JSON nested 2 MB", 100_000),
    ),
)  # fmt: skip
