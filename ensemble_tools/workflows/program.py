"""A compiled workflow as plain data: what the runtime reads, and the tables that it needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

#: What the steps' parameters may be.
Plain = Any


@dataclass(frozen=True)
class Input:
    """One tensor that the model declares: its Triton data type and its dims, without a batch."""

    data_type: str
    dims: tuple[int, ...]


@dataclass(frozen=True)
class Means:
    """Smoothed means of targets: what a category's rows say, and the more of those, the more.

    overall: with folds, the file that has the sums over all of them. targets: each target's mean.
    """

    overall: Path | None
    smoothing: float
    targets: tuple[float, ...]


@dataclass(frozen=True)
class Table:
    """Keys that are looked up, from one file of the workflow.

    path: the parquet file. columns: those of its columns that are the keys. families: for each,
    what the values that are looked up are: `int`, `float`, `bool` or `text`, which are first cast
    to the keys' type; or `whole` and `real`, numbers that are compared as they are. shift: the
    rows' labels go beside, as Categorify makes them, with this much added if the first is less;
    None for none. beside: columns of the file that are kept beside the keys. means: what goes
    beside is worked out instead, as TargetEncoding does it from a file whose columns are known by
    their order.
    """

    path: Path
    columns: tuple[str, ...]
    families: tuple[str, ...]
    shift: int | None = None
    beside: tuple[str, ...] = ()
    means: Means | None = None


@dataclass(frozen=True)
class Step:
    """One operation: registers that it reads and writes, and its parameters.

    operator, columns: the NVTabular operator that it is of, and what that is applied to.
    """

    operation: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    given: dict[str, Plain]
    operator: str = ""
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kept:
    """An operator that NVTabular itself runs in a program of which it is a part; why, in words."""

    operator: str
    columns: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Program:
    """inputs, outputs: rows as the runtime reads them. operators: how many of each were compiled.

    registers: how many columns there are in all; the first are the inputs. kept: what is not
    compiled; with it NVTabular is needed, and answers what the program cannot.
    """

    inputs: tuple[dict[str, Plain], ...]
    steps: tuple[Step, ...]
    outputs: tuple[dict[str, Plain], ...]
    registers: int
    tables: tuple[Table, ...] = ()
    operators: dict[str, int] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()


def program_text(program: Program, tables: list[dict[str, Plain]]) -> str:
    """program.json: the program, with what the tables turned out to be."""
    return json.dumps(
        {
            "inputs": program.inputs,
            "steps": [
                {
                    "operation": step.operation,
                    "reads": step.reads,
                    "writes": step.writes,
                    "given": step.given,
                    "of": f"{step.operator}: {', '.join(step.columns)}",
                }
                for step in program.steps
            ],
            "outputs": program.outputs,
            "registers": program.registers,
            "tables": tables,
        },
        indent=1,
    )
