"""config.pbtxt <-> ModelConfig, and edits that keep every byte they do not mean to change.

A config may hold fields that our protobuf does not know (a newer Triton's). Printing the parsed
message would drop them, so published configs are the delivered text with single values replaced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.backend_names import ENSEMBLE
from ensemble_tools.archive.config_text import (
    Value,
    add_colons,
    check_characters,
    find_spans,
    find_values,
    replace_spans,
)
from ensemble_tools.archive.parser_messages import (
    NO_FIELD,
    describe_error,
    describe_unknown_field,
)
from ensemble_tools.errors import ConfigUnreadable

#: What merlin-systems writes into an executor's config.
EXECUTOR_PLATFORM = "merlin_executor"
#: Merlin's data types in Triton's words (merlin/dtypes/mappings/triton.py). Strings are no part of
#: it: numpy cannot cast to them as the executor asks it to.
TRITON_TYPES = {
    "bool": "TYPE_BOOL",
    "uint8": "TYPE_UINT8",
    "uint16": "TYPE_UINT16",
    "uint32": "TYPE_UINT32",
    "uint64": "TYPE_UINT64",
    "int8": "TYPE_INT8",
    "int16": "TYPE_INT16",
    "int32": "TYPE_INT32",
    "int64": "TYPE_INT64",
    "float16": "TYPE_FP16",
    "float32": "TYPE_FP32",
    "float64": "TYPE_FP64",
}


#: A parameter of a Python model: its own packages. Triton puts the model's directory in the place
#: of the prefix.
ENVIRONMENT, MODEL_DIRECTORY = "EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY"


@dataclass(frozen=True)
class TensorSpec:
    """An input or output as declared; dims without the batch dimension, -1 for any size."""

    name: str
    data_type: str
    dims: tuple[int, ...]
    optional: bool = False


@dataclass(frozen=True)
class ModelConfig:
    """A parsed config.pbtxt beside its own text."""

    text: str
    message: pb.ModelConfig
    #: Protobuf's sentence about a field that it does not know, with the line; empty where it
    #: knows all of them.
    unknown_field: str = ""

    @property
    def name(self) -> str:
        """The declared name; empty when the directory name is meant."""
        return str(self.message.name)

    @property
    def backend(self) -> str:
        """The declared backend; empty when Triton is to derive it."""
        return str(self.message.backend)

    @property
    def platform(self) -> str:
        """The declared platform, an older word for the backend."""
        return str(self.message.platform)

    @property
    def max_batch_size(self) -> int:
        """0: the dims are whole shapes. Above 0: a batch dimension stands before the dims."""
        return int(self.message.max_batch_size)

    @property
    def is_ensemble(self) -> bool:
        """Whether Triton runs this model as a graph of other models."""
        return self.platform == ENSEMBLE or self.message.HasField("ensemble_scheduling")

    @property
    def specific_versions(self) -> tuple[int, ...] | None:
        """The versions of a `version_policy` of the kind `specific`; None for any other policy."""
        policy = self.message.version_policy
        return tuple(policy.specific.versions) if policy.HasField("specific") else None

    @cached_property
    def inputs(self) -> dict[str, TensorSpec]:
        """Declared inputs by name, in order."""
        return {tensor.name: _read_tensor_spec(tensor) for tensor in self.message.input}

    @cached_property
    def outputs(self) -> dict[str, TensorSpec]:
        """Declared outputs by name, in order."""
        return {tensor.name: _read_tensor_spec(tensor) for tensor in self.message.output}

    @cached_property
    def steps(self) -> tuple[pb.ModelEnsembling.Step, ...]:
        """The ensemble's steps in declared order; none for other models.

        Their maps go from the model's tensor names to ensemble tensor names.
        """
        return tuple(self.message.ensemble_scheduling.step)

    def make_full_dims(self, tensor: TensorSpec) -> tuple[int, ...]:
        """The tensor's whole shape, batch dimension included, as Triton checks it."""
        return (-1, *tensor.dims) if self.max_batch_size > 0 else tensor.dims

    @property
    def environment(self) -> str:
        """A Python model's own packages, as the config names them; empty where it has none."""
        parameters = self.message.parameters
        return str(parameters[ENVIRONMENT].string_value) if ENVIRONMENT in parameters else ""

    @property
    def environment_beside(self) -> str:
        """The path from the model's directory to an execution environment beside it.

        Empty where it has none, or one inside of the directory.
        """
        path = self.environment.removeprefix(MODEL_DIRECTORY)
        climbs = path != self.environment and ".." in PurePosixPath(path).parts
        return path.lstrip("/") if climbs else ""

    def renamed(self, name: str, steps: Mapping[str, str], environment: str = "") -> str:
        """The text with the model's own name, and those of its ensemble steps, replaced.

        A name that is not declared is left undeclared, since Triton then takes the directory's. So
        it does for groups of instances, whose names go: the Python backend gives them to a shell up
        to 25.07, later it refuses some (stub_launcher.cc), and they may be another model's.
        environment: where in the model's directory one is found that lies beside it.
        """
        beside = f"{MODEL_DIRECTORY}/{self.environment_beside}" if environment else None
        edits = []
        for path, start, end, value in find_values(self.text):
            if path == ("name",):
                edits.append((start, end, name))
            elif path == (*_STEP, "model_name"):
                edits.append((start, end, steps[value]))
            elif path == _GROUP_NAME:
                edits.append((start, end, ""))
            elif path == _PARAMETER and beside and _is_same_path(value, beside):
                edits.append((start, end, f"{MODEL_DIRECTORY}/{environment}"))
        return replace_spans(self.text, edits)


_PARAMETER = ("parameters", "value", "string_value")
_LABELS = "label_filename"
_BATCHING, _SIZE = "dynamic_batching", "max_queue_size"
_MOST_QUEUED = {
    (_BATCHING, "default_queue_policy", _SIZE),
    (_BATCHING, "priority_queue_policy", "value", _SIZE),
}
_GROUP_NAME = ("instance_group", "name")
_STEP = ("ensemble_scheduling", "step")


def parse_model_config(text: str, path: Path) -> ModelConfig:
    """Read the text of a config.pbtxt; raises ConfigUnreadable with the line where it stops."""
    check_characters(text, path)
    try:
        return _of_latest(ModelConfig(text, text_format.Parse(text, pb.ModelConfig())))
    except text_format.ParseError as strict:
        try:
            message = parse_leniently(text)
        except text_format.ParseError as lenient:
            error = lenient if NO_FIELD.search(str(strict)) else strict
            raise ConfigUnreadable(path, describe_error(error), error.GetLine()) from strict
        except RecursionError as error:
            raise ConfigUnreadable(path, "it is nested too deeply") from error
        return ModelConfig(text, message, describe_unknown_field(strict))
    except RecursionError as error:
        raise ConfigUnreadable(path, "it is nested too deeply") from error


def _of_latest(config: ModelConfig) -> ModelConfig:
    """An ensemble's steps that name no version are of the latest one.

    That is what is meant by a config that leaves it out: 0, which Triton then takes, is a version
    that no archive has.
    """
    steps = config.message.ensemble_scheduling.step
    text = config.text
    spans = [*_find_versions(text)] if any(step.model_version == 0 for step in steps) else []
    for step, (start, end) in [*zip(steps, spans, strict=False)][::-1]:
        if step.model_version == 0:
            step.model_version = -1
            version = "-1" if start < end else " model_version: -1 "
            text = f"{text[:start]}{version}{text[end:]}"
    return ModelConfig(text, config.message)


def parse_leniently(text: str) -> pb.ModelConfig:
    """The known fields of a config, without the others; raises ParseError."""
    try:
        return text_format.Parse(text, pb.ModelConfig(), allow_unknown_field=True)
    except text_format.ParseError:
        return text_format.Parse(add_colons(text), pb.ModelConfig(), allow_unknown_field=True)


def count_served_versions(message: pb.ModelConfig, there: Collection[int]) -> int:
    """How many of the versions that are there tritonserver serves, by the config's policy."""
    policy = message.version_policy
    if policy.HasField("specific"):
        return len({*policy.specific.versions} & {*there})
    if policy.HasField("all"):
        return len(there)
    count = policy.latest.num_versions if policy.HasField("latest") else 1
    return min(len(there), int(count))


def label_files(text: str) -> tuple[str, ...]:
    """The files that a config's outputs name for their labels, as it names them."""
    if _LABELS not in text:
        return ()
    outputs = parse_leniently(text).output
    return tuple(dict.fromkeys(it.label_filename for it in outputs if it.label_filename))


def find_queue_bound(message: pb.ModelConfig) -> int:
    """How many requests may wait in the model's queue, the least of its levels; 0: any number."""
    batching = message.dynamic_batching
    policies = [batching.default_queue_policy, *batching.priority_queue_policy.values()]
    return min((it.max_queue_size for it in policies if it.max_queue_size), default=0)


def drop_queue_bound(text: str) -> str:
    """The text of a config whose queues take any number of requests."""
    bounds = [value for value in find_values(text) if value.path in _MOST_QUEUED]
    for value in reversed(bounds):
        text = f"{text[: value.start]}0{text[value.end :]}"
    return text


def put_on_cpu(text: str) -> str:
    """The text of a config, each of whose instance groups is on the CPU; all else as it was."""
    groups = parse_leniently(text).instance_group or [pb.ModelInstanceGroup()]
    for group in groups:
        group.kind = pb.ModelInstanceGroup.KIND_CPU
        del group.gpus[:]
    written = print_model_config(pb.ModelConfig(instance_group=groups))
    spans = [*find_spans(text, "instance_group")] or [(0, 0)]
    for start, end in reversed(spans):
        text = f"{text[:start]}{written if start == spans[0][0] else ''}{text[end:]}"
    return text


def print_model_config(message: pb.ModelConfig) -> str:
    """The text form that Triton reads."""
    return str(text_format.MessageToString(message))


def _read_tensor_spec(tensor: pb.ModelInput | pb.ModelOutput) -> TensorSpec:
    return TensorSpec(
        name=tensor.name,
        data_type=name_data_type(tensor.data_type),
        dims=tuple(tensor.dims),
        optional=bool(getattr(tensor, "optional", False)),
    )


def name_data_type(number: int) -> str:
    """Its name; a newer Triton's, which our protobuf does not know, as `data type 99`."""
    known = number in pb.DataType.values()
    return str(pb.DataType.Name(number)) if known else f"data type {number}"


def number_data_type(name: str) -> int:
    """The number of a data type that name_data_type named."""
    known = name in pb.DataType.keys()  # noqa: SIM118 (protobuf's wrapper is no mapping)
    return int(pb.DataType.Value(name)) if known else int(name.removeprefix("data type "))


def declare_input(spec: TensorSpec, name: str = "") -> pb.ModelInput:
    """The tensor, under another name if there is one."""
    data_type = number_data_type(spec.data_type)
    return pb.ModelInput(name=name or spec.name, data_type=data_type, dims=spec.dims)


def declare_output(spec: TensorSpec, name: str = "") -> pb.ModelOutput:
    """The declaration of an output."""
    data_type = number_data_type(spec.data_type)
    return pb.ModelOutput(name=name or spec.name, data_type=data_type, dims=spec.dims)


def _find_versions(text: str) -> Iterator[tuple[int, int]]:
    """From where to where each step's version goes; where it has none, the position behind its
    bracket."""
    version: Value | None = None
    for value in find_values(text):
        if value.path == (*_STEP, "model_version"):
            version = value
        elif value.path == _STEP:
            inside = value.start + 1
            yield (inside, inside) if version is None else (version.start, version.end)
            version = None


def _is_same_path(value: str, other: str) -> bool:
    return value.startswith(MODEL_DIRECTORY) and PurePosixPath(value) == PurePosixPath(other)
