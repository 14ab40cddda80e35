"""A compiled workflow as plain data: what the runtime reads, and the tables that it needs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .runtime.records import Parameters
from .runtime.tensors import InputColumn, OutputColumn

#: What the interpreters are called whose children run workflows.
PANDAS, NVTABULAR = "pandas", "nvtabular"
#: What JSON is read to.
Plain = Any


@dataclass(frozen=True)
class Means:
    """Smoothed means of targets: what a category's rows say, and the more of those, the more.

    overall: with folds, the file that has the sums over all of them. targets: each target's mean.
    """

    overall: Path | None
    smoothing: float
    targets: tuple[float, ...]


@dataclass(frozen=True)
class Values:
    """A column that stands in the program.

    dtype: numpy's code; data: its bytes as base64. offsets, missing: as Column has them, int64 and
    booleans; empty for None.
    """

    dtype: str
    data: str
    offsets: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Table:
    """Keys that are looked up, from one file of the workflow.

    path: the parquet file. columns: those of its columns that are the keys; without any the file is
    only checked, since NVTabular will read it. kinds: for each, what
    the values that are looked up are: `int`, `float`, `bool` or `text`, which are first cast to the
    keys' type; or `whole` and `real`, numbers that are compared as they are. shift: the
    rows' labels go beside, as Categorify makes them, with this much added if the first is less;
    None for none. beside: columns of the file that are kept beside the keys. means: what goes
    beside is worked out instead, as TargetEncoding does it from a file whose columns are known by
    their order. given: the columns and those beside, where they were read from the workflow's
    pickle, which path names.
    """

    path: Path
    columns: tuple[str, ...]
    kinds: tuple[str, ...]
    shift: int | None = None
    beside: tuple[str, ...] = ()
    means: Means | None = None
    given: tuple[Values, ...] = ()


@dataclass(frozen=True)
class Step:
    """One operation with its parameters, and the registers that it reads and writes.

    operator, columns: the NVTabular operator that it is of, and what that is applied to. is_last:
    that operator's columns are the answer.
    """

    operation: Parameters
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    operator: str = ""
    columns: tuple[str, ...] = ()
    is_last: bool = False


@dataclass(frozen=True)
class Kept:
    """An operator that runs in pandas; why it is not compiled, in words.

    in_nvtabular: its code is NVTabular's, or is known to import NVTabular.
    """

    operator: str
    columns: tuple[str, ...]
    reason: str
    in_nvtabular: bool = False


@dataclass(frozen=True)
class Program:
    """What is read, what is done, what is answered.

    registers: how many columns there are in all; the first are the inputs. operators: how many of
    each were compiled. kept: what is not compiled; with it NVTabular answers what the program
    cannot. refuses_no_rows: why a request without rows is refused, empty where it is
    answered.
    """

    inputs: tuple[InputColumn, ...]
    steps: tuple[Step, ...]
    outputs: tuple[OutputColumn, ...]
    registers: int
    tables: tuple[Table, ...] = ()
    operators: dict[str, int] = field(default_factory=dict)
    kept: tuple[Kept, ...] = ()
    refuses_no_rows: str = ""

    @property
    def interpreter(self) -> str:
        """What its process must have imported: PANDAS; NVTABULAR; empty for numpy alone.

        A process that has pandas imports NVTabular itself where that turns out to be needed.
        """
        if not self.kept:
            return ""
        return NVTABULAR if any(kept.in_nvtabular for kept in self.kept) else PANDAS


def program_text(program: Program, tables: list[dict[str, Plain]]) -> str:
    """program.json: the program, with what the tables turned out to be."""
    return json.dumps(
        {
            "inputs": [column.to_json() for column in program.inputs],
            "steps": [
                {
                    "operation": step.operation.name,
                    "reads": step.reads,
                    "writes": step.writes,
                    "given": step.operation.to_json(),
                    "is_last": step.is_last,
                    "of": f"{step.operator}: {', '.join(step.columns)}",
                }
                for step in program.steps
            ],
            "outputs": [column.to_json() for column in program.outputs],
            "registers": program.registers,
            "refuses_no_rows": program.refuses_no_rows,
            "tables": tables,
        },
        indent=1,
    )
