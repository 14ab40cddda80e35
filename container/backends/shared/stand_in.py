"""The common part of the three stand-in backends: where they run, refusals, answers.

Runs in the models' Python, not in the server's.
"""

import importlib
import os
import sys

import triton_python_backend_utils as pb_utils


class Refused(Exception):
    """The model, or the request, cannot be served; the text goes back to whoever sent it."""


class StandIn:
    """A TritonPythonModel, with `name` and `compute`: the output tensors of one request."""

    def execute(self, requests):
        """Answers each request by itself; one that fails does not touch the others."""
        return [self.answer(request) for request in requests]

    def answer(self, request):
        """The response to one request, an error response included."""
        try:
            return pb_utils.InferenceResponse(output_tensors=self.compute(request))
        except Refused as refused:
            return pb_utils.InferenceResponse(error=error(str(refused), "INVALID_ARG"))
        except Exception as failed:
            return pb_utils.InferenceResponse(error=error(self.describe(failed), "INTERNAL"))

    def describe(self, failed):
        """The sentence for what a library raised at a request."""
        return f"model '{self.name}' failed: {failed}"

    def input(self, request, name):
        """The request's tensor of that name."""
        tensor = pb_utils.get_input_tensor_by_name(request, name)
        if tensor is None:
            raise Refused(f"input '{name}' of model '{self.name}' is not in the request")
        return tensor


class ModelParameters:
    """The config's `parameters`: texts by their keys."""

    def __init__(self, config, model):
        parameters = config.get("parameters", {})
        self.texts = {key: value["string_value"] for key, value in parameters.items()}
        self.model = model

    def read(self, key, default, kind, expected):
        """The text as `kind` makes a value of it; the default where there is none."""
        if key not in self.texts:
            return default
        try:
            return kind(self.texts[key])
        except ValueError:
            raise Refused(
                f"parameter {key} of model '{self.model}' is '{self.texts[key]}', expected "
                f"{expected}"
            ) from None


def choose_program(file, library, module):
    """The TritonPythonModel of a backend's model.py, which is `file`; `module` lies beside it.

    A child of the library's warm interpreter runs the module where there are such; else it runs in
    this process.
    """
    folder = os.path.dirname(os.path.realpath(file))
    interpreters = os.environ.get("MERLIN_WARM_INTERPRETERS")
    if not interpreters:
        sys.path.append(folder)
        return importlib.import_module(module).TritonPythonModel
    sys.path.append(os.path.join(interpreters, "code"))
    front = importlib.import_module("warm_interpreter.front").Front
    program = os.path.join(folder, module + ".py")
    members = {"library": library, "program": program, "module": module}
    return type("TritonPythonModel", (front,), members)


def find_file(args, config, default, exists=os.path.exists, kind=""):
    """The path of the model's file or directory. Raises Refused. kind: the end of its sentence."""
    name = config.get("default_model_filename") or default
    path = os.path.join(args["model_repository"], args["model_version"], name)
    if not exists(path):
        raise Refused(f"unable to find '{path}' for model '{args['model_name']}'{kind}")
    return path


def refuse_unsupported(config, model, library):
    """Fields that NVIDIA's backend honours and a stand-in does not: better refused than ignored."""
    for field in ("sequence_batching", "batch_input", "batch_output"):
        if config.get(field):
            raise Refused(
                f"model '{model}' uses {field}, which the Python stand-in for {library} does not "
                "serve; use NVIDIA's image"
            )
    for direction in ("input", "output"):
        if not config.get(direction):
            raise Refused(
                f"the configuration of model '{model}' has no {direction}, expected at least one"
            )


def list_dims(tensor):
    """The declared dims, a reshape's if there is one."""
    return [int(dim) for dim in (tensor.get("reshape") or {}).get("shape", tensor.get("dims", []))]


def kind_of(args):
    """The kind of the instance's device: CPU, GPU or MODEL."""
    return args["model_instance_kind"].replace("KIND_", "")


def first_line(failed, heading=""):
    """The line that says the error; in C++ libraries a stack trace goes on behind it."""
    text = getattr(failed, "message", None) or str(failed)
    lines = [line.strip() for line in text.splitlines()]
    return next((line for line in lines if line not in ("", heading)), type(failed).__name__)


def error(text, code):
    """An error with its code where this Triton's Python backend knows codes (2.40 and up)."""
    codes = getattr(pb_utils.TritonError, code, None)
    return pb_utils.TritonError(text) if codes is None else pb_utils.TritonError(text, codes)
