"""Stands for what Triton's stub gives a model, in a child.

The rest of triton_python_backend_utils is Triton's own file: it is Python. A model that calls other
models, or streams, is not run here.
"""

import importlib.util
import sys

import numpy as np

from .message_kinds import CODES

UTILS = "triton_python_backend_utils"


class Tensor:
    """An array with a name, on the CPU."""

    def __init__(self, name, array):
        self._name, self._array = name, array

    def name(self):
        return self._name

    def as_numpy(self):
        return self._array

    def is_cpu(self):
        return True

    def triton_dtype(self):
        return utils().numpy_to_triton_type(self._array.dtype.type)

    def shape(self):
        return self._array.shape

    def to_dlpack(self):
        return self._array.__dlpack__()

    def __dlpack__(self, *words, **named):
        return self._array.__dlpack__(*words, **named)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()

    @staticmethod
    def from_dlpack(name, array):
        return Tensor(name, np.from_dlpack(array))


class InferenceRequest:
    """One request."""

    def __init__(self, request_id, output_names, parameters, tensors):
        self._request_id, self._wanted = request_id, output_names
        self._parameters, self._tensors = parameters, tensors

    def request_id(self):
        return self._request_id

    def requested_output_names(self):
        return list(self._wanted)

    def parameters(self):
        return self._parameters

    def inputs(self):
        return list(self._tensors)


class InferenceResponse:
    """The answer of a model."""

    def __init__(self, output_tensors=(), error=None):
        self._tensors, self._error = list(output_tensors), error

    def output_tensors(self):
        return list(self._tensors)

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error


class TritonError:
    """Words, and a code of TritonError's."""

    def __init__(self, message, code=None):
        self._message, self._code = message, code

    def message(self):
        return self._message

    def code(self):
        return self._code


class TritonModelException(Exception):
    """An error that a model raises."""


class Logger:
    """Hands lines to the stub, which has them logged by tritonserver."""

    tell = staticmethod(lambda level, text: print(text, file=sys.stderr, flush=True))
    INFO, WARNING, ERROR, VERBOSE = "log_info", "log_warn", "log_error", "log_verbose"

    @classmethod
    def log(cls, text, level=INFO):
        cls.tell(level, str(text))

    @classmethod
    def log_info(cls, text):
        cls.tell(cls.INFO, str(text))

    @classmethod
    def log_warn(cls, text):
        cls.tell(cls.WARNING, str(text))

    @classmethod
    def log_error(cls, text):
        cls.tell(cls.ERROR, str(text))

    @classmethod
    def log_verbose(cls, text):
        cls.tell(cls.VERBOSE, str(text))


def utils():
    """The module that models import."""
    return sys.modules[UTILS]


def install(path):
    """Put it where models find it: Triton's own file at that path, and what is above."""
    spec = importlib.util.spec_from_file_location(UTILS, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[UTILS] = module
    spec.loader.exec_module(module)
    for each in (
        Tensor,
        InferenceRequest,
        InferenceResponse,
        TritonError,
        TritonModelException,
        Logger,
    ):
        setattr(module, each.__name__, each)
    set_codes(CODES)


def set_codes(codes):
    """The codes that this Triton's errors know, by their names."""
    for name in CODES:
        if name in codes:
            setattr(TritonError, name, name)
        elif hasattr(TritonError, name):
            delattr(TritonError, name)


def read_requests(specs, arrays):
    """Requests out of a message."""
    left = iter(arrays)
    return [
        InferenceRequest(
            request_id, output_names, parameters, [Tensor(name, next(left)) for name in names]
        )
        for request_id, output_names, parameters, names in specs
    ]


def write_answers(kind, answers):
    """(words, arrays) of the message that tells of them; an answer may be none, or an error."""
    specs, arrays = [], []
    for answer in answers:
        error = answer.error() if answer is not None else None
        if answer is None:
            specs.append(None)
        elif error is not None:
            specs.append((str(error.message()), error.code(), ()))
        else:
            tensors = answer.output_tensors()
            arrays += [np.asarray(tensor.as_numpy()) for tensor in tensors]
            specs.append((None, None, [tensor.name() for tensor in tensors]))
    return (kind, specs), arrays
