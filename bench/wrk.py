"""Load by wrk: one thread, a Lua script that sends one request over and over."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.errors import LoadFailed, ProgramMissing
from bench.proc import die_with_parent

#: It takes whole seconds only, so it is interrupted, which makes it print its counts; should
#: this process be gone by then, it ends by itself this much later.
_LATEST_S = 30
_PRINT_S = 40  # an answer under way holds it until its own limit
_MARK = "BENCH "

_DONE = """
done = function(summary, latency, requests)
  local errors = summary.errors
  io.write(string.format(
    "BENCH {\\"requests\\": %d, \\"duration_us\\": %d, \\"p50_us\\": %.3f, \\"p99_us\\": %.3f, "
    .. "\\"connect\\": %d, \\"read\\": %d, \\"write\\": %d, \\"status\\": %d, "
    .. "\\"timeout\\": %d}\\n",
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    errors.connect, errors.read, errors.write, errors.status, errors.timeout))
end
"""


#: Several requests in turn, and a random pause of each connection between two of its own.
_MIX = """
local paths, requests, number = {%s}, {}, 0
init = function()
  for place, path in ipairs(paths) do requests[place] = wrk.format(nil, path) end
end
request = function()
  number = number %% #requests + 1
  return requests[number]
end
delay = function() return math.random(0, %d) end
"""
_MS = 1000
_KINDS = ("connect", "read", "write", "status", "timeout")
#: Of a refused request: its status, and what a body that is not read makes of its connection.
_REFUSED = ("read", "write", "status")


@dataclass(frozen=True)
class Load:
    """What one run of wrk saw; times in seconds."""

    requests: int
    seconds: float
    p50: float
    p99: float

    @property
    def per_second(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


@dataclass(frozen=True)
class Target:
    """A URL, the file of the Lua script that asks it, and how long an answer took before."""

    url: str
    script: Path
    answer_s: float = 0.0


def find_wrk() -> str:
    """The program. Raises ProgramMissing."""
    program = shutil.which("wrk")
    if not program:
        raise ProgramMissing("wrk", "install it (Debian and Ubuntu: apt-get install wrk)")
    return program


def write_target(
    directory: Path, name: str, url: str, body: bytes | None, headers: Mapping[str, str]
) -> Target:
    """POST with that body, or GET without one; the script reads the body from a file beside it."""
    lines = [f"wrk.headers[{_lua(key)}] = {_lua(value)}" for key, value in headers.items()]
    if body is not None:
        file = directory / f"{name}.body"
        file.write_bytes(body)
        lines.append(f'wrk.body = assert(io.open({_lua(str(file))}, "rb")):read("*a")')
    lines.insert(0, f"wrk.method = {_lua('GET' if body is None else 'POST')}")
    script = directory / f"{name}.lua"
    script.write_text("\n".join(lines) + _DONE)
    return Target(url, script)


def write_mix(target: Target, name: str, paths: Sequence[str], pause_s: float) -> Target:
    """The same request to each path in turn; each connection pauses so long on average between two.

    name: of the script, which is written beside the target's.
    """
    listed = ", ".join(map(_lua, paths))
    script = target.script.with_name(f"{name}.lua")
    most_ms = round(2 * pause_s * _MS)
    script.write_text(target.script.read_text() + _MIX % (listed, most_ms))
    return replace(target, script=script)


def run(target: Target, seconds: float, connections: int = 1) -> Load:
    """One thread on that many connections for so long. Raises LoadFailed on any error counted."""
    with _start(target, seconds, connections) as process:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        return _finish(process, target)


@contextlib.contextmanager
def send_beside(
    target: Target, at_most_s: float, connections: int = 1, *, may_be_refused: bool = False
) -> Iterator[list[Load]]:
    """Each connection sends requests back to back for as long as the block lasts.

    may_be_refused: answers of 4xx are none of its errors, nor connections that end with them.
    After the block the list has what wrk saw.
    """
    loads: list[Load] = []
    with _start(target, at_most_s, connections) as process:
        yield loads
        loads.append(_finish(process, target, _REFUSED if may_be_refused else ()))


def measure_p50(target: Target, seconds: float) -> float:
    """On one connection."""
    return run(target, seconds).p50


def measure_p99(target: Target, seconds: float) -> float:
    """On one connection."""
    return run(target, seconds).p99


def measure_rate(target: Target, seconds: float) -> float:
    """Requests a second on sixteen connections."""
    return run(target, seconds, connections=16).per_second


def read_counts(printed: str, target: str, allowed: Collection[str] = ()) -> Load:
    """The counts that the script printed at its end. Raises LoadFailed unless all were answered.

    allowed: kinds of errors that are expected.
    """
    lines = [line for line in printed.splitlines() if line.startswith(_MARK)]
    if not lines:
        raise LoadFailed(target, f"no counts ({printed.strip()[-300:] or 'nothing printed'})")
    counts = json.loads(lines[-1].removeprefix(_MARK))
    errors = [f"{counts[kind]} {kind} errors" for kind in _KINDS if counts[kind]]
    if {kind for kind in _KINDS if counts[kind]} - {*allowed}:
        raise LoadFailed(target, ", ".join(errors))
    if not counts["requests"]:
        raise LoadFailed(target, "no answer in the time given")
    return Load(
        counts["requests"],
        counts["duration_us"] / 1e6,
        counts["p50_us"] / 1e6,
        counts["p99_us"] / 1e6,
    )


@contextlib.contextmanager
def _start(target: Target, seconds: float, connections: int) -> Iterator[subprocess.Popen[str]]:
    options = {
        "threads": "1",
        "connections": f"{connections}",
        "duration": f"{int(seconds) + _LATEST_S}s",
        "timeout": "30s",
        "script": f"{target.script}",
    }
    command = [find_wrk(), "--latency", *(f"--{name}={it}" for name, it in options.items())]
    command.append(target.url)
    process = subprocess.Popen(
        die_with_parent(command),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def _finish(process: subprocess.Popen[str], target: Target, allowed: Collection[str] = ()) -> Load:
    process.send_signal(signal.SIGINT)
    try:
        printed, _ = process.communicate(timeout=_PRINT_S)
    except subprocess.TimeoutExpired as error:
        raise LoadFailed(target.url, f"no end within {_PRINT_S} s") from error
    return read_counts(printed, target.url, allowed)


def _lua(text: str) -> str:
    return json.dumps(text)
