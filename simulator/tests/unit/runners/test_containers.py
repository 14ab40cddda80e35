"""What a container is started with, and how its end is told."""

from __future__ import annotations

import pytest

from merlin_simulator.rules import GIB
from merlin_simulator.runners.containers import describe_end, make_devices, make_limits


def test_its_memory_is_that_of_its_type() -> None:
    """Without swap, half of it as /dev/shm; of an unknown type half of the machine's."""
    assert make_limits(8 * GIB, 32 * GIB) == {
        "mem_limit": 8 * GIB,
        "memswap_limit": 8 * GIB,
        "shm_size": 4 * GIB,
    }
    assert make_limits(None, 32 * GIB) == {"shm_size": 16 * GIB}


@pytest.mark.parametrize(
    ("instance_type", "gpus", "handed_in"),
    [
        ("ml.g5.xlarge", True, True),
        ("ml.p3.2xlarge", True, True),
        ("ml.g5.xlarge", False, False),
        ("ml.c5.xlarge", True, False),
        ("ml.inf2.xlarge", True, False),
    ],
)
def test_gpus_are_for_types_that_have_some(instance_type: str, gpus: bool, handed_in: bool) -> None:
    """All of them, as `--gpus all`, where the engine can."""
    devices = make_devices(instance_type, gpus).get("device_requests", [])
    assert [(one.count, one.capabilities) for one in devices] == (
        [(-1, [["gpu"]])] if handed_in else []
    )


@pytest.mark.parametrize(
    ("code", "out_of_memory", "words"),
    [
        (1, False, "exit code 1"),
        (137, False, "signal 9"),
        (143, False, "signal 15"),
        (137, True, "signal 9, as it took more than its memory (2 GiB),"),
    ],
)
def test_how_it_ended(code: int, out_of_memory: bool, words: str) -> None:
    assert describe_end(code, out_of_memory, 2 * GIB) == words
