"""Names of Triton's backends: in configs, by the files of a model, and as people write them."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.errors import quoted

#: Platform (the older word) -> backend, as Triton's model_config_utils derives it (26.05).
_PLATFORM_BACKENDS = {
    "pytorch_libtorch": "pytorch",
    "libtorch": "pytorch",
    "torch_aoti": "pytorch",
    "onnxruntime_onnx": "onnxruntime",
    "tensorrt_plan": "tensorrt",
    "tensorflow_savedmodel": "tensorflow",
    "tensorflow_graphdef": "tensorflow",
}
#: The files by which it tells the backend where a config names neither, in its order. A name that
#: ends in `/` is a directory's.
FILE_BACKENDS = {
    "model.savedmodel/": "tensorflow",
    "model.graphdef": "tensorflow",
    "model.plan": "tensorrt",
    "model.onnx": "onnxruntime",
    "model.onnx/": "onnxruntime",
    "model.xml": "openvino",
    "model.pt": "pytorch",
    "model.pt2": "pytorch",
    "model.py": "python",
}
#: A graph of other models, which has no backend.
ENSEMBLE = "ensemble"
#: Triton's backends, and what else people call them.
_BACKENDS = (
    *("python", "pytorch", "onnxruntime", "tensorrt", "tensorflow", "fil", "openvino", "dali"),
    *("tensorrtllm", "vllm"),
)
_ALSO_CALLED = {
    "torch": "pytorch",
    "libtorch": "pytorch",
    "torchscript": "pytorch",
    "onnx": "onnxruntime",
    "trt": "tensorrt",
    "tf": "tensorflow",
    "keras": "tensorflow",
    "savedmodel": "tensorflow",
    "xgboost": "fil",
    "lightgbm": "fil",
    "sklearn": "fil",
    "treelite": "fil",
}
#: How much of a name must be the same for it to be a slip of the pen.
ALIKE = 0.7


def name_backend(message: pb.ModelConfig) -> str:
    """The backend, given as such or by the older word; empty where neither is known."""
    return str(message.backend) or _PLATFORM_BACKENDS.get(message.platform, "")


def derive_backend(message: pb.ModelConfig, files: Collection[str]) -> str:
    """The backend as Triton derives it: named, by the older word, or else by the model's file.

    files: what lies in the version, a directory's name ending in `/`. Empty where nothing tells it.
    """
    if (named := name_backend(message)) or message.platform:
        return named
    file = str(message.default_model_filename)
    names = {file, f"{file}/"} if file else files
    return next((backend for name, backend in FILE_BACKENDS.items() if name in names), "")


def is_platform(name: str) -> bool:
    """Whether Triton derives a backend from this platform, or needs none."""
    return name == ENSEMBLE or name in _PLATFORM_BACKENDS


def guess_backend(word: str) -> str:
    """The backend that a platform or a misspelt backend most likely means; empty where none is."""
    name = word.lower()
    name = _PLATFORM_BACKENDS.get(name) or _ALSO_CALLED.get(name) or name
    return next(iter(get_close_matches(name, _BACKENDS, 1, ALIKE)), "")


def describe_backend(message: pb.ModelConfig) -> str:
    """The backend that an image must have for this config, where Triton has none; else empty."""
    name = str(message.backend)
    if not name or name in _BACKENDS:
        return ""
    likely = guess_backend(name)
    meant = f" (did you mean {likely}?)" if likely else ""
    return f"backend {quoted(name)}{meant} is none of Triton's: the image must have it"
