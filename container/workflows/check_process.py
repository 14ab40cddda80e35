"""Compiled workflows compared with NVTabular before they are served (SERVE_COMPILE_CHECK).

The comparison runs in the models' Python, in a process of its own that ends with each check, with
the environment that tritonserver gives its models. NVTabular is asked on the CPU, which is what
workflows are compiled for, also where there is a GPU.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from container.errors import RuntimeUnusable
from container.machine.die_with_parent import die_with_parent
from container.tritonserver.runtime import (
    BackendPython,
    ModelsPython,
    ask_interpreter,
    python_on_path,
)
from ensemble_tools import WorkflowCheck
from ensemble_tools.archive.files import SHORTAGES
from ensemble_tools.serving.plan import PublishedModel
from ensemble_tools.serving.workflow_check import (
    Verdict,
    describe_check,
    find_check_program,
    read_verdict,
)

log = logging.getLogger(__name__)

#: Of the time for a load, what the check of a workflow may take; the load itself comes after it.
_SHARE = 0.5
#: Of what a program said last, in characters.
_LAST_WORDS = 300


class WorkflowChecks:
    """Begins the checks of loads; one process at a time, since each takes some 400 MB."""

    def __init__(self, models: Callable[[], ModelsPython], load_timeout_s: float) -> None:
        self._models, self._limit_s = models, load_timeout_s * _SHARE
        self._turn = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._stopping = False

    def begin(self) -> WorkflowCheck | None:
        """The check of one load's workflows; None, and a line in the log, if it cannot be made.

        Then they are served compiled: without NVTabular nothing else could answer. Blocking.
        """
        models = self._models()
        try:
            python = models.python or ask_interpreter(python_on_path(models.environment))
        except RuntimeUnusable as error:
            log.warning("compiled workflows are not checked: %s", error)
            return None
        if not python.nvtabular:
            log.warning(
                "compiled workflows are not checked: the models' Python has no NVTabular",
                extra={"path": str(python.executable)},
            )
            return None
        environment = {**models.environment, "CUDA_VISIBLE_DEVICES": ""}
        return lambda model, directory: self._check(python, environment, model, directory)

    def stop(self) -> None:
        """End the check that runs, and those that wait: the container is stopping."""
        self._stopping = True
        if self._process is not None:
            _kill(self._process)

    def _check(
        self,
        python: BackendPython,
        environment: dict[str, str],
        model: PublishedModel,
        directory: Path,
    ) -> str:
        started = time.monotonic()
        late = f"it was not compared with NVTabular within {self._limit_s:g} s"
        if not self._turn.acquire(timeout=self._limit_s):
            return late
        try:
            left = started + self._limit_s - time.monotonic()
            verdict = self._ask(python, environment, describe_check(model, directory), left)
        except subprocess.TimeoutExpired:
            return late
        finally:
            self._turn.release()
        if not verdict.reason:
            log.info(
                "a compiled workflow is NVTabular's equal",
                extra={
                    "triton_model": model.triton_name,
                    "requests": verdict.asked,
                    "seconds": round(time.monotonic() - started, 3),
                },
            )
        return verdict.reason

    def _ask(
        self, python: BackendPython, environment: dict[str, str], job: str, timeout_s: float
    ) -> Verdict:
        """The program's verdict; raises TimeoutExpired, and OSError for a lack of resources."""
        command = [
            *die_with_parent(),
            str(python.executable),
            "-I",
            "-B",
            str(find_check_program()),
        ]
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                cwd="/",
                start_new_session=True,  # what it starts ends with it
            )
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            return _unsure(error.strerror or str(error))
        self._process = process
        try:
            if self._stopping:
                _kill(process)
            answer, said = process.communicate(job, timeout=max(timeout_s, 0))
        except BaseException:
            _kill(process)
            process.communicate()
            raise
        finally:
            self._process = None
        if process.returncode == -signal.SIGKILL and not self._stopping:  # the kernel did it
            raise OSError(errno.ENOMEM, "the process that compares a workflow was killed")
        if process.returncode != 0:
            words = (said.strip().splitlines() or ["nothing was said"])[-1][:_LAST_WORDS]
            return _unsure(f"exit {process.returncode}: {words}")
        return read_verdict(answer)


def _unsure(why: str) -> Verdict:
    return Verdict(f"it could not be compared with NVTabular ({why})")


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
