"""Which python stubs run, as /proc tells, and the end of those that nobody needs."""

from __future__ import annotations

import logging
import signal
import time
from pathlib import Path

import pytest

import serve.stub_processes
from serve.stub_processes import Stub, count, end_stubs, find_stubs, missing
from tests.unit.serve.joined import WAIT_S
from tests.unit.serve.stub_stand_in import STUB, stub

#: Less than serve.stub_processes._ENDING_S.
SOON_S = 0.3


def process(root: Path, pid: int, *command: str) -> None:
    (root / str(pid)).mkdir(parents=True)
    (root / str(pid) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in command))


def test_stubs_are_counted_by_model(tmp_path: Path) -> None:
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
    found = find_stubs(serving, {"m", "m.a", "m.b"}, tmp_path)
    assert {(stub.pid, stub.triton_name) for stub in found} == {(1, "m.a"), (2, "m.a"), (3, "m")}
    assert count(found) == {"m.a": 2, "m": 1}


def test_missing() -> None:
    """A model with fewer stubs than it had; one that never had any cannot lose one."""
    assert missing({"a": 2, "b": 1, "c": 1}, {"a": 1, "b": 1, "d": 5}) == {"a", "c"}
    assert missing({}, {"a": 1}) == frozenset()


async def test_stubs_that_end_by_themselves_are_waited_for(tmp_path: Path) -> None:
    """To the end of the last one; those of other models are no matter."""
    with (
        stub(tmp_path, "m", SOON_S) as first,
        stub(tmp_path, "m.step", 2 * SOON_S) as last,
        stub(tmp_path, "other", WAIT_S) as other,
    ):
        await end_stubs(find_stubs(tmp_path, {"m", "m.step"}))
        assert [first.wait(0), last.wait(0), other.poll()] == [0, 0, None]


async def test_a_stub_has_ended_when_its_memory_is_free(tmp_path: Path) -> None:
    """The kernel forgets a process's words before that, and its first thread ends before others."""
    for number in range(4):
        with stub(tmp_path / str(number), "m", SOON_S, holds_mib=400) as large:
            await end_stubs(find_stubs(tmp_path / str(number), {"m"}))
            assert large.poll() == 0


async def test_stubs_that_stay_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """After the time that they have, and the log says whose they were."""
    monkeypatch.setattr(serve.stub_processes, "_ENDING_S", SOON_S)
    began = time.monotonic()
    with stub(tmp_path, "m.step", WAIT_S) as staying, stub(tmp_path, "other", WAIT_S) as other:
        with caplog.at_level(logging.WARNING):
            await end_stubs(find_stubs(tmp_path, {"m", "m.step"}))
        assert time.monotonic() - began >= SOON_S
        assert [staying.wait(0), other.poll()] == [-signal.SIGKILL, None]
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["m.step"]


async def test_a_process_that_got_the_id_of_a_stub_is_left_alone(tmp_path: Path) -> None:
    """It has another command."""
    with stub(tmp_path, "other", WAIT_S) as other:
        await end_stubs([Stub(other.pid, "m", f"{STUB}\0/run/serving/m/1/model.py\0region\0")])
        assert other.poll() is None
