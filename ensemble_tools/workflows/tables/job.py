"""Tables that a process of its own writes: its job, its answer, and what it may take."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from ..program import Means, Plain, Table, Values
from .category_files import CategoryFiles
from .errors import TableBroken, TableUnusable
from .writing import write_tables


def job_text(tables: Sequence[Table], directory: Path) -> str:
    """The process's input: the tables, and where to write; it runs in another directory."""
    rows = [dataclasses.asdict(table) for table in tables]
    return json.dumps(
        {"tables": rows, "directory": directory}, default=lambda path: str(path.absolute())
    )


def read_answer(text: str) -> list[dict[str, Plain]]:
    """The process's result; raises what it ended with, and TableUnusable for anything else."""
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        if isinstance(number := answer.get("errno"), int):
            raise OSError(number, answer["error"])
        if isinstance(path := answer.get("broken"), str):
            raise TableBroken(Path(path), answer["error"])
        raise TableUnusable(answer["error"])
    rows = answer.get("tables") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TableUnusable("its tables could not be written (nothing that makes sense was said)")
    return rows


def main(memory_bytes: int | None = None, files: CategoryFiles | None = None) -> None:
    """A job on standard input, the answer on standard output.

    memory_bytes: what the process may write to, None for half of what the machine has. files: what
    reads.
    """
    _limit_memory(memory_bytes)
    job = json.load(sys.stdin)
    tables = [_table(row) for row in job["tables"]]
    try:
        rows = write_tables(tables, Path(job["directory"]), files)
        answer: dict[str, Plain] = {"tables": rows}
    except TableBroken as error:
        answer = {"error": error.found, "broken": str(error.path)}
    except TableUnusable as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": "its category files take more memory than there is"}
        answer["errno"] = errno.ENOMEM
    except OSError as error:  # of writing, and what is no fault of the file
        answer = {"error": error.strerror or str(error), "errno": error.errno or errno.EIO}
    json.dump(answer, sys.stdout)


def _limit_memory(memory_bytes: int | None) -> None:
    """Not RLIMIT_AS: libraries reserve much more."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    limit = min(memory_bytes or half, half, *([hard] if hard != resource.RLIM_INFINITY else []))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _table(row: dict[str, Plain]) -> Table:
    means = row["means"]
    if means is not None:
        overall = means["overall"]
        means = Means(
            None if overall is None else Path(overall), means["smoothing"], tuple(means["targets"])
        )
    return Table(
        Path(row["path"]),
        tuple(row["columns"]),
        tuple(row["kinds"]),
        row["shift"],
        tuple(row["beside"]),
        means,
        tuple(Values(**values) for values in row["given"]),
        row["has_shared_sizes"],
    )
