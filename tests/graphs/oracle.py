"""What Merlin's own executor answers, without tritonserver: the truth that others are held against.

Run it with the models' environment, directories of cases as arguments or as lines on stdin:
    .venv-merlin/bin/python -m tests.graphs.oracle DIR...
It writes answers.json into each and prints its path.

The exported model.py files run as they are, on a Python backend that is a class in this process
(fake_backend.py); TorchScript models run by the container's stand-in for libtorch. What
tritonserver checks on the way to a model is checked here too, by the rules of
triton-inference-server/core (src/infer_request.cc, InferenceRequest::Normalize): the names, data
types and shapes of inputs.
It unpickles the export: for exports of one's own only.
"""

# ruff: noqa: E402  # the environment below is read while the modules are imported

from __future__ import annotations

import importlib.util
import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

# Merlin's generated protobufs are older than the C++ ones of their protobuf.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")

from tests.graphs import fake_backend

fake_backend.install()

from google.protobuf import text_format
from google.protobuf.json_format import MessageToDict
from tritonclient.grpc import model_config_pb2

from tests.graphs.fake_backend import InferenceRequest, InferenceResponse, Tensor, TritonError
from tests.graphs.tensors import (
    DATATYPES,
    REPOSITORY,
    Answer,
    Answers,
    Tensors,
    read_case,
    read_requests,
    served_version,
    write_answers,
)

ROOT = Path(__file__).parents[2]
PYTORCH_BACKEND = ROOT / "container/backends/pytorch/torchscript.py"
CONFIG_FILE = "config.pbtxt"

_module_numbers = count()


class Refused(Exception):
    """tritonserver would refuse the request or the model, for this reason."""


class Model:
    """One model of the repository. Raises whatever its code raises while it starts."""

    def __init__(self, directory: Path) -> None:
        self.name = directory.name
        self.config = read_config(directory / CONFIG_FILE)
        version = served_version(directory)
        if self.config["backend"] == "python":
            source = directory / str(version) / "model.py"
        else:
            source = PYTORCH_BACKEND
        self.instance = import_file(source).TritonPythonModel()
        self.instance.initialize(
            {
                "model_config": json.dumps(self.config),
                "model_instance_kind": "CPU",
                "model_instance_device_id": "0",
                "model_repository": str(directory),
                "model_version": str(version),
                "model_name": self.name,
            }
        )

    def infer(self, inputs: Sequence[Tensor], requested: Sequence[str]) -> InferenceResponse:
        """One request, as it passes tritonserver."""
        try:
            check_inputs(self.config, inputs)
            outputs = [output["name"] for output in self.config["output"]]
            for name in requested:
                if name not in outputs:
                    raise Refused(f"unexpected inference output '{name}' for model '{self.name}'")
        except Refused as refused:
            return InferenceResponse(error=TritonError(str(refused)))
        wanted = list(requested) or outputs
        request = InferenceRequest(
            inputs=[tensor.copied() for tensor in inputs],
            requested_output_names=wanted,
            model_name=self.name,
        )
        response = self._executed(request)
        if response.has_error():
            return response
        kept = [tensor.copied() for tensor in response.output_tensors() if tensor.name() in wanted]
        return InferenceResponse(kept)

    def _executed(self, request: InferenceRequest) -> InferenceResponse:
        try:
            (response,) = self.instance.execute([request])
        except Exception as failed:
            return InferenceResponse(error=TritonError(f"{type(failed).__name__}: {failed}"))
        assert isinstance(response, InferenceResponse)
        return response


class Repository:
    """A model repository with all its models loaded; those that call others find them."""

    def __init__(self, root: Path) -> None:
        self.models: dict[str, Model] = {}
        self.errors: dict[str, str] = {}
        for directory in sorted(path for path in root.iterdir() if path.is_dir()):
            try:
                self.models[directory.name] = Model(directory)
            except Exception as failed:
                self.errors[directory.name] = f"{type(failed).__name__}: {failed}"

    def __enter__(self) -> Repository:
        InferenceRequest.server = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        InferenceRequest.server = None

    def infer(
        self, model: str, inputs: Sequence[Tensor], requested: Sequence[str]
    ) -> InferenceResponse:
        """Any model's answer; of one that is not loaded, an error with its reason."""
        if model not in self.models:
            reason = self.errors.get(model, "there is no such model")
            return InferenceResponse(error=TritonError(f"model '{model}' is not ready: {reason}"))
        return self.models[model].infer(inputs, requested)

    def answer(self, model: str, request: Tensors) -> Answer:
        """The model's answer to a request from outside."""
        inputs = [Tensor(name, array) for name, array in request.items()]
        FAILED.operators.clear()
        response = self.infer(model, inputs, ())
        error = response.error()
        if error is not None:
            return Answer(None, f"in {', '.join(FAILED.operators)}: {error.message()}")
        return Answer({tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()})


class Failed(logging.Handler):
    """Which operators erred: Merlin's executor logs them, the innermost first."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """By the model that it calls, else by its class."""
        if not record.exc_info or not isinstance(record.args, tuple) or len(record.args) != 1:
            return
        (operator,) = record.args
        names = [value for key, value in vars(operator).items() if key.endswith("_model_name")]
        self.operators.append(str(next(iter(names), type(operator).__name__)))


FAILED = Failed()


def read_config(path: Path) -> dict[str, Any]:
    """config.pbtxt in the form in which the Python backend gets it: whole, and numbers as such."""
    parsed = text_format.Parse(path.read_text(), model_config_pb2.ModelConfig())
    # Later versions of protobuf, such as the checker's, have another word for it.
    whole: dict[str, Any] = {"including_default_value_fields": True}
    config: dict[str, Any] = MessageToDict(parsed, preserving_proto_field_name=True, **whole)
    for io in (*config["input"], *config["output"]):
        io["dims"] = [int(dim) for dim in io["dims"]]
    return config


def import_file(path: Path) -> Any:
    """The module in a file, anew for each model as each has its own process."""
    spec = importlib.util.spec_from_file_location(f"model_{next(_module_numbers)}", path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def check_inputs(config: dict[str, Any], inputs: Sequence[Tensor]) -> None:
    """Names, data types and shapes as the config declares them. Raises Refused."""
    model = config["name"]
    expected = {io["name"]: io for io in config["input"]}
    given = {tensor.name(): tensor.as_numpy() for tensor in inputs}
    for name in given.keys() - expected.keys():
        raise Refused(f"unexpected inference input '{name}' for model '{model}'")
    for name, io in expected.items():
        if name not in given:
            if not io["optional"]:
                raise Refused(
                    f"expected {len(expected)} inputs but got {len(given)} inputs for model "
                    f"'{model}'"
                )
            continue
        found = "TYPE_" + DATATYPES[given[name].dtype.name].replace("BYTES", "STRING")
        if found != io["data_type"]:
            raise Refused(
                f"inference input '{name}' data-type is '{found}', but model '{model}' expects "
                f"'{io['data_type']}'"
            )
        check_shape(name, io["dims"], list(given[name].shape), int(config["max_batch_size"]), model)


def check_shape(
    name: str, dims: list[int], shape: list[int], max_batch_size: int, model: str
) -> None:
    """A dimension of -1 is any; a batching model has one more in front. Raises Refused."""
    expected = [-1, *dims] if max_batch_size > 0 else dims
    agree = len(expected) == len(shape) and all(
        want in (-1, got) for want, got in zip(expected, shape, strict=True)
    )
    if not agree:
        raise Refused(
            f"unexpected shape for input '{name}' for model '{model}'. Expected {expected}, "
            f"got {shape}"
        )
    if max_batch_size > 0 and shape[0] > max_batch_size:
        raise Refused(
            f"inference request batch-size must be <= {max_batch_size} for '{model}', got "
            f"{shape[0]}"
        )


def answer_case(directory: Path) -> Answers:
    """What the executor of a case answers to its requests."""
    model = read_case(directory)["model"]
    with Repository(directory / REPOSITORY) as repository:
        if model in repository.errors:
            return Answers(repository.errors[model])
        answers = [repository.answer(model, request) for request in read_requests(directory)]
    return Answers("", tuple(answers))


def directories(arguments: list[str]) -> Iterator[Path]:
    """Those named, else those that come on stdin."""
    yield from (Path(text.strip()) for text in arguments or sys.stdin)


def main(arguments: list[str]) -> int:
    """Answers each case."""
    merlins = logging.getLogger("merlin")
    merlins.handlers, merlins.propagate = [FAILED], False
    for directory in directories(arguments):
        write_answers(directory, answer_case(directory))
        print(directory, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
