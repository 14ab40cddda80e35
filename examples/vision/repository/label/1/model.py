"""The step behind the network: names in the place of places."""

import os

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Reads labels.txt, which lies beside it in the archive."""

    def initialize(self, args):
        folder = os.path.join(args["model_repository"], args["model_version"])
        with open(os.path.join(folder, "labels.txt"), encoding="utf-8") as lines:
            self.labels = np.array([line.strip().encode() for line in lines], dtype=object)

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        probabilities = pb_utils.get_input_tensor_by_name(request, "probabilities").as_numpy()
        likeliest = self.labels[probabilities.argmax(axis=1)]
        return pb_utils.InferenceResponse([pb_utils.Tensor("label", likeliest[:, np.newaxis])])
