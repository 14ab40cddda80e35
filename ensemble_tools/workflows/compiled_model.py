# numpy: arrays alone
"""A compiled workflow as a Triton model: numpy, and what lies beside this file."""

import time
from pathlib import Path

import numpy as np
import triton_python_backend_utils as pb_utils
from compiled_workflow.columns import RequestError
from compiled_workflow.program import LoadedProgram

#: tritonserver 2.51 dies when a step of an ensemble errs while it still starts the others.
#: NVTabular takes as long as this before it errs. A joined step (joined_model.py) is none of these.
_BEFORE_AN_ERROR_S = 0.01


class TritonPythonModel:
    """Answers what NVTabular would."""

    def initialize(self, args):
        version = Path(__file__).parent
        self._before_an_error_s = 0.0 if "joined" in args else _BEFORE_AN_ERROR_S
        self._program = LoadedProgram(version / "tables")

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def finalize(self):
        self._program.close()

    def _answer(self, request):
        try:
            tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
            answer = self._program.run(tensors)
            return pb_utils.InferenceResponse(
                [pb_utils.Tensor(name, np.ascontiguousarray(a)) for name, a in answer.items()]
            )
        except RequestError as error:
            time.sleep(self._before_an_error_s)
            return pb_utils.InferenceResponse(error=callers_fault(error))
        except Exception as error:
            time.sleep(self._before_an_error_s)
            message = f"{type(error).__name__}: {error}"
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(message))


def callers_fault(error):
    """Triton's error for it: 400. Triton 2.36 has no codes and answers 400 to all of them."""
    code = getattr(pb_utils.TritonError, "INVALID_ARG", None)
    return pb_utils.TritonError(str(error), *([] if code is None else [code]))
