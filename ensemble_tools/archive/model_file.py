"""Which file of a version is the model, and which backend loads it."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.backend_names import FILE_BACKENDS, name_backend
from ensemble_tools.archive.files import read_bounded
from ensemble_tools.archive.forest_file import read_forest

#: model_type -> the file that fil loads where a config names none.
FOREST_FILES = {
    "xgboost": "xgboost.model",
    "xgboost_json": "xgboost.json",
    "xgboost_ubj": "xgboost.ubj",
    "lightgbm": "model.txt",
    "treelite_checkpoint": "checkpoint.tl",
}
#: Backend -> others that load without being named.
_OTHER_FILES = {"dali": ("model.dali",), "vllm": ("model.json",), "fil": (*FOREST_FILES.values(),)}
#: The platform of what torch has compiled ahead of time.
AOT_INDUCTOR = "torch_aoti"
#: Ends of names -> backend and platform.
_ENDS = {
    ".onnx": ("onnxruntime", ""),
    ".onnx/": ("onnxruntime", ""),
    ".savedmodel/": ("tensorflow", "tensorflow_savedmodel"),
    ".graphdef": ("tensorflow", "tensorflow_graphdef"),
    ".plan": ("tensorrt", ""),
    ".engine": ("tensorrt", ""),
    ".xml": ("openvino", ""),
    ".pt": ("pytorch", ""),
    ".pt2": ("pytorch", AOT_INDUCTOR),
    ".dali": ("dali", ""),
}
#: Ends of forests; many a file that is none ends so, and some forests' names have no end at all.
_FORESTS = {
    *(".json", ".ubj", ".model", ".xgb", ".xgboost", ".bst", ".bin", ".txt", ".lgb", ".lgbm"),
    *(".lightgbm", ".tl", ""),
}
#: vLLM's arguments.
_MAX_ARGUMENTS = 1024 * 1024


@dataclass(frozen=True)
class ModelFile:
    """A model's file: its name in the version, ending in `/` where it is a directory."""

    name: str
    backend: str
    platform: str = ""

    @property
    def needs_naming(self) -> bool:
        """Whether its backend finds it by default_model_filename alone."""
        standard = (*FILE_BACKENDS, *_OTHER_FILES.get(self.backend, ()))
        return self.name not in standard


def find_model_file(version: Path, entries: Collection[str]) -> ModelFile | None:
    """The model of a version: the file that has Triton's name, or the only likely one.

    Raises as find_likely_files does.
    """
    files = find_likely_files(version, entries)
    return files[0] if len(files) == 1 else None


def find_likely_files(version: Path, entries: Collection[str]) -> list[ModelFile]:
    """The files that may be the model, those of a standard name alone where there are such.

    Looks into files whose name tells nothing. Hidden files are none: macOS's tar writes a
    `._model.onnx` beside model.onnx. Raises as read_with does.
    """
    likely = [_judge(version, name) for name in sorted(entries) if not name.startswith(".")]
    files = [file for file in likely if file is not None]
    named = next((name for name in FILE_BACKENDS if name in entries), None)
    if named is not None:
        return [file for file in files if file.name == named]
    return [file for file in files if not file.needs_naming] or files


def find_named_file(
    message: pb.ModelConfig, version: Path, files: Collection[str]
) -> ModelFile | None:
    """The file that a config means, where its backend is known. Raises as read_with does."""
    backend = name_backend(message)
    name = str(message.default_model_filename)
    if not name and backend == "fil":
        name = FOREST_FILES.get(message.parameters["model_type"].string_value or "xgboost", "")
    if name:
        there = next((it for it in (name, f"{name}/") if it in files), None)
        return ModelFile(there, backend, message.platform) if there and backend else None
    file = find_model_file(version, files)
    return file if file and file.backend == (backend or file.backend) else None


def _judge(version: Path, name: str) -> ModelFile | None:
    end = name[name.rfind(".") :].lower() if "." in name else ""
    if end in _ENDS:
        return ModelFile(name, *_ENDS[end])
    if name == "model.json" and _is_vllm(version / name):
        return ModelFile(name, "vllm")
    if end in _FORESTS and not name.endswith("/") and read_forest(version / name) is not None:
        return ModelFile(name, "fil")
    return None


def _is_vllm(path: Path) -> bool:
    try:
        read = json.loads(read_bounded(path, _MAX_ARGUMENTS) or b"")
    except (ValueError, RecursionError):
        return False
    return isinstance(read, dict) and isinstance(read.get("model"), str)
