"""What the machine has: the container's limits count where they are lower."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from container.machine.memory import is_in_memory, read_machine_limits
from ensemble_tools import Limits
from serve.resources.free import Kernel


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("memory.max", "1073741824\n", 2**30),
        ("memory.max", "max\n", None),
        ("memory/memory.limit_in_bytes", "536870912\n", 2**29),
        ("memory/memory.limit_in_bytes", "9223372036854771712\n", None),
        ("other", "1\n", None),
    ],
)
def test_memory(name: str, text: str, expected: int | None, tmp_path: Path) -> None:
    """Of cgroup v2 and v1; none where the kernel writes that there is none."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    machine = Limits().memory_bytes
    assert read_machine_limits(Kernel(tmp_path, tmp_path)).memory_bytes == min(
        machine, expected or machine
    )


def test_groups_in_groups(tmp_path: Path) -> None:
    """On a machine that sets limits by slices each of them counts."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("0::/slice/unit\n")
    (tmp_path / "slice/unit").mkdir(parents=True)
    (tmp_path / "memory.max").write_text("max\n")
    for group, limit in (("slice", 2**29), ("slice/unit", 2**30)):
        (tmp_path / group / "memory.max").write_text(f"{limit}\n")
    assert read_machine_limits(Kernel(tmp_path, tmp_path)).memory_bytes == 2**29


@pytest.mark.parametrize(("kind", "expected"), [("tmpfs", True), ("ramfs", True), ("ext4", False)])
def test_in_memory(kind: str, expected: bool, tmp_path: Path) -> None:
    """What is written there takes memory from processes; another mount decides nothing."""
    device = tmp_path.stat().st_dev
    own = f"{os.major(device)}:{os.minor(device)}"
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:9999 / /dev/shm rw shared:2 - tmpfs tmpfs rw\n"
        f"23 1 {own} / /a\\040b rw,noatime shared:3 master:1 - {kind} source rw\n"
    )
    assert is_in_memory(tmp_path, mounts) is expected


def test_in_memory_on_this_machine() -> None:
    """As the kernel writes it."""
    assert is_in_memory(Path("/dev/shm"))
    assert not is_in_memory(Path("/proc"))
