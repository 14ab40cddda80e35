"""What models' processes hold, as /proc tells it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from serve.resources.census import Census, Usage, take_census
from serve.resources.free import Kernel
from serve.resources.processes import FORKED
from tests.unit.serve.kernel_directory import MIB, SERVER, SHARED, STUB, KernelDirectory


@pytest.fixture
def machine(tmp_path: Path) -> KernelDirectory:
    """A machine where tritonserver runs and has no model."""
    machine = KernelDirectory(tmp_path)
    machine.server(tmp_path / "serving")
    return machine


def test_stubs_by_their_models(machine: KernelDirectory) -> None:
    """Two stubs of one model count together, what they start counts for them."""
    serving = machine.root / "serving"
    machine.stub(201, serving, "m", 10 * MIB)
    machine.stub(202, serving, "m", 20 * MIB)
    machine.stub(203, serving, "m.step", 40 * MIB)
    machine.process(300, 203, ["python", "worker"], 5 * MIB, 2, peak=9 * MIB)
    census = take_census(serving, machine.kernel)
    assert census.models == {
        "m": Usage(32 * MIB, 32 * MIB, 2 * MIB, 2, 10),
        "m.step": Usage(46 * MIB, 50 * MIB, MIB, 1, 7),
    }
    assert (census.pid, census.server.memory) == (SERVER, 50 * MIB)


def test_forked_processes_are_their_models(machine: KernelDirectory) -> None:
    """With what they have more than their interpreter, and what they change of the rest.

    What a forked process shares with its stub is its own.
    """
    serving, us = machine.root / "serving", os.getpid()
    machine.stub(201, serving, "m.step", 20 * MIB)
    machine.process(300, us, ["python", "start.py"], 140 * MIB)
    machine.process(301, 300, [FORKED, f"{serving}/m.step/1", "", ""], 145 * MIB, 2, peak=150 * MIB)
    machine.process(302, 300, [FORKED, f"{serving}/other/1"], 140 * MIB)
    machine.process(303, us, [FORKED, f"{serving}/alone/1"], 150 * MIB)
    machine.process(304, 300, [FORKED, "/elsewhere/m/1"], MIB)
    machine.process(305, 300, ["python", "start.py"], MIB)
    census = take_census(serving, machine.kernel)
    held = {name: (held.memory, held.peak) for name, held in census.models.items()}
    assert held == {
        "m.step": ((21 + 5 + 11) * MIB + SHARED, (21 + 10 + 11) * MIB + SHARED),
        "other": (11 * MIB + SHARED, 11 * MIB + SHARED),
        "alone": (150 * MIB + SHARED, 150 * MIB + SHARED),
    }
    assert census.models["m.step"].processes == 1
    assert census.pids["m.step"] == (201, 301)


def test_others_are_no_matter(machine: KernelDirectory) -> None:
    """Another server's stubs, another program below ours, a stub of another repository."""
    serving = machine.root / "serving"
    machine.stub(201, serving, "m", MIB, parent=999)
    machine.process(202, SERVER, ["sh", f"{serving}/m/1/model.py"], MIB)
    machine.process(203, SERVER, [STUB, "/elsewhere/m/1/model.py"], MIB)
    machine.process(204, SERVER, [STUB], MIB)
    machine.process(205, 1, ["tritonserver", f"--model-repository={serving}"], MIB)
    assert take_census(serving, machine.kernel).models == {}


def test_regions_of_stubs_that_died(machine: KernelDirectory) -> None:
    """tritonserver keeps them; other programs' are no matter."""
    serving = machine.root / "serving"
    for pid in (201, 202, 203):
        machine.stub(pid, serving, "m", MIB)
    machine.write("shm/others", "x" * MIB)
    assert take_census(serving, machine.kernel).abandoned == 0
    machine.end(202, keeps_region=True)
    machine.end(203, keeps_region=True)
    census = take_census(serving, machine.kernel)
    assert (census.abandoned, census.models["m"].processes) == (2 * MIB, 1)


def test_without_tritonserver(tmp_path: Path) -> None:
    """Nothing is held."""
    assert take_census(tmp_path / "serving", KernelDirectory(tmp_path).kernel) == Census()


@pytest.mark.parametrize("gone", ["stat", "cmdline", "status"])
def test_a_process_that_ends_while_it_is_read(machine: KernelDirectory, gone: str) -> None:
    """It holds what could still be read, and nothing fails."""
    machine.stub(201, machine.root / "serving", "m", MIB)
    (machine.root / f"proc/201/{gone}").unlink()
    census = take_census(machine.root / "serving", machine.kernel)
    assert census.models.get("m", Usage()).memory <= MIB


@pytest.mark.parametrize("region", ["..", "/", "a/b", "missing", "\udcff", ""])
def test_a_region_that_is_none(machine: KernelDirectory, region: str) -> None:
    """Its name is what a process says of itself: nothing outside of /dev/shm is looked at."""
    words = [STUB, f"{machine.root}/serving/m/1/model.py", region]
    machine.process(201, SERVER, [word.encode("utf-8", "replace").decode() for word in words], MIB)
    (held,) = take_census(machine.root / "serving", machine.kernel).models.values()
    assert held.region == 0


def test_a_real_process(tmp_path: Path) -> None:
    """A stub that holds 50 MB, under a tritonserver: as the kernel of this machine tells it."""
    stub = tmp_path / "m/1/model.py"
    stub.parent.mkdir(parents=True)
    stub.write_text("held = b'x' * (50 << 20)\nprint(flush=True)\ninput()\n")
    server = "import subprocess, sys; subprocess.run([*sys.argv[2:]], executable=sys.executable)"
    words = [sys.executable, "-c", server, f"--model-repository={tmp_path}", STUB, str(stub)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        census = take_census(tmp_path, Kernel())
        process.communicate(b"\n")
    assert census.pid == process.pid
    assert 50 * MIB < census.models["m"].memory <= census.models["m"].peak < 80 * MIB
    assert census.server.memory > MIB
