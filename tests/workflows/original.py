"""What NVTabular itself answers through merlin-systems' model, without tritonserver.

Run it with the models' environment, directories of cases as arguments or as lines on stdin:
    .venv-merlin/bin/python -m tests.workflows.original DIR...
It reads workflow/ and requests.bin of each, writes answers.bin into it and prints its path.

It follows merlin.systems.triton.models.workflow_model: one workflow, loaded once, answers one
request after the other. It unpickles the workflow: for workflows of one's own only.
"""

# ruff: noqa: E402  # the environment below is read while the modules are imported

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Merlin's generated protobufs are older than the C++ ones of their protobuf.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ["DASK_SCHEDULER"] = "synchronous"
warnings.filterwarnings("ignore")

import nvtabular
from merlin.io.worker import clean_worker_cache
from merlin.systems.triton import _convert_tensor
from merlin.systems.workflow.base import WorkflowRunner

from tests.workflows.exchange import (
    ANSWERS,
    REQUESTS,
    WORKFLOW,
    Answer,
    Tensors,
    read_requests,
    sent,
    write_answers,
)

warnings.filterwarnings("ignore")  # Merlin's modules set filters of their own
logging.disable(logging.CRITICAL)  # and log each error that they then raise


class Tensor:
    """A tensor of a request, as merlin-systems asks for it."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def as_numpy(self) -> Any:
        return self._array


class Original:
    """A saved workflow, as TritonPythonModel.initialize loads it. Raises what that raises."""

    def __init__(self, directory: Path) -> None:
        clean_worker_cache()  # tables are cached by path, for the process
        load = nvtabular.Workflow.load
        if (directory / "graph.json").exists():  # which this NVTabular cannot read itself
            load = importlib.import_module("ensemble_tools.workflows.graph_json_model").load
        self.workflow = load(str(directory))
        schema = self.workflow.input_schema
        self.plain: list[str] = []
        self.ragged: list[str] = []
        for name in self.workflow.input_dtypes:
            column = schema.get(name)
            is_ragged = column is not None and column.is_list and column.is_ragged
            (self.ragged if is_ragged else self.plain).append(name)
        self.runner = WorkflowRunner(
            self.workflow, self.workflow.output_dtypes, {"parameters": {}}, "CPU"
        )

    def answer(self, request: Tensors) -> Answer:
        """One request: tensors, or the text of an error."""
        tensors = {name: Tensor(array.copy()) for name, array in request.items()}
        try:
            given: Tensors = {name: _convert_tensor(tensors[name]) for name in self.plain}
            for name in self.ragged:
                values = _convert_tensor(tensors[name + "__values"])
                offsets = _convert_tensor(tensors[name + "__offsets"])
                given[name] = (values, offsets)
            transformed = self.runner.run_workflow(given)
            return {name: sent(name, array) for name, array in transformed.items()}
        except Exception as failed:
            return f"{type(failed).__name__}: {failed}"


def answer(workflow: Path, requests: Sequence[Tensors]) -> list[Answer]:
    """What one instance of the model answers to the requests, in their order."""
    original = Original(workflow)
    return [original.answer(request) for request in requests]


def answer_case(directory: Path) -> list[Answer]:
    """The answers to a case's requests."""
    return answer(directory / WORKFLOW, read_requests(directory / REQUESTS))


def directories(arguments: list[str]) -> Iterator[Path]:
    """Those named, else those that come on stdin."""
    yield from (Path(text.strip()) for text in arguments or sys.stdin)


def main(arguments: list[str]) -> int:
    """Answers each case."""
    if os.environ.get("PYTHONHASHSEED") != "0":
        # Sets of names order the columns, in errors' texts too.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.workflows.original", *arguments])
    for directory in directories(arguments):
        write_answers(directory / ANSWERS, answer_case(directory))
        print(directory, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
