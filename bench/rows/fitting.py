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
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from bench.measure import Line, Unit
from bench.models import WIDE, export_directory
from bench.proc import Process, descendants, is_alive, proportional_mb, tied
from bench.rows.row import Row, Run
from bench.rows.workflows import PREDICTOR, TRANSFORM, part_of

_MEMORY = "8GB"
_FORMS = {"ensemble": {"SERVE_COMPILE": "off"}, "compiled": {}}
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
class Held:
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
    held: Held


def _fitting(traffic: _Traffic, run: Run, row: str) -> Iterator[Line]:
    model = _model(traffic, run)
    found = {
        form: _replayed(traffic, model, settings, run, f"{row}: {form}")
        for form, settings in _FORMS.items()
    }
    yield from lines(row, f"{traffic.export}{', workflow alone' if traffic.alone else ''}", found)


def lines(row: str, what: str, found: Mapping[str, Replayed]) -> Iterator[Line]:
    """Of two replays, by form."""
    line = partial(_line, row, {form: one.report for form, one in found.items()})
    over_time: dict[str, list[float]] = {}
    for form, one in found.items():
        (steps,) = one.report["over_time"]["loaded_models"].values()
        at, models = steps["at_s"], steps["models"]
        over_time |= {
            f"{form} at": [*at, one.report["seconds"]], form: [*models, *models[-1:]]
        }  # fmt: skip
    yield line(
        f"{what}: loaded at once in {_MEMORY}", "models", lambda r: r["loading"]["most_loaded"],
        over_time,
    )  # fmt: skip
    yield line(f"{what}: room for, by the memory of one", "models", room_for)
    yield line(f"{what}: answered from, in all", "models", answered_from)
    yield line(f"{what}: requests that found their model", "share", lambda r: r["hit_ratio"])
    yield line(f"{what}: requests answered rightly", "share", right_share)
    yield line(f"{what}: p50 of a cold one", "s", lambda r: r["latency_s"]["cold"]["p50"])
    yield line(f"{what}: p50 of a warm one", "s", lambda r: r["latency_s"]["warm"]["p50"])
    yield line(f"{what}: evictions", "models", lambda r: r["loading"]["evictions"])
    yield line(f"{what}: memory of one, as the simulator counts", "MB", _each_mb)
    yield Line(
        row, f"{what}: proportional memory of all", "MB",
        {form: [one.held.size] for form, one in found.items()}, None, "compiled", "ensemble",
        "of the models' processes, when there were most of them",
    )  # fmt: skip
    for part in (TRANSFORM, PREDICTOR):
        sizes = {form: one.held.each(part) for form, one in found.items()}
        values = {form: [size] for form, size in sizes.items() if size is not None}
        if values:
            counts = ", ".join(
                f"{form}: {one.held.parts.get(part, (0, 0))[0]}" for form, one in found.items()
            )
            yield Line(
                row, f"{what}: {part}, proportional memory of one", "MB", values, None, "compiled",
                "ensemble", f"processes at that moment: {counts}",
            )  # fmt: skip


def room_for(report: Mapping[str, Any]) -> int | None:
    """How many the simulator would keep: what is left beside the server, by what one takes.

    So many are loaded at once where the traffic lasts long enough to load them.
    """
    each = report["loading"]["model_memory_bytes"]["p50"]
    over_time = report["over_time"]
    (memory,), (limit,) = (over_time[name].values() for name in ("memory", "memory_limit_bytes"))
    if not each or not memory["bytes"]:
        return None
    return int((limit * _USABLE - memory["bytes"][0]) / each)


def answered_from(report: Mapping[str, Any]) -> int:
    """How many models gave a right answer."""
    return sum(
        model["requests"] > model["failures"] for model in report["models"] if model["requests"]
    )


def right_share(report: Mapping[str, Any]) -> float:
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
    series: Mapping[str, list[float]] | None = None,
) -> Line:
    seen = {form: read(report) for form, report in reports.items()}
    values = {form: [float(value)] for form, value in seen.items() if value is not None}
    return Line(
        row, what, unit, values, None, "compiled", "ensemble", series=series or {}
    )  # fmt: skip


def _model(traffic: _Traffic, run: Run) -> Path:
    """A folder for --model, with the request beside the model."""
    source = export_directory(traffic.export)
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
    traffic: _Traffic, model: Path, settings: Mapping[str, str], run: Run, said: str
) -> Replayed:
    """One replay in a process of its own, which is ended when it takes too long."""
    out = run.scratch / f"replay-{said.replace(': ', '-')}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    command = [
        sys.executable, "-m", "simulator", "replay", "--model", str(model),
        "--models", str(traffic.models), "--zipf", str(_ZIPF), "--rps", str(traffic.per_second),
        "--duration", str(traffic.seconds), "--memory", _MEMORY, "--report", str(out),
    ]  # fmt: skip
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("SERVE_", "SAGEMAKER_"))}
    log = out / "replay.log"
    run.progress(f"{said}, {traffic.models} models, {traffic.seconds:g} s")
    with log.open("wb") as output:
        process = subprocess.Popen(
            tied(command), cwd=Path(__file__).parents[2], env={**inherited, **settings},
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        held = _watched(process, traffic.seconds + _BESIDE_S, traffic.alone)
    finally:
        _end(process)
    report = out / "report.json"
    if not report.exists():
        raise BenchError(f"{said}: no report; it said {log.read_text(errors='replace')[-2000:]}")
    return Replayed(json.loads(report.read_text("utf-8")), held)


def _watched(process: subprocess.Popen[bytes], at_most_s: float, alone: bool) -> Held:
    """What was held when there were most processes."""
    most, until, next_look = Held({}), time.monotonic() + at_most_s, 0.0
    while process.poll() is None and time.monotonic() < until:
        if time.monotonic() >= next_look:
            found = held([one for one in descendants(process.pid) if one.is_stub], alone)
            most = max(most, found, key=lambda one: one.processes)
            next_look = time.monotonic() + _LOOK_EVERY_S
        time.sleep(_POLL_S)
    return most


def held(stubs: list[Process], alone: bool) -> Held:
    """By part, all of them transforms where workflows are alone; one that ends counts nothing."""
    parts: dict[str, tuple[int, float]] = {}
    for stub in stubs:
        try:
            size = proportional_mb([stub.pid])
        except OSError:
            continue
        part = TRANSFORM if alone else part_of(stub.command[1])
        count, sum_so_far = parts.get(part, (0, 0.0))
        parts[part] = (count + 1, sum_so_far + size)
    return Held(parts)


def _end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, which makes it stop its endpoint and write its report; SIGKILL to what is left."""
    below = [one.pid for one in descendants(process.pid)]
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
        f"fit_{one.export}{'_alone' if one.alone else ''}",
        f"Models in {_MEMORY}: {one.export}{', workflow alone' if one.alone else ''}",
        _HOW.format(models=one.models, per_second=one.per_second, seconds=one.seconds),
        partial(_fitting, one),
    )
    for one in _TRAFFIC
)  # fmt: skip
