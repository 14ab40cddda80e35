"""Interpreters, what is forked from them, and the stubs that these work for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from container.warm.interpreters import CODE, Surroundings, WarmInterpreters
from serve.resources.processes import FORKED
from tests.support.container import Process, processes, until

pytestmark = pytest.mark.slow

WAIT_S = 120.0
AGAIN = "the process that ran the model has ended; it is forked again"
KEPT = 8 * 1024 * 1024
UTILS = Path(sysconfig.get_path("purelib")) / (
    "pytriton/tritonserver/backends/python/triton_python_backend_utils.py"
)
#: Stands in for Triton's stub: answers each line with what its model does.
STUB = """
import json, sys
sys.path.append(sys.argv[1])
from warm_interpreter import triton_utils
triton_utils.install(sys.argv[2])
from warm_interpreter.front import Front
import numpy as np

class Model(Front):
    library, program, module = "torch", sys.argv[3], "served"

def tell(words):
    print(json.dumps(words), flush=True)

def log(level, text):
    if text == "unspeakable":
        raise ValueError(text)
    tell([level, text])

triton_utils.Logger.tell = staticmethod(log)
model = Model()
try:
    model.initialize(json.loads(sys.argv[4]))
except Exception as error:
    tell([type(error).__name__, str(error)])
    sys.exit()
tell(type(model._model).__name__)
for line in sys.stdin:
    numbers = np.array(json.loads(line), np.float32)
    asked = triton_utils.InferenceRequest("1", ["y"], "{}", [triton_utils.Tensor("x", numbers)])
    try:
        (answer,) = model.execute([asked])
    except Exception as error:
        tell([type(error).__name__, str(error)])
        continue
    if len(numbers) and numbers[0] == -9:
        tell(len(answer.output_tensors()[0].as_numpy()))
    elif answer.has_error():
        tell([answer.error().message(), answer.error().code()])
    else:
        (tensor,) = answer.output_tensors()
        tell({tensor.name(): tensor.as_numpy().tolist()})
model.finalize()
tell("finalized")
"""
MODEL = """
import os, sys
import numpy as np
import triton_python_backend_utils as pb_utils

class Refused(Exception):
    pass

class TritonPythonModel:
    def initialize(self, args):
        pb_utils.Logger.log_warn("be warned")
        if args["model_name"] == "refused":
            raise Refused("not this one")
        if args["model_name"] == "deadly":
            os._exit(3)
        self.seen = 0

    def execute(self, requests):
        self.seen += 1
        (numbers,) = [t.as_numpy() for t in requests[0].inputs()]
        if numbers[0] == -1:
            raise Refused("no such number")
        if numbers[0] == -2:
            error = pb_utils.TritonError("your fault", pb_utils.TritonError.INVALID_ARG)
            return [pb_utils.InferenceResponse(error=error)]
        if numbers[0] == -3:
            while True: pass
        if numbers[0] == -4:
            import re
            re.match("(a+)+$", "a" * 40 + "b")  # holds Python's lock for hours
        if numbers[0] == -5:
            return None
        if numbers[0] == -6:
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError(""))]
        if numbers[0] == -7:
            pb_utils.Logger.log_warn("unspeakable")
        if numbers[0] == -8:
            print("last words")
            sys.stdout.flush = None
            raise SystemExit(3)
        if numbers[0] == -10:
            import time
            if not os.path.exists(__file__ + ".asked"):
                open(__file__ + ".asked", "w").close()
                time.sleep(1000)
        if numbers[0] == -11:
            os._exit(3)
        if numbers[0] == -9:
            numbers = np.zeros(16 * 1024 * 1024, np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("y", numbers + self.seen)])]

    def finalize(self):
        open(sys.modules["served"].__file__ + ".finalized", "w").close()
"""


@dataclass
class Stub:
    """A stub's process; tag: its test's own."""

    process: subprocess.Popen[str]
    tag: str

    async def says(self) -> object:
        """Its next line; None when it has ended."""
        assert self.process.stdout is not None
        line = await asyncio.to_thread(self.process.stdout.readline)
        return json.loads(line) if line else None

    async def asked(self, *numbers: float) -> object:
        """What it answers."""
        self.send(*numbers)
        return await self.says()

    def send(self, *numbers: float) -> None:
        """And wait for nothing."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps(numbers)}\n")
        self.process.stdin.flush()

    @property
    def forked(self) -> list[Process]:
        """What runs its model."""
        words = (FORKED, f"/repository/{self.tag}/1")
        return [it for it in processes() if it.command[:2] == words]


@contextlib.contextmanager
def stub(folder: Path, name: str = "", kind: str = "CPU", **config: object) -> Iterator[Stub]:
    program = folder.parent / "served.py"
    program.write_text(MODEL)
    tag = folder.parent.name
    arguments = {
        "model_name": name or "m",
        "model_instance_kind": kind,
        "model_config": json.dumps(config),
        "model_repository": f"/repository/{tag}",
        "model_version": "1",
    }
    words = [sys.executable, "-c", STUB, *map(str, (CODE, UTILS, program)), json.dumps(arguments)]
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"MERLIN_WARM_INTERPRETERS": str(folder)},
    ) as process:
        try:
            yield Stub(process, tag)
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def interpreters(
    tmp_path: Path, output: int | None = None
) -> AsyncIterator[WarmInterpreters]:
    """Running ones, of this very Python, which has no torch."""
    warm = WarmInterpreters(tmp_path / "warm")
    warm.listen()
    surroundings = Surroundings(
        Path(sys.executable), UTILS, {"PATH": os.environ["PATH"]}, output=output
    )
    warm.start(surroundings)
    try:
        yield warm
    finally:
        warm.end()


async def wait_until_gone(found: list[Process]) -> None:
    async def looking() -> None:
        while {*found} & {*processes()}:  # noqa: ASYNC110 # processes tell nobody
            await asyncio.sleep(0.01)

    await asyncio.wait_for(looking(), WAIT_S)


async def test_a_model_in_a_forked_process(tmp_path: Path) -> None:
    """Its lines for the log, its answers, its errors with their codes, what it raises, its end."""
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder) as one:
            assert await one.says() == ["log_warn", "be warned"]
            assert await one.says() == "Remote"
            (process,) = one.forked
            assert await one.asked(1, 2) == {"y": [2.0, 3.0]}
            assert await one.asked(-1) == ["Refused", "no such number"]
            assert await one.asked(-2) == ["your fault", "INVALID_ARG"]
            assert await one.asked(*range(100_000)) == {"y": [n + 4.0 for n in range(100_000)]}
            assert one.process.stdin is not None
            one.process.stdin.close()
            assert await one.says() == "finalized"
            assert (tmp_path / "served.py.finalized").exists()
            await wait_until_gone([process])


async def test_a_model_that_is_refused(tmp_path: Path) -> None:
    """With the name and the words of what it raised; nothing is left of it."""
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder, "refused") as one:
            assert await one.says() == ["log_warn", "be warned"]
            assert await one.says() == ["Refused", "not this one"]
            await wait_until_gone(one.forked)


async def test_a_model_that_ends_its_process_while_it_is_loaded(tmp_path: Path) -> None:
    """The stub dies of it, as if it were its own."""
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder, "deadly") as one:
            assert await one.says() == ["log_warn", "be warned"]
            assert await one.says() is None
            assert await asyncio.to_thread(one.process.wait, WAIT_S) == -signal.SIGKILL


@pytest.mark.parametrize("busy", [0, -3, -4])
async def test_a_stub_that_dies(busy: int, tmp_path: Path) -> None:
    """Its model ends at once, whatever it is doing; code that holds Python's lock, too."""
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder) as one:
            await one.says()
            await one.says()
            found = one.forked
            assert len(found) == 1
            if busy:
                one.send(busy)
                await asyncio.sleep(0.1)
            one.process.kill()
            await wait_until_gone(found)


@pytest.mark.parametrize("busy", [False, True])
async def test_a_forked_process_that_dies(busy: bool, tmp_path: Path) -> None:
    """Another one is forked in its place, and asked; no stub dies of it."""
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder) as one:
            await one.says()
            await one.says()
            assert await one.asked(1) == {"y": [2.0]}
            (before,) = one.forked
            if busy:
                one.send(-10)
                await asyncio.to_thread(until, (tmp_path / "served.py.asked").exists, "it is asked")
            os.kill(before.pid, signal.SIGKILL)
            if not busy:
                one.send(1)
            assert await one.says() == ["log_warn", AGAIN]
            assert await one.says() == ["log_warn", "be warned"]
            assert await one.says() == {"y": [-9.0 if busy else 2.0]}
            assert await one.asked(1) == {"y": [3.0]}
            (after,) = one.forked
            assert after != before


async def test_a_request_that_ends_each_process(tmp_path: Path) -> None:
    """It is refused when the second one has died; the next request has a third one."""
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder) as one:
            await one.says()
            await one.says()
            assert await one.asked(-11) == ["log_warn", AGAIN]
            assert await one.says() == ["log_warn", "be warned"]
            assert await one.says() == ["Died", "its process ended twice under this request"]
            assert await one.asked(1) == ["log_warn", AGAIN]
            assert await one.says() == ["log_warn", "be warned"]
            assert await one.says() == {"y": [2.0]}


async def test_a_forked_process_that_dies_where_there_is_no_other(tmp_path: Path) -> None:
    """The stub dies with it, so that the container loads the model again."""
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder) as one:
            await one.says()
            await one.says()
            (child,) = one.forked
            warm.end()
            await wait_until_gone([child])
            assert await one.asked(1) == ["log_warn", AGAIN]
            assert await one.says() is None
            assert await asyncio.to_thread(one.process.wait, WAIT_S) == -signal.SIGKILL


async def test_what_a_request_alone_fails_of(tmp_path: Path) -> None:
    """A model that answers nothing, an error without words, a line that cannot be logged."""
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder) as one:
            await one.says()
            await one.says()
            assert await one.asked(-5) == ["TypeError", "'NoneType' object is not iterable"]
            assert await one.asked(-6) == ["", None]
            assert await one.asked(-7) == {"y": [-4.0]}
            assert await one.asked(1) == {"y": [5.0]}


async def test_a_large_answer_is_kept_by_nobody(tmp_path: Path) -> None:
    """Once it has been answered, also where nobody asks again."""
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder) as one:
            await one.says()
            await one.says()
            assert await one.asked(-9) == 16 * 1024 * 1024
            for process in (one.process.pid, one.forked[0].pid):
                assert shared_files(process) == {"request": 0, "response": KEPT}
            assert await one.asked(1) == {"y": [3.0]}


async def test_what_a_child_dies_of_is_printed(tmp_path: Path) -> None:
    """With what it had printed before."""
    with (tmp_path / "printed").open("w") as output:
        async with interpreters(tmp_path, output.fileno()) as warm:
            with stub(warm.folder) as one:
                await one.says()
                await one.says()
                assert await one.asked(-8) == ["log_warn", AGAIN]
                assert await one.says() == ["log_warn", "be warned"]
                assert await one.says() == ["Died", "its process ended twice under this request"]
    printed = (tmp_path / "printed").read_text()
    assert "last words" in printed
    assert "SystemExit: 3" in printed


def shared_files(pid: int) -> dict[str, int]:
    """The process's memory without a name: bytes of each piece."""
    return {
        target[len("/memfd:") :].split()[0]: size
        for target, size in open_files(pid)
        if target.startswith("/memfd:")
    }


def open_files(pid: int) -> Iterator[tuple[str, int]]:
    """Target and bytes of each; the process may close one while they are read."""
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            yield str(each.readlink()), each.stat().st_size


async def test_the_end_leaves_nothing(tmp_path: Path) -> None:
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder) as one:
            await one.says()
            await one.says()
            found = one.forked
            warm.end()
            await wait_until_gone(found)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("GPU", {}),
        ("CPU", {"parameters": {"EXECUTION_ENV_PATH": {"string_value": "/env.tar.gz"}}}),
    ],
)
async def test_what_is_not_forked(kind: str, config: dict[str, object], tmp_path: Path) -> None:
    """A process that meets a GPU, and a model with packages of its own."""
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder, "", kind, **config) as one:
            assert await one.says() == ["log_warn", "be warned"]
            assert await one.says() == "TritonPythonModel"
            assert await one.asked(1) == {"y": [2.0]}


async def test_what_cannot_be_imported_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once, when the imports have ended; where nothing is left of a library it is a warning."""
    caplog.set_level("INFO")
    async with interpreters(tmp_path) as warm:
        with stub(warm.folder) as one:
            await one.says()
            assert await one.says() == "Remote"
        assert warm.starts == {
            "torch": 1,
            **dict.fromkeys(("tensorflow", "forests", "feast"), 0),
            **dict.fromkeys(("pandas", "torch-pandas", "nvtabular"), 0),
        }
    (told,) = [it for it in caplog.records if "interpreter started" in it.message]
    assert told.levelname == "WARNING"
    facts = vars(told)
    assert (facts["library"], facts["lacking"]) == (
        "torch",
        "torch: ModuleNotFoundError: No module named 'torch'",
    )
    assert 0 < facts["seconds"] < WAIT_S


def is_connected(pid: int) -> bool:
    """Whether the process has a Unix socket that is connected (proc(5): /proc/net/unix, 03)."""
    sockets = {target for target, _ in open_files(pid)}
    lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    return any(line[5] == "03" and f"socket:[{line[6]}]" in sockets for line in lines)


async def test_an_interpreter_that_ends_at_once(tmp_path: Path) -> None:
    """The stub runs the model itself, and says why."""
    warm = WarmInterpreters(tmp_path / "warm")
    warm.listen()
    warm.start(Surroundings(Path("/bin/false"), UTILS, {}))  # nobody takes the connection over
    try:
        with stub(warm.folder) as one:
            said = asyncio.ensure_future(one.says())
            await asyncio.to_thread(until, lambda: is_connected(one.process.pid), "connected")
            warm.end()
            assert await said == [
                "log_warn",
                "torch is imported by this process itself: it has ended",
            ]
            assert await one.says() == ["log_warn", "be warned"]
            assert await one.says() == "TritonPythonModel"
    finally:
        warm.end()
