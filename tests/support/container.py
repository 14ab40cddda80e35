"""A real container process over real sockets: started, asked, stopped, looked at from outside."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx

from tests.support import quick_container

ROOT = Path(__file__).parents[2]
TRITON_2_36 = ROOT / ".triton/2.36/pytriton/tritonserver/bin/tritonserver"
SHARED_MEMORY = Path("/dev/shm")

START_TIMEOUT_S = 120.0  # a start is 2 s on an idle machine
STOP_TIMEOUT_S = 120.0  # a stop is 2 s on an idle machine; the platform kills after 30 s
CALL_TIMEOUT_S = 90.0  # over every limit of the container that a test may meet
LOOK_S = 0.02


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it. started: in clock ticks; ids are used again within a suite."""

    pid: int
    started: int
    parent: int
    group: int
    command: tuple[str, ...]


@dataclass(frozen=True)
class Snapshot:
    """What a container holds: its models, its published directories, its stubs, its memory."""

    models: tuple[str, ...]
    published: frozenset[str]
    stubs: frozenset[int]
    regions: frozenset[str]


@dataclass
class Endpoint:
    """What the platform asks. model_root is where archives may lie; work_dir where it writes."""

    port: int
    model_root: Path
    work_dir: Path
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            timeout=CALL_TIMEOUT_S,
            limits=limits,
            trust_env=False,
        )

    def ping(self) -> int:
        """The status of /ping; 0 while nothing listens."""
        try:
            return self.http.get("/ping").status_code
        except httpx.TransportError:
            return 0

    def load(self, name: str, directory: Path, **headers: str) -> httpx.Response:
        """POST /models."""
        body = {"model_name": name, "url": str(directory)}
        return self.http.post("/models", json=body, headers=headers)

    def unload(self, name: str) -> httpx.Response:
        """DELETE /models/{name}."""
        return self.http.delete(f"/models/{name}")

    def invoke(
        self, name: str, body: bytes | Mapping[str, object] | Iterable[bytes], **headers: str
    ) -> httpx.Response:
        """POST /models/{name}/invoke; underscores in header names become dashes."""
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        path = f"/models/{name}/invoke"
        if isinstance(body, Mapping):
            return self.http.post(path, json=body, headers=named)
        return self.http.post(path, content=body, headers=named)

    def models(self) -> dict[str, str]:
        """name -> url of everything listed."""
        listed = self.http.get("/models")
        assert listed.status_code == 200, listed.text
        return {model["modelName"]: model["modelUrl"] for model in listed.json()["models"]}

    @contextlib.contextmanager
    def loaded(self, name: str, directory: Path) -> Iterator[str]:
        """The model, for as long as it is needed; loads and unloads are checked."""
        answer = self.load(name, directory)
        assert answer.status_code == 200, answer.text
        try:
            yield name
        finally:
            answer = self.unload(name)
            assert answer.status_code == 200, answer.text

    @property
    def serving(self) -> Path:
        """Its serving repository."""
        (run,) = self.runs()
        return run / "serving"

    def runs(self) -> list[Path]:
        """The directories of the containers that write where it does."""
        return [*self.work_dir.glob("serve-*")]

    def published(self) -> frozenset[str]:
        """What lies in the serving repository, hidden things included."""
        return frozenset(path.name for path in self.serving.iterdir())


@dataclass
class Container(Endpoint):
    """One run of the container's process."""

    process: subprocess.Popen[bytes]
    log_path: Path
    _seen: set[tuple[int, int]] = field(default_factory=set)

    @property
    def log(self) -> str:
        """Everything that it and its children have said."""
        return self.log_path.read_text(errors="replace")

    def until_nothing_is_published(self) -> None:
        """Where models with nothing to finalize were unloaded: soon behind the answer."""
        until(lambda: not self.published(), "nothing is published", self)

    def descendants(self) -> list[Process]:
        """Its child processes and theirs; all that were ever seen are remembered."""
        everyone = _states()
        below: list[_State] = []
        parents = {self.process.pid}
        while parents:
            children = [state for state in everyone if state.parent in parents]
            below += children
            parents = {state.pid for state in children}
        self._seen |= {(state.pid, state.started) for state in below}
        return _named(below)

    def triton(self) -> int:
        """tritonserver's process id."""
        return next(p.pid for p in self.descendants() if p.command[0].endswith("/tritonserver"))

    def stubs(self, triton_name: str | None = None) -> frozenset[int]:
        """Python stubs, of one Triton model or of all. The model's path is their first argument."""
        marked = f"/serving/{triton_name}/" if triton_name else ""
        return frozenset(
            process.pid
            for process in self.descendants()
            if process.command[0].endswith("triton_python_backend_stub")
            and marked in process.command[1]
        )

    def computed_s(self) -> float:
        """The processor's time that it and tritonserver have had, however busy the machine is."""
        ticks = 0
        for pid in (self.process.pid, self.triton()):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def regions(self) -> frozenset[str]:
        """Its regions in /dev/shm."""
        return frozenset(p.name for p in SHARED_MEMORY.glob(f"serve_{self.process.pid}_*"))

    def snapshot(self) -> Snapshot:
        """What it holds now."""
        models = tuple(sorted(self.models()))
        return Snapshot(models, self.published(), self.stubs(), self.regions())

    # -- the end

    def signal(self, number: signal.Signals) -> None:
        """A signal to the container's own process."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Its exit code."""
        return self.process.wait(timeout_s)

    def close(self) -> None:
        """Ends it if it still runs, and holds that nothing of it is left."""
        self.http.close()
        if self.process.poll() is None:
            self.descendants()
            self.signal(signal.SIGTERM)
        try:
            self.wait()
        except subprocess.TimeoutExpired:
            self._kill()
            raise
        self.check_nothing_left()

    def check_nothing_left(self) -> None:
        """No process, no region in /dev/shm, no directory."""
        assert not self.survivors(), f"these outlived the container: {self.survivors()}"
        assert not self.regions()
        assert not self.runs()

    def survivors(self) -> set[int]:
        """Processes that were seen below it and still run."""
        return {state.pid for state in _states() if (state.pid, state.started) in self._seen}

    def discard(self) -> None:
        """Clears away what a container that was killed left behind."""
        for pid in self.survivors():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for region in self.regions():
            (SHARED_MEMORY / region).unlink(missing_ok=True)
        for path in self.runs():
            shutil.rmtree(path)

    def _kill(self) -> None:
        for process in self.descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait(STOP_TIMEOUT_S)


def launch(
    directory: Path,
    *,
    program: str = "container",
    python: str | Path = sys.executable,
    under: Sequence[str] = (),
    descriptors: str = "",
    **environment: str,
) -> Container:
    """Start a multi-model container, everything of it under the directory, and wait for nothing.

    environment is laid over the defaults; `told` of quick_container may be a part of it. program:
    the module that python runs; under: the command that becomes it. descriptors: its hard limit of
    them.
    """
    # Short: sockets lie in it, and the kernel takes no long paths for them.
    model_root, work_dir = directory / "models", directory / "w"
    for path in (model_root, work_dir):
        path.mkdir(parents=True, exist_ok=True)
    everything = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("SERVE_", "SAGEMAKER_"))},
        "SAGEMAKER_MULTI_MODEL": "true",
        "SAGEMAKER_BIND_TO_PORT": str(free_port()),
        "SERVE_BIND_ADDRESS": "127.0.0.1",
        "SERVE_MODEL_ROOT": str(model_root),
        "TMPDIR": str(work_dir),
        # Else its descriptors are shut to tests that have no CAP_SYS_PTRACE.
        "SERVE_MODEL_ENVIRONMENT": "all",
        **environment,
    }
    if quick_container.VARIABLE in everything and program == "container":
        program = quick_container.__name__
    limits = ["prlimit", f"--nofile={descriptors}:{descriptors}"] if descriptors else []
    log_path = directory / "log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*limits, *under, python, "-m", program, "serve"],
            cwd=ROOT,
            env=everything,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the tests, which then stop it in order
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    port = int(everything["SAGEMAKER_BIND_TO_PORT"])
    return Container(port, Path(everything["SERVE_MODEL_ROOT"]), work_dir, process, log_path)


@contextlib.contextmanager
def running(
    directory: Path,
    *,
    program: str = "container",
    python: str | Path = sys.executable,
    under: Sequence[str] = (),
    descriptors: str = "",
    **environment: str,
) -> Iterator[Container]:
    """A container for as long as the block lasts; nothing of it is left after."""
    container = launch(
        directory,
        program=program,
        python=python,
        under=under,
        descriptors=descriptors,
        **environment,
    )
    try:
        until(lambda: container.ping() == 200, "/ping is 200", container)
        yield container
    finally:
        container.close()


def until(
    holds: Callable[[], object],
    what: str,
    container: Container | None = None,
    timeout_s: float = START_TIMEOUT_S,
) -> None:
    """Return as soon as it holds; fails after timeout_s, or when the container has ended."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        ended = container is not None and container.process.poll() is not None
        if ended or time.monotonic() > deadline:
            log = container.log[-4000:] if container else ""
            raise AssertionError(f"never: {what}\n{log}")
        time.sleep(LOOK_S)


#: Of each worker of a suite, since a port that was found is not listened on for a while.
_PORTS_EACH = 1000
_candidates = itertools.count(int.from_bytes(os.urandom(2), "big"))


def free_port() -> int:
    """A port that nobody listens on, below the ephemeral ones, so that no client is given it.

    None that another worker of this suite may be given, nor one that was given just now.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10
    while True:
        with socket.socket() as probe:
            candidate = 10_000 + worker * _PORTS_EACH + next(_candidates) % _PORTS_EACH
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", candidate))
                return candidate


def processes() -> list[Process]:
    """All processes that are alive (zombies are not)."""
    return _named(_states())


class _State(NamedTuple):
    """What /proc/PID/stat says of a process that is alive."""

    pid: int
    parent: int
    group: int
    started: int


def _states() -> list[_State]:
    """Of all; the tests look a thousand times, so no more than that is read of each."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb", 0) as file:
            state, *numbers = file.read().rpartition(b")")[2].split()
            if state != b"Z":
                found.append(_State(int(name), *(int(numbers[place]) for place in (0, 1, 18))))
    return found


def _named(states: Iterable[_State]) -> list[Process]:
    """With their command lines, but those that have gone meanwhile."""
    found = []
    for pid, parent, group, started in states:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb", 0) as file:
            words = file.read().decode(errors="replace").split("\0")
            found.append(Process(pid, started, parent, group, (*words, "")))
    return found


def listening(pids: frozenset[int]) -> set[tuple[str, int]]:
    """(address in the kernel's hexadecimal, port) of the processes' listening sockets."""
    inodes = {socket_inode for pid in pids for socket_inode in _socket_inodes(pid)}
    rows = [
        row.split()
        for table in ("tcp", "tcp6")
        for row in Path("/proc/net", table).read_text().splitlines()[1:]
    ]
    found = set()
    for row in rows:
        if row[3] == "0A" and row[9] in inodes:  # TCP_LISTEN
            address, _, port = row[1].partition(":")
            found.add((address, int(port, 16)))
    return found


def _socket_inodes(pid: int) -> Iterator[str]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                yield target.removeprefix("socket:[").removesuffix("]")
