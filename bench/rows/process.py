"""The container's own process: how soon it is there, and how much it holds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

from bench import payloads
from bench.contenders import Contenders
from bench.measure import Line, value_at_most
from bench.proc import read_resident_mb
from bench.rows.row import Row, Run

_MODELS, _LARGE_REQUESTS = 10, 10
_IDLE_S = 6.0


def _measure_start(run: Run) -> Iterator[Line]:
    sides = {
        "tritonserver": partial(_start_bare, run.contenders),
        "container": partial(_start_ours, run.contenders),
    }
    rounds = run.few_rounds if run.short else run.rounds
    seconds = run.take_turns("start", sides, rounds=rounds)
    pairs = zip(seconds["container"], seconds["tritonserver"], strict=True)
    beyond = {"ours": [whole - triton for whole, triton in pairs]}
    whole = {"ours": seconds["container"], "limit": seconds["tritonserver"]}
    goal = value_at_most(0.7)
    yield Line("start to /ping, beyond tritonserver's own", "s", beyond, goal, against=None)
    yield Line("start to /ping, whole", "s", whole, against="limit")


def _start_ours(contenders: Contenders) -> float:
    with contenders.start_ours(wait=False) as ours:
        return ours.until_ready()


def _start_bare(contenders: Contenders) -> float:
    with contenders.start_bare() as bare:
        return bare.until_ready()


def _measure_memory(run: Run) -> Iterator[Line]:
    archives = run.contenders.archives
    names = [archives.write_identity(f"held-{number}") for number in range(_MODELS)]
    large = payloads.make_json("FP32", 290_000)
    with run.contenders.start_ours() as ours:

        def measure(when: str) -> Line:
            run.progress(when)
            values = {"ours": [read_resident_mb(ours.list_own_processes())]}
            return Line(f"memory {when}", "MB", values, value_at_most(90), against=None)

        yield measure("after start")
        for name in names:
            ours.load(name)
        yield measure(f"with {_MODELS} models")
        for _ in range(_LARGE_REQUESTS):
            ours.check(names[0], large, "JSON of 5.5 MB")
        yield measure(f"after {_LARGE_REQUESTS} JSON requests of 5.5 MB")
        time.sleep(_IDLE_S)
        yield measure(f"{_IDLE_S:g} s later")


ROWS = (
    Row(
        "start_to_ping",
        "From start to /ping",
        "A fresh container from its exec to the first 200 on /ping, and a bare tritonserver from "
        "its exec to ready, in turn; ours is the difference of the two in each round.",
        _measure_start,
        in_short=True,
    ),
    Row(
        "server_memory",
        "Memory of the server process",
        "Resident memory (VmRSS) of a fresh container without tritonserver and what that "
        f"started: after its start, with {_MODELS} models, and after {_LARGE_REQUESTS} JSON "
        "requests of 5.5 MB in and out, one after another; and when nothing came for "
        f"{_IDLE_S:g} s.",
        _measure_memory,
        in_short=True,
    ),
)
