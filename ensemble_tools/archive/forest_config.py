"""Completes a config of fil by the forest that it is for. No I/O.

Neither fil nor its library completes a config. A forest's file says how many features and classes
there are; whether a classifier answers classes or probabilities, a config alone says.
"""

from __future__ import annotations

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.forest_file import Forest
from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.archive.signatures import Signature

#: As in fil_backend's own example.
_MAX_ROWS = 32768


def describe_forest(
    forest: Forest, message: pb.ModelConfig | None
) -> tuple[pb.ModelConfig, Signature, str]:
    """The config's fields beside its tensors, its tensors, and what nothing tells, in words.

    message: the config that there is. The words are empty where all is known.
    """
    written = pb.ModelConfig() if message is not None else _write_parameters(forest)
    config = written if message is None else message
    width = _find_width(config, forest)
    rows = () if config.max_batch_size > 0 else (-1,)
    signature = Signature(
        (TensorSpec("input__0", "TYPE_FP32", (*rows, forest.features or -1)),),
        (TensorSpec("output__0", "TYPE_FP32", (*rows, width or -1)),),
    )
    return written, signature, _find_unknown(forest, width, message)


def _write_parameters(forest: Forest) -> pb.ModelConfig:
    """output_class is is_classifier's name before 25.09, and is still read after it."""
    message = pb.ModelConfig(max_batch_size=_MAX_ROWS)
    parameters = {"model_type": forest.model_type, "output_class": "false"}
    if forest.is_classifier:
        parameters |= {"output_class": "true", "predict_proba": "true", "threshold": "0.5"}
    for key, word in parameters.items():
        message.parameters[key].string_value = word
    return message


def _find_width(config: pb.ModelConfig, forest: Forest) -> int | None:
    """Numbers a row, as fil answers; None where the parameters do not say."""
    parameters = {key: str(value.string_value) for key, value in config.parameters.items()}
    if parameters.get("predict_proba") == "true":
        return forest.classes
    classifier = parameters.get("output_class") or parameters.get("is_classifier")
    is_known = classifier == "true" or (classifier == "false" and forest.classes == 1)
    return 1 if is_known else None


def _find_unknown(forest: Forest, width: int | None, message: pb.ModelConfig | None) -> str:
    if forest.features is None:
        return "with the number of features in the place of -1"
    if message is not None:
        return "" if width else "with the numbers of a row in the place of -1, and output_class"
    if forest.is_classifier is None:
        return "with output_class true where it is a classifier"
    if not forest.is_classifier:
        return ""
    numbers = "one number" if forest.classes == 1 else f"{forest.classes} numbers"
    return (
        f"which answers probabilities, {numbers} a row; predict_proba false and dims 1 answer the "
        "number of the class"
    )
