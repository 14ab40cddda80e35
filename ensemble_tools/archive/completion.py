"""Adds to a config its backend, inputs and outputs, as the model's file tells them.

As far as ONNX Runtime's and TensorFlow's backends complete a config, it is completed here from the
same file: configs are strict, and so everybody knows its tensors. max_batch_size stays what it is;
where a config says none, a request may have any number of rows, and none waits for another.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.files import is_file
from ensemble_tools.archive.forest_config import describe_forest
from ensemble_tools.archive.forest_file import Forest, read_forest
from ensemble_tools.archive.model_config import (
    ModelConfig,
    TensorSpec,
    number_data_type,
    parse_model_config,
    print_model_config,
)
from ensemble_tools.archive.model_file import (
    AOT_INDUCTOR,
    FOREST_FILES,
    ModelFile,
    find_model_file,
    find_named_file,
)
from ensemble_tools.archive.signatures import Signature, find_no_tensor, read_onnx, read_saved_model
from ensemble_tools.archive.torchscript_file import TORCHSCRIPT_ENTRY, read_arguments
from ensemble_tools.archive.zip_sizes import holds_entry
from ensemble_tools.errors import quoted

#: What is in a SavedModel's directory.
SAVED_MODEL = "saved_model.pb"
#: Backends that tell what a config lacks, unless configs are strict.
_COMPLETING = frozenset({"onnxruntime", "tensorflow", "tensorrt", "openvino", "dali", "vllm"})
#: A graph of TensorFlow's without signatures.
_GRAPH = "tensorflow_graphdef"
#: Tensors of one direction that a sentence names.
_MOST = 16
_WEIGHTS = (
    "and its tensors; but its file is no TorchScript, which pytorch loads: save the model with "
    "torch.jit.save"
)
_NO_TENSOR = (
    "and its tensors; but {} of its file is none, and ONNX Runtime's backend takes tensors alone: "
    "export it again (with skl2onnx: options={{'zipmap': False}})"
)
_UNKNOWN_TENSORS = "with the model's own types and shapes in the place of TYPE_FP32 and -1"


@dataclass(frozen=True)
class Advice:
    """What to write into a config that lacks inputs or outputs, on one line."""

    text: str
    #: What no file of the model tells, in words.
    unknown: str
    #: Whether the backend completes the config by itself where configs are not strict.
    completes: bool


@dataclass(frozen=True)
class Completion:
    """A config as it is served, and the file by which it was completed; or else what to write."""

    config: ModelConfig | None
    file: str = ""
    advice: Advice | None = None


@dataclass(frozen=True)
class _Described:
    """What a model's file says of its config."""

    #: The fields that the config needs beside its tensors.
    extras: pb.ModelConfig
    signature: Signature | None
    #: What the file leaves open, in words; empty where it leaves nothing.
    unknown: str = ""
    #: False where the backend does not take the file, whatever a config says.
    is_served: bool = True


def complete_config(
    config: ModelConfig | None, path: Path, version: Path, files: Collection[str]
) -> Completion:
    """The config with what its model's file says, where it lacks inputs or outputs; blocking.

    path: the config's own. version: the directory that is served, and what lies in it. Raises as
    read_with does.
    """
    delivered = config.message if config is not None else None
    if delivered is not None and (_is_whole(delivered) or _has_inputs_elsewhere(delivered)):
        return Completion(config)
    file = (
        find_model_file(version, files)
        if delivered is None
        else find_named_file(delivered, version, files)
    )
    described = _describe(file, version / file.name, delivered) if file is not None else None
    if file is None or described is None:
        return Completion(config)
    message = described.extras
    if delivered is None:
        _name_backend(message, file)
    if described.signature is not None:
        _declare(message, described.signature, delivered)
    if described.unknown:
        is_told = delivered is not None or not file.needs_naming
        completes = file.backend in _COMPLETING and file.platform != _GRAPH and is_told
        completes = completes and described.is_served
        return Completion(config, advice=Advice(_join_lines(message), described.unknown, completes))
    text = print_model_config(message)
    if config is not None:
        text = f"{config.text.rstrip()}\n{text}"
    return Completion(parse_model_config(text, path), file.name)


def _is_whole(message: pb.ModelConfig) -> bool:
    return bool(message.input) and bool(message.output)


def _has_inputs_elsewhere(message: pb.ModelConfig) -> bool:
    """Whether inputs of the model may be none of a request: controls, states, sizes of batches.

    A Python model beside the file, which a `runtime` names, knows its inputs itself.
    """
    return (
        bool(message.runtime)
        or message.HasField("sequence_batching")
        or bool(message.batch_input or message.batch_output)
    )


def _join_lines(message: pb.ModelConfig) -> str:
    """The backend first, as people write it."""
    rest = pb.ModelConfig()
    rest.CopyFrom(message)
    rest.ClearField("backend")
    text = text_format.MessageToString(rest, as_one_line=True, use_short_repeated_primitives=True)
    named = f'backend: "{message.backend}" ' if message.backend else ""
    return f"{named}{text.strip()}".strip()


def _describe(file: ModelFile, path: Path, message: pb.ModelConfig | None) -> _Described | None:
    is_directory = file.name.endswith("/")
    if file.backend == "fil" and not is_directory:
        return _Described(*describe_forest(read_forest(path) or Forest("xgboost"), message))
    signature: Signature | None = None
    if file.backend == "onnxruntime":
        onnx = path / "model.onnx" if is_directory else path
        signature = read_onnx(onnx)
        if signature is None and (name := find_no_tensor(onnx)):
            return _Described(pb.ModelConfig(), None, _NO_TENSOR.format(quoted(name)), False)
    elif file.backend == "tensorflow" and is_directory:
        inside = path / SAVED_MODEL  # a bare one has no directory of its own
        signature = read_saved_model(inside if is_file(inside) else path.parent / SAVED_MODEL)
    if signature is not None and message is not None and message.max_batch_size > 0:
        signature = _drop_batch(signature)
    if signature is not None:
        return _Described(pb.ModelConfig(), signature)
    return _guess(file, path) if file.backend != "python" else None


def _drop_batch(signature: Signature) -> Signature | None:
    """The tensors without their first dimension; None where that is no batch's."""
    tensors = (*signature.inputs, *signature.outputs)
    if any(tensor.dims[0] != -1 for tensor in tensors):
        return None
    inputs, outputs = (
        tuple(TensorSpec(it.name, it.data_type, it.dims[1:]) for it in some)
        for some in (signature.inputs, signature.outputs)
    )
    return Signature(inputs, outputs)


def _guess(file: ModelFile, path: Path) -> _Described:
    """The fields that the config of a file needs that says little of itself."""
    if file.backend == "vllm":
        group = pb.ModelInstanceGroup(count=1, kind=pb.ModelInstanceGroup.KIND_MODEL)
        unknown = "and the inputs and outputs of vLLM's backend"
        return _Described(pb.ModelConfig(instance_group=[group]), None, unknown)
    if file.backend == "pytorch":
        return _guess_torch(file, path)
    unknown = _UNKNOWN_TENSORS.replace("own", "own names,")
    return _Described(pb.ModelConfig(), _make_unknown_tensors(("INPUT",), ("OUTPUT",)), unknown)


def _guess_torch(file: ModelFile, path: Path) -> _Described:
    is_script = file.platform != AOT_INDUCTOR and is_file(path)
    if is_script and not holds_entry(path, TORCHSCRIPT_ENTRY):
        return _Described(pb.ModelConfig(), None, _WEIGHTS)
    known = read_arguments(path) if is_script else None
    inputs = known.inputs[:_MOST] if known else ("INPUT__0",)
    outputs = tuple(f"OUTPUT__{it}" for it in range(min(known.outputs, _MOST) if known else 1))
    return _Described(pb.ModelConfig(), _make_unknown_tensors(inputs, outputs), _UNKNOWN_TENSORS)


def _make_unknown_tensors(inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Signature:
    some = (
        tuple(TensorSpec(name, "TYPE_FP32", (-1,)) for name in names) for names in (inputs, outputs)
    )
    return Signature(*some)


def _name_backend(message: pb.ModelConfig, file: ModelFile) -> None:
    message.backend, message.platform = file.backend, file.platform
    needs_naming = file.needs_naming
    if file.backend == "fil":  # XGBoost's newer formats may be in a file that has the oldest's name
        model_type = str(message.parameters["model_type"].string_value)
        needs_naming = file.name != FOREST_FILES[model_type]
    if needs_naming:
        message.default_model_filename = file.name.rstrip("/")


def _declare(
    message: pb.ModelConfig, signature: Signature, delivered: pb.ModelConfig | None
) -> None:
    """Add the tensors that the config lacks."""
    if delivered is None or not delivered.input:
        _add(message.input, signature.inputs)
    if delivered is None or not delivered.output:
        _add(message.output, signature.outputs)


def _add(declared: Any, tensors: tuple[TensorSpec, ...]) -> None:
    for tensor in tensors:
        data_type = number_data_type(tensor.data_type)
        added = declared.add(name=tensor.name, data_type=data_type, dims=tensor.dims or (1,))
        if not tensor.dims:
            added.reshape.SetInParent()
