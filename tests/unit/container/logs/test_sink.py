"""Lines on their way out: in order, bounded, and nobody waits."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from container.logs.sink import Lane, Sink

WAIT_S = 60.0
PIPE = 4096  # the least that a pipe may hold


class Pipe:
    """A small pipe into which a sink writes; nobody reads it but by `read`."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, PIPE)

    def read_until(self, sink: Sink) -> bytes:
        """All that comes until the sink has nothing left."""
        found = b""
        os.set_blocking(self.read_end, False)
        deadline = time.monotonic() + WAIT_S
        while not sink.flush(0.005):
            found += self.read()
            assert time.monotonic() < deadline
        return found + self.read()

    def read(self) -> bytes:
        found = b""
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.read_end, 65536):
                found += data
        return found

    def close(self) -> None:
        for descriptor in (self.read_end, self.write_end):
            with contextlib.suppress(OSError):
                os.close(descriptor)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


@pytest.fixture
def make(pipe: Pipe) -> Iterator[Callable[..., Sink]]:
    """Makes a sink whose thread ends with the test."""
    made: list[Sink] = []

    def make(descriptor: int | None = None, **bounds: int) -> Sink:
        made.append(Sink(pipe.write_end if descriptor is None else descriptor, **bounds))
        return made[-1]

    yield make
    os.close(pipe.read_end)  # what is stuck fails
    for sink in made:
        sink.close()
        assert sink.flush(WAIT_S)


def stuff(sink: Sink) -> int:
    """Fill the pipe, and leave as much where the thread is stuck; how many lines that took."""
    lines = PIPE // 4
    assert sink.put(b"000\n" * lines)
    assert sink.flush(WAIT_S)
    assert sink.put(b"%03d\n" % lines * lines)
    assert not sink.flush(0)
    return 2 * lines


def test_lines_come_out_in_their_order(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """Of both lanes together."""
    sink = make()
    lines = [b"%d\n" % number for number in range(5000)]
    for number, line in enumerate(lines):
        assert sink.put(line, lane=Lane(number % 2))
    assert pipe.read_until(sink) == b"".join(lines)
    assert sink.dropped == 0


def test_nobody_waits_for_a_full_pipe(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """What does not fit is dropped; one line says how much, where it would have stood."""
    sink = make(lines_max=2000, bytes_max=10**6)
    before = stuff(sink)  # who waited for its reader would do so for ever
    taken = [sink.put(b"line %d\n" % number) for number in range(10_000)]
    assert sink.dropped == taken.count(False) > 7000
    read = pipe.read_until(sink)
    assert sink.put(b"last\n")
    lines = (read + pipe.read_until(sink)).splitlines()
    kept = [b"line %d" % number for number in range(taken.count(True))]
    assert lines[before:] == [*kept, b"%d lines dropped" % sink.dropped, b"last"]


def test_each_loss_is_told_at_its_place(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """Two of them make two lines, and the number of all goes on."""
    sink = make(lines_max=2000)
    for turn in (1, 2):
        stuff(sink)
        while sink.put(b"more\n"):
            pass
        lines = pipe.read_until(sink).splitlines()
        assert lines[-1] == b"1 lines dropped"
        assert sink.dropped == turn


def test_bytes_are_bounded(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """A few long lines are as much as many short ones."""
    sink = make(bytes_max=20_000)
    stuff(sink)
    taken = [sink.put(b"x" * 5000 + b"\n") for _ in range(10)]
    assert taken == [True] * 2 + [False] * 8  # the stuck one is counted, too


def test_what_models_print_takes_no_room_from_us(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """Each lane has its own bounds."""
    sink = make(lines_max=2000)
    stuff(sink)
    while sink.put(b"theirs\n", lane=Lane.CHILD):
        pass
    assert not sink.has_room(Lane.CHILD)
    assert sink.has_room(Lane.OWN)
    assert sink.put(b"ours\n")


def test_each_lane_s_losses_stand_among_its_own(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """A model that prints without end makes no line beside each of ours; the end tells of all."""
    sink = make(lines_max=2000)
    before = stuff(sink)
    while sink.put(b"theirs\n", lane=Lane.CHILD):
        pass
    for _ in range(3):
        assert not sink.put(b"theirs\n", lane=Lane.CHILD)
        assert sink.put(b"ours\n")
    lines = pipe.read_until(sink).splitlines()[before:]
    assert lines == [b"theirs"] * 2000 + [b"ours"] * 3 + [b"4 lines dropped"]


def test_a_last_word_always_fits(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """Over the bounds, behind what is queued and what is said to be dropped."""
    sink = make(lines_max=2000)
    stuff(sink)
    while sink.put(b"more\n"):
        pass
    assert sink.put(b"the reason\n", always=True)
    assert pipe.read_until(sink).splitlines()[-2:] == [b"1 lines dropped", b"the reason"]


def test_a_loss_has_its_time(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """When the last of its lines was lost, not when somebody read on."""
    sink = make()
    sink.notice = lambda lost, at: b"%f\n" % at
    began = time.time()
    sink.drop(1)
    ended = time.time()
    time.sleep(0.01)
    sink.put(b"a\n")
    assert began - 1e-6 <= float(pipe.read_until(sink).splitlines()[0]) <= ended + 1e-6


def test_what_was_never_made_is_counted(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """Whoever saves the work says so."""
    sink = make()
    sink.drop(5)
    sink.put(b"a\n")
    assert pipe.read_until(sink) == b"5 lines dropped\na\n"
    assert sink.dropped == 5


def test_flush_is_bounded(make: Callable[..., Sink]) -> None:
    """Whoever waits for a pipe that nobody reads waits no longer than he said."""
    sink = make()
    stuff(sink)
    began = time.monotonic()
    assert not sink.flush(0.1)  # and not for ever
    assert time.monotonic() - began >= 0.1


def test_a_reader_that_is_gone(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """Everything is dropped and counted; nothing is raised, and nothing spins."""
    sink = make()
    os.close(pipe.read_end)
    for _ in range(10):
        sink.put(b"one\ntwo\n")
        assert sink.flush(WAIT_S)
    assert sink.dropped == 20
    pipe.read_end = os.dup(pipe.write_end)  # what the fixture closes


def test_a_disk_that_is_full(tmp_path: Path, make: Callable[..., Sink]) -> None:
    """A line that was torn has its end, and what is lost is told when there is room again."""
    limit = 1000
    path = tmp_path / "log"
    code = (
        "import os, resource, signal, sys\n"
        "from container.logs.sink import Sink\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, resource.RLIM_INFINITY))\n"
        f"sink = Sink(os.open({str(path)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND))\n"
        "for number in range(30):\n"
        "    sink.put(b'%050d\\n' % number); sink.flush(60)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)\n"
        "sink.put(b'again\\n'); sink.flush(60)\n"
        "print(sink.dropped)\n"
    )
    dropped = int(run(code))
    lines = path.read_bytes().splitlines()
    whole = [line for line in lines if len(line) == 50]
    assert lines[: len(whole)] == [b"%050d" % number for number in range(limit // 51)]
    torn, notice, last = lines[len(whole) :]
    assert torn == b"0" * (limit % 51)
    assert (notice, last) == (b"%d lines dropped" % dropped, b"again")
    assert dropped == 30 - len(whole)


def test_a_pipe_that_somebody_made_non_blocking(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """It is waited for all the same."""
    os.set_blocking(pipe.write_end, False)
    sink = make()
    lines = stuff(sink)
    assert len(pipe.read_until(sink).splitlines()) == lines


def test_a_collection_may_log(pipe: Pipe, make: Callable[..., Sink]) -> None:
    """What runs inside of `put`, in its thread, can put as well."""
    sink = make()

    class Interrupted(bytes):
        """Something is collected while its length is asked for."""

        def __len__(self) -> int:
            sink.put(b"died\n")
            return super().__len__()

    done = threading.Event()

    def put() -> None:
        sink.put(Interrupted(b"lived\n"))
        done.set()

    threading.Thread(target=put, daemon=True).start()
    assert done.wait(WAIT_S)
    assert set(pipe.read_until(sink).splitlines()) == {b"died", b"lived"}


def run(code: str) -> str:
    """What a Python of its own prints."""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return ended.stdout
