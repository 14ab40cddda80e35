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
    """Smoothed means of targets: the more rows a category has, the more they count."""

    #: With folds, the file that has the sums over all of them.
    overall: Path | None
    smoothing: float
    #: Each target's mean.
    targets: tuple[float, ...]


@dataclass(frozen=True)
class Values:
    """A column that stands in the program."""

    #: numpy's code.
    dtype: str
    #: The bytes as base64.
    data: str
    #: int64, as Column has them; empty for None.
    offsets: str = ""
    #: Booleans, as Column has them; empty for None.
    missing: str = ""


@dataclass(frozen=True)
class Table:
    """Keys that are looked up, from one file of the workflow."""

    #: The parquet file.
    path: Path
    #: The columns of the file that are the keys; a file without any is only checked, since
    #: NVTabular will read it.
    columns: tuple[str, ...]
    #: How each key's values are compared: `int`, `float`, `bool` and `text` are first cast to the
    #: keys' type; `whole` and `real` are numbers that are compared as they are.
    kinds: tuple[str, ...]
    #: With it, the rows' labels stand beside the keys, as Categorify makes them, with this much
    #: added if the first is less; None for no labels.
    shift: int | None = None
    #: Columns of the file that stand beside the keys.
    beside: tuple[str, ...] = ()
    #: With it, means are worked out beside the keys, as TargetEncoding does it from a file whose
    #: columns are known by their order.
    means: Means | None = None
    #: The columns and those beside, where they were read from the workflow's pickle, which path
    #: names.
    given: tuple[Values, ...] = ()
    #: Whether the file's sizes are of several columns that are encoded jointly, not of each one.
    has_shared_sizes: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Step:
    """One operation with its parameters, and the registers that it reads and writes."""

    operation: Parameters
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    #: The NVTabular operator that it belongs to.
    operator: str = ""
    #: The columns that the operator is applied to.
    columns: tuple[str, ...] = ()
    #: Whether the operator's columns are the answer.
    is_last: bool = False


@dataclass(frozen=True)
class Kept:
    """An operator that runs in pandas."""

    operator: str
    columns: tuple[str, ...]
    #: Why it is not compiled, in words.
    reason: str
    #: Whether its code is NVTabular's, or is known to import NVTabular.
    in_nvtabular: bool = False


@dataclass(frozen=True)
class Program:
    """Inputs, steps and outputs of a workflow."""

    inputs: tuple[InputColumn, ...]
    steps: tuple[Step, ...]
    outputs: tuple[OutputColumn, ...]
    #: How many columns there are in all; the first are the inputs.
    registers: int
    tables: tuple[Table, ...] = ()
    #: How many operators of each kind were compiled.
    operators: dict[str, int] = field(default_factory=dict)
    #: The operators that are not compiled; if there are any, NVTabular answers what the program
    #: cannot.
    kept: tuple[Kept, ...] = ()
    #: Why a request without rows is refused, empty where it is answered.
    refuses_no_rows: str = ""

    @property
    def interpreter(self) -> str:
        """The library that its process must import: PANDAS; NVTABULAR; empty for numpy alone.

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
