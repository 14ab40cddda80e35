"""Holds a config.pbtxt's demands against what the machine and tritonserver have.

tritonserver does as it is told: it allocates a warm-up's tensors and a sequence batcher's slots
whatever they come to, starts as many instances as are named, and loads a shared library that lies
where a model lies. The first ends it, with the models of all tenants; the last runs an archive's
code in it. So each such field is refused here, before tritonserver sees it, with what was found and
what is allowed. Warm-ups, slots, states and labels of metrics were seen to end 2.36 and 2.51.

Numbers are Python's here, so that no product of them overflows.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from ensemble_tools.archive.files import followed, is_directory, is_file, size_of
from ensemble_tools.archive.instance_groups import find_instances
from ensemble_tools.archive.model_config import (
    ENVIRONMENT,
    MODEL_DIRECTORY,
    TRITON_TYPES,
    ModelConfig,
    TensorSpec,
    count_served_versions,
    name_data_type,
)
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.archive.source_model import SourceModel
from ensemble_tools.errors import NAMED_COLUMNS, DemandRefused, quoted

#: Of the machine's memory, what one model's warm-up or its sequences' states may take.
_SHARE = 4
#: A bare python instance: a process of 38 MB.
_PYTHON_INSTANCE_BYTES = 38 * 1024 * 1024
#: What tritonserver keeps for a request that it prepares, and for a slot of a sequence batcher;
#: both are some hundred bytes, a queue's first block among them.
_REQUEST_BYTES, _SLOT_BYTES = 4096, 1024
#: Runs of one warm-up sample; each is an inference, and the load waits for all.
MAX_WARMUP_RUNS = 1_000
#: Rows of one request: what is more has been mistyped.
MAX_BATCH = 2**24
#: Labels are read into tritonserver's memory.
MAX_LABEL_BYTES = 64 * 1024 * 1024
#: Bytes of a value by its type; a text is at least its length.
_SIZES = {
    **{data_type: np.dtype(name).itemsize for name, data_type in TRITON_TYPES.items()},
    "TYPE_BF16": 2,
    "TYPE_STRING": 4,
}
_LARGEST_SIZE = 8
#: Bytes that no machine has.
_NO_MACHINE = 2**60
#: A backend's and a library's name: what follows a `/` would be looked for elsewhere.
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
#: Names of a metric's labels; tritonserver ends itself at others when it has metrics, and puts a
#: `_` in front of each, after which no other may follow.
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*")
#: Libraries that tritonserver loads from a model's directory or a version's (GetBackendLibrary…,
#: TritonModel::Create), whichever of them are there.
_LIBRARY = re.compile(r"libtriton_.*\.so|batchstrategy\.so|libtritonrepoagent_.*\.so", re.DOTALL)
_BATCH_LIBRARY = "TRITON_BATCH_STRATEGY_PATH"
#: Parameters by which backends start threads: onnxruntime, pytorch, tensorflow, openvino.
_THREADS = re.compile(r".*(thread|num_streams).*", re.IGNORECASE | re.DOTALL)


def _read_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _count_most_instances() -> int:
    """Each of a Python model is a process of its own; more than there are CPUs gain nothing."""
    return max(16, len(os.sched_getaffinity(0)))


@dataclass(frozen=True)
class Limits:
    """The machine's memory, instances and GPUs."""

    #: The machine's memory, or the container's where that is less.
    memory_bytes: int = field(default_factory=_read_memory)
    #: The most instances of one model, over all its groups and served versions.
    instances: int = field(default_factory=_count_most_instances)
    #: How many GPUs there are.
    gpus: int = 0


def check_demands(
    repository: ModelRepository, models: Iterable[SourceModel], limits: Limits
) -> None:
    """Raise DemandRefused for the first field that asks for too much, or for what it may not.

    models: that are served; the entry model's config is looked at in any case. Looks at files'
    sizes.
    """
    processes, served = 0, {repository.entry.name, *(model.name for model in models)}
    for model in (it for name, it in repository.models.items() if name in served):
        _check_libraries(model)
        if model.config is None:
            continue
        demands = _Demands(model, model.config, repository.path, limits)
        demands.check()
        if model.python_file is not None:
            processes += demands.instances
        if processes * _PYTHON_INSTANCE_BYTES > limits.memory_bytes:
            raise DemandRefused(
                model.config_path,
                "instance_group",
                f"is the one with which the archive's python models come to {processes} processes",
                f"expected at most {limits.memory_bytes // _PYTHON_INSTANCE_BYTES}, of which each "
                "takes 38 MB and more: lower `count`",
            )


def _check_libraries(model: SourceModel) -> None:
    paths = [*model.entries]
    for version, files in model.payload.items():
        paths += [f"{version}/{name}" for name in files]
    runtime = str(model.config.message.runtime) if model.config else ""
    for path in paths:
        name = path.rstrip("/").rpartition("/")[2]
        if _LIBRARY.fullmatch(name) or (name == runtime and runtime != "model.py"):
            raise DemandRefused(
                model.config_path,
                "runtime" if name == runtime else "backend",
                f"would have tritonserver load the library {quoted(path)} into itself",
                "backends are part of the image, not of an archive: remove it",
            )


class _Demands:
    """The demands of one model's config."""

    def __init__(
        self,
        model: SourceModel,
        config: ModelConfig,
        archive: Path,
        limits: Limits,
    ) -> None:
        self._model, self._config, self._archive, self._limits = model, config, archive, limits
        self._message: Any = config.message
        self.instances = self._count_instances()

    def check(self) -> None:
        """Check all fields, in the order in which Triton's documentation has them."""
        self._check_names()
        self._check_tensors()
        self._check_instances()
        self._check_sequences()
        self._check_warmup()
        self._check_parameters()

    # -- names that become paths

    def _check_names(self) -> None:
        message = self._message
        for name in ("backend", "platform", "runtime"):
            self._check_plain(name, str(getattr(message, name)))
        for agent in message.model_repository_agents.agents:
            self._check_plain("model_repository_agents.agents.name", agent.name)
            for key in agent.parameters:
                self._check_inside("model_repository_agents.agents.parameters", key.split(":")[-1])
        for library in message.model_operations.op_library_filename:
            raise self._refuse(
                "model_operations.op_library_filename",
                f"would have tritonserver load the library {quoted(library)} into itself",
                "libraries are part of the image, not of an archive: remove it",
            )
        for key in message.metric_tags:
            if not _LABEL.fullmatch(key):
                raise self._refuse(
                    "metric_tags",
                    f"has the key {quoted(key)}",
                    "expected letters, digits and `_`, no `_` first",
                )

    def _check_plain(self, field_name: str, name: str) -> None:
        if name and not _PLAIN_NAME.fullmatch(name):
            raise self._refuse(
                field_name,
                f"is {quoted(name)}",
                "expected a name of letters, digits, `_`, `-`, `+` and dots",
            )

    def _check_inside(self, field_name: str, name: str) -> None:
        parts = PurePosixPath(name).parts
        if name.startswith("/") or ".." in parts or not name.isprintable():
            raise self._refuse(
                field_name, f"is {quoted(name)}", "expected a file in the model's own directory"
            )

    def _measure_file(self, folder: str, name: str) -> int:
        """The bytes of a file that the config names (config_files.py); 0 for none: Triton tells."""
        return size_of(self._model.directory / folder / name) or 0

    # -- sizes

    def _check_tensors(self) -> None:
        message = self._message
        if not 0 <= message.max_batch_size <= MAX_BATCH:
            raise self._refuse(
                "max_batch_size", f"is {message.max_batch_size}", f"expected 0 to {MAX_BATCH}"
            )
        for field_name in ("input", "output"):
            for tensor in getattr(message, field_name):
                self._check_dims(f"{field_name}.dims", tensor.dims)
                size = _measure_tensor(tensor.data_type, tensor.dims)
                if size > self._limits.memory_bytes:
                    raise self._refuse_size(f"{field_name}.dims", size, self._limits.memory_bytes)
        for tensor in message.output:
            size = self._measure_file("", str(tensor.label_filename))
            if size > MAX_LABEL_BYTES:
                raise self._refuse_size("output.label_filename", size, MAX_LABEL_BYTES)

    def _check_dims(self, field_name: str, dims: Iterable[int]) -> None:
        """2.36 ends itself at a warm-up of -5."""
        if any(size < -1 for size in dims):
            raise self._refuse(
                field_name, f"has a size of {min(dims)}", "expected sizes, or -1 for any"
            )

    def _count_instances(self) -> int:
        """Processes or threads: of all groups, for each version that is served."""
        version_count = find_instances(self._message, self._limits.gpus).count
        return version_count * max(1, self._count_served_versions())

    def _count_served_versions(self) -> int:
        return count_served_versions(self._message, self._model.versions)

    def _check_instances(self) -> None:
        if self.instances > self._limits.instances:
            raise self._refuse(
                "instance_group",
                f"comes to {self.instances} instances of the model",
                f"expected at most {self._limits.instances}: lower `count`",
            )

    def _check_sequences(self) -> None:
        batching = self._message.sequence_batching
        if not self._message.HasField("sequence_batching"):
            return
        oldest = batching.HasField("oldest")
        slots = max(
            1, batching.oldest.max_candidate_sequences if oldest else self._message.max_batch_size
        )
        name = "sequence_batching.oldest.max_candidate_sequences" if oldest else "max_batch_size"
        states = list(batching.state)
        size = sum(_measure_tensor(state.data_type, state.dims) for state in states)
        first = 0
        for state in states:
            self._check_dims("sequence_batching.state.dims", state.dims)
            for initial in state.initial_state:
                self._check_dims("sequence_batching.state.initial_state.dims", initial.dims)
                first += self._measure_file("initial_state", str(initial.data_file))
                first += _measure_tensor(initial.data_type, initial.dims)
        allowed = self._limits.memory_bytes // _SHARE
        if slots * _SLOT_BYTES * self.instances > allowed:
            raise self._refuse_size(name, slots * _SLOT_BYTES * self.instances, allowed)
        if size * slots * self.instances + first > allowed:
            states_size = size * slots * self.instances + first
            raise self._refuse_size("sequence_batching.state.dims", states_size, allowed)

    def _check_warmup(self) -> None:
        """As TritonModelInstance::GenerateWarmupData allocates, for each instance: all samples."""
        allowed, total = self._limits.memory_bytes // _SHARE, 0
        for sample in self._message.model_warmup:
            if sample.count > MAX_WARMUP_RUNS:
                raise self._refuse(
                    "model_warmup.count",
                    f"is {sample.count}",
                    f"expected at most {MAX_WARMUP_RUNS} runs",
                )
            total += self._measure_sample(sample)
            if total * self.instances > allowed:
                raise self._refuse_size("model_warmup", total * self.instances, allowed)
            self._check_sample(sample)

    def _check_sample(self, sample: Any) -> None:
        """A sample that is no request of the model's. 2.36 and 2.51 end themselves at more rows
        than a batch may have; of all else they say what is wrong, but not that it is a warm-up's.
        """
        at = f"model_warmup[{quoted(sample.name)}]"
        most = max(1, self._message.max_batch_size)
        if sample.batch_size > most:
            raise self._refuse(
                f"{at}.batch_size",
                f"is {sample.batch_size}",
                f"expected at most {most}, as max_batch_size is {self._message.max_batch_size}",
            )
        for name, tensor in self._config.inputs.items():
            if name in sample.inputs:
                self._check_sample_input(at, tensor, sample.inputs[name])
            elif not tensor.optional:
                names = ", ".join(map(quoted, sorted(sample.inputs)[:NAMED_COLUMNS])) or "none"
                raise self._refuse(
                    f"{at}.inputs",
                    f"lacks the model's input {quoted(name)} (found {names})",
                    "expected each input that is not optional",
                )

    def _check_sample_input(self, sample: str, declared: TensorSpec, value: Any) -> None:
        at = f"{sample}.inputs[{quoted(declared.name)}]"
        data_type = name_data_type(value.data_type)
        if data_type != declared.data_type:
            raise self._refuse(
                f"{at}.data_type",
                f"is {data_type}",
                f"expected {declared.data_type}, as the input is",
            )
        if any(size < 0 for size in value.dims):
            raise self._refuse(f"{at}.dims", "leaves a size open", "expected a size for each")
        if len(value.dims) != len(declared.dims) or any(
            size not in (-1, length) for size, length in zip(declared.dims, value.dims, strict=True)
        ):
            raise self._refuse(
                f"{at}.dims",
                f"is {[*value.dims]}",
                f"expected {[*declared.dims]}, as the input has",
            )
        if value.WhichOneof("input_data_type") is None:
            raise self._refuse(
                at,
                "has no values",
                "expected one of zero_data, random_data and input_data_file",
            )
        file = str(value.input_data_file)
        if file and not is_file(self._model.directory / "warmup" / file):
            raise self._refuse(
                f"{at}.input_data_file",
                f"is {quoted(file)}, which warmup/ has not",
                "expected one, or zero_data or random_data",
            )

    def _measure_sample(self, sample: Any) -> int:
        """Every request of the batch refers to its tensors, and the backend copies them."""
        row = _REQUEST_BYTES
        for value in sample.inputs.values():
            self._check_dims("model_warmup.inputs.dims", value.dims)
            size = _measure_tensor(value.data_type, value.dims)
            if value.WhichOneof("input_data_type") == "input_data_file":
                size = max(size, self._measure_file("warmup", str(value.input_data_file)))
            row += _REQUEST_BYTES + size
        return int(row * sample.batch_size)

    # -- parameters

    def _check_parameters(self) -> None:
        for key, text in _list_texts(self._message.parameters):
            if key == ENVIRONMENT:
                self._check_environment(text)
            elif key == _BATCH_LIBRARY:
                raise self._refuse(
                    f"parameters[{key}]",
                    f"would have tritonserver load the library {quoted(text)} into itself",
                    "libraries are part of the image, not of an archive: remove it",
                )
            elif _THREADS.fullmatch(key):
                self._check_threads(key, text)

    def _check_environment(self, text: str) -> None:
        """Unpacked by tritonserver, which reads whatever is named."""
        here = text.startswith(MODEL_DIRECTORY)
        named = f"{self._model.directory}/{text[len(MODEL_DIRECTORY) :]}" if here else text
        climbs = "\0" in text or (self._may_not_climb and ".." in PurePosixPath(text).parts)
        if (here or os.path.isabs(text)) and not climbs and self._is_inside(named):
            return
        raise self._refuse(
            f"parameters[{ENVIRONMENT}]",
            f"is {quoted(text)}, which is no file of the archive",
            f"put the environment into the model's directory and write `{MODEL_DIRECTORY}/<file>`, "
            f"or beside it and write `{MODEL_DIRECTORY}/../<file>`",
        )

    @property
    def _may_not_climb(self) -> bool:
        """Files beside Merlin's executor do not lie beside the steps that it becomes."""
        return self._model.graph_path is not None

    def _is_inside(self, named: str) -> bool:
        if not (is_file(Path(named)) or is_directory(Path(named))):
            return False
        return (followed(named) + "/").startswith(followed(str(self._archive)) + "/")

    def _check_threads(self, key: str, text: str) -> None:
        most = max(64, 4 * len(os.sched_getaffinity(0)))
        number = text.strip().lstrip("+0") if text.strip().lstrip("+").isdecimal() else ""
        if number and (len(number) > 9 or int(number) > most):
            raise self._refuse(
                f"parameters[{quoted(key)}]",
                f"is {quoted(text)}",
                f"expected at most {most} threads on this machine",
            )

    # -- what is said

    def _refuse_size(self, field_name: str, found: int, allowed: int) -> DemandRefused:
        return self._refuse(
            field_name,
            f"comes to {_show_size(found)}",
            f"expected at most {_show_size(allowed)} on this machine",
        )

    def _refuse(self, field_name: str, found: str, allowed: str) -> DemandRefused:
        return DemandRefused(self._model.config_path, field_name, found, allowed)


def _list_texts(parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key in parameters:
        yield str(key), str(parameters[key].string_value)


def _measure_tensor(data_type: int, dims: Iterable[int]) -> int:
    """The bytes of one row; an open dimension counts as one, as Triton takes no other."""
    size = _SIZES.get(name_data_type(data_type), _LARGEST_SIZE)
    for dim in dims:
        size *= dim if dim >= 0 else 1
        if size > _NO_MACHINE:  # a product of many more would take its time
            break
    return size


def _show_size(size: int) -> str:
    if size >= _NO_MACHINE:
        return "more memory than any machine has"
    return f"{math.ceil(size / 2**20)} MiB"
