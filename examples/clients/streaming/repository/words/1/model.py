"""A decoupled model: it answers a text word by word, as a language model does."""

import time

import numpy as np
import triton_python_backend_utils as pb_utils

#: Seconds between two words, so that it can be seen that they come one by one.
PAUSE_S = 0.2


class TritonPythonModel:
    """Sends as many answers as the text has words."""

    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            text = pb_utils.get_input_tensor_by_name(request, "text").as_numpy()[0].decode()
            for word in text.split():
                tensor = pb_utils.Tensor("word", np.array([word.upper()], dtype=object))
                sender.send(pb_utils.InferenceResponse([tensor]))
                time.sleep(PAUSE_S)
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
