"""The program that checks compiled workflows, in one process that has imported NVTabular once.

Each job has a fork of that process: what the program does to its modules ends with it. Who wants
the process that the container starts, imports and all, starts it (SERVE_COMPILE_CHECK).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ensemble_tools.serving.plan import PublishedModel
from ensemble_tools.serving.workflow_check import (
    Verdict,
    describe_check,
    find_check_program,
    read_verdict,
)
from tests.support.container import ROOT

MODELS_PYTHON = ROOT / ".venv-merlin/bin/python"
STOP_TIMEOUT_S = 30.0
#: Reads a job a line and writes a verdict a line; ends where the program fails.
_FORKING = """
import io, os, runpy, sys
import nvtabular, merlin.systems.triton, merlin.systems.workflow.base
for job in sys.stdin:
    child = os.fork()
    if child == 0:
        sys.stdin = io.StringIO(job)
        runpy.run_path(sys.argv[1], run_name="__main__")
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        sys.exit("the program failed")
    print(flush=True)
"""


@dataclass(frozen=True)
class CheckProgram:
    """One that runs."""

    process: subprocess.Popen[str]

    def ask(self, model: PublishedModel, directory: Path) -> Verdict:
        """What it finds in a published model; fails with what was said where it fails."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(describe_check(model, directory) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the program failed; what it said is beside the test's output"
        return read_verdict(answer)


@contextlib.contextmanager
def check_program() -> Iterator[CheckProgram]:
    """One for as long as the block lasts."""
    process = subprocess.Popen(
        [str(MODELS_PYTHON), "-I", "-B", "-c", _FORKING, str(find_check_program())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    try:
        yield CheckProgram(process)
        process.communicate(timeout=STOP_TIMEOUT_S)
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
