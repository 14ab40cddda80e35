"""What can happen to a container while it serves: each fault is begun, lasts, and is undone.

A fault is a context manager over the Scene. While it lasts the traffic goes on. `hits`: whose
requests it may cost, and for how long.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from tests.reliability.attacked import MIB, MOST_MEMORY, Attacked
from tests.reliability.corpus.hostile_archives import HOSTILE_ARCHIVES
from tests.reliability.corpus.hostile_requests import hostile_requests
from tests.reliability.tenants import BAD_CANDIDATES, Tenant, write_candidate
from tests.reliability.wire import Answer, NoAnswer, asked, request
from tests.support import models
from tests.support.models import PythonModel, write_archive

#: Nobody: every request must be answered rightly. One: the tenant whose process was killed; its
#: requests in flight may be lost. All: tritonserver was killed; 503 until it is back.
Hits = Literal["nobody", "one", "all"]

TARGET = "target"
#: The container's own limit: after that a load that hangs is given up.
LOAD_TIMEOUT_S = 30
#: What a hostile request or load is waited for, in seconds: a busy machine takes long, too.
_PATIENCE_S = 60.0
_BACK_WITHIN_S = 60.0


@dataclass
class Scene:
    """The container and its tenants. notes: what the fault saw. victims: whose process it killed.

    hurts: answers that an attacker should not have had.
    """

    server: Attacked
    tenants: Sequence[Tenant]
    chance: random.Random
    directory: Path
    lasts_s: float
    notes: list[str] = field(default_factory=list)
    hurts: list[str] = field(default_factory=list)
    victims: set[str] = field(default_factory=set)

    @property
    def pythons(self) -> list[Tenant]:
        """Those with one stub each."""
        return [tenant for tenant in self.tenants if tenant.kind == "python"]

    @property
    def slow(self) -> Tenant:
        return next(tenant for tenant in self.tenants if tenant.kind == "slow")

    def wait(self, share: float = 1.0) -> None:
        """As long as the fault lasts, or a share of that; at once when the container has ended."""
        deadline = time.monotonic() + self.lasts_s * share
        while time.monotonic() < deadline and not self.server.has_ended:
            time.sleep(0.05)

    def post(self, path: str, body: bytes, timeout_s: float = _PATIENCE_S) -> Answer | None:
        """The answer, None where none came."""
        try:
            return asked(self.server.port, request(path, body), timeout_s)
        except NoAnswer:
            return None

    def load(self, name: str, directory: Path, timeout_s: float = _PATIENCE_S) -> int:
        """The status of a load; 0: none came."""
        answer = self.loaded(name, directory, timeout_s)
        return answer.status if answer else 0

    def loaded(self, name: str, directory: Path, timeout_s: float) -> Answer | None:
        """The answer to a load, None where none came."""
        body = f'{{"model_name": "{name}", "url": "{directory}"}}'.encode()
        return self.post("/models", body, timeout_s)

    def unload(self, name: str) -> int:
        try:
            raw = request(f"/models/{name}", b"", method="DELETE")
            return asked(self.server.port, raw, _PATIENCE_S).status
        except NoAnswer:
            return 0

    def spare(self, name: str, model: PythonModel = models.identity) -> Path:
        """An archive that is no tenant's."""
        path = self.server.container.model_root / name / "model"
        return path if path.exists() else write_archive(path, {name: model})


Begin = Callable[[Scene], AbstractContextManager[None]]


@dataclass(frozen=True)
class Fault:
    """needs: why it cannot be made here, or None. is_quick: part of the short form."""

    name: str
    begin: Begin
    promise: str
    hits: Hits = "nobody"
    is_quick: bool = False
    needs: Callable[[Scene], str | None] = lambda _: None


# -- kills and stops


@contextlib.contextmanager
def _kill_stub(scene: Scene) -> Iterator[None]:
    victim = scene.chance.choice(scene.pythons)
    scene.victims.add(victim.name)
    _signal_stubs(scene, victim, signal.SIGKILL)
    yield
    scene.wait()


@contextlib.contextmanager
def _stop_stub(scene: Scene) -> Iterator[None]:
    victim = scene.chance.choice(scene.pythons)
    pids = _signal_stubs(scene, victim, signal.SIGSTOP)
    try:
        yield
        scene.wait(0.5)
    finally:
        for pid in pids:
            _send(pid, signal.SIGCONT)


def _signal_stubs(scene: Scene, victim: Tenant, number: signal.Signals) -> frozenset[int]:
    pids = scene.server.container.stubs(victim.name)
    scene.notes.append(f"{number.name} to {victim.name}")
    for pid in pids:
        _send(pid, number)
    return pids


@contextlib.contextmanager
def _kill_triton(scene: Scene) -> Iterator[None]:
    scene.victims.update(tenant.name for tenant in scene.tenants)
    pid = scene.server.triton()
    if pid:
        _send(pid, signal.SIGKILL)
    yield
    scene.wait()


@contextlib.contextmanager
def _stop_triton(scene: Scene) -> Iterator[None]:
    pid = scene.server.triton()
    if pid:
        _send(pid, signal.SIGSTOP)
    try:
        yield
        scene.wait(0.5)
    finally:
        if pid:
            _send(pid, signal.SIGCONT)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


# -- shortages


def _no_file_system(scene: Scene) -> str | None:
    own = scene.server.has_own_file_systems
    return None if own else "needs root, to mount a file system of the container's own"


@contextlib.contextmanager
def _full_disk(scene: Scene) -> Iterator[None]:
    with _filled(scene.server.inside(scene.server.container.work_dir)):
        yield
        _loads_meanwhile(scene, "disk")


@contextlib.contextmanager
def _full_shm(scene: Scene) -> Iterator[None]:
    with _filled(scene.server.inside(Path("/dev/shm"))):
        yield
        _loads_meanwhile(scene, "shm")


@contextlib.contextmanager
def _filled(directory: Path) -> Iterator[None]:
    """Nothing can be written there for as long as the block lasts."""
    ballast = directory / "ballast"
    try:
        with ballast.open("wb") as file:
            block = b"\0" * MIB
            with contextlib.suppress(OSError):
                while True:
                    file.write(block)
                    file.flush()
            with contextlib.suppress(OSError):
                while True:
                    os.write(file.fileno(), b"\0" * 4096)
        yield
    finally:
        with contextlib.suppress(OSError):
            ballast.unlink()


def _loads_meanwhile(scene: Scene, what: str, model: PythonModel = models.identity) -> None:
    """A load in the shortage is taken or refused with 507; it never is the archive's fault."""
    deadline = time.monotonic() + scene.lasts_s
    path = scene.spare(f"spare-{what}", model)
    statuses = []
    while time.monotonic() < deadline and not scene.server.has_ended:
        status = scene.load(f"spare-{what}", path)
        statuses.append(status)
        if status == 200:
            scene.unload(f"spare-{what}")
        if status not in (200, 507):
            scene.hurts.append(f"a load without {what}: {status or 'no answer'}")
        time.sleep(0.2)
    scene.notes.append(f"loads: {sorted(set(statuses))}")


@contextlib.contextmanager
def _few_descriptors(scene: Scene) -> Iterator[None]:
    """As many as are open now and a few: of the container, and of tritonserver."""
    with contextlib.ExitStack() as undo:
        for pid in filter(None, (scene.server.pid, scene.server.triton())):
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            now = len(os.listdir(f"/proc/{pid}/fd"))
            before = resource.prlimit(pid, resource.RLIMIT_NOFILE, (now + 4, hard))
            undo.callback(_limit_again, pid, before)
        yield
        _loads_meanwhile(scene, "descriptors")


def _limit_again(pid: int, before: tuple[int, int]) -> None:
    with contextlib.suppress(ProcessLookupError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def _no_pids(scene: Scene) -> str | None:
    return None if scene.server.group.pids else "needs a control group for pids"


@contextlib.contextmanager
def _few_pids(scene: Scene) -> Iterator[None]:
    group = scene.server.group
    group.limit_pids(group.pids_now() + 3)
    try:
        yield
        _loads_meanwhile(scene, "pids")
    finally:
        group.limit_pids(None)


def _no_memory_group(scene: Scene) -> str | None:
    return None if scene.server.group.memory else "needs a control group for memory"


#: Takes more than there is, page by page, while it is loaded.
_HUNGRY = """
class TritonPythonModel(Each):
    def initialize(self, args):
        super().initialize(args)
        self.much = np.ones(3 << 27)

    def answer(self, request, values):
        return respond(request, values)
"""


@contextlib.contextmanager
def _little_memory(scene: Scene) -> Iterator[None]:
    """Room for 700 MB more, and a model that wants 3 GB: it is the kernel's largest."""
    group = scene.server.group
    kills = group.kills()
    group.limit_memory(group.memory_bytes() + 700 * MIB)
    try:
        yield
        _loads_meanwhile(scene, "memory", PythonModel(_HUNGRY))
    finally:
        group.limit_memory(MOST_MEMORY)
        scene.notes.append(f"{group.kills() - kills} killed by the kernel")


# -- callers


@contextlib.contextmanager
def _abandoned(scene: Scene) -> Iterator[None]:
    """Hundreds ask the slow tenant for half a second each, and hang up."""
    body = b'{"inputs":[{"name":"IN","datatype":"FP32","shape":[1],"data":[0.5]}]}'
    raw = request(f"/models/{scene.slow.name}/invoke", body)
    left = 0
    for _ in range(400):
        with contextlib.suppress(OSError), _connected(scene) as caller:
            caller.sendall(raw)
            left += 1
    scene.notes.append(f"{left} hung up")
    yield
    scene.wait(0.3)


@contextlib.contextmanager
def _idle_flood(scene: Scene) -> Iterator[None]:
    """More connections than the container has descriptors, none of which says anything."""
    with contextlib.ExitStack() as open_:
        opened = 0
        for _ in range(1500):
            with contextlib.suppress(OSError):
                open_.enter_context(_connected(scene))
                opened += 1
        scene.notes.append(f"{opened} opened")
        yield
        scene.wait()


@contextlib.contextmanager
def _slow_halves(scene: Scene) -> Iterator[None]:
    """A hundred requests that come a byte at a time and never end."""
    raw = request(f"/models/{scene.slow.name}/invoke", b"x" * 1000)
    with contextlib.ExitStack() as open_:
        callers = []
        for number in range(100):
            with contextlib.suppress(OSError):
                caller = open_.enter_context(_connected(scene))
                caller.sendall(raw[: 20 if number % 2 else -500])
                callers.append(caller)
        yield
        for _ in range(8):
            for caller in callers:
                with contextlib.suppress(OSError):
                    caller.send(b"x")
            scene.wait(1 / 8)


@contextlib.contextmanager
def _connected(scene: Scene) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", scene.server.port), 1.0) as caller:
        yield caller


@contextlib.contextmanager
def _burst(scene: Scene) -> Iterator[None]:
    """500 at once to one tenant: fewer than what waits by default, so all are answered."""
    tenant = scene.pythons[0]
    question = tenant.ask(scene.chance)
    path = f"/models/{tenant.name}/invoke"

    def one(_: int) -> int:
        try:
            raw = request(path, question.body, question.headers)
            return asked(scene.server.port, raw, _PATIENCE_S).status
        except NoAnswer:
            return 0

    yield
    with ThreadPoolExecutor(100) as pool:
        statuses = list(pool.map(one, range(500)))
    refused = [status for status in statuses if status != 200]
    if refused:
        scene.hurts.append(f"{len(refused)} of a burst of 500: {sorted(set(refused))}")


# -- hostile


#: The ones that take long or much are in `beside`, each alone.
_MANY = ("2 GB", "512 MB", "1,000,000 chunks", "100,000 inputs")


@contextlib.contextmanager
def _hostile_requests(scene: Scene) -> Iterator[None]:
    """As many as the time allows, drawn by chance, to a model of the attacker's own."""
    yield
    drawn = [one for one in hostile_requests() if not any(word in one.name for word in _MANY)]
    scene.chance.shuffle(drawn)
    deadline = time.monotonic() + 3 * scene.lasts_s
    sent = 0
    for hostile in drawn:
        if time.monotonic() > deadline or scene.server.has_ended:
            break
        sent += 1
        status, said = 0, ""
        try:
            made = hostile.make(f"/models/{TARGET}/invoke")
            status = asked(scene.server.port, made, _PATIENCE_S).status
        except NoAnswer as error:
            said = f" ({error.said})"
        if status not in hostile.allowed:
            scene.hurts.append(f"{hostile.name}: {status}{said}")
    scene.notes.append(f"{sent} sent")


def _hostile_archive(number: int) -> Begin:
    """That one loaded, and unloaded if it could be; others' loads must go on beside it."""

    @contextlib.contextmanager
    def begin(scene: Scene) -> Iterator[None]:
        hostile = HOSTILE_ARCHIVES[number]
        directory = scene.server.container.model_root / f"h{number}" / "model"
        marker = directory.parent / "marker"
        if not directory.exists():
            directory.mkdir(parents=True)
            hostile.write(directory, marker)
        yield
        patience = LOAD_TIMEOUT_S + _PATIENCE_S if hostile.hangs else _PATIENCE_S
        answer = scene.loaded(f"h{number}", directory, patience)
        status = answer.status if answer else 0
        if status == 200:
            scene.unload(f"h{number}")
        if answer and hostile.secret and hostile.secret.encode() in answer.body:
            scene.hurts.append(f"{hostile.name}: the answer holds the environment")
        if status not in hostile.allowed:
            scene.hurts.append(f"{hostile.name}: {status or 'no answer'}")
        if hostile.marks and marker.exists():
            scene.hurts.append(f"{hostile.name}: its code was run")
        name = f"spare-{number}"  # of its own: one that hangs is not the next one's 409
        spare = scene.load(name, scene.spare(name))
        if spare != 200 or scene.unload(name) != 200:
            scene.hurts.append(f"others' loads after it: {spare or 'no answer'}")

    return begin


#: A candidate that hangs is dropped after 5 s, and gone after some more; not on a busy machine.
_DROPPED_S = 60.0


@contextlib.contextmanager
def _bad_candidates(scene: Scene) -> Iterator[None]:
    """Models with one of each kind, asked until these are gone: each of their answers is right."""
    names = [f"spare-{kind}" for kind in BAD_CANDIDATES]
    for name, source in zip(names, BAD_CANDIDATES.values(), strict=True):
        archive = scene.spare(name)
        write_candidate(archive, source)
        if (status := scene.load(name, archive)) != 200:
            scene.hurts.append(f"a load beside bad candidates: {status or 'no answer'}")
    yield
    body = b'{"inputs":[{"name":"IN","datatype":"FP32","shape":[1],"data":[7.0]}]}'
    deadline = time.monotonic() + _DROPPED_S
    left = names
    while left and time.monotonic() < deadline and not scene.server.has_ended:
        for name in names:
            answer = scene.post(f"/models/{name}/invoke", body)
            if answer is None or answer.status != 200 or b"[7.0]" not in answer.body:
                scene.hurts.append(f"beside a bad candidate: {answer and answer.status}")
        page = asked(scene.server.port, request("/metrics", b"", method="GET"), _PATIENCE_S).body
        drops = {line for line in page.decode().splitlines() if "_candidate_drops_total{" in line}
        left = [name for name in names if not any(f'"{name}"' in line for line in drops)]
    if left:
        scene.hurts.append(f"candidates that are not dropped: {left}")
    statuses = {scene.unload(name) for name in names}
    if statuses != {200}:
        scene.hurts.append(f"unloads beside bad candidates: {statuses}")
    scene.notes.append(f"{len(names) - len(left)} dropped")


_REFUSED = "refuses it as the sender's fault; the others notice nothing"
_SHORT = "refuses loads with 507 while it lasts; what is loaded goes on"
_LEFT = "drops what waits for them; the next caller does not wait for it"


def faults() -> tuple[Fault, ...]:
    """All of them."""
    archives = (
        Fault(
            f"archive: {one.name}", _hostile_archive(number), _REFUSED, is_quick=number in (0, 2, 4)
        )
        for number, one in enumerate(HOSTILE_ARCHIVES)
    )
    return (
        Fault(
            "kill -9 of a stub",
            _kill_stub,
            "loads the model again; its requests are answered",
            "one",
            is_quick=True,
        ),
        Fault("SIGSTOP of a stub", _stop_stub, "its callers wait; the others notice nothing"),
        Fault(
            "kill -9 of tritonserver",
            _kill_triton,
            "starts it again with all its models; until then 503",
            "all",
            is_quick=True,
        ),
        Fault("SIGSTOP of tritonserver", _stop_triton, "all wait; none is lost", is_quick=True),
        Fault("a full disk", _full_disk, _SHORT, needs=_no_file_system),
        Fault("a full /dev/shm", _full_shm, _SHORT, is_quick=True, needs=_no_file_system),
        Fault("few descriptors", _few_descriptors, _SHORT),
        Fault("few pids", _few_pids, _SHORT, needs=_no_pids),
        Fault("little memory", _little_memory, _SHORT, needs=_no_memory_group),
        Fault("400 abandoned callers", _abandoned, _LEFT, is_quick=True),
        Fault(
            "1,500 idle connections", _idle_flood, "serves the others beside them", is_quick=True
        ),
        Fault("100 slow half-requests", _slow_halves, "serves the others beside them"),
        Fault("a burst of 500", _burst, "answers all of it"),
        Fault("bad candidates", _bad_candidates, "drops them; their models notice nothing"),
        Fault("hostile requests", _hostile_requests, _REFUSED, is_quick=True),
        *archives,
    )


def with_name(name: str) -> Fault:
    """The fault of that name."""
    return next(fault for fault in faults() if fault.name == name)


def restart_for_ever(scene: Scene, seconds: float) -> Scene:
    """The same scene for another fault."""
    return replace(scene, lasts_s=seconds, notes=[], hurts=[], victims=set())
