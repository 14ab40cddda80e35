"""Processes as /proc shows them."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from merlin_simulator.proc import read_anonymous_bytes, read_command_line, read_tree

#: A child with a child of its own, and brackets and spaces in its name.
_FAMILY = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(15, b"a) b (c")
words = [sys.executable, "-c", "print(flush=True); input()", "grand child"]
child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()  # from now on it does not grow
print("ready", flush=True)
input()
child.communicate(b"\\n")
"""


def test_a_tree_is_its_root_and_all_below() -> None:
    """As psutil sees it: pids, CPU, command lines; nothing of other processes."""
    command = [sys.executable, "-c", _FAMILY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as root:
        assert root.stdout is not None
        assert root.stdout.readline() == b"ready\n"
        seen = psutil.Process(root.pid)
        expected = {root.pid: seen, **{c.pid: c for c in seen.children(recursive=True)}}
        found = {process.pid: process for process in read_tree(root.pid)}
        assert found.keys() == expected.keys()
        assert len(found) == 2
        for pid, process in expected.items():
            times, memory = process.cpu_times(), process.memory_info()
            assert abs(found[pid].cpu_s - times.user - times.system) < 0.5
            assert abs(read_anonymous_bytes(pid) - (memory.rss - memory.shared)) < 2**22
            assert read_command_line(pid) == " ".join(process.cmdline())
        root.communicate(b"\n")
    assert read_tree(root.pid) == []
    assert read_anonymous_bytes(root.pid) == 0
    assert read_command_line(root.pid) == ""


def test_a_process_is_itself_for_ever() -> None:
    """Its identity does not change while it lives."""
    mine = next(process.identity for process in read_tree(os.getpid()))
    assert mine == next(process.identity for process in read_tree(os.getpid()))
    assert mine[0] == os.getpid()
