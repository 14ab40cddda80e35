"""A model that answers the name its archive was packed under, and the ids it was given."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """name.txt beside this file is what tells one archive from another."""

    def initialize(self, args: dict[str, str]) -> None:
        """Reads the name once: the archive may leave the disk while the model is loaded."""
        version = os.path.join(args["model_repository"], args["model_version"])
        with open(os.path.join(version, "name.txt"), "rb") as file:
            self.name = np.array([file.read()], dtype=np.object_)

    def execute(self, requests: list[Any]) -> list[Any]:
        """One answer a request."""
        return [self.answer(request) for request in requests]

    def answer(self, request: Any) -> Any:
        """NAME and ECHO."""
        ids = pb_utils.get_input_tensor_by_name(request, "IDS").as_numpy()
        tensors = [pb_utils.Tensor("NAME", self.name), pb_utils.Tensor("ECHO", ids)]
        return pb_utils.InferenceResponse(tensors)
