"""Rules and the runtime: that they know the same operations, and write them down alike."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from pathlib import Path

import pytest

from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.operators import OPERATORS, RULES
from ensemble_tools.workflows.program import Program, program_text
from ensemble_tools.workflows.rules import Unnamed
from ensemble_tools.workflows.runtime.kept import KeptNode, TakeArray
from ensemble_tools.workflows.runtime.operations import CLASSES, find_operation
from ensemble_tools.workflows.runtime.records import Parameters
from ensemble_tools.workflows.runtime.tensors import InputColumn, OutputColumn
from tests.support.fitted_operators import (
    CITY,
    COLUMNS,
    DRINK,
    EXAMPLES,
    GENRES,
    KEPT,
    compiled,
    of_table,
    operator,
)
from tests.support.pickled_frames import ITEMS

PAGE = Path(__file__).parents[5] / "docs/workflows.md"
#: Everything that a step of a program may be.
KNOWN: dict[str, type[Parameters]] = {
    **{name: find_operation(name) for name in CLASSES},
    KeptNode.name: KeptNode,
    TakeArray.name: TakeArray,
}
PROGRAMS = {name: example.compiled() for name, example in EXAMPLES.items()}
PROGRAMS["kept"] = compiled(*KEPT)
PROGRAMS["texts that are filled up"] = of_table(
    ITEMS, (CITY,), operator("fill.FillMissing", fill_val="b", add_binary_cols=False)
)
PROGRAMS["texts of a function"] = compiled(
    KEPT[0], operator("fill.FillMissing", fill_val=0, add_binary_cols=False), column=DRINK
)
PROGRAMS["lists of a table"] = of_table(ITEMS, (GENRES,))


def test_every_class_stands_in_one_rule() -> None:
    classes = Counter(path for rule in RULES for path in rule.classes)
    assert {path for path, count in classes.items() if count > 1} == set()
    assert {*OPERATORS} == {*classes}


def test_every_rule_has_an_example() -> None:
    """So that what follows is said of all rules, also of one that is added."""
    ruled = {path for path, rule in OPERATORS.items() if rule.compile is not None}
    assert {*EXAMPLES} == ruled, "enter it in EXAMPLES of tests/support/fitted_operators.py"


def test_every_operator_has_a_row_in_the_docs() -> None:
    """Of NVTabular's: the graph's own nodes, such as a selection, go by their signs there."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    named = {word for row in rows for word in re.findall(r"\w+", row.split("|")[1])}
    theirs = [path for path in OPERATORS if path.startswith("nvtabular.ops.")]
    assert [path for path in theirs if path.rpartition(".")[2] not in named] == []


def test_what_is_not_compiled_says_why() -> None:
    assert all(rule.why_not for rule in RULES if rule.compile is None)


def test_operations_go_by_their_names() -> None:
    """As program.json has them."""
    assert [name for name, operation in KNOWN.items() if operation.name != name] == []


def test_rules_emit_what_the_runtime_has() -> None:
    """Every operation that a rule emits, and no other."""
    operations = [step.operation for program in PROGRAMS.values() for step in program.steps]
    emitted = {operation.name: type(operation) for operation in operations}
    assert emitted == KNOWN, "enter it in CLASSES of workflows/runtime/operations/__init__.py"


@pytest.mark.parametrize("path", EXAMPLES)
def test_rules_say_what_becomes_of_columns_beside_the_selected(path: str) -> None:
    """What an operator does with a column that stands beside them, it does with unnamed ones."""
    example, unnamed = EXAMPLES[path], OPERATORS[path].unnamed
    named = {*example.names, *(column.name for column in example.output)}
    beside = next(column for column in COLUMNS if column.name not in named)
    program = dataclasses.replace(example, output=(*example.output, beside)).compiled
    if unnamed is Unnamed.DROPPED:
        with pytest.raises(NotCompiled, match="the workflow does not put it out"):
            program()
    else:
        assert beside.name in [column.name for column in program().outputs]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_records_come_back_from_json(program: Program) -> None:
    """Steps with their parameters, numpy's numbers with their types, and both ends."""
    written = json.loads(program_text(program, []))
    assert [KNOWN[step["operation"]].from_json(step["given"]) for step in written["steps"]] == [
        step.operation for step in program.steps
    ]
    inputs = tuple(InputColumn.from_json(column) for column in written["inputs"])
    outputs = tuple(OutputColumn.from_json(column) for column in written["outputs"])
    assert (inputs, outputs) == (program.inputs, program.outputs)
