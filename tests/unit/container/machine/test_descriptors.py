"""How many descriptors there may be: asked in a process of its own, whose limits are changed."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASKED = """
import resource, sys
from container.machine.descriptors import count_connections_allowed, raise_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
before = raise_limit()
print(*before, resource.getrlimit(resource.RLIMIT_NOFILE)[0], count_connections_allowed())
"""


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "connections"),
    [
        (256, 1024, 1024, 448),
        (1024, 1024, 1024, 448),
        (100, 100, 100, 16),
        (64, 16000, 16000, 7936),
    ],
)
def test_limits(soft: int, hard: int, raised: int, connections: int) -> None:
    """The soft limit is raised to the hard one; most of the descriptors are for callers."""
    said = subprocess.run(
        [sys.executable, "-c", ASKED, str(soft), str(hard)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert said.split() == [str(soft), str(hard), str(raised), str(connections)]
