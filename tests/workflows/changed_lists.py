"""Workflows whose operators change lists in place that others read, with NVTabular's answers.

Run it with the models' environment:
    .venv-merlin/bin/python -m tests.workflows.changed_lists DIR
It writes cases as the generator does: DIR/case_<number>.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.workflows.original import answer  # first: it sets the environment

# isort: split

import numpy as np
import nvtabular
import pandas as pd
from merlin.dag.ops.subgraph import Subgraph
from merlin.systems.dag.runtimes.triton.ops.workflow import _generate_nvtabular_config
from nvtabular import ops

from tests.workflows.exchange import (
    ANSWERS,
    CONFIG,
    INPUTS,
    REQUESTS,
    WORKFLOW,
    write_answers,
    write_requests,
)
from tests.workflows.generator import declared_inputs

FRAME = pd.DataFrame({"x": [[3, 1], [2], [5, 4, 6]], "n": [1, 2, 3]})
LISTS = [{"x__values": np.array([3, 1, 2]), "x__offsets": np.array([0, 2, 3], "int32")}]
#: Lists are changed by the first alone.
NUMBERS = [{"n": np.array([1, 2])}, {"n": np.array([1])}]
X, N = ["x"], ["n"]


def of_rows(function: Callable[[Any], Any]) -> Any:
    """A LambdaOp that calls the function with each list."""
    return ops.LambdaOp(lambda column: column.map(function))


def appended(row: Any) -> Any:
    """The same list, longer."""
    row.append(9)
    return row


def zero_first(column: Any) -> Any:
    """The same lists, with a zero where there are two."""
    for row in column if len(column) == 2 else ():
        row[0] = 0
    return column


def failing(column: Any) -> Any:
    """The same, and fails for two."""
    if len(zero_first(column)) == 2:
        raise ValueError("two lists")
    return column


def in_subgraphs() -> Iterator[Any]:
    """1. Another operator reads what one changes. 2. Two read it, which runs it twice. 3. So it is
    with lists in lists."""
    lists, longer = X >> of_rows(list), of_rows(appended)
    other, length = ops.Rename(postfix="_n"), of_rows(lambda row: [len(row)])
    yield lists >> Subgraph("one", (X >> longer) + (X >> other >> length))
    changed = X >> longer
    yield lists >> Subgraph("two", (changed >> of_rows(list)) + (changed >> other >> length))
    inner = of_rows(lambda row: [len(appended(row[0]))] if isinstance(row[0], list) else row)
    inner_length = of_rows(lambda row: [len(row[0])] if isinstance(row[0], list) else row)
    nested = X >> of_rows(lambda row: [[*row]])
    yield nested >> Subgraph("three", (X >> inner) + (X >> other >> inner_length))


def of_tables() -> Iterator[Any]:
    """1. Two read what a function has closed over, lists, 2. arrays and 3. other objects. 4. Arrays
    of JoinExternal's table. 5. Its lists, by a function that fails then."""
    other, first = ops.Rename(postfix="_n"), of_rows(lambda row: row[0])
    for make in (list, np.array, lambda row: {0: row[0]}):
        table = {number: make([number]) for number in (1, 2, 3)}
        lists = N >> of_rows(table.get)
        yield (lists >> ops.LambdaOp(zero_first) >> first) + (lists >> other >> first)
    for make, function in ((np.array, zero_first), (list, failing)):
        external = pd.DataFrame({"n": [1, 2, 3], "tags": [make([number]) for number in (1, 2, 3)]})
        yield (N >> ops.JoinExternal(external, on=N))["tags"] >> ops.LambdaOp(function)


def main(destination: str) -> None:
    """Writes the cases."""
    cases = [(one, LISTS) for one in in_subgraphs()] + [(one, NUMBERS) for one in of_tables()]
    for number, (columns, requests) in enumerate(cases):
        case = Path(destination, f"case_{number}")
        case.mkdir()
        workflow = nvtabular.Workflow(columns)
        workflow.fit(nvtabular.Dataset(FRAME))
        workflow.save(str(case / WORKFLOW))
        _generate_nvtabular_config(workflow, "workflow", str(case), max_batch_size=0)
        (case / INPUTS).write_text(json.dumps(declared_inputs(case / CONFIG)))
        write_requests(case / REQUESTS, requests)
        write_answers(case / ANSWERS, answer(case / WORKFLOW, requests))


if __name__ == "__main__":
    main(*sys.argv[1:])
