"""Recommends ids to users by a model of implicit's, as Merlin's PredictImplicit does.

Generated beside the models of an archive. Needs numpy and implicit. The model's file lies beside
this one.
"""

import contextlib
import importlib
import os

import numpy as np
import triton_python_backend_utils as pb_utils

FOLDER = os.path.dirname(os.path.abspath(__file__))


class TritonPythonModel:
    """One answer for each request: ids and their scores, a row for each user."""

    def initialize(self, args):
        self.model = read_model()

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        (column,) = READS
        users = tensors[READS[column][0]].reshape(-1)
        try:
            ids, scores = self.model.recommend(
                users, None, N=SETTINGS["count"], filter_already_liked_items=False
            )
        except (IndexError, ValueError) as error:  # a user that it was not trained with
            message = f"{OPERATOR}, column {column!r}: {error}"
            return pb_utils.InferenceResponse(error=callers_fault(message))
        outputs = {"ids": ids.astype("int64"), "scores": scores.astype("float64")}
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, np.ascontiguousarray(outputs[name])) for name in WRITES]
        )


def read_model():
    """The model; raises ValueError with what is to be done where there is none to be had."""
    try:
        module = importlib.import_module(SETTINGS["module"])
        kind = getattr(module, SETTINGS["class"])
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{OPERATOR} needs implicit ({error}): install it into the Python that runs models "
            "(SERVE_BACKEND_PYTHON), in the version that the model was trained with"
        ) from error
    try:
        model = kind.load(os.path.join(FOLDER, SETTINGS["model"]))
        with contextlib.suppress(IndexError):  # of a model that knows nobody
            model.recommend(np.zeros(1, "int64"), None, N=1, filter_already_liked_items=False)
        return model
    except MemoryError:  # no fault of the file's
        raise
    except Exception as error:
        raise ValueError(
            f"{OPERATOR}: the model {SETTINGS['model']} cannot be read "
            f"({type(error).__name__}: {error}); export it again"
        ) from error


def callers_fault(message):
    """Triton's error for it: 400. Triton 2.36 has no codes and answers 400 to all of them."""
    code = getattr(pb_utils.TritonError, "INVALID_ARG", None)
    return pb_utils.TritonError(message, *([] if code is None else [code]))


# --- what this model does

KIND = ""
OPERATOR = ""
READS = {}
WRITES = {}
SETTINGS = {}
