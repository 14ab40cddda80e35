"""Triton's Python backend in one process: what a model.py imports as triton_python_backend_utils.

The functions are those of tritonserver's own file; the classes, which Triton writes in C++, are
here. A request that a model makes of another goes to the Server that is entered at the time.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Protocol

import numpy as np

MODULE = "triton_python_backend_utils"
ROOT = Path(__file__).parents[2]
TRITONS_OWN = "lib/python*/site-packages/pytriton/tritonserver/backends/python"


class TritonModelException(Exception):
    """What a model raises to end a request."""


class TritonError:
    """An error in a response."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE = range(5)

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        self._message, self._code = message, code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code


class Tensor:
    """A named array of a type that Triton knows. Raises RuntimeError for others, as Triton does."""

    def __init__(self, name: str, array: Any) -> None:
        if module().numpy_to_triton_type(array.dtype) is None:
            raise RuntimeError(
                f"Unable to cast Python instance of type <class 'NoneType'> to C++ type: the array "
                f"for tensor '{name}' is of dtype {array.dtype}"
            )
        self._name, self._array = name, np.require(array, requirements="C")

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> Any:
        return self._array

    def is_cpu(self) -> bool:
        return True

    def copied(self) -> Tensor:
        """As the receiver gets it, in memory of its own; strings are bytes by then."""
        array = self._array.copy()
        if array.dtype == np.object_:
            for place in np.ndindex(array.shape):
                text = array[place]
                array[place] = text if isinstance(text, bytes) else str(text).encode()
        return Tensor(self._name, array)


class InferenceResponse:
    """Tensors or an error."""

    def __init__(
        self, output_tensors: Sequence[Tensor] = (), error: TritonError | None = None
    ) -> None:
        self._tensors, self._error = list(output_tensors), error

    def output_tensors(self) -> list[Tensor]:
        return self._tensors

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error


class Server(Protocol):
    """Whoever answers the requests that models make."""

    def infer(
        self, model: str, inputs: Sequence[Tensor], requested: Sequence[str]
    ) -> InferenceResponse: ...


class InferenceRequest:
    """What a model is given, and what it makes to ask another."""

    server: ClassVar[Server | None] = None

    def __init__(
        self,
        request_id: str = "",
        correlation_id: int = 0,
        inputs: Iterable[Tensor] = (),
        requested_output_names: Iterable[str] = (),
        model_name: str = "",
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
    ) -> None:
        self._inputs, self._requested = list(inputs), list(requested_output_names)
        self._model = model_name

    def inputs(self) -> list[Tensor]:
        return self._inputs

    def requested_output_names(self) -> list[str]:
        return self._requested

    def model_name(self) -> str:
        return self._model

    def exec(self, decoupled: bool = False) -> InferenceResponse:
        assert InferenceRequest.server is not None, "no server is entered"
        return InferenceRequest.server.infer(self._model, self._inputs, self._requested)


class Logger:
    """Says nothing."""

    @staticmethod
    def log_info(text: str) -> None: ...

    log_warn = log_error = log_verbose = log = log_info


def install() -> None:
    """Makes the module importable. Before Merlin is: it looks for it once."""
    (directory,) = (ROOT / ".venv").glob(TRITONS_OWN)
    spec = importlib.util.spec_from_file_location(MODULE, directory / f"{MODULE}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for offered in (
        TritonModelException,
        TritonError,
        Tensor,
        InferenceResponse,
        InferenceRequest,
        Logger,
    ):
        setattr(made, offered.__name__, offered)
    sys.modules[MODULE] = made


def module() -> Any:
    """The installed module."""
    found: ModuleType = sys.modules[MODULE]
    return found
