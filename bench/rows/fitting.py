"""How many models fit into 8 GB and are answered from: a replay of traffic, before and after.

`simulator replay` asks many copies of one model by a Zipf law of an endpoint of so much memory;
once with NVTabular in each, once compiled. Meanwhile /proc says what their processes hold.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.contenders import FORMS
from bench.errors import BenchError
from bench.measure import Line, Unit
from bench.models import WIDE, find_export
from bench.proc import die_with_parent, list_descendants, read_proportional_mb
from bench.rows.row import Row, Run
from bench.servers import stop_with_children

Report = Mapping[str, Any]

_MEMORY = "8GB"
_COMPARED = ("ensemble", "compiled")
_ZIPF = 0.8
#: Of its memory the endpoint uses so much before models leave: the simulator's --memory-threshold.
_USABLE = 0.9
#: Beyond the traffic: archives, the start of the endpoint, the last answers. Then it is told to
#: end, and what was not answered by then counts as that.
_BESIDE_S, _END_S = 45, 60
#: Between two looks at what the processes hold: a look at three hundred takes a second of a core.
_LOOK_EVERY_S = 10.0
_POLL_S = 0.25


@dataclass(frozen=True)
class _Traffic:
    """On so many copies of an export, or of its workflow alone."""

    export: str
    alone: bool
    models: int
    per_second: float
    seconds: float

    @property
    def title(self) -> str:
        return f"{self.export}, workflow alone" if self.alone else self.export


@dataclass(frozen=True)
class Replay:
    """report.json, and the memory of all models' processes when there were most of them."""

    report: Report
    memory_mb: float


def _measure(traffic: _Traffic, run: Run) -> Iterator[Line]:
    model = _find_model(traffic, run)
    replays = {form: _replay(traffic, model, form, run) for form in _COMPARED}
    yield from list_lines(traffic.title, replays)


def list_lines(title: str, replays: Mapping[str, Replay]) -> Iterator[Line]:
    """Of two replays, by form."""
    for what, unit, read in _LINES:
        values = {form: read(replay.report) for form, replay in replays.items()}
        yield _make_line(f"{title}: {what}", unit, values)
    sizes = {form: replay.memory_mb for form, replay in replays.items()}
    yield _make_line(f"{title}: proportional memory of all", "MB", sizes)


def _make_line(what: str, unit: Unit, values: Mapping[str, float | None]) -> Line:
    measured = {form: [float(value)] for form, value in values.items() if value is not None}
    return Line(what, unit, measured, None, "compiled", "ensemble")


def _count_room(report: Report) -> int | None:
    """How many the simulator would hold: what is left beside the server, by what one takes.

    So many are loaded at once where the traffic lasts long enough to load them.
    """
    of_one = report["loading"]["model_memory_bytes"]["p50"]
    over_time = report["over_time"]
    (memory,), (limit,) = (over_time[name].values() for name in ("memory", "memory_limit_bytes"))
    if not of_one or not memory["bytes"]:
        return None
    return int((limit * _USABLE - memory["bytes"][0]) / of_one)


def _count_answering(report: Report) -> int:
    """How many models gave a right answer."""
    return sum(it["requests"] > it["failures"] for it in report["models"] if it["requests"])


#: What is read of a report, as a line of the table.
_LINES: tuple[tuple[str, Unit, Callable[[Report], float | None]], ...] = (
    ("room for, by the memory of one", "models", _count_room),
    (f"loaded at once in {_MEMORY}", "models", lambda it: it["loading"]["most_loaded"]),
    ("answered from, in all", "models", _count_answering),
    (
        "requests answered rightly",
        "share",
        lambda it: it["requests"]["right"] / it["requests"]["planned"],
    ),
    ("requests that found their model", "share", lambda it: it["hit_ratio"]),
    ("p50 of a cold one", "s", lambda it: it["latency_s"]["cold"]["p50"]),
    ("p50 of a warm one", "s", lambda it: it["latency_s"]["warm"]["p50"]),
)


def _find_model(traffic: _Traffic, run: Run) -> Path:
    """A folder for --model, with the request beside the model."""
    source = find_export(traffic.export)
    if not traffic.alone:
        return source
    archives = run.contenders.archives
    name = archives.copy_workflow(f"alone-{traffic.export}", traffic.export)
    request = json.loads((source / "request.json").read_text("utf-8"))
    names = archives.read_inputs(name)
    inputs = [tensor for tensor in request["inputs"] if tensor["name"] in names]
    model = archives.path(name)
    (model.parent / "request.json").write_text(json.dumps({"inputs": inputs}))
    return model


def _replay(traffic: _Traffic, model: Path, form: str, run: Run) -> Replay:
    """A replay in a process of its own, which is ended when it takes too long."""
    out = run.scratch / f"replay-{traffic.title.replace(', ', '-')}-{form}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SERVE_", "SAGEMAKER_"))}
    log = out / "replay.log"
    run.progress(f"{form}, {traffic.models} models, {traffic.seconds:g} s")
    with log.open("wb") as output:
        process = subprocess.Popen(
            die_with_parent(_make_command(traffic, model, out)),
            cwd=Path(__file__).parents[2],
            env={**inherited, **FORMS[form]},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        memory_mb = _watch_memory(process, traffic.seconds + _BESIDE_S)
    finally:  # SIGTERM makes it stop its endpoint and write its report
        stop_with_children(process, _END_S)
    report = out / "report.json"
    if not report.exists():
        raise BenchError(f"{form}: no report; it said {log.read_text(errors='replace')[-2000:]}")
    return Replay(json.loads(report.read_text("utf-8")), memory_mb)


def _make_command(traffic: _Traffic, model: Path, out: Path) -> list[str]:
    options = {
        "model": model,
        "models": traffic.models,
        "zipf": _ZIPF,
        "rps": traffic.per_second,
        "duration": traffic.seconds,
        "memory": _MEMORY,
        "report": out,
    }
    words = (word for name, value in options.items() for word in (f"--{name}", str(value)))
    return [sys.executable, "-m", "simulator", "replay", *words]


def _watch_memory(process: subprocess.Popen[bytes], at_most_s: float) -> float:
    """MB of all models' processes when there were most of them."""
    most, until, next_look = (0, 0.0), time.monotonic() + at_most_s, 0.0
    while process.poll() is None and time.monotonic() < until:
        if time.monotonic() >= next_look:
            stubs = [child for child in list_descendants(process.pid) if child.is_stub]
            count = sum(not stub.is_forked for stub in stubs)
            most = max(most, (count, sum(list_sizes(stub.pid for stub in stubs))))
            next_look = time.monotonic() + _LOOK_EVERY_S
        time.sleep(_POLL_S)
    return most[1]


def list_sizes(
    pids: Iterable[int], measure_mb: Callable[[Iterable[int]], float] = read_proportional_mb
) -> list[float]:
    """MB of each process; one that ends meanwhile has none."""
    sizes = []
    for pid in pids:
        with suppress(OSError):
            sizes.append(measure_mb([pid]))
    return sizes


_HOW = (
    "simulator replay on {models} copies of one model behind an endpoint of " + _MEMORY + ", whose "
    "least recently used models leave when memory is short (it counts anonymous resident memory "
    "and keeps a tenth free): {per_second:g} requests a second for {seconds:g} s, popularity by a "
    f"Zipf law of exponent {_ZIPF}; once with SERVE_COMPILE=off (ensemble), once with the default "
    "settings. Ratios are of compiled to ensemble. Room for: how many there would be if they came "
    "one by one; an endpoint with many loads waiting counts these as coming, and unloads others "
    "for them. Requests of the last seconds that were not answered when "
    "all ended count as not answered. Proportional memory: /proc, at the look with most processes; "
    "pages that processes share count once in all."
)

_TRAFFIC = (
    _Traffic("dense", False, models=60, per_second=4, seconds=90),
    _Traffic("dense", True, models=450, per_second=20, seconds=90),
    _Traffic(WIDE, False, models=60, per_second=4, seconds=90),
)

ROWS = tuple(
    Row(
        f"fit_{traffic.export}{'_alone' if traffic.alone else ''}",
        f"Models in {_MEMORY}: {traffic.title}",
        _HOW.format(models=traffic.models, per_second=traffic.per_second, seconds=traffic.seconds),
        partial(_measure, traffic),
    )
    for traffic in _TRAFFIC
)
