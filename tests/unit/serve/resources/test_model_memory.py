"""What the processes of models hold, as the metrics page shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.resources.model_memory import ModelMemory
from tests.unit.serve.kernel_directory import MIB, KernelDirectory


@pytest.fixture
def machine(tmp_path: Path) -> KernelDirectory:
    """A machine whose tritonserver has two models."""
    machine = KernelDirectory(tmp_path)
    machine.server(tmp_path / "serving")
    for pid, name, kib in ((201, "m.step", 3), (202, "m=-1", 5), (203, "other", 7)):
        machine.stub(pid, tmp_path / "serving", name, MIB)
        machine.write(f"proc/{pid}/smaps_rollup", f"00-ff ---p 0 [rollup]\nPss: {kib} kB\n")
    return machine


async def test_sizes_are_of_one_life(machine: KernelDirectory) -> None:
    """They go with the model; one that comes back under its name begins without any."""
    memory = ModelMemory(machine.root / "serving", machine.kernel)
    assert memory.measure([("m", 1), ("other", 1)]) == ({}, {})
    await memory.look([("m", 1), ("other", 1)])
    both = {"m": 8 << 10, "other": 7 << 10}
    assert memory.measure([("m", 1), ("other", 1)]) == (both, {"m": 2 * MIB, "other": MIB})
    assert memory.measure([("other", 1)])[0] == {"other": 7 << 10}
    assert memory.measure([("m", 2)]) == ({}, {})
    machine.end(201)
    await memory.look([("m", 2)])
    assert memory.measure([("m", 1), ("other", 1)]) == ({}, {})
    assert memory.measure([("m", 2)]) == ({"m": 5 << 10}, {"m": MIB})
