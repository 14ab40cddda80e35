"""A partly compiled workflow, run as its Triton model runs it; NVTabular is imported if need be."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ensemble_tools.workflows.runtime.columns import LeftToNVTabular, RequestError
from ensemble_tools.workflows.runtime.kept import KeptNode
from ensemble_tools.workflows.runtime.program import LoadedProgram
from tests.workflows.exchange import COMPILED, WORKFLOW, sent

_RUNTIME = "ensemble_tools.workflows.runtime"
_ARGUMENTS = {"model_config": '{"parameters": {}}', "model_instance_kind": "CPU"}


class _NVTabularRefuses(Exception):
    """An operator that is not compiled cannot answer."""


class PartlyCompiled:
    """The program, and the workflow that answers what the program does not.

    left_whole: why the program did not answer the last request, empty where it did.
    """

    def __init__(self, case: Path) -> None:
        self._kept_operators = _model_file().KeptOperators(case / WORKFLOW, _ARGUMENTS)
        self._program = LoadedProgram(case / COMPILED, self._node)
        self._kept_operators.columns = self._program.columns
        self.left_whole = ""

    def run(self, tensors: dict[str, Any]) -> dict[str, Any]:
        """What the model answers; raises RequestError where NVTabular refuses."""
        self.left_whole = ""
        try:
            answer = self._program.run(tensors)
        except LeftToNVTabular as refusal:
            self.left_whole = str(refusal)
            return self._whole(tensors, refusal)
        except _NVTabularRefuses as error:
            raise RequestError(str(error)) from error
        return answer

    def _node(self, kept: KeptNode) -> Callable[..., list[Any]]:
        run = self._kept_operators.find_runner(kept)

        def run_node(*columns: Any) -> list[Any]:
            try:
                made: list[Any] = run(*columns)
            except RequestError:
                raise
            except Exception as error:
                raise _NVTabularRefuses(str(error)) from error
            return made

        return run_node

    def _whole(self, tensors: dict[str, Any], why: RequestError) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._kept_operators.answer(tensors, why)
            return {name: sent(name, array) for name, array in answer.items()}
        except Exception as error:
            raise RequestError(str(error)) from error


class _ImportedLater(types.ModuleType):
    """A module that is imported when something of it is asked for: one of them has NVTabular."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # which inspect asks all modules for
            raise AttributeError(name)
        module = importlib.import_module(f"ensemble_tools.workflows.{self.__name__}")
        return getattr(module, name)


def _model_file() -> Any:
    """partly_compiled_model.py, which finds its neighbours by their published names."""
    backend = types.ModuleType("triton_python_backend_utils")
    sys.modules.setdefault(backend.__name__, backend)
    names = (
        "columns",
        "failures",
        "kept",
        "pandas_frames",
        "pandas_operators",
        "program",
        "unpickling",
    )
    for name in names:
        module = importlib.import_module(f"{_RUNTIME}.{name}")
        sys.modules.setdefault(f"compiled_workflow.{name}", module)
    sys.modules.setdefault("compiled_workflow", importlib.import_module(_RUNTIME))
    for name in ("graph_json", "nvtabular_workflow"):
        sys.modules.setdefault(f"compiled_workflow.{name}", _ImportedLater(f"{name}_model"))
    return importlib.import_module("ensemble_tools.workflows.partly_compiled_model")
