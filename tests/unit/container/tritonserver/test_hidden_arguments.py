"""Words that go from a child's command line once it has read them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from container.tritonserver.hidden_arguments import hide_arguments

#: Says a line once it has its arguments, and them once it has got one.
PROGRAM = "import sys; print(flush=True); input(); print(sys.argv[1:])"
WORDS = ("--open=the secret", "plain", "--also=the secret,other", "o" * 100_000)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process with secrets among its arguments."""
    with subprocess.Popen(
        [sys.executable, "-I", "-c", PROGRAM, *WORDS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()


def shown(process: subprocess.Popen[str]) -> list[str]:
    return Path(f"/proc/{process.pid}/cmdline").read_text().split("\0")[4:]


def test_words_are_wiped(child: subprocess.Popen[str]) -> None:
    """Wherever they stand; the rest stays, and so does what the process has read."""
    assert hide_arguments(child.pid, ("the secret", "other", "nowhere"))
    stars = "*" * len("the secret")
    assert shown(child) == [f"--open={stars}", "plain", f"--also={stars},*****", WORDS[3], ""]
    assert hide_arguments(child.pid, ("the secret",))  # again: nothing to do
    out, _ = child.communicate("\n")
    assert "the secret,other" in out


def test_no_such_process(child: subprocess.Popen[str]) -> None:
    """One that has ended shows nothing; that is no error."""
    child.kill()
    child.wait()
    assert not hide_arguments(child.pid, ("the secret",))


def test_a_process_that_is_not_ours_to_write_to() -> None:
    """The kernel's own threads have no command line; init's is not touched."""
    assert not hide_arguments(2**22 + 1, ("x",))
