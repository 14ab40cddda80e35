"""A decoupled model: a token is an answer, sent as soon as it is there."""

import os
import sys
import time

import numpy as np
import triton_python_backend_utils as pb_utils

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from chain import ContextFull, generate


class TritonPythonModel:
    """One instance, which generates for one caller at a time."""

    def execute(self, requests):
        for request in requests:
            self._answer(request, request.get_response_sender())

    def _answer(self, request, sender):
        """pace: the milliseconds that a token takes; it has a small model stand for a large one."""
        pace_s = _read(request, "pace") / 1000
        try:
            for token in generate(_read(request, "prompt").decode(), _read(request, "most")):
                time.sleep(pace_s)
                # The caller has left: nobody wants the rest, and the next one waits.
                if sender.is_cancelled():
                    break
                sender.send(pb_utils.InferenceResponse([_tensor(token)]))
        except ContextFull as error:
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error))))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)


def _read(request, name):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()[0]


def _tensor(token):
    return pb_utils.Tensor("token", np.array([token], dtype=object))
