"""Stacks columns into the matrix that a forest takes, and calls it, as Merlin's executor does.

Generated. A call leaves the forest's answer in its own shape; as a step of an ensemble a model that
batches would lose a dimension for a single row. Needs numpy alone.
"""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One answer for each request: the forest's."""

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        columns = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        lengths = {name: columns[name].size for name in COLUMNS}
        if len(set(lengths.values())) > 1:
            message = f"the forest takes one number a row of each column, and found {lengths}"
            return pb_utils.InferenceResponse(error=callers_fault(message))
        try:
            matrix = stacked([columns[name] for name in COLUMNS]) if COLUMNS else columns[MATRIX]
        except ValueError as error:
            return pb_utils.InferenceResponse(error=callers_fault(f"{[*COLUMNS]}: {error}"))
        response = pb_utils.InferenceRequest(
            model_name=MODEL,
            requested_output_names=OUTPUTS,
            inputs=[pb_utils.Tensor(MATRIX, np.ascontiguousarray(matrix))],
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
        ).exec()
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        outputs = response.output_tensors()
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(tensor.name(), tensor.as_numpy()) for tensor in outputs]
        )


def stacked(columns):
    """Merlin's own way from columns to a matrix, through the type that holds all of them."""
    return np.array([column.ravel() for column in columns]).astype(np.float32).T


def callers_fault(message):
    """Triton's error for it: 400. Triton 2.36 has no codes and answers 400 to all of them."""
    code = getattr(pb_utils.TritonError, "INVALID_ARG", None)
    return pb_utils.TritonError(message, *([] if code is None else [code]))


MATRIX = "input__0"

# --- what this model does

MODEL = ""
COLUMNS = ()
OUTPUTS = ()
