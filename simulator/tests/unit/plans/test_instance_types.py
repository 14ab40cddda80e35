"""Instance types, by AWS's tables."""

from __future__ import annotations

import pytest

from merlin_simulator.plans.files import Impossible
from merlin_simulator.plans.instance_types import find_instance_type
from merlin_simulator.rules import GIB


@pytest.mark.parametrize(
    ("name", "cores", "memory", "gpu"),
    [
        ("ml.g4dn.xlarge", 4, 16, 16),
        ("ml.g5.12xlarge", 48, 192, 24),
        ("ml.m5.large", 2, 8, None),
        ("ml.c5.9xlarge", 36, 72, None),
        ("ml.p3.2xlarge", 8, 61, 16),
        ("ml.g6e.xlarge", 4, 32, 48),
        ("ml.t2.medium", 2, 4, None),
    ],
)
def test_instance_types(name: str, cores: int, memory: int, gpu: int | None) -> None:
    """vCPUs, memory and the memory of one GPU, by AWS's tables."""
    found = find_instance_type(name)
    assert (found.cores, found.memory) == (cores, memory * GIB)
    assert found.gpu_memory == (None if gpu is None else gpu * GIB)


def test_types_that_are_not_known() -> None:
    """With families that are like it."""
    with pytest.raises(Impossible, match=r"'ml\.g7dn\.xlarge'.*g4dn"):
        find_instance_type("ml.g7dn.xlarge")
    with pytest.raises(Impossible, match=r"'m5\.xlarge'.*: ml\.m5\.xlarge$"):
        find_instance_type("m5.xlarge")
