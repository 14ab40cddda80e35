"""The runtime of compiled workflows, which interpreters import for all that they fork."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from container.warm.interpreters import RUNTIME
from ensemble_tools import (
    Choices,
    Compile,
    Namespace,
    plan_archive,
    publish,
    read_executor_graph,
    read_repository,
)

EXPORT = Path(__file__).parents[4] / "examples/merlin/dense/repository"
interpreter: Any = import_module("container.warm.models_side.warm_interpreter.interpreter")


def list_imported() -> set[str]:
    return {name for name in sys.modules if name.partition(".")[0] == interpreter.RUNTIME}


@pytest.fixture(autouse=True)
def imported_by_nobody_else() -> Iterator[None]:
    assert not list_imported()
    yield
    for name in list_imported():
        del sys.modules[name]


def test_it_is_what_lies_beside_a_model(tmp_path: Path) -> None:
    """A model that finds it imported runs the very text that was published with it."""
    repository = read_repository(EXPORT)
    graph, choices = read_executor_graph(repository), Choices(compile=Compile.AUTO)
    publish(plan_archive(repository, graph, Namespace("m"), choices), tmp_path)
    (published,) = tmp_path.rglob(interpreter.RUNTIME)
    texts = {path.relative_to(published): path.read_text() for path in published.rglob("*.py")}
    assert texts == {it.relative_to(RUNTIME): it.read_text() for it in RUNTIME.rglob("*.py")}


def test_operations_are_imported() -> None:
    """All of them, so that no model compiles one."""
    interpreter.import_runtime(str(RUNTIME))
    families = {path.stem for path in (RUNTIME / "operations").glob("*.py")} - {"__init__"}
    modules = {f"{interpreter.RUNTIME}.operations.{family}" for family in families}
    assert modules | {f"{interpreter.RUNTIME}.program"} <= list_imported()
    program = import_module(f"{interpreter.RUNTIME}.program")
    assert Path(program.__file__ or "") == RUNTIME / "program.py"


def test_where_it_cannot_be_imported(tmp_path: Path) -> None:
    """Nothing of it is left half imported: a model imports what lies beside it."""
    directory = shutil.copytree(RUNTIME, tmp_path / "runtime")
    (directory / "operations/lists.py").write_text("raise ImportError('no numpy')")
    interpreter.import_runtime(str(directory))
    assert not list_imported()
