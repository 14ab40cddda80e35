"""What the machine has: the container's limits count where they are lower."""

from __future__ import annotations

from pathlib import Path

import pytest

from container.machine.memory import read_machine_limits
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
