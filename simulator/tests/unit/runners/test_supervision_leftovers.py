"""What a killed simulator left is ended, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from merlin_simulator.runners.supervision import kill_leftovers, record_pid

SLEEPS = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_what_was_noted_and_runs_is_ended(tmp_path: Path) -> None:
    with subprocess.Popen(SLEEPS, start_new_session=True) as left:
        record_pid(tmp_path / "pids", left.pid)
        assert kill_leftovers(tmp_path / "pids") == 1
        assert left.wait(60) == -9


def test_another_program_of_the_same_pid_is_let_be(tmp_path: Path) -> None:
    with subprocess.Popen(SLEEPS, start_new_session=True) as other:
        (tmp_path / str(other.pid)).write_text("1.0")
        (tmp_path / "strange").write_text("?")
        (tmp_path / "999999999").write_text("1.0")
        assert kill_leftovers(tmp_path) == 0
        assert other.poll() is None
        other.kill()


def test_nothing_was_noted(tmp_path: Path) -> None:
    record_pid(tmp_path / "pids", 999999999)
    assert kill_leftovers(tmp_path / "pids") == 0
