"""What operators are told, and what it costs each invocation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from tempfile import TemporaryDirectory

from bench import payloads, wrk
from bench.measure import Goal, Line, Unit, ratio_at_least, ratio_at_most
from bench.models import find_export
from bench.payloads import Payload
from bench.rows.row import Row, Run
from bench.servers import Container
from bench.wrk import Target

#: The settings that each of the containers is started with.
_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "nothing": {"SERVE_METRICS": "off", "SERVE_ACCESS_LOG": "off"},
    "ours": {},
    "every line": {"SERVE_ACCESS_LOG": "all", "SERVE_LOG_FORMAT": "json"},
}
#: One that also captures every request to a directory.
_CAPTURING = "captured"
_MODEL = "identity-fp32-1d"
#: A difference of a hundredth shows only in the median of many short rounds.
_TIMES_THE_ROUNDS = 10


def _compare(
    timing: Callable[[Target, float], float],
    what: str,
    unit: Unit,
    goal: Goal,
    run: Run,
    *,
    on_one_core: bool = False,
) -> Iterator[Line]:
    contenders, payload = run.contenders, payloads.make_small()
    contenders.archives.write_identity(_MODEL)
    with ExitStack() as undo:
        if on_one_core:
            undo.enter_context(_use_one_core())
        targets: dict[str, Target] = {}
        captures = undo.enter_context(TemporaryDirectory(prefix="bench-captures-"))
        capturing = {"SERVE_CAPTURE": captures, "SERVE_CAPTURE_MB": "8192"}
        for name, settings in {**_SETTINGS, _CAPTURING: capturing}.items():
            server = undo.enter_context(contenders.start_ours(name, settings))
            undo.enter_context(server.loaded(_MODEL))
            targets[name] = run.prepare_target(server, _MODEL, payload, what)
        values = run.send(what, targets, timing, rounds=run.rounds * _TIMES_THE_ROUNDS)
    yield Line(what, unit, values, goal, against="nothing")


@contextmanager
def _use_one_core() -> Iterator[None]:
    """What is started in the block, wrk too, has one core for all of it."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


#: Criteo's columns: 26 with a vocabulary, and 13 numbers.
_FEATURES = "merlin_criteo"
_COUNTING: Mapping[str, Mapping[str, str]] = {
    "nothing": {"SERVE_FEATURE_METRICS": "off"},
    "ours": {"SERVE_FEATURE_METRICS": "models"},
}


def _compare_counting(run: Run) -> Iterator[Line]:
    contenders, source = run.contenders, find_export(_FEATURES)
    model = contenders.archives.copy_export(f"counted-{_FEATURES}", _FEATURES)
    tensors = payloads.read_request(source / "request.json")
    with ExitStack() as undo:
        servers = {
            name: undo.enter_context(contenders.start_ours(name, settings))
            for name, settings in _COUNTING.items()
        }
        for rows, most in ((5, 1.03), (1024, 1.01)):
            what = f"{rows:,} rows of 39 columns"
            payload = payloads.encode_binary(payloads.repeat_rows(tensors, rows))
            values: dict[str, list[float]] = {name: [] for name in servers}
            for _ in range(run.rounds):  # processes of one model differ by more than a hundredth
                for name, measured in _measure_loaded(run, servers, model, payload, what).items():
                    values[name] += measured
            goal = ratio_at_most(most)
            yield Line(f"{what}, p50", "s", values, goal, against="nothing")


def _measure_loaded(
    run: Run, servers: Mapping[str, Container], model: str, payload: Payload, what: str
) -> dict[str, list[float]]:
    """The p50 of a model that is loaded for it, by server."""
    with ExitStack() as undo:
        for server in servers.values():
            undo.enter_context(server.loaded(model))
        payload = servers["nothing"].take_answer(model, payload, payloads.TOLERANCE, what)
        targets = {
            name: run.prepare_target(server, model, payload, what)
            for name, server in servers.items()
        }
        return run.send(what, targets, rounds=_TIMES_THE_ROUNDS)


_HOW = (
    "Four containers at the same time, each with the same model of small JSON: one that tells "
    "nothing (SERVE_METRICS=off, SERVE_ACCESS_LOG=off), one with default settings, one that also "
    "writes a line of JSON for every invocation (SERVE_ACCESS_LOG=all) to a file, one with default "
    "settings that captures every request (SERVE_CAPTURE, a directory). wrk asks them "
    f"in turn; {_TIMES_THE_ROUNDS} short rounds stand for each round of other rows."
)

ROWS = (
    Row(
        "observed_p50",
        "What observing costs, one connection",
        _HOW,
        partial(
            _compare,
            wrk.measure_p50,
            "small JSON, 1 connection, p50",
            "s",
            ratio_at_most(1.03),
        ),
    ),
    Row(
        "observed_on_one_core",
        "What observing costs, sixteen connections on one core",
        _HOW + " All of it, wrk too, has one core: where there are several, how the scheduler "
        "spreads servers and wrk over them moves a throughput by a fifth from round to round.",
        partial(
            _compare,
            wrk.measure_rate,
            "small JSON, 16 connections on one core, throughput",
            "requests/s",
            ratio_at_least(0.97),
            on_one_core=True,
        ),
    ),
    Row(
        "feature_counts",
        "What counting the values of columns costs",
        "Two containers at the same time with Merlin's Criteo export, whose workflow looks up 26 "
        "columns and normalizes 13: one counts nothing (SERVE_FEATURE_METRICS=off), one counts by "
        "model (models). Answers are compared first. wrk asks them in turn, in binary, on one "
        f"connection: in each round both load it anew and are asked {_TIMES_THE_ROUNDS} times.",
        _compare_counting,
    ),
)
