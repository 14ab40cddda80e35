"""Which python stubs run, as /proc tells, and the end of those that nobody needs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from serve.triton.stubs import (
    Descendant,
    Patience,
    Stub,
    end_stubs,
    find_descendants,
    find_stubs,
)
from tests.unit.serve.fake_stub import STUB, started_by, starting, stub
from tests.unit.serve.parts_on_fake import WAIT_S, no_descriptor, until

SOON_S = 0.3
#: Longer than anything takes that ends by itself.
LASTING = Patience(ending_s=WAIT_S, killed_s=WAIT_S, alone_s=WAIT_S)


def process(root: Path, pid: int, *command: str) -> None:
    (root / str(pid)).mkdir(parents=True)
    (root / str(pid) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))


def test_stubs_are_found_by_model(tmp_path: Path) -> None:
    """Only stubs, only of this serving repository, only of the models asked for."""
    serving = Path("/run/serving")
    process(tmp_path, 1, STUB, "/run/serving/m.a/1/model.py", "region")
    process(tmp_path, 2, STUB, "/run/serving/m.a/1/model.py", "region")
    process(tmp_path, 3, STUB, "/run/serving/m/1/model.py", "region")
    process(tmp_path, 4, STUB, "/run/serving/other/1/model.py")
    process(tmp_path, 5, STUB, "/run2/serving/m.b/1/model.py")
    process(tmp_path, 6, "vim", "/run/serving/m.b/1/model.py")
    process(tmp_path, 7, STUB, "/run/serving")
    process(tmp_path, 8, STUB)
    process(tmp_path, 9)
    (tmp_path / "10").mkdir()  # ended between two looks
    (tmp_path / "11").mkdir()
    (tmp_path / "11/cmdline").write_bytes(b"\xff\xfe\0")
    (tmp_path / "meminfo").touch()
    found = find_stubs(serving, {"m", "m.a", "m.b"}, str(tmp_path))
    assert {(stub.pid, stub.triton_name) for stub in found} == {(1, "m.a"), (2, "m.a"), (3, "m")}


def test_a_stand_in_s_stub_runs_no_file_of_the_model_s(tmp_path: Path) -> None:
    """Its command names the weights, or a model.py that is not there."""
    (tmp_path / "model.py").touch()
    commands = {
        name: "\0".join((STUB, str(tmp_path / name), "region", ""))
        for name in ("model.py", "model.pt", "absent.py")
    }
    stubs = {name: Stub(1, "m", command) for name, command in commands.items()}
    assert [name for name, stub in stubs.items() if stub.runs_python_file] == ["model.py"]


async def test_stubs_that_end_by_themselves_are_waited_for(tmp_path: Path) -> None:
    """To the end of the last one; those of other models are no matter."""
    with (
        stub(tmp_path, "m", SOON_S) as first,
        stub(tmp_path, "m.step", 2 * SOON_S) as last,
        stub(tmp_path, "other", WAIT_S) as other,
    ):
        await end_stubs(find_stubs(tmp_path, {"m", "m.step"}), LASTING)
        assert [first.wait(0), last.wait(0), other.poll()] == [0, 0, None]


@pytest.mark.slow
async def test_a_stub_has_ended_when_its_memory_is_free(tmp_path: Path) -> None:
    """The kernel forgets a process's words before that, and its first thread ends before others."""
    for number in range(4):
        with stub(tmp_path / str(number), "m", SOON_S, holds_mib=400) as large:
            await end_stubs(find_stubs(tmp_path / str(number), {"m"}), LASTING)
            assert large.poll() == 0


async def test_stubs_that_stay_are_killed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After the time that they have, and the log says whose they were."""
    patience = Patience(ending_s=SOON_S, killed_s=WAIT_S)
    began = time.monotonic()
    with stub(tmp_path, "m.step", WAIT_S) as staying, stub(tmp_path, "other", WAIT_S) as other:
        with caplog.at_level(logging.WARNING):
            await end_stubs(find_stubs(tmp_path, {"m", "m.step"}), patience)
        assert time.monotonic() - began >= SOON_S
        assert [staying.wait(0), other.poll()] == [-signal.SIGKILL, None]
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["m.step"]


async def test_stubs_that_stay_are_killed_without_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be looked at is no reason to think that it has ended."""
    patience = Patience(ending_s=0.1, killed_s=0.1)
    with stub(tmp_path, "m", WAIT_S) as staying:
        found = find_stubs(tmp_path, ["m"])
        with monkeypatch.context() as patched:
            patched.setattr("builtins.open", no_descriptor)
            patched.setattr("os.listdir", no_descriptor)
            await end_stubs(found, patience)
        assert staying.wait(WAIT_S) == -signal.SIGKILL


async def test_a_process_that_got_the_id_of_a_stub_is_left_alone(tmp_path: Path) -> None:
    """It has another command."""
    with stub(tmp_path, "other", WAIT_S) as other:
        await end_stubs([Stub(other.pid, "m", f"{STUB}\0/run/serving/m/1/model.py\0region\0")])
        assert other.poll() is None


# -- what stubs have started


def status(root: Path, pid: int, parent: int, started: int, state: str = "S") -> None:
    """As in proc_pid_stat(5); names may hold anything."""
    (root / str(pid)).mkdir(parents=True, exist_ok=True)
    fields = [state, parent, *[0] * 15, 1, 0, started, 0]
    (root / str(pid) / "stat").write_text(f"{pid} (a) (b c) {' '.join(map(str, fields))}\n")


def test_descendants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all generations and of these stubs alone; all stubs in one look at /proc."""
    command = f"{STUB}\0/run/serving/m/1/model.py\0region\0"
    for pid in (10, 11, 12):
        process(tmp_path, pid, *command.split("\0")[:3])
    for pid, parent in ((1, 0), (10, 1), (20, 10), (30, 20), (11, 1), (21, 11), (12, 1), (22, 12)):
        status(tmp_path, pid, parent, 100 + pid)
    status(tmp_path, 31, 20, 131, state="Z")
    process(tmp_path, 13, "what got the id of a stub")
    status(tmp_path, 13, 1, 113)
    status(tmp_path, 23, 13, 123)
    (tmp_path / "24").mkdir()  # ended between two looks
    looks, listdir = [], os.listdir

    def counted(path: str) -> list[str]:
        looks.append(path)
        return listdir(path)

    monkeypatch.setattr("os.listdir", counted)
    stubs = [Stub(pid, "m", command) for pid in (10, 11, 13, 14)]
    found = find_descendants(stubs, str(tmp_path))
    assert found == {Descendant(pid, 100 + pid) for pid in (20, 21, 30, 31)}
    assert looks == [str(tmp_path)]
    assert find_descendants([Descendant(20, 120), Descendant(11, 7)], str(tmp_path)) == {
        Descendant(30, 130),
        Descendant(31, 131),
    }
    assert not find_descendants([], str(tmp_path))


async def test_what_stubs_have_started_ends_after_them(tmp_path: Path) -> None:
    """In whatever session; what another model's have started is no matter."""
    patience = Patience(ending_s=WAIT_S, killed_s=WAIT_S, alone_s=SOON_S)
    mine, others, unloaded = tmp_path / "mine", tmp_path / "others", tmp_path / "unloaded"
    with (
        stub(tmp_path, "m", SOON_S, more=starting(mine), after=unloaded) as one,
        stub(tmp_path, "other", WAIT_S, more=starting(others)),
    ):
        await until(lambda: len(started_by(mine)) == len(started_by(others)) == 2)
        stubs = find_stubs(tmp_path, {"m"})
        found = find_descendants(stubs)
        assert {it.pid for it in found} >= {it.pid for it in started_by(mine)}
        unloaded.touch()
        await end_stubs(stubs | found, patience)
        assert one.wait(0) == 0
        assert not started_by(mine)
        assert len(started_by(others)) == 2
        theirs = find_descendants(find_stubs(tmp_path, {"other"}))
        await end_stubs(theirs, patience)
    assert not started_by(others)


async def test_what_a_stub_that_stays_has_started_since(tmp_path: Path) -> None:
    """It is looked for before the stub is killed."""
    patience = Patience(ending_s=SOON_S, killed_s=WAIT_S, alone_s=0.0)
    with stub(tmp_path, "m", WAIT_S, more=starting(tmp_path / "mine")) as staying:
        await until(lambda: len(started_by(tmp_path / "mine")) == 2)
        await end_stubs(find_stubs(tmp_path, {"m"}), patience)
        assert staying.wait(0) == -signal.SIGKILL
    assert not started_by(tmp_path / "mine")


async def test_a_fork_of_a_stub_is_no_stub_to_wait_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the stub's very command, and tritonserver does not keep it."""
    patience = Patience(ending_s=WAIT_S, killed_s=WAIT_S, alone_s=SOON_S)
    unloaded = tmp_path / "unloaded"
    forking = "if not os.fork(): time.sleep(1000)"
    with stub(tmp_path, "m", 0, more=forking, after=unloaded):
        stubs = find_stubs(tmp_path, {"m"})
        assert len(stubs) == 2
        found = find_descendants(stubs)
        unloaded.touch()
        with caplog.at_level(logging.WARNING):
            await end_stubs(stubs | found, patience)
        assert not find_stubs(tmp_path, {"m"})
    assert not caplog.records


def a_child(*command: str) -> tuple[subprocess.Popen[bytes], Descendant]:
    """Our own, as what is left alone becomes the container's."""
    child = subprocess.Popen(command)
    fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(") ")[2].split()
    return child, Descendant(child.pid, int(fields[19]))


def is_there(found: Descendant) -> bool:
    """Also as a zombie."""
    return Path(f"/proc/{found.pid}").exists()


async def test_what_ends_by_itself_is_not_killed(tmp_path: Path) -> None:
    """It has a while for it, which need not be over. Its id is given back."""
    cleared = tmp_path / "cleared"
    clearing, found = a_child("sh", "-c", f"sleep {SOON_S}; touch {cleared}")
    await asyncio.wait_for(end_stubs([found], Patience(alone_s=10 * WAIT_S)), WAIT_S)
    assert cleared.exists()
    assert not is_there(found)
    clearing.returncode = 0


async def test_a_process_that_got_the_id_of_a_descendant_is_left_alone() -> None:
    """It began at another time."""
    patience = Patience(killed_s=WAIT_S, alone_s=0.0)
    other, found = a_child("sleep", "1000")
    try:
        await end_stubs([Descendant(found.pid, found.started - 1)], patience)
        assert other.poll() is None
        await end_stubs([found], patience)
        assert not is_there(found)
    finally:
        other.kill()
        other.wait()


async def test_without_a_thread_they_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may have all that there are."""
    many, found = a_child("sleep", "1000")

    def denied(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", denied)
        await end_stubs([found])
    assert many.wait(WAIT_S) == -signal.SIGKILL
