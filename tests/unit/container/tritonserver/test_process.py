"""Starting, watching, restarting and stopping, with a real tritonserver and with the fake one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from container.errors import TritonCrashLoop, TritonNotLive, describe_status
from container.tritonserver.process import SHARED_MEMORY, TritonProcess, remove_shared_memory
from tests.fakes import tritonserver as fake
from tests.support.clock import Clock
from tests.unit.container.conftest import (
    ROOT,
    WAIT_S,
    Stage,
    fake_stage,
    nothing,
    running,
    until,
)

ECHO = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for _ in requests]
"""
ECHO_CONFIG = """
backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
instance_group { kind: KIND_CPU }
"""


def starts(tmp_path: Path) -> int:
    return sum(e["event"] == "start" for e in fake.read_record(tmp_path / "record"))


def group_members(group: int) -> list[int]:
    """Processes of the group that are not zombies."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, pgrp = entry.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state != "Z":
                found.append(int(entry.parent.name))
    return found


def regions(prefix: str) -> list[Path]:
    return list(SHARED_MEMORY.glob(f"{prefix}*"))


def publish_echo(repository: Path) -> None:
    (repository / "echo/1").mkdir(parents=True)
    (repository / "echo/1/model.py").write_text(ECHO)
    (repository / "echo/config.pbtxt").write_text(ECHO_CONFIG)


async def load_echo(stage: Stage) -> None:
    async with stage.client() as client:
        await client.load_model("echo")


# With the real one


async def test_a_killed_tritonserver_is_replaced_and_leaves_nothing(stage: Stage) -> None:
    """kill -9 with a Python model loaded: no stub and no shared memory of it is left."""
    publish_echo(stage.repository)
    reloaded = asyncio.Event()
    left: list[Any] = []

    async def on_restarted() -> None:
        left.extend([group_members(first), regions(stage.command.shm_prefix)])
        await load_echo(stage)
        reloaded.set()

    process = stage.process(on_restarted)
    async with running(process):
        await load_echo(stage)
        first = process.pid or 0
        assert len(group_members(first)) == 2  # tritonserver and its stub
        assert regions(stage.command.shm_prefix)
        os.kill(first, signal.SIGKILL)
        await asyncio.wait_for(reloaded.wait(), WAIT_S)
        second = process.pid or 0
        assert left == [[], []]
        assert second != first
    assert (group_members(second), regions(stage.command.shm_prefix)) == ([], [])


@pytest.mark.tritonserver
async def test_a_killed_container_does_not_leave_tritonserver_behind(tmp_path: Path) -> None:
    """The kernel tells tritonserver to end when its starter is gone, though nobody reads it."""
    script = (
        "import asyncio\n"
        "from pathlib import Path\n"
        "from container.logs.sink import Sink\n"
        "from container.tritonserver.output import TritonOutput\n"
        "from tests.unit.container.conftest import make_stage, running\n"
        "async def main():\n"
        f"    stage = make_stage(Path({str(tmp_path)!r}), {{}})\n"
        "    process = stage.process(output=TritonOutput(Sink(2)))\n"
        "    async with running(process):\n"
        "        print(process.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    starter = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    assert starter.stdout
    group = int(await asyncio.wait_for(starter.stdout.readline(), WAIT_S))
    starter.kill()
    await starter.wait()
    await until(lambda: not group_members(group))
    await starter.communicate()


# With the fake one


async def test_stop_ends_it_in_order(tmp_path: Path) -> None:
    """SIGTERM is enough for one that listens to it; a second stop finds nothing to do."""
    stage = fake_stage(tmp_path)
    process = stage.process()
    async with running(process):
        await asyncio.wait_for(process.wait_live(), WAIT_S)
        await asyncio.gather(process.stop(), process.stop())
        assert process.pid is None
    assert fake.read_record(tmp_path / "record")[-1]["event"] == "stop"


async def test_one_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    """stop takes its timeout, and not for ever."""
    stage = fake_stage(tmp_path, ignore_sigterm=True)
    process = stage.process(stop_timeout_s=0.3)
    async with running(process):
        group = process.pid or 0
        began = time.monotonic()
        await process.stop()
        assert time.monotonic() - began >= 0.3
    assert group_members(group) == []


async def test_stop_before_run_means_no_start(tmp_path: Path) -> None:
    """A SIGTERM that comes first is not forgotten."""
    process = fake_stage(tmp_path).process()
    await process.stop()
    await process.run()
    assert starts(tmp_path) == 0


async def test_stop_during_the_start(tmp_path: Path) -> None:
    """A server that is not live yet is stopped as well."""
    process = fake_stage(tmp_path, never_live=True).process()
    run = asyncio.create_task(process.run())
    await until(lambda: starts(tmp_path) == 1)
    await process.stop()
    await run
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(process.wait_live(), 0.05)


async def test_stop_while_models_are_loaded_again(tmp_path: Path) -> None:
    """on_restarted is cancelled, and run returns without an error."""
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def on_restarted() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    process = fake_stage(tmp_path).process(on_restarted)
    async with running(process):
        os.kill(process.pid or 0, signal.SIGKILL)
        await asyncio.wait_for(entered.wait(), WAIT_S)
        await process.stop()
    assert cancelled.is_set()


@pytest.mark.slow
async def test_a_death_while_models_are_loaded_again(tmp_path: Path) -> None:
    """The interrupted reload is cancelled and tried again with the next tritonserver."""
    calls: list[int] = []
    done = asyncio.Event()

    async def on_restarted() -> None:
        calls.append(process.pid or 0)
        if len(calls) == 1:
            os.kill(calls[0], signal.SIGKILL)
            await asyncio.Event().wait()
        done.set()

    process = fake_stage(tmp_path).process(on_restarted)
    async with running(process):
        os.kill(process.pid or 0, signal.SIGKILL)
        await asyncio.wait_for(done.wait(), WAIT_S)
    assert len(set(calls)) == 2


async def test_a_crash_loop_ends_with_the_last_status(tmp_path: Path) -> None:
    """Limit 2: two deaths are healed, the third ends it, with code and count."""
    process = fake_stage(tmp_path, exit_at_start=7).process(restart_limit=2)
    with pytest.raises(TritonCrashLoop, match=r"died 3 times in 600 s.*exit code 7") as caught:
        await asyncio.wait_for(process.run(), WAIT_S)
    assert (caught.value.status, caught.value.deaths) == (7, 3)
    assert starts(tmp_path) == 3


@pytest.mark.slow
async def test_old_deaths_are_forgotten(tmp_path: Path) -> None:
    """Deaths further apart than the window never add up."""
    restarted = asyncio.Event()

    async def on_restarted() -> None:
        restarted.set()

    process = fake_stage(tmp_path).process(on_restarted, restart_limit=1, restart_window_s=0.001)
    async with running(process):
        for _ in range(3):
            restarted.clear()
            os.kill(process.pid or 0, signal.SIGKILL)
            await asyncio.wait_for(restarted.wait(), WAIT_S)
    assert starts(tmp_path) == 4


async def _next_life(process: TritonProcess, old: int | None) -> None:
    """Wait until another one is live."""
    deadline = time.monotonic() + WAIT_S
    while process.pid in (None, old):  # a process comes up
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    await asyncio.wait_for(process.wait_live(), WAIT_S)


@pytest.mark.slow
async def test_deaths_that_are_explained_are_not_counted(tmp_path: Path) -> None:
    """Nor are those before that have the same culprit."""
    explained = iter([0, 2, 0, 1, 1, 0])
    process = fake_stage(tmp_path).process(restart_limit=1, judge_death=lambda: next(explained))
    run = asyncio.ensure_future(process.run())
    old: int | None = None
    for _ in range(6):
        await _next_life(process, old)
        old = process.pid
        assert old is not None
        os.kill(old, signal.SIGKILL)
    with pytest.raises(TritonCrashLoop, match="died 2 times"):
        await asyncio.wait_for(run, WAIT_S)
    assert starts(tmp_path) == 6


@pytest.mark.slow
async def test_a_death_is_judged_before_what_it_interrupts_is_cancelled(tmp_path: Path) -> None:
    """What was loaded again when it died is still known to have been in it."""
    events: list[str] = []

    async def loading() -> None:
        events.append("loading")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            raise

    def judge() -> int:
        events.append("judged")
        return 1

    process = fake_stage(tmp_path).process(loading, restart_limit=0, judge_death=judge)
    async with running(process):
        for turn in (1, 2):
            old = process.pid
            assert old is not None
            os.kill(old, signal.SIGKILL)
            await _next_life(process, old)
            while events.count("loading") < turn:  # noqa: ASYNC110 # the next life's begins
                await asyncio.sleep(0.01)
    assert events[:5] == ["judged", "loading", "judged", "cancelled", "loading"]


async def test_one_that_is_replaced(tmp_path: Path) -> None:
    """Killed, whatever it does, started again, not counted, and nobody is blamed."""

    def judge() -> int:
        raise AssertionError("it did not die of itself")

    stage = fake_stage(tmp_path, ignore_sigterm=True)
    process = stage.process(restart_limit=0, stop_timeout_s=0.3, judge_death=judge)
    await process.replace(WAIT_S)  # there is none yet
    async with running(process):
        old = process.pid
        assert old is not None
        await asyncio.gather(process.replace(WAIT_S), process.replace(WAIT_S))
        assert not group_members(old)
        await _next_life(process, old)
        assert starts(tmp_path) == 2


async def test_one_that_the_system_denies_is_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once a second, however long that lasts."""
    stage = fake_stage(tmp_path)
    environment = dict(stage.command.env)
    process = replace(stage, command=replace(stage.command, env=environment)).process()
    async with running(process):
        first = process.pid or 0
        environment["TOO_LONG"] = "x" * (1 << 18)  # E2BIG
        os.kill(first, signal.SIGKILL)
        await until(lambda: "cannot be started yet" in caplog.text)
        del environment["TOO_LONG"]
        await _next_life(process, first)
    assert starts(tmp_path) == 2


@pytest.mark.parametrize("before", [0, 1])
async def test_one_that_never_lives_is_given_up(clock: Clock, before: int, tmp_path: Path) -> None:
    """A later start has the same time as the first; and it is gone afterwards."""
    stage = fake_stage(tmp_path, lives=[*[{}] * before, {"never_live": True}])
    process = stage.process(start_timeout_s=100)
    run = asyncio.create_task(process.run())
    if before:
        await asyncio.wait_for(process.wait_live(), WAIT_S)
        os.kill(process.pid or 0, signal.SIGKILL)
    await until(lambda: starts(tmp_path) == before + 1)
    clock.advance(101)
    with pytest.raises(TritonNotLive, match="not live after 100 s"):
        await asyncio.wait_for(run, WAIT_S)
    assert (process.pid, starts(tmp_path)) == (None, before + 1)


async def test_what_on_restarted_raises_ends_the_run(tmp_path: Path) -> None:
    """It is a mistake of ours and must not be swallowed; tritonserver does not outlive it."""

    async def on_restarted() -> None:
        groups.append(process.pid or 0)
        raise LookupError("a mistake")

    groups: list[int] = []
    process = fake_stage(tmp_path).process(on_restarted)
    run = asyncio.create_task(process.run())
    await asyncio.wait_for(process.wait_live(), WAIT_S)
    os.kill(process.pid or 0, signal.SIGKILL)
    with pytest.raises(LookupError):
        await asyncio.wait_for(run, WAIT_S)
    assert group_members(groups[0]) == []


async def test_a_cancelled_run_leaves_nothing(tmp_path: Path) -> None:
    """Even without a stop."""
    process = fake_stage(tmp_path, ignore_sigterm=True).process()
    run = asyncio.create_task(process.run())
    await asyncio.wait_for(process.wait_live(), WAIT_S)
    group = process.pid or 0
    run.cancel()
    await asyncio.wait({run})
    assert group_members(group) == []


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    """It ends as a crash loop, not as a hang."""
    stage = fake_stage(tmp_path)
    (tmp_path / "tritonserver").unlink()
    process: TritonProcess = stage.process(nothing, restart_limit=0)
    with pytest.raises(TritonCrashLoop):
        await asyncio.wait_for(process.run(), WAIT_S)


def test_only_our_shared_memory_is_removed(tmp_path: Path) -> None:
    """Another container's regions in the same /dev/shm stay."""
    for name in ("serve_1_ab_1", "serve_1_ab_2", "serve_12_cd_1"):
        (tmp_path / name).touch()
    remove_shared_memory("serve_1_ab_", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["serve_12_cd_1"]


def test_a_status_in_words() -> None:
    """Negative ones are signals, as Python has them."""
    assert describe_status(3) == "exit code 3"
    assert describe_status(-9) == "signal SIGKILL"
    assert describe_status(-1000) == "signal 1000"
