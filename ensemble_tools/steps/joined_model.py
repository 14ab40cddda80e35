"""Runs the steps of an ensemble one after another in this process, as tritonserver would run them.

Generated in the place of the ensemble: its steps need numpy, but for those that need the libraries
that this process was forked with. Their directories lie in steps/, each as tritonserver would have
it. STEPS, at the end, says in which order they are run, and which tensors go in and come out.
"""

import contextlib
import json
import os
import sys
import warnings

import numpy as np
import triton_python_backend_utils as pb_utils
from warm_interpreter.loading import load

FOLDER = os.path.dirname(os.path.abspath(__file__))


class Failed(Exception):
    """A step's error: words, and a code of TritonError's or none."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


class TritonPythonModel:
    """Answers what the ensemble would."""

    def initialize(self, args):
        """Raises what a step raises, with the step's name."""
        self.name = args["model_name"]
        self.steps = [JoinedStep(number, row, args) for number, row in enumerate(STEPS)]
        self.needed = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        arrays = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        requested = request.requested_output_names()  # a set: its order is another one each time
        names = [name for name in ANSWER if name in requested]
        try:
            for step in self.steps_for(frozenset(names)):
                step.run(request, arrays)
        except Failed as failed:
            message = f"in ensemble '{self.name}', {failed}"
            code = [] if failed.code is None else [failed.code]
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(message, *code))
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, arrays[name]) for name in names])

    def steps_for(self, names):
        """The steps that these tensors come of, as tritonserver runs no others."""
        if names not in self.needed:
            tensors, steps = set(names), []
            for step in reversed(self.steps):
                if not tensors.isdisjoint(step.writes.values()):
                    tensors.update(step.reads.values())
                    steps.insert(0, step)
            self.needed[names] = steps  # there are as many as sets of outputs: few
        return self.needed[names]

    def finalize(self):
        for step in self.steps:
            if hasattr(step.model, "finalize"):
                step.model.finalize()


class JoinedStep:
    """A model that runs in this process."""

    def __init__(self, number, row, args):
        self.name, self.reads, self.writes = row["name"], row["reads"], row["writes"]
        self.inputs = {io["name"]: io for io in row["config"]["input"]}
        model_file = os.path.join(FOLDER, row["model_file"])
        self.is_predictor = os.path.isabs(row["model_file"])
        self.functions = Functions() if row["functions"] else None
        if not self.is_predictor:
            make_importable(os.path.dirname(model_file))
        try:
            with self.functions or contextlib.nullcontext():
                self.model = load(model_file, f"step_{number}").TritonPythonModel()
                if hasattr(self.model, "initialize"):
                    self.initialize(row, args)
        except Exception as error:
            raise type(type(error).__name__, (Exception,), {})(
                f"the step {self.name}: {error}"
            ) from error

    def initialize(self, row, args):
        """As tritonserver would. Raises what the model's raises."""
        config = row["config"]
        own = {
            "model_name": config["name"],
            "model_config": json.dumps(config),
            "model_repository": os.path.join(FOLDER, row["folder"]),
            "model_version": row["version"],
            "joined": "true",  # no other step of an ensemble runs beside it
        }
        self.model.initialize({**args, **own})

    def run(self, request, arrays):
        """Adds what it puts out to the arrays, which have the ensemble's names. Raises Failed."""
        tensors = []
        for name, tensor in self.reads.items():
            array = arrays[tensor]
            check(array, self.inputs[name], self.name)
            tensors.append(pb_utils.Tensor(name, self.own(array)))
        requests = [StepRequest(request, tensors, list(self.writes))]
        if self.functions is None:
            (response,) = self.model.execute(requests)
        else:
            with self.functions:
                (response,) = self.model.execute(requests)
        if response.has_error():
            error = response.error()
            code = getattr(error, "code", None)
            raise Failed(error.message(), code() if callable(code) else None)
        outputs = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
        for name, tensor in self.writes.items():
            if name not in outputs:
                raise Failed(f"the step {self.name} put out no {name}")
            arrays[tensor] = outputs[name]

    def own(self, array):
        """The array for this step, which others may read later, under this name or another one.

        A predictor may write into what it is given: torch copies what is sealed. So may functions.
        """
        if self.functions is not None:
            return array.copy()
        return sealed(array) if self.is_predictor else array


class Functions:
    """Surrounds a step that runs functions of the user's: what they set holds for them alone.

    As in a process of their own: what numpy does at errors, and which warnings are errors.
    """

    def __init__(self):
        self.filters = list(warnings.filters)

    def __enter__(self):
        # Python is not told of other filters: it would show again all that it has shown once.
        self.outside, warnings.filters = warnings.filters, self.filters
        self.errors = np.geterr()

    def __exit__(self, *_):
        self.filters, warnings.filters = warnings.filters, self.outside
        np.seterr(**self.errors)


class StepRequest:
    """The request for the whole, as a step is given it."""

    def __init__(self, whole, tensors, output_names):
        self._whole, self._tensors, self._wanted = whole, tensors, output_names

    def request_id(self):
        return self._whole.request_id()

    def parameters(self):
        return self._whole.parameters()

    def requested_output_names(self):
        return list(self._wanted)

    def inputs(self):
        return list(self._tensors)


def make_importable(folder):
    """Put it where tritonserver would: ahead of what is this container's own."""
    index = sys.path.index(FOLDER) if FOLDER in sys.path else len(sys.path)
    sys.path.insert(index, folder)


def sealed(array):
    """The array, which cannot be written into."""
    view = array.view()
    view.flags.writeable = False
    return view


def check(array, declared, step):
    """Refuses what tritonserver would not give to this step."""
    name, dims = declared["name"], declared["dims"]
    text = declared["data_type"] == "TYPE_STRING"
    expected = object if text else pb_utils.triton_string_to_numpy(declared["data_type"])
    if array.dtype != expected and not (text and array.dtype.kind in "SU"):
        raise refused(
            f"input '{name}' of the step {step} is {array.dtype}, and its config says "
            f"{declared['data_type']}"
        )
    fits = len(array.shape) == len(dims) and all(
        dim in (-1, length)
        for dim, length in zip(dims, array.shape)  # noqa: B905 - of one length
    )
    if not fits:
        raise refused(
            f"unexpected shape for input '{name}' of the step {step}. Expected {dims}, got "
            f"{list(array.shape)}"
        )


def refused(message):
    """Triton's code for it is 400's. Triton 2.36 has no codes and answers 400 to all errors."""
    return Failed(message, getattr(pb_utils.TritonError, "INVALID_ARG", None))


# --- what this model does

STEPS = []
ANSWER = []
