"""Invocations: latency at one connection and throughput at sixteen, of each kind of payload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from bench import payloads
from bench.measure import Goal, Line, measure_in_turn, ratio_at_least, ratio_at_most
from bench.payloads import Payload
from bench.rows import timed
from bench.rows.row import Row, Run

_FEATURES = 140


@dataclass(frozen=True)
class Kind:
    """A payload of one size, and the model that it is sent to, loaded in rival and ours."""

    what: str
    model: Callable[[Run], str]
    make: Callable[[], Payload]
    in_short: bool = True


def identity(run: Run, datatype: str = "FP32", rank: int = 1) -> str:
    """The identity model of that data type and rank, loaded in rival and ours; its name."""
    name = f"identity-{datatype.lower()}-{rank}d"
    run.contenders.archives.identity(name, datatype, rank)
    run.contenders.keep_loaded(name)
    return name


def _side_by_side(run: Run) -> str:
    name = run.contenders.archives.features(f"features-{_FEATURES}", _FEATURES)
    run.contenders.keep_loaded(name)
    return name


def _latencies(goal: Goal | None, kinds: tuple[Kind, ...], run: Run, row: str) -> Iterator[Line]:
    for kind in kinds:
        if run.short and not kind.in_short:
            continue
        model, payload = kind.model(run), kind.make()
        targets = {}
        for side in run.contenders.sides:
            side.check(model, payload, kind.what)
            targets[side.name] = side.target(run.scratch, model, payload)
        values = measure_in_turn(
            run.rounds,
            {
                name: partial(timed.measure_p50, target, run.seconds)
                for name, target in targets.items()
            },
            run.teller(row, kind.what),
            warm=run.warm,
        )
        note = f"request of {len(payload.body) / 1e3:,.0f} KB" if len(payload.body) > 1000 else ""
        yield Line(row, f"{kind.what}, p50", "s", values, goal, note=note)


def _throughput(kind: Kind, goal: Goal | None, run: Run, row: str) -> Iterator[Line]:
    model, payload = kind.model(run), kind.make()
    targets = {}
    for side in run.contenders.sides:
        side.check(model, payload, kind.what)
        targets[side.name] = side.target(run.scratch, model, payload)
    sides = {
        name: partial(timed.measure_rate, target, run.seconds) for name, target in targets.items()
    }
    values = measure_in_turn(run.rounds, sides, run.teller(row, "16 connections"), warm=run.warm)
    yield Line(row, f"{kind.what}, 16 connections, throughput", "requests/s", values, goal)


def _json(what: str, datatype: str, count: int, in_short: bool = True) -> Kind:
    model = partial(identity, datatype=datatype)
    return Kind(what, model, partial(payloads.json_values, datatype, count), in_short)


def _nested(what: str, count: int) -> Kind:
    make = partial(payloads.json_values, "FP32", count, columns=100)
    return Kind(what, partial(identity, rank=2), make)


def _strings(what: str, make: Callable[[], Payload]) -> Kind:
    return Kind(what, partial(identity, datatype="BYTES"), make)


def _binary(what: str, size: int) -> Kind:
    return Kind(what, identity, partial(payloads.binary_bytes, size))


def _row(
    name: str,
    title: str,
    goal: Goal | None,
    *kinds: Kind,
    in_short: bool = False,
    profile: str = "",
) -> Row:
    return Row(name, title, _HOW_LATENCY, partial(_latencies, goal, kinds), in_short, profile)


_HOW_LATENCY = (
    "wrk, one thread and one connection, the same request over and over to a Python model that "
    "answers what it was given; rival, limit and ours in turn, the median of the rounds' p50. "
    "Each contender's answer is compared value by value before anything is timed."
)
_HOW_THROUGHPUT = (
    "wrk, one thread and 16 connections, the same request over and over; rival, limit and ours "
    "in turn, the median of the rounds' requests a second."
)
_ONE_MORE = (
    "a process more between two sockets: for each request two reads, two writes and two waits of "
    "its own, and 20 to 30 microseconds of Python."
)
_COPIES = (
    "a body is received whole and then sent on, and so is its answer: two more passes through the "
    "loopback device and its copies, 0.7 ms of the system's time for each MB in and out. Passing "
    "on what has come while more comes needs more system calls and gained nothing on two cores "
    "(docs/performance.md)."
)
_NUMBERS = (
    "of 100 000 FP32 in and out reading their 1.9 MB takes 4.3 ms (simdjson) and writing 2.5 ms "
    "(orjson); numbers have up to 17 digits, since tritonserver writes an FP32 as the double that "
    "it is. The rest is what the same tensors cost in the binary form."
)
_STRINGS = (
    "four fifths of it are the model's own: tritonserver's Python backend takes strings apart and "
    "puts them together one by one, in Python, whatever form they come in."
)
_COLUMNS = (
    "140 inputs cost tritonserver and the model 1.6 ms even in the binary form. A text of many "
    "short lists is left as it is: reading it here takes as long as tritonserver takes."
)
_BINARY, _LARGE, _OTHER = ratio_at_most(1.15), ratio_at_most(0.33), ratio_at_most(0.7)

ROWS = (
    _row(
        "small_json_p50",
        "Small JSON, one connection",
        ratio_at_most(1.6),
        Kind("small JSON, 1 connection", identity, payloads.small),
        in_short=True,
        profile=_ONE_MORE,
    ),
    Row(
        "small_json_throughput_16",
        "Small JSON, sixteen connections",
        _HOW_THROUGHPUT,
        partial(_throughput, Kind("small JSON", identity, payloads.small), ratio_at_least(0.8)),
        in_short=True,
        profile=(
            "110 to 155 microseconds of CPU a request in the server's process, on two cores that "
            "tritonserver, the model's process and wrk share, which need about as much together. "
            "Of its samples 85 % are in the kernel and in uvloop, two reads, two writes and two "
            "waits a request, and 15 % in Python."
        ),
    ),
    _row(
        "binary_1mb",
        "Binary, 1 MB",
        _BINARY,
        _binary("binary 1 MB", 10**6),
        in_short=True,
        profile=_COPIES,
    ),
    _row(
        "binary_5mb",
        "Binary, 5 MB",
        _BINARY,
        _binary("binary 5 MB", 5 * 10**6),
        profile=_COPIES,
    ),
    _row(
        "json_middling",
        "JSON where it begins to be translated",
        None,
        _json("JSON FP32 32 KB", "FP32", 1_700),
        _json("JSON FP32 65 KB", "FP32", 3_450),
        _json("JSON FP32 130 KB", "FP32", 6_800),
    ),
    _row(
        "json_190kb",
        "JSON of 10 000 FP32",
        _LARGE,
        _json("JSON FP32 190 KB", "FP32", 10_000),
        in_short=True,
        profile=_NUMBERS,
    ),
    _row(
        "json_1_9mb",
        "JSON of 100 000 FP32",
        _LARGE,
        _json("JSON FP32 1.9 MB", "FP32", 100_000),
        in_short=True,
        profile=_NUMBERS,
    ),
    Row(
        "json_1_9mb_throughput_16",
        "JSON of 100 000 FP32, sixteen connections",
        _HOW_THROUGHPUT,
        partial(_throughput, _json("JSON FP32 1.9 MB", "FP32", 100_000), None),
        profile=(
            "about 7 ms of one core a request in the server's process, whatever the number of "
            "cores; untranslated 2.5 ms there and 22 ms in tritonserver, on any core. With more "
            "than three or four cores and many callers SERVE_TRANSLATE_JSON_FROM=0 serves more."
        ),
    ),
    _row(
        "json_5_5mb",
        "JSON of 290 000 FP32",
        _LARGE,
        _json("JSON FP32 5.5 MB", "FP32", 290_000),
        profile=_NUMBERS,
    ),
    _row(
        "json_int64",
        "JSON of INT64 ids",
        _OTHER,
        _json("JSON INT64 200 KB", "INT64", 18_500),
        _json("JSON INT64 2 MB", "INT64", 185_000, in_short=False),
        in_short=True,
        profile=_NUMBERS,
    ),
    _row(
        "json_fp64",
        "JSON of FP64 with 17 digits",
        _OTHER,
        _json("JSON FP64 200 KB", "FP64", 10_300),
        _json("JSON FP64 2 MB", "FP64", 103_000),
        profile=_NUMBERS,
    ),
    _row(
        "json_bytes",
        "JSON of strings",
        _OTHER,
        _json("JSON BYTES 200 KB", "BYTES", 13_000),
        _json("JSON BYTES 2 MB", "BYTES", 130_000),
        _strings("JSON BYTES without escapes 200 KB", partial(payloads.plain_strings, 13_500)),
        _strings("JSON BYTES, one string of 200 KB", partial(payloads.long_string, 200_000)),
        profile=_STRINGS,
    ),
    _row(
        "json_bool",
        "JSON of booleans",
        _OTHER,
        _json("JSON BOOL 200 KB", "BOOL", 36_000),
        _json("JSON BOOL 2 MB", "BOOL", 360_000),
    ),
    _row(
        "json_nested",
        "JSON of nested lists, FP32 in two dimensions",
        _OTHER,
        _nested("JSON nested 200 KB", 10_000),
        _nested("JSON nested 2 MB", 100_000),
        profile=_NUMBERS,
    ),
    _row(
        "json_features",
        f"JSON of {_FEATURES} features",
        _OTHER,
        *(
            Kind(
                f"JSON {_FEATURES} features, {rows} rows",
                _side_by_side,
                partial(payloads.features, _FEATURES, rows),
            )
            for rows in (8, 64)
        ),
        profile=_COLUMNS,
    ),
)
