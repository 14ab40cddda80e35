"""Models -> models of which one process runs all steps of an ensemble. No I/O.

tritonserver runs each step in a process of its own. Where the steps are compiled workflows,
conversions and operators of Merlin's, which need no Merlin, and predictors of one library that
follow each other, a child of that library's warm interpreter runs them all: an export is then one
process and its child, and a request passes one of each. An operator whose own library takes long
to import has an interpreter that has PyTorch as well, and so has a workflow with functions, which
run in pandas.

An ensemble stays what it is where a config asks tritonserver for anything that it does between two
steps, such as batches or several instances, where a step is used by others as well, or is code of
the archive's own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.backend_names import name_backend
from ensemble_tools.archive.model_config import ENVIRONMENT, name_data_type, print_model_config
from ensemble_tools.serving.serving_plan import STEPS, PublishedModel
from ensemble_tools.steps.sources import SERVED, StepRow, render_joined, render_warm
from ensemble_tools.workflows.program import NVTABULAR, PANDAS

#: Fields that a config may have; of any other nobody but tritonserver knows what follows.
_ENSEMBLE_FIELDS = frozenset({"name", "platform", "input", "output", "ensemble_scheduling"})
_STEP_FIELDS = frozenset(
    {
        *("name", "platform", "backend", "input", "output", "instance_group", "parameters"),
        "default_model_filename",
    }
)
_TENSOR_FIELDS = frozenset({"name", "data_type", "dims"})
_GROUP_FIELDS = frozenset({"name", "kind", "count"})
_ON_CPU = (pb.ModelInstanceGroup.KIND_AUTO, pb.ModelInstanceGroup.KIND_CPU)
#: A generated step that calls other models: tritonserver's stub alone can.
_CALLS = "InferenceRequest("
#: One that draws random numbers: functions that set a seed would set its seed as well.
_DRAWS = "np.random."

#: The predictors' library that interpreters of operators have as well (container.warm.libraries).
_BESIDE_OPERATORS = "torch"
#: The interpreter of workflows that are compiled in part that has PyTorch as well.
_PANDAS_AND_TORCH = "torch-pandas"

#: Merlin's exports have some ten steps. More, and configs of more characters, are not looked at:
#: who writes them may write very many.
_MOST_STEPS, _LONGEST_CONFIG = 100, 256 * 1024

_Configs = Mapping[str, pb.ModelConfig]


@dataclass(frozen=True)
class Predictor:
    """The Python model that plays a backend in a child."""

    #: The library that its interpreter has imported.
    library: str
    #: The file with the TritonPythonModel.
    model_file: Path


@dataclass(frozen=True)
class _Step:
    """A model, and where its model.py lies: absolute, or in the directory of the joined model."""

    model: PublishedModel
    config: pb.ModelConfig
    model_file: str
    version: str
    #: The predictor's library.
    library: str = ""
    #: The warm interpreter that an operator, or a workflow with functions, would have.
    interpreter: str = ""

    @property
    def runs_functions(self) -> bool:
        """Whether functions of the user's run in it."""
        return self.interpreter == PANDAS


class _Apart(Exception):
    """Why an ensemble's steps are not joined, for people."""


def join_steps(
    models: tuple[PublishedModel, ...], called: Iterable[str], predictors: Mapping[str, Predictor]
) -> tuple[tuple[PublishedModel, ...], tuple[str, ...]]:
    """The models, and why an ensemble's steps are processes of their own; a sentence for each.

    called: models that others call by name. predictors: what children run for a backend, by the
    backend's name.
    """
    by_name = {model.triton_name: model for model in models}
    try:
        configs = {name: _read_config(model) for name, model in by_name.items()}
    except _Apart as why:
        ensembles = any("ensemble_scheduling" in (it.config_text or "") for it in models)
        return models, (str(why),) if ensembles else ()
    inner = Counter(
        scheduled.model_name for config in configs.values() for scheduled in _steps_of(config)
    )
    used = inner + Counter(called)
    joined: dict[str, PublishedModel] = {}
    not_joined = []
    for name, config in configs.items():
        if not config.HasField("ensemble_scheduling"):
            continue
        try:
            if name in inner:
                raise _Apart("it is a step itself")
            if _find_versions(by_name[name]) != {"1"}:
                raise _Apart("its version is not 1")
            joined[name] = _join(
                by_name[name], config, _find_steps(config, by_name, configs, used, predictors)
            )
        except _Apart as why:
            not_joined.append(f"{by_name[name].source_name}: {why}")
    inside = {step.triton_name for model in joined.values() for step in model.steps}
    left = (model for model in models if model.triton_name not in inside)
    return tuple(joined.get(model.triton_name, model) for model in left), tuple(not_joined)


def _read_config(model: PublishedModel) -> pb.ModelConfig:
    """Raises _Apart for one that is very long, or that only a newer Triton knows."""
    text = model.config_text or ""
    try:
        if len(text) <= _LONGEST_CONFIG:
            return text_format.Parse(text, pb.ModelConfig())
    except (text_format.ParseError, RecursionError):
        pass
    raise _Apart(f"the config of {model.source_name} has what only tritonserver may know")


def _steps_of(config: pb.ModelConfig) -> list[Any]:
    return list(config.ensemble_scheduling.step)


def _find_steps(
    config: pb.ModelConfig,
    models: Mapping[str, PublishedModel],
    configs: _Configs,
    used: Mapping[str, int],
    predictors: Mapping[str, Predictor],
) -> list[_Step]:
    """The steps in the order in which they can be run; raises _Apart.

    used: how often each model is a step, or called.
    """
    _check_fields("the ensemble", config, _ENSEMBLE_FIELDS)
    count = len(_steps_of(config))
    if not 1 < count <= _MOST_STEPS:
        counted = "one step" if count == 1 else f"{count} steps"
        raise _Apart(f"it has {counted}, and 2 to {_MOST_STEPS} are joined")
    steps, order = [], _order(config)
    for scheduled in order:
        name = scheduled.model_name
        if name not in models:
            raise _Apart("it names a step that is not there")
        step = _find_step(models[name], configs[name], predictors)
        if str(scheduled.model_version) not in ("-1", step.version):
            raise _Apart(
                f"it asks for version {scheduled.model_version} of the step "
                f"{step.model.source_name}, "
                f"which has version {step.version}"
            )
        if used[name] != 1:
            raise _Apart(f"the step {step.model.source_name} is used more than once")
        if {*scheduled.input_map} != {tensor.name for tensor in step.config.input}:
            raise _Apart(f"not every input of the step {step.model.source_name} is mapped")
        steps.append(step)
    if len(steps) == count:
        _check_predictors(steps, order)
        _check_functions(steps)
    if len(steps) < count or not _are_wired(config, order, configs):
        raise _Apart("its tensors do not go together; tritonserver says how")
    return steps


def _check_predictors(steps: Iterable[_Step], order: Iterable[Any]) -> None:
    """Raises _Apart unless predictors are of one library, and none could run beside another one."""
    libraries = {step.library for step in steps if step.library}
    if len(libraries) != 1 and (libraries or not any(step.interpreter for step in steps)):
        named = ", ".join(sorted(libraries)) or "none"
        raise _Apart(f"its predictors are to be of one library, and are of {named}")
    behind: dict[str, set[str]] = {}
    last: str | None = None
    for step, scheduled in zip(steps, order, strict=True):
        above = {name for tensor in scheduled.input_map.values() for name in behind.get(tensor, ())}
        if step.library:
            if last is not None and last not in above:
                raise _Apart("tritonserver runs its predictors side by side")
            last = scheduled.model_name
            above.add(last)
        behind.update(dict.fromkeys(scheduled.output_map.values(), above))


def _check_functions(steps: Sequence[_Step]) -> None:
    """Raises _Apart where functions would meet what they do not in a process of their own.

    They import what lies beside their workflow, by names that another one may have as well.
    """
    if not any(step.runs_functions for step in steps):
        return
    if sum(step.model.compiled is not None for step in steps) > 1:
        raise _Apart("one of its workflows is compiled in part, and there are others beside it")
    others = {step.library for step in steps} - {"", _BESIDE_OPERATORS}
    if others:
        raise _Apart(f"its workflow is compiled in part, and its predictor one of {others.pop()}")
    for step in steps:
        if step.model.generated and any(_DRAWS in text for _, text in step.model.files):
            raise _Apart(
                f"a workflow is compiled in part, and the step {step.model.source_name} may draw "
                "random numbers"
            )


def _are_wired(config: pb.ModelConfig, order: Iterable[Any], configs: _Configs) -> bool:
    """Whether all ends of each tensor agree and each is used: tritonserver refuses others."""
    written = {tensor.name: tensor for tensor in config.input}
    read: set[str] = set()
    for scheduled in order:
        step = configs[scheduled.model_name]
        inputs = {tensor.name: tensor for tensor in step.input}
        outputs = {tensor.name: tensor for tensor in step.output}
        if not {*scheduled.output_map} <= outputs.keys():
            return False
        if not all(_agree(written[it], inputs[name]) for name, it in scheduled.input_map.items()):
            return False
        read.update(scheduled.input_map.values())
        for name, it in scheduled.output_map.items():
            if it in written:
                return False
            written[it] = outputs[name]
    answered = {tensor.name for tensor in config.output}
    agree = all(_agree(written[tensor.name], tensor) for tensor in config.output)
    return agree and written.keys() == read | answered


def _agree(first: Any, other: Any) -> bool:
    """Whether they are of one type and rank, and of one length where both say it."""
    pairs = zip(first.dims, other.dims, strict=False)
    return (
        first.data_type == other.data_type
        and len(first.dims) == len(other.dims)
        and all(-1 in pair or pair[0] == pair[1] for pair in pairs)
    )


def _find_step(
    model: PublishedModel, config: pb.ModelConfig, predictors: Mapping[str, Predictor]
) -> _Step:
    """Raises _Apart where a child cannot run it as tritonserver would."""
    step = f"the step {model.source_name}"
    if model.may_use_gpu:
        raise _Apart(f"{step} may use a GPU, and has a process of its own")
    _check_fields(step, config, _STEP_FIELDS)
    if ENVIRONMENT in config.parameters:  # not those that the interpreter has imported
        raise _Apart(f"{step} has packages of its own ({ENVIRONMENT})")
    groups = config.instance_group
    if (
        len(groups) > 1
        or any(_fields(group) - _GROUP_FIELDS for group in groups)
        or any(group.count > 1 or group.kind not in _ON_CPU for group in groups)
    ):
        raise _Apart(f"{step} asks for more than one instance on the CPU (instance_group)")
    versions = _find_versions(model)
    if len(versions) != 1:
        raise _Apart(f"{step} has {len(versions)} versions")
    (version,) = versions
    folder = f"{Path(STEPS).name}/{model.triton_name}"
    if model.compiled is not None:
        interpreter = model.compiled.program.interpreter
        if interpreter == NVTABULAR:
            raise _Apart(f"{step} is compiled in part, and needs NVTabular")
        path = f"{folder}/{model.compiled.model_file}"
        return _Step(model, config, path, version, interpreter=interpreter)
    if model.generated and (model.interpreter or not model.warm):
        ((path, text),) = model.files
        if _CALLS in text:
            raise _Apart(f"{step} calls other models")
        return _Step(model, config, f"{folder}/{path}", version, interpreter=model.interpreter)
    backend = name_backend(config)
    predictor = predictors.get(backend)
    if predictor is None:
        what = "NVTabular itself" if model.not_compiled else f"run by the backend {backend!r}"
        raise _Apart(f"{step} is {what}")
    return _Step(model, config, str(predictor.model_file), version, predictor.library)


def _check_fields(what: str, config: pb.ModelConfig, known: frozenset[str]) -> None:
    """Raises _Apart for a config that asks tritonserver for more than to run the model."""
    if more := sorted(_fields(config) - known):
        raise _Apart(f"the config of {what} has {', '.join(more)}")
    if not _are_plain(config):
        raise _Apart(f"the config of {what} says more of a tensor than name, data_type and dims")


def _find_versions(model: PublishedModel) -> set[str]:
    names = [name.partition("/")[0] for name, _ in (*model.links, *model.files)]
    numbers = {name for name in names if name.isascii() and name.isdigit()}
    return numbers | {str(version) for version in model.empty_versions}


def _fields(message: Any) -> set[str]:
    return {field.name for field, _ in message.ListFields()}


def _are_plain(config: pb.ModelConfig) -> bool:
    """Whether its tensors, of which it has some, are given as they come."""
    tensors = [*config.input, *config.output]
    plain = all(
        not _fields(tensor) - _TENSOR_FIELDS and tensor.name.isprintable() for tensor in tensors
    )
    return plain and bool(config.input) and bool(config.output)


def _order(config: pb.ModelConfig) -> list[Any]:
    """The steps, each after those whose tensors it reads; without those that never can be run."""
    there, order = {tensor.name for tensor in config.input}, []
    waiting = _steps_of(config)
    while ready := [step for step in waiting if {*step.input_map.values()} <= there]:
        order += ready
        there.update(tensor for step in ready for tensor in step.output_map.values())
        waiting = [step for step in waiting if step not in ready]
    return order if {tensor.name for tensor in config.output} <= there else []


def _join(
    ensemble: PublishedModel, config: pb.ModelConfig, steps: Iterable[_Step]
) -> PublishedModel:
    """The model that runs them instead of the ensemble."""
    maps = {scheduled.model_name: scheduled for scheduled in _steps_of(config)}
    steps = list(steps)
    rows = [_describe(step, maps[step.model.triton_name]) for step in steps]
    library = _choose_library(steps)
    own = pb.ModelConfig(name=config.name, backend="python")
    own.input.extend(config.input)
    own.output.extend(config.output)
    if not any(step.library for step in steps):
        own.instance_group.add(kind=pb.ModelInstanceGroup.KIND_CPU)
    return replace(
        ensemble,
        config_text=print_model_config(own),
        links=(),
        empty_versions=(),
        files=(
            ("1/model.py", render_warm(library)),
            (f"1/{SERVED}", render_joined(rows, [tensor.name for tensor in config.output])),
        ),
        generated=True,
        steps=tuple(replace(step.model, warm="") for step in steps),
    )


def _choose_library(steps: Sequence[_Step]) -> str:
    """Whose interpreter runs them; that of an operator's library has PyTorch and pandas too."""
    library = next((step.library for step in steps if step.library), "")
    interpreters = {step.interpreter for step in steps} - {""}
    own = next(iter(interpreters - {PANDAS}), "")
    if own:
        return own if library in ("", _BESIDE_OPERATORS) else library
    if not interpreters:
        return library
    return _PANDAS_AND_TORCH if library else PANDAS


def _describe(step: _Step, scheduled: Any) -> StepRow:
    return {
        "name": step.model.source_name,
        "model_file": step.model_file,
        "folder": f"{Path(STEPS).name}/{step.model.triton_name}",
        "version": step.version,
        "config": _as_triton_says(step.config, step.model.triton_name),
        "functions": step.runs_functions,
        "reads": dict(sorted(scheduled.input_map.items())),
        "writes": dict(sorted(scheduled.output_map.items())),
    }


def _as_triton_says(config: pb.ModelConfig, name: str) -> dict[str, object]:
    """Triton's JSON of the fields that a step may have (_STEP_FIELDS)."""
    return {
        "name": name,
        "platform": config.platform,
        "backend": config.backend,
        "max_batch_size": 0,
        "input": [_tensor(tensor) for tensor in config.input],
        "output": [_tensor(tensor) for tensor in config.output],
        "default_model_filename": config.default_model_filename,
        "parameters": {
            key: {"string_value": value.string_value} for key, value in config.parameters.items()
        },
    }


def _tensor(tensor: pb.ModelInput | pb.ModelOutput) -> dict[str, object]:
    return {
        "name": tensor.name,
        "data_type": name_data_type(tensor.data_type),
        "dims": [int(dim) for dim in tensor.dims],
    }
