"""What is free, as the kernel's files tell it."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from serve.resources.free import (
    DESCRIPTORS,
    MEMORY,
    OWN_DESCRIPTORS,
    SHARED_MEMORY,
    TASKS,
    Kernel,
    gpu_memory,
    measure_free,
    read_available_memory,
)
from tests.unit.serve.kernel_directory import GIB, MIB, KernelDirectory

V2 = {
    "memory.max": f"{4 * GIB}\n",
    "memory.current": f"{3 * GIB}\n",
    "memory.stat": f"anon 1\nfile 2\ninactive_file {GIB}\nactive_file 5\n",
}
V1 = {
    "memory/memory.limit_in_bytes": f"{2 * GIB}",
    "memory/memory.usage_in_bytes": f"{GIB}",
    "memory/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB // 2}\n",
}


@pytest.fixture
def machine(tmp_path: Path) -> KernelDirectory:
    """A machine with 8 GiB available and no control groups."""
    return KernelDirectory(tmp_path)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8 * GIB),
        (V2, 2 * GIB),
        (V1, 3 * GIB // 2),
        ({**V2, **V1}, 3 * GIB // 2),
        ({**V2, "memory.max": "max\n"}, 8 * GIB),
        ({**V2, "memory.max": "nonsense"}, 8 * GIB),
        ({**V2, "memory.current": ""}, 8 * GIB),
        ({"memory.max": f"{GIB}"}, 8 * GIB),
        ({**V2, "memory.stat": ""}, GIB),
        ({**V2, "memory.stat": "anon\n\n"}, GIB),
        ({**V1, "memory/memory.limit_in_bytes": "9223372036854771712"}, 8 * GIB),
        ({**V2, "memory.current": f"{9 * GIB}"}, -4 * GIB),
        ({f"unified/{name}": text for name, text in V2.items()}, 2 * GIB),
    ],
    ids=[
        "none",
        "v2",
        "v1",
        "both",
        "v2 unlimited",
        "v2 nonsense",
        "v2 empty",
        "v2 in part",
        "no cache known",
        "short lines",
        "v1 unlimited",
        "over the limit",
        "v2 beside v1",
    ],
)
def test_the_least_limit_counts(
    machine: KernelDirectory, files: Mapping[str, str], expected: int
) -> None:
    """The machine's and the group's; a group that cannot be read, or has none, does not count."""
    for name, content in files.items():
        machine.write(f"cgroup/{name}", content)
    assert read_available_memory(machine.kernel) == expected


def test_a_group_file_that_cannot_be_read(machine: KernelDirectory) -> None:
    """A directory in its place: as if it were not there."""
    (machine.root / "cgroup/memory.max").mkdir(parents=True)
    assert read_available_memory(machine.kernel) == 8 * GIB


@pytest.mark.parametrize("mapped", [0, GIB // 4, 2 * GIB])
def test_libraries_that_run_are_not_free(machine: KernelDirectory, mapped: int) -> None:
    """Of the cache only what no process has mapped: the rest would be read again at once."""
    stat = f"inactive_file {GIB}\nactive_file 0\nfile_mapped {mapped}\n"
    for name, content in {**V2, "memory.stat": stat}.items():
        machine.write(f"cgroup/{name}", content)
    assert read_available_memory(machine.kernel) == GIB + max(0, GIB - mapped)


@pytest.mark.parametrize("limited", ["a", "a/b", "a/b/c", "."])
@pytest.mark.parametrize(
    ("rows", "mount", "files"),
    [("0::/a/b/c\n", "", V2), ("9:name=x:/\n4:cpu,memory:/a/b/c\n0::/\n", "memory", V1)],
    ids=["v2", "v1"],
)
def test_every_group_above_us_counts(
    machine: KernelDirectory, rows: str, mount: str, files: Mapping[str, str], limited: str
) -> None:
    """A limit may stand at our own group or at any that it lies in."""
    machine.write("proc/self/cgroup", rows)
    for name, content in files.items():
        machine.write(f"cgroup/{mount}/{limited}/{Path(name).name}", content)
    assert read_available_memory(machine.kernel) < 8 * GIB


def test_a_group_that_is_mounted_as_the_top(machine: KernelDirectory) -> None:
    """Docker on version 1: our group's path is the machine's, and its files are at the mount."""
    machine.write("proc/self/cgroup", "4:memory:/docker/0123\n0::/../../x\n")
    for name, content in V1.items():
        machine.write(f"cgroup/{name}", content)
    assert read_available_memory(machine.kernel) == 3 * GIB // 2


def test_nothing_is_known_of_a_kernel_without_files(tmp_path: Path) -> None:
    """What is not known is not in the answer, and never refuses a load."""
    nowhere = tmp_path / "nowhere"
    assert measure_free(Kernel(nowhere, nowhere, nowhere), 1) == {}


def test_tasks(machine: KernelDirectory) -> None:
    """The least of the machine's limits and those of the groups, of both versions."""
    machine.write("proc/loadavg", "0.1 0.2 0.3 2/1000 7\n")
    machine.write("proc/sys/kernel/pid_max", "32768\n")
    machine.write("proc/sys/kernel/threads-max", "1500\n")
    assert measure_free(machine.kernel, None)[TASKS] == 500
    machine.write("proc/self/cgroup", "8:pids:/a\n")
    machine.write("cgroup/pids/a/pids.max", "max\n")
    machine.write("cgroup/pids/pids.max", "200\n")
    machine.write("cgroup/pids/pids.current", "50\n")
    assert measure_free(machine.kernel, None)[TASKS] == 150
    machine.write("cgroup/pids.max", "100\n")
    machine.write("cgroup/pids.current", "99\n")
    assert measure_free(machine.kernel, None)[TASKS] == 1


def test_a_user_that_is_not_root_has_a_limit_of_its_own(
    machine: KernelDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RLIMIT_NPROC less the threads of all of that user's processes."""
    user = (machine.root / "proc").stat().st_uid
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    machine.process(7, 1, ["x"], MIB, 30)
    machine.process(8, 1, ["x"], MIB, 9)
    monkeypatch.setattr(os, "getuid", lambda: user)
    for entry in (machine.root / "proc").glob("[0-9]*"):
        os.chown(entry, 4711, -1) if user == 0 else None
    monkeypatch.setattr(os, "getuid", lambda: 4711 if user == 0 else user)
    assert measure_free(machine.kernel, None)[TASKS] == 61


def test_descriptors(machine: KernelDirectory) -> None:
    """tritonserver's and our own against each one's limit; without a limit nothing is known."""
    limits = "Limit Soft Hard Units\nMax open files            1024    4096    files\n"
    for process, used in (("self", 10), ("55", 1000)):
        machine.write(f"proc/{process}/limits", limits)
        for number in range(used):
            machine.write(f"proc/{process}/fd/{number}", "")
    free = measure_free(machine.kernel, 55)
    assert (free[OWN_DESCRIPTORS], free[DESCRIPTORS]) == (1014, 24)
    machine.write("proc/55/limits", limits.replace("1024", "unlimited"))
    assert DESCRIPTORS not in measure_free(machine.kernel, 55)


def test_this_machine() -> None:
    """Each of them is known of a Linux machine."""
    free = measure_free(Kernel(), os.getpid())
    assert free.keys() >= {MEMORY, SHARED_MEMORY, TASKS, OWN_DESCRIPTORS}
    assert min(free.values()) > 0


def test_amounts_for_people() -> None:
    """Bytes in MiB, the others by name."""
    assert MEMORY.amount(3 * MIB + 1) == gpu_memory(1).amount(3 * MIB) == "3 MiB"
    assert TASKS.amount(3) == "3 processes and threads"


def test_it_costs_a_load_little() -> None:
    """The real files are read in about a millisecond; 1.0 on two busy cores."""
    measure_free(Kernel(), None)
    took = []
    for _ in range(20):
        started = time.thread_time()
        assert measure_free(Kernel(), None)[MEMORY] > 0
        took.append(time.thread_time() - started)
    assert min(took) < 0.005
