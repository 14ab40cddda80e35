"""What /proc says of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bench import proc

_CHILD = """
import subprocess, sys
words = [sys.executable, "-c", "import time; print(flush=True); time.sleep(300)"]
child = subprocess.Popen(words, stdout=subprocess.PIPE)
child.stdout.readline()  # from now on it does not grow
print(child.pid, flush=True)
until = __import__("time").process_time() + 0.1
while __import__("time").process_time() < until:
    pass
print("burnt", flush=True)
sys.stdin.read()
child.kill()
child.wait()
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    """A process that has a child, and ends when its input does."""
    with subprocess.Popen(
        proc.die_with_parent([sys.executable, "-c", _CHILD]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process


def test_processes_are_followed_to_their_end(parent: subprocess.Popen[str]) -> None:
    """Children of children belong to it; CPU time and memory are read; what ended is not alive."""
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert parent.stdout.readline() == "burnt\n"
    assert child in {one.pid for one in proc.list_descendants(os.getpid())}
    assert [one.pid for one in proc.list_descendants(parent.pid)] == [child]
    assert proc.read_cpu_seconds(parent.pid) >= 0.1
    proportional = proc.read_proportional_mb([child])
    resident = proc.read_resident_mb([child])
    assert 1 < proportional <= resident < 100
    assert proc.is_alive(child)
    parent.communicate(timeout=60)
    assert not proc.is_alive(child)


def test_stub_tells_its_model_by_its_first_argument() -> None:
    """A name that only begins like the model's is another one."""
    stub = "/x/triton_python_backend_stub"
    process = proc.Process(1, 0, (stub, "/serving/small-1/1/model.py", ""), 0.0)
    assert process.serves("small-1")
    assert not process.serves("small")
    assert not proc.Process(1, 0, ("python", "/serving/small-1/1", ""), 0.0).serves("small-1")
