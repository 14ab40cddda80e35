"""What a process says that logs as `serve` does, to its very end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
SETUP = """
import logging, sys, threading
from container.logs.setup import catch_the_rest, configure, open_standard_error
from container.logs.sink import Sink
sink = Sink(open_standard_error())
catch_the_rest()
configure("info", sink, sys.argv[1])
log = logging.getLogger("container.test")
"""
ENDS: dict[str, str] = {
    "uncaught": "raise LookupError('the reason')",
    "exit": "log.critical('the reason'); sys.exit(1)",
}


def run(code: str, log_format: str = "text", **how: object) -> tuple[int, list[str]]:
    """The exit code, and the lines on standard error."""
    command = [sys.executable, "-c", SETUP + code, log_format]
    ended = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, timeout=60, check=False)
    return ended.returncode, ended.stderr.decode().splitlines()


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_the_last_line_is_the_reason(end: str) -> None:
    """What was logged just before the end is written, all of it, and in one line."""
    code, lines = run(f"for number in range(5000): log.info('%d', number)\n{end}")
    assert code == 1
    assert len(lines) == 5001
    assert "CRITICAL" in lines[-1]
    assert "the reason" in lines[-1]


def test_the_last_line_of_a_process_that_was_kept_waiting() -> None:
    """All of the time for it was over before the log's thread ran: it is there all the same."""
    code, lines = run(f"from container.logs import setup; setup.FLUSH_S = 0.0\n{ENDS['exit']}")
    assert code == 1
    assert "the reason" in lines[-1]


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_the_end_does_not_wait_for_a_reader(end: str) -> None:
    """Nobody reads: the process is gone all the same, soon after the second it gives him."""
    read_end, write_end = os.pipe()
    filled = f"for number in range(5000): log.info('%d' + 'x' * 100, number)\n{end}"
    process = subprocess.Popen(
        [sys.executable, "-c", SETUP + filled, "text"], cwd=ROOT, stderr=write_end
    )
    os.close(write_end)
    try:
        assert process.wait(60) == 1
    finally:
        process.kill()
        os.close(read_end)


def test_what_python_would_print_is_logged() -> None:
    """An error that nobody can catch, one that ended a thread, and a warning: a line each."""
    code = """
class Dying:
    def __del__(self):
        raise ValueError("in vain")
Dying()
thread = threading.Thread(target=lambda: 1 / 0, name="t")
thread.start(); thread.join()
import warnings; warnings.warn("beware")
"""
    code_, lines = run(code, "json")
    assert code_ == 0
    ignored, ended, warned = map(json.loads, lines)
    assert "an error was ignored" in ignored["message"]
    assert ignored["traceback"].endswith("ValueError: in vain\n")
    assert (ended["message"], ended["thread_name"]) == ("a thread ended by an error", "t")
    assert "ZeroDivisionError" in ended["traceback"]
    assert warned["level"] == "WARNING"
    assert "beware" in warned["message"]


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_what_was_dropped_is_told_in_the_log_s_own_form(log_format: str) -> None:
    """As a warning with the number; names that are bound where it is noticed are not its."""
    bound = "from serve.log_context import bind\nwith bind(model_name='m'): "
    code = bound + "sink.drop(7); log.info('on')"
    _, (told, line) = run(code, log_format)
    if log_format == "json":
        found = json.loads(told)
        assert (found["level"], found["dropped"]) == ("WARNING", 7)
        assert "model_name" not in found
    else:
        assert re.fullmatch(r"\S+Z WARNING lines of the log were dropped: .* dropped=7", told)
    assert "model_name" in line


def test_a_process_without_standard_error() -> None:
    """It logs to nobody, and writes into no file that has got the number meanwhile."""
    command = (
        f"exec {sys.executable} -c '{SETUP}log.error(1); sys.exit(open_standard_error() == 2)' text"
    )
    ended = subprocess.run(["sh", "-c", f"{command} 2>&-"], cwd=ROOT, timeout=60, check=False)
    assert ended.returncode == 0
