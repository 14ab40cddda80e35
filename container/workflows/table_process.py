"""Compiled workflows' tables, written by a process of its own.

Reading parquet takes libraries of some 50 MB, which a server that holds hundreds of models should
not keep; and what archives bring is read where a fault of those libraries ends nothing else.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ensemble_tools
from container.machine.children import die_with_parent
from ensemble_tools import TableUnusable
from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.tables import TableBroken, job_text, read_answer

#: A table of ten million categories takes some ten seconds.
TIMEOUT_S = 300.0
_LAST_WORDS = 300


class TableProcesses:
    """The processes that write tables: one for each workflow that is being published.

    environment: theirs; None for our own. timeout_s: for one.
    """

    def __init__(
        self, environment: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        # numpy begins a thread for each core, for algebra that is not needed here.
        self._environment = environment and {**environment, "OPENBLAS_NUM_THREADS": "1"}
        self._timeout_s = timeout_s
        self._running: set[subprocess.Popen[str]] = set()
        self._stopping = False

    def write(self, tables: Sequence[Table], directory: Path) -> list[dict[str, Any]]:
        """Write the tables' arrays into the directory; the rows of program.json. Blocking.

        Raises TableUnusable, also when the process ends in another way than it should; TableBroken
        when a signal ends it, since what NVTabular reads them with is the same library; OSError
        when it could not be started, had no place to write to, took too long or lacked memory.
        """
        if not tables:
            return []
        process = subprocess.Popen(
            [*die_with_parent(), sys.executable, *_make_options(), "-m", "workflows.tables"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            cwd=str(Path(ensemble_tools.__file__).parent),
            start_new_session=True,  # what it starts ends with it
            env=self._environment,
        )
        self._running.add(process)
        try:
            if self._stopping:
                _kill(process)
            answer, output = process.communicate(
                job_text(tables, directory), timeout=self._timeout_s
            )
        except BaseException as error:
            _kill(process)
            process.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                late = f"its tables were not written within {self._timeout_s:g} s"
                raise OSError(errno.EAGAIN, late) from error
            raise
        finally:
            self._running.discard(process)
        if process.returncode == -signal.SIGKILL and not self._stopping:  # the kernel did it
            raise OSError(errno.ENOMEM, "the process that writes its tables was killed")
        if process.returncode != 0:
            output = output.strip()[-_LAST_WORDS:] or "nothing was said"
            if output.endswith("MemoryError"):
                raise OSError(errno.ENOMEM, "the process that writes its tables lacks memory")
            if process.returncode < 0 and not self._stopping:
                reason = f"ends what reads its files (signal {-process.returncode}: {output})"
                raise TableBroken(tables[0].path.parent, reason)
            raise TableUnusable(
                f"its tables could not be written (exit {process.returncode}: {output})"
            )
        return read_answer(answer)

    def stop(self) -> None:
        """End those that run, and those that are begun: the container is stopping."""
        self._stopping = True
        for process in self._running.copy():
            _kill(process)


def _kill(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _make_options() -> tuple[str, ...]:
    """Python's own. Where our interpreter heeds no PYTHONPATH, this one does not either: Merlin's
    images name a pyarrow there from before CVE-2023-47248 was mended. (-I would hide its code.)
    """
    return ("-E", "-s") if sys.flags.ignore_environment else ()
