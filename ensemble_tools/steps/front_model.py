# numpy: arrays alone
"""Stands in front of an ensemble that answers a column under the name of a request's column.

Generated: in an ensemble a name is one tensor, so the ensemble behind this model uses names of its
own, and this model gives its outputs the names that they have in Merlin's graph. Columns whose form
or data type differs at the graph's ends are converted here as well. Needs numpy alone.
"""

import numpy as np
import triton_python_backend_utils as pb_utils


class Refused(Exception):
    """The caller's numbers do not fit the model."""


class TritonPythonModel:
    """Converts, asks the ensemble, converts, answers."""

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        try:
            convert(BEFORE, tensors)
            if MODEL:
                response = ask(tensors)
                if response.has_error():
                    return pb_utils.InferenceResponse(error=response.error())
                outputs = response.output_tensors()
                tensors.update({tensor.name(): tensor.as_numpy() for tensor in outputs})
            convert(AFTER, tensors)
        except Refused as error:
            return pb_utils.InferenceResponse(error=callers_fault(error))
        return pb_utils.InferenceResponse([tensor(name, tensors[own]) for name, own in ANSWER])


def ask(tensors):
    return pb_utils.InferenceRequest(
        model_name=MODEL,
        requested_output_names=FETCHED,
        inputs=[tensor(name, tensors[name]) for name in SENT],
        preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU, 0),
    ).exec()


def tensor(name, array):
    return pb_utils.Tensor(name, np.ascontiguousarray(array))


# --- conversions

# --- what this model does

MODEL = ""
SENT = ()
FETCHED = ()
BEFORE = ()
AFTER = ()
ANSWER = ()
