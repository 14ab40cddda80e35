"""How many models fit into 8 GB and are answered from: a replay of traffic, before and after.

`simulator replay` asks many copies of one model by a Zipf law of an endpoint of so much memory;
once with NVTabular in each, once compiled. Meanwhile /proc says what their processes hold.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
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
from bench.proc import (
    Process,
    die_with_parent,
    is_alive,
    list_descendants,
    read_proportional_mb,
)
from bench.rows.row import Row, Run
from bench.rows.workflows import PREDICTOR, TRANSFORM, WHOLE, part_of

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


@dataclass(frozen=True)
class HeldMemory:
    """What each part's processes hold, in MB, and how many of them there are."""

    parts: Mapping[str, tuple[int, float]]

    @property
    def processes(self) -> int:
        """All of them."""
        return sum(count for count, _ in self.parts.values())

    @property
    def size(self) -> float:
        """What all of them hold, in MB."""
        return sum(size for _, size in self.parts.values())

    def each(self, part: str) -> float | None:
        """One process of that part, on average."""
        count, size = self.parts.get(part, (0, 0.0))
        return size / count if count else None


@dataclass(frozen=True)
class Replayed:
    """report.json of a replay, and what was seen at the moment of most processes."""

    report: Mapping[str, Any]
    held: HeldMemory


def _fitting(traffic: _Traffic, run: Run, row: str) -> Iterator[Line]:
    model = _model(traffic, run)
    found = {
        form: _replayed(traffic, model, FORMS[form], run, f"{row}: {form}") for form in _COMPARED
    }
    yield from list_lines(
        row, f"{traffic.export}{', workflow alone' if traffic.alone else ''}", found
    )


def list_lines(row: str, what: str, found: Mapping[str, Replayed]) -> Iterator[Line]:
    """Of two replays, by form."""
    line = partial(_line, row, {form: replayed.report for form, replayed in found.items()})
    yield line(
        f"{what}: loaded at once in {_MEMORY}", "models", lambda r: r["loading"]["most_loaded"]
    )
    yield line(f"{what}: room for, by the memory of one", "models", count_room)
    yield line(f"{what}: answered from, in all", "models", count_answering)
    yield line(f"{what}: requests that found their model", "share", lambda r: r["hit_ratio"])
    yield line(f"{what}: requests answered rightly", "share", measure_right_share)
    yield line(f"{what}: p50 of a cold one", "s", lambda r: r["latency_s"]["cold"]["p50"])
    yield line(f"{what}: p50 of a warm one", "s", lambda r: r["latency_s"]["warm"]["p50"])
    yield line(f"{what}: evictions", "models", lambda r: r["loading"]["evictions"])
    yield line(f"{what}: memory of one, as the simulator counts", "MB", _each_mb)
    yield from _memory_lines(row, what, {form: found[form].held for form in found})


def _memory_lines(row: str, what: str, held: Mapping[str, HeldMemory]) -> Iterator[Line]:
    yield Line(
        row,
        f"{what}: proportional memory of all",
        "MB",
        {form: [memory.size] for form, memory in held.items()},
        None,
        "compiled",
        "ensemble",
        "of the models' processes, when there were most of them",
    )
    for part in (TRANSFORM, PREDICTOR, WHOLE):
        sizes = {form: memory.each(part) for form, memory in held.items()}
        values = {form: [size] for form, size in sizes.items() if size is not None}
        counts = {form: memory.parts.get(part, (0, 0))[0] for form, memory in held.items()}
        if values:
            yield Line(
                row,
                f"{what}: {part}, proportional memory of one",
                "MB",
                values,
                None,
                "compiled",
                "ensemble",
                "processes at that moment: "
                + ", ".join(f"{form}: {count}" for form, count in counts.items()),
            )


def count_room(report: Mapping[str, Any]) -> int | None:
    """How many the simulator would keep: what is left beside the server, by what one takes.

    So many are loaded at once where the traffic lasts long enough to load them.
    """
    each = report["loading"]["model_memory_bytes"]["p50"]
    over_time = report["over_time"]
    (memory,), (limit,) = (over_time[name].values() for name in ("memory", "memory_limit_bytes"))
    if not each or not memory["bytes"]:
        return None
    return int((limit * _USABLE - memory["bytes"][0]) / each)


def count_answering(report: Mapping[str, Any]) -> int:
    """How many models gave a right answer."""
    return sum(
        model["requests"] > model["failures"] for model in report["models"] if model["requests"]
    )


def measure_right_share(report: Mapping[str, Any]) -> float:
    """Of what was planned."""
    requests = report["requests"]
    return float(requests["right"] / requests["planned"])


def _each_mb(report: Mapping[str, Any]) -> float | None:
    size = report["loading"]["model_memory_bytes"]["p50"]
    return None if size is None else size / 1e6


def _line(
    row: str,
    reports: Mapping[str, Mapping[str, Any]],
    what: str,
    unit: Unit,
    read: Callable[[Mapping[str, Any]], float | None],
) -> Line:
    seen = {form: read(report) for form, report in reports.items()}
    values = {form: [float(value)] for form, value in seen.items() if value is not None}
    return Line(row, what, unit, values, None, "compiled", "ensemble")


def _model(traffic: _Traffic, run: Run) -> Path:
    """A folder for --model, with the request beside the model."""
    source = find_export(traffic.export)
    if not traffic.alone:
        return source
    archives = run.contenders.archives
    name = archives.workflow(f"alone-{traffic.export}", traffic.export)
    request = json.loads((source / "request.json").read_text("utf-8"))
    taken = archives.inputs(name)
    inputs = [tensor for tensor in request["inputs"] if tensor["name"] in taken]
    (archives.path(name).parent / "request.json").write_text(json.dumps({"inputs": inputs}))
    return archives.path(name)


def _replayed(
    traffic: _Traffic, model: Path, settings: Mapping[str, str], run: Run, name: str
) -> Replayed:
    """One replay in a process of its own, which is ended when it takes too long."""
    out = run.scratch / f"replay-{name.replace(': ', '-')}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SERVE_", "SAGEMAKER_"))}
    log = out / "replay.log"
    run.progress(f"{name}, {traffic.models} models, {traffic.seconds:g} s")
    with log.open("wb") as output:
        process = subprocess.Popen(
            die_with_parent(_command(traffic, model, out)),
            cwd=Path(__file__).parents[2],
            env={**inherited, **settings},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        held = _watched(process, traffic.seconds + _BESIDE_S, traffic.alone)
    finally:
        _end(process)
    report = out / "report.json"
    if not report.exists():
        raise BenchError(f"{name}: no report; it said {log.read_text(errors='replace')[-2000:]}")
    return Replayed(json.loads(report.read_text("utf-8")), held)


def _command(traffic: _Traffic, model: Path, out: Path) -> list[str]:
    return [
        sys.executable,
        "-m",
        "simulator",
        "replay",
        "--model",
        str(model),
        "--models",
        str(traffic.models),
        "--zipf",
        str(_ZIPF),
        "--rps",
        str(traffic.per_second),
        "--duration",
        str(traffic.seconds),
        "--memory",
        _MEMORY,
        "--report",
        str(out),
    ]


def _watched(process: subprocess.Popen[bytes], at_most_s: float, alone: bool) -> HeldMemory:
    """What was held when there were most processes."""
    most, until, next_look = HeldMemory({}), time.monotonic() + at_most_s, 0.0
    while process.poll() is None and time.monotonic() < until:
        if time.monotonic() >= next_look:
            stubs = (child for child in list_descendants(process.pid) if child.is_stub)
            found = sum_by_part(stubs, alone)
            most = max(most, found, key=lambda memory: memory.processes)
            next_look = time.monotonic() + _LOOK_EVERY_S
        time.sleep(_POLL_S)
    return most


def sum_by_part(
    stubs: Iterable[Process],
    alone: bool,
    measure_mb: Callable[[Iterable[int]], float] = read_proportional_mb,
) -> HeldMemory:
    """All of them transforms where workflows are alone; one that ends counts nothing.

    A process that was forked for a stub is a part of it.

    measure_mb: what some processes hold, by their pids; OSError for one that has ended.
    """
    parts: dict[str, tuple[int, float]] = {}
    for stub in stubs:
        try:
            size = measure_mb([stub.pid])
        except OSError:
            continue
        part = TRANSFORM if alone else part_of(stub.command[1])
        count, sum_so_far = parts.get(part, (0, 0.0))
        parts[part] = (count + (not stub.is_forked), sum_so_far + size)
    return HeldMemory(parts)


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, which makes it stop its endpoint and write its report; SIGKILL to what is left."""
    below = [child.pid for child in list_descendants(process.pid)]
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pid in filter(is_alive, below):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


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
        f"Models in {_MEMORY}: {traffic.export}{', workflow alone' if traffic.alone else ''}",
        _HOW.format(models=traffic.models, per_second=traffic.per_second, seconds=traffic.seconds),
        partial(_fitting, traffic),
    )
    for traffic in _TRAFFIC
)
