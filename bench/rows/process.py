"""The container's own process: how soon it is there, and how much it holds."""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench import payloads
from bench.contenders import Contenders
from bench.measure import Line, measure_in_turn, value_at_most
from bench.proc import read_resident_mb
from bench.rows.row import Row, Run
from bench.servers import Side

_MODELS, _LARGE_REQUESTS = 10, 10
_IDLE_S = 6.0
_GOAL_MB = value_at_most(90)


def _start_to_ping(run: Run, row: str) -> Iterator[Line]:
    contenders = run.contenders
    values = measure_in_turn(
        run.few_rounds if run.short else run.rounds,
        {
            "tritonserver": lambda: _start_of_bare(contenders),
            "container": lambda: _start_of_ours(contenders),
        },
        run.teller(row, "start"),
        warm=run.warm,
    )
    pairs = zip(values["container"], values["tritonserver"], strict=True)
    beyond = [whole - triton for whole, triton in pairs]
    yield Line(
        row,
        "start to /ping, beyond tritonserver's own",
        "s",
        {"ours": beyond},
        value_at_most(0.7),
        against=None,
    )
    yield Line(
        row,
        "start to /ping, whole",
        "s",
        {"ours": values["container"], "limit": values["tritonserver"]},
        against="limit",
    )


def _start_of_ours(contenders: Contenders) -> float:
    with contenders.fresh_ours(wait=False) as ours:
        return ours.until_ready("/ping")


def _start_of_bare(contenders: Contenders) -> float:
    with contenders.fresh_bare() as bare:
        return bare.until_ready("/v2/health/ready")


def _server_memory(run: Run, row: str) -> Iterator[Line]:
    archives = run.contenders.archives
    names = [archives.identity(f"held-{number}") for number in range(_MODELS)]
    large = payloads.json_values("FP32", 290_000)
    with run.contenders.fresh_ours() as ours:

        def held(when: str) -> Line:
            values = {"ours": [read_resident_mb(ours.own_processes())]}
            return Line(row, f"memory {when}", "MB", values, _GOAL_MB, against=None)

        run.progress(f"{row}: after start")
        yield held("after start")
        for name in names:
            ours.load(name)
        run.progress(f"{row}: after {_MODELS} loads")
        yield held(f"with {_MODELS} models")
        side = Side("ours", ours.port, True)
        for _ in range(_LARGE_REQUESTS):
            side.check(names[0], large, "JSON of 5.5 MB")
        run.progress(f"{row}: after {_LARGE_REQUESTS} large requests")
        yield held(f"after {_LARGE_REQUESTS} JSON requests of 5.5 MB")
        time.sleep(_IDLE_S)
        yield held(f"{_IDLE_S:g} s later")


ROWS = (
    Row(
        "start_to_ping",
        "From start to /ping",
        "A fresh container from its exec to the first 200 on /ping, and a bare tritonserver from "
        "its exec to ready, in turn; ours is the difference of the two in each round.",
        _start_to_ping,
        in_short=True,
        profile=(
            "half a second of imports (FastAPI with pydantic, gRPC, numpy), while tritonserver is "
            "started beside them and is ready in 60 ms."
        ),
    ),
    Row(
        "server_memory",
        "Memory of the server process",
        "Resident memory (VmRSS) of a fresh container without tritonserver and what that "
        f"started: after its start, with {_MODELS} models, and after {_LARGE_REQUESTS} JSON "
        "requests of 5.5 MB in and out, one after another; and when nothing came for "
        f"{_IDLE_S:g} s.",
        _server_memory,
        in_short=True,
        profile=(
            "half of it are the modules that are imported. Freed memory of large bodies is kept "
            "for the next one (docs/performance.md) until nothing comes for a while."
        ),
    ),
)
