"""The machine's facts, as they are read here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from merlin_simulator.measuring import machine

ROOT = Path(__file__).parents[4]


def test_the_machine_is_this_one() -> None:
    """Its memory as psutil sees it, the cores that this process may use, and a CPU with a name."""
    assert machine.read_memory_bytes() == psutil.virtual_memory().total
    assert machine.count_cores() == len(os.sched_getaffinity(0))
    assert machine.read_cpu_model()
    assert machine.name_system().startswith("Linux ")


def test_tritonserver_says_its_version_when_it_starts() -> None:
    """In the table of its options; before that nobody knows it."""
    table = "| server_id        | triton |\n| server_version   | 2.51.0 |\n"
    assert machine.find_triton_version(table) == "2.51.0"
    assert machine.find_triton_version("I0101 starting") is None


def test_the_commit_is_the_checkouts() -> None:
    """As git says it, twelve digits."""
    git = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    assert machine.read_commit() == (git.stdout[:12] or None)
    assert not machine.is_changed("no such folder")


def test_what_a_program_prints_counts_whatever_its_exit_code() -> None:
    """And one that is not there prints nothing."""
    assert machine.run_program(sys.executable, "-c", "print('4.1'); exit(1)") == "4.1"
    assert machine.run_program("/no/such/program") == ""
