"""Compiles cases with the server's environment: `compiled/` beside each workflow, or why not.

    .venv/bin/python -m tests.workflows.compiled DIR...

Directories come as arguments or as lines on stdin. Prints one line of JSON a case (Outcome).
"""

from __future__ import annotations

import dataclasses
import json
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ensemble_tools.archive.graph_reader import read_graph_file
from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.archive.saved_workflow import find_workflow_file
from ensemble_tools.errors import GraphUnreadable
from ensemble_tools.workflows.compiler import compile_workflow
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.operators import RULES
from ensemble_tools.workflows.program import Program, Step, program_text
from ensemble_tools.workflows.runtime.operations.categorify import Categorify
from ensemble_tools.workflows.runtime.operations.grouping import Group
from ensemble_tools.workflows.runtime.operations.lists import SliceLists
from ensemble_tools.workflows.runtime.operations.table_joins import Join
from ensemble_tools.workflows.runtime.operations.target_encoding import TargetEncode
from ensemble_tools.workflows.tables import TableUnusable, write_tables
from tests.workflows.exchange import COMPILED, INPUTS, WORKFLOW

#: AddMetadata's descendants do what it does.
_TAGS = {
    "AddTags",
    "AddProperties",
    "TagAsUserID",
    "TagAsItemID",
    "TagAsUserFeatures",
    "TagAsItemFeatures",
}
#: Every operator that is compiled, by its name.
OPERATORS = frozenset(
    path.rpartition(".")[2]
    for rule in RULES
    if rule.compile is not None
    for path in rule.classes
    if path.startswith("nvtabular.ops.")
).difference(_TAGS)


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    operators, variants: those that are compiled and that an answer depends on. kept: why others are
    not, when a part is compiled. refused: why nothing is; crash: an exception that the compiler
    must not raise.
    """

    case: str
    operators: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    refused: str = ""
    crash: str = ""


def compile_case(case: Path) -> Outcome:
    """Write the program and its tables, or say why there is none."""
    declared = json.loads((case / INPUTS).read_text())
    inputs = {
        row["name"]: TensorSpec(row["name"], row["data_type"], tuple(row["dims"]))
        for row in declared
    }
    directory = case / COMPILED
    directory.mkdir()
    try:
        graph = read_graph_file(find_workflow_file(case / WORKFLOW))
        program = compile_workflow(graph, inputs, case / WORKFLOW)
        rows = write_tables(program.tables, directory)
    except (NotCompiled, TableUnusable, GraphUnreadable) as error:
        return Outcome(str(case), refused=str(error))
    except Exception:
        return Outcome(str(case), crash=traceback.format_exc(limit=-3))
    (directory / "program.json").write_text(program_text(program, rows))
    steps = _steps_to_answers(program)
    kept = tuple(f"{one.reason} (kept)" for one in program.kept)
    variants = tuple(sorted(_variants(program, steps)))
    return Outcome(str(case), _operators(program, steps), variants, kept)


def _steps_to_answers(program: Program) -> list[Step]:
    """The steps without which an answer would be another."""
    wanted = {output.reads for output in program.outputs}
    found = []
    for step in reversed(program.steps):
        if wanted & {*step.writes}:
            wanted |= {*step.reads}
            found.append(step)
    return found


def _operators(program: Program, steps: list[Step]) -> tuple[str, ...]:
    """Those with such steps, and those that have none of their own."""
    idle = {step.operator for step in program.steps} - {step.operator for step in steps}
    labels = {"AddMetadata" if label in _TAGS else label for label in {*program.operators} - idle}
    return tuple(sorted(labels))


def _variants(program: Program, steps: list[Step]) -> Iterator[str]:
    texts = {number for number, column in enumerate(program.inputs) if column.text}
    lists = {number for number, column in enumerate(program.inputs) if len(column.tensors) == 2}
    seen = set()
    for step in steps:
        operation = step.operation
        if isinstance(operation, Categorify):
            keys = program.tables[operation.table].columns
            seen |= {
                name
                for name, holds in (
                    ("Categorify combo", len(keys) > 1),
                    ("Categorify joint", len(keys) == 1 and keys != operation.columns),
                    ("Categorify buckets", operation.buckets),
                    ("Categorify single table", operation.null is None),
                    ("Categorify of lists", lists & {*step.reads}),
                    ("Categorify of texts", texts & {*step.reads}),
                )
                if holds
            }
        elif isinstance(operation, Group):
            seen |= {"Groupby on two"} if operation.keys > 1 else set()
            seen |= {"Groupby in an order"} if operation.sorts else set()
        elif isinstance(operation, Join):
            if len(step.reads) > 1:
                seen |= {"JoinGroupby on two"} & {f"{step.operator} on two"}
            given = program.tables[operation.table].given
            seen |= {"JoinExternal of lists"} if any(one.offsets for one in given) else set()
            seen |= {"JoinExternal with gaps"} if any(one.missing for one in given) else set()
        elif isinstance(operation, SliceLists) and operation.length is not None:
            seen.add("ListSlice filled up")
        elif isinstance(operation, TargetEncode) and operation.folds > 1:
            seen.add("TargetEncoding with folds")
    yield from seen


def main(arguments: list[str]) -> int:
    """Compiles each case."""
    for text in arguments or sys.stdin:
        print(json.dumps(dataclasses.asdict(compile_case(Path(text.strip())))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
