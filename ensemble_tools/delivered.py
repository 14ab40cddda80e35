"""PURE. What Triton must find in a delivered model, checked before Triton is asked.

tritonserver's own messages for these speak of its internals; some of these faults it accepts, and
then answers nothing for ever (an ensemble whose tensors go in a circle).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from ensemble_tools.config_files import check_names
from ensemble_tools.errors import (
    NAMED_COLUMNS,
    ConfigIncomplete,
    EnsembleInvalid,
    PayloadBroken,
    PayloadMissing,
    ReleaseUnfit,
)
from ensemble_tools.model_config import EnsembleStep, ModelConfig
from ensemble_tools.repository import ModelRepository, SourceModel
from ensemble_tools.workflow_files import WorkflowFiles

#: Platform (the older word) -> backend, as Triton's model_config_utils derives it.
_PLATFORM_BACKENDS = {
    "pytorch_libtorch": "pytorch",
    "onnxruntime_onnx": "onnxruntime",
    "tensorrt_plan": "tensorrt",
    "tensorflow_savedmodel": "tensorflow",
    "tensorflow_graphdef": "tensorflow",
}
#: Backend -> the file that it loads from a version directory, unless default_model_filename is set.
_PAYLOADS = {
    "python": ("model.py",),
    "pytorch": ("model.pt",),
    "onnxruntime": ("model.onnx", "model.onnx/"),
    "tensorrt": ("model.plan",),
    "tensorflow": ("model.savedmodel/", "model.graphdef"),
    "openvino": ("model.xml",),
}
#: Workflows from before it load in later releases and fail at each request (seen: 23.05 in 23.08).
_CHANGED = (23, 6)
#: For models that are published as delivered. An ensemble is never completed, and the edges of an
#: executor's ensemble are checked here, before any backend could be asked.
_TURN_ON = "add it, or set SERVE_AUTO_COMPLETE=true to let Triton ask the backend for it"
_DECLARE = "declare it: Triton does not complete the config of an ensemble"
_EXPORT_AGAIN = (
    "export the model again, or declare it: the ensemble in the executor's place is made of what "
    "configs say, whatever SERVE_AUTO_COMPLETE is"
)


def reachable(
    repository: ModelRepository, calls: Mapping[str, Iterable[str]] | None = None
) -> tuple[SourceModel, ...]:
    """The entry model after all models that it needs; raises EnsembleInvalid.

    calls: what models call by name; the repository's own calls when it is not given.
    """
    known = repository.calls if calls is None else calls
    return with_steps([repository.entry], repository.models, known)


def with_steps(
    wanted: Iterable[SourceModel],
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]] | None = None,
) -> tuple[SourceModel, ...]:
    """The models, each after all that it needs: its ensemble steps, and what it calls by name.

    Every name in calls must be in models. Models that call each other come in some order. Raises
    EnsembleInvalid for a step that is missing and for ensembles that contain themselves.
    """
    done: dict[str, SourceModel] = {}
    for model in wanted:
        if model.name not in done:
            _visit(model, models, calls or {}, done)
    return tuple(done.values())


def called_by_name(
    models: Iterable[SourceModel], calls: Mapping[str, Iterable[str]]
) -> tuple[str, ...]:
    """Those of the models that others of them call, in their order, the last one left out.

    tritonserver does not load them with their callers. The last one is the entry model.
    """
    ordered = [model.name for model in models]
    called = {name for caller in ordered for name in calls.get(caller, ())}
    return tuple(name for name in ordered[:-1] if name in called)


def _visit(
    first: SourceModel,
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]],
    done: dict[str, SourceModel],
) -> None:
    """Depth first, without recursion: an archive may nest ensembles without end."""

    def needed(model: SourceModel) -> Iterator[str]:
        return iter([*_step_names(model), *calls.get(model.name, ())])

    waiting = {first.name: needed(first)}
    while waiting:
        model = models[next(reversed(waiting))]
        name = next((name for name in waiting[model.name] if name not in done), None)
        if name is None:
            del waiting[model.name]
            done[model.name] = model
        elif name in waiting:
            above = list(waiting)
            circle = above[above.index(name) :]
            if all(models[each].is_ensemble for each in circle):
                raise _contains_itself(models[name], [*circle, name])
            # A call leads back: Triton can load these, and whether the calls end is theirs to know.
        elif name not in models:
            raise EnsembleInvalid(
                model.config_path,
                f"the step {name!r} is not in the archive",
                f"add the model directory {name}/ beside {model.name}/",
            )
        else:
            waiting[name] = needed(models[name])


def _step_names(model: SourceModel) -> list[str]:
    return [step.model_name for step in model.config.steps] if model.config else []


def _contains_itself(model: SourceModel, circle: list[str]) -> EnsembleInvalid:
    shown = (
        [*circle[:NAMED_COLUMNS], "…", circle[-1]] if len(circle) > 2 * NAMED_COLUMNS else circle
    )
    return EnsembleInvalid(
        model.config_path,
        f"the ensemble contains itself ({' → '.join(shown)})",
        "remove one of the steps",
    )


def check_servable(
    model: SourceModel, *, strict: bool, under_executor: bool = False, nvtabular: str = ""
) -> None:
    """Raise ConfigIncomplete, PayloadMissing, PayloadBroken or ReleaseUnfit when it cannot answer,
    NamesOutside when it names what is not its own.

    strict: inputs and outputs must be declared, as without auto-completion. under_executor: the
    model belongs to an executor's graph, where that is so in any case. nvtabular: the version that
    the models' Python has, empty when it is not known.
    """
    config = model.config
    remedy = _EXPORT_AGAIN if under_executor else _DECLARE if model.is_ensemble else _TURN_ON
    if config is None:
        if strict:
            raise ConfigIncomplete(
                model.config_path, "the whole file",
                _EXPORT_AGAIN if under_executor else
                "write a config.pbtxt, or set SERVE_AUTO_COMPLETE=true to let Triton make one",
            )  # fmt: skip
    else:
        check_names(model.config_path, config)
        _check_config(model, config, strict, remedy)
    if not model.is_ensemble:
        _check_payload(model, config)
    if model.workflow is not None:
        _check_workflow(model, model.workflow, nvtabular)


def _check_config(model: SourceModel, config: ModelConfig, strict: bool, remedy: str) -> None:
    if model.is_ensemble:
        if not config.steps:
            raise ConfigIncomplete(
                model.config_path, "ensemble_scheduling.step", "name at least one step"
            )
    elif not strict:
        return
    for field, tensors in (("input", config.inputs), ("output", config.outputs)):
        if not tensors:
            raise ConfigIncomplete(model.config_path, field, remedy)
        for name, tensor in tensors.items():
            if not name:
                raise ConfigIncomplete(model.config_path, f"{field}.name", "name every tensor")
            if tensor.data_type == "TYPE_INVALID":
                raise ConfigIncomplete(model.config_path, f"{field}[{name!r}].data_type", remedy)


def _check_payload(model: SourceModel, config: ModelConfig | None) -> None:
    if not model.versions:
        raise PayloadMissing(
            model.directory,
            "no version directory in it; expected one such as 1/ that holds what is to be loaded",
        )
    version = _served_version(model, config)
    found = model.payload[version]
    directory = model.directory / str(version)
    expected = _expected_payload(config)
    if "model.pt/" in found and expected == ("model.pt",):
        raise PayloadMissing(
            directory / "model.pt",
            "it is a directory, as merlin saves a model that was not traced; expected the file "
            "that torch.jit.save writes: trace the model (torch.jit.trace) before it is exported",
        )
    if not found or (expected and not found.intersection(expected)):
        wanted = " or ".join(expected) or "the model's files"
        shown = ", ".join(sorted(found)[:10]) or "nothing"
        raise PayloadMissing(directory, f"expected {wanted} in it, found {shown}")


def _check_workflow(model: SourceModel, workflow: WorkflowFiles, nvtabular: str) -> None:
    """Raise PayloadMissing, PayloadBroken or ReleaseUnfit where a workflow could not answer."""
    if workflow.missing:
        raise PayloadMissing(
            workflow.missing[0],
            "there is no such file, and it is part of the workflow; export it again, or add it",
        )
    for path, found in workflow.broken:
        raise PayloadBroken(path, found, "export it again")
    written, installed = _release(workflow.nvtabular), _release(nvtabular)
    if written and installed and written < _CHANGED <= installed:
        raise ReleaseUnfit(
            model.directory,
            f"its workflow was written by nvtabular {workflow.nvtabular}, and the models' Python "
            f"has {nvtabular}, which cannot run workflows from before 23.06",
            "export it again with Merlin 23.08, or use an image of its own release",
        )


def _release(version: str) -> tuple[int, ...]:
    """Of a version the numbers of its release, such as (23, 6); none when it is no such version."""
    found = re.match(r"([0-9]{1,6})(?:\.([0-9]{1,6})(?![0-9])|$)", version)
    return tuple(int(part) for part in found.groups() if part) if found else ()


def _served_version(model: SourceModel, config: ModelConfig | None) -> int:
    """The version that answers; raises PayloadMissing when the policy names one that is not there.

    Triton writes a line about it and serves the others, so another model than meant may answer.
    """
    specific = config.specific_versions if config else None
    missing = sorted(set(specific or ()) - set(model.versions))
    if missing or model.served_version is None:
        wanted = ", ".join(str(version) for version in missing[:10]) or "no version"
        there = ", ".join(str(version) for version in model.versions[:10])
        raise PayloadMissing(
            model.config_path,
            f"its version_policy names {wanted}, and the version directories are {there}; add "
            "what is missing, or change the policy",
        )
    return model.served_version


def _expected_payload(config: ModelConfig | None) -> tuple[str, ...]:
    if config is None:
        return ()
    if config.message.default_model_filename:
        name = str(config.message.default_model_filename)
        return (name, f"{name}/")
    if config.message.cc_model_filenames:
        return ()
    return _PAYLOADS.get(config.backend or _PLATFORM_BACKENDS.get(config.platform, ""), ())


def check_ensemble(model: SourceModel) -> None:
    """Raise EnsembleInvalid unless every tensor of the ensemble comes to exist.

    A model that is no ensemble passes.
    """
    if not model.is_ensemble or model.config is None:
        return
    produced = _check_producers(model, model.config)
    known = _come_to_exist(model, model.config, produced)
    for name in model.config.outputs:
        if name not in known:
            raise EnsembleInvalid(
                model.config_path, f"no step puts out the ensemble's output {name!r}",
                "map a step's output to it",
            )  # fmt: skip


def _come_to_exist(
    model: SourceModel, config: ModelConfig, produced: Mapping[str, str]
) -> set[str]:
    """All tensors, by running each step once what it reads is there; raises EnsembleInvalid."""
    readers: dict[str, list[int]] = {}
    missing = [set(step.inputs.values()) for step in config.steps]
    for number, tensors in enumerate(missing):
        for tensor in tensors:
            readers.setdefault(tensor, []).append(number)
    new = [*config.inputs]
    for number, tensors in enumerate(missing):
        if not tensors:
            new.extend(config.steps[number].outputs.values())
    known: set[str] = set()
    while new:
        tensor = new.pop()
        known.add(tensor)
        for number in readers.pop(tensor, ()):
            missing[number].discard(tensor)
            if not missing[number]:
                new.extend(config.steps[number].outputs.values())
    for step, tensors in zip(config.steps, missing, strict=True):
        if tensors:
            raise _never_ready(model, step, produced, known)
    return known


def _check_producers(model: SourceModel, config: ModelConfig) -> dict[str, str]:
    """Ensemble tensor -> the step that puts it out; each may have only one."""
    produced: dict[str, str] = {}
    for step in config.steps:
        for tensor in step.outputs.values():
            if tensor in produced or tensor in config.inputs:
                other = produced.get(tensor, "the request")
                raise EnsembleInvalid(
                    model.config_path,
                    f"the ensemble tensor {tensor!r} comes from {other} and from {step.model_name}",
                    "give each of them a name of its own in output_map",
                )
            produced[tensor] = step.model_name
    return produced


def _never_ready(
    model: SourceModel, step: EnsembleStep, produced: Mapping[str, str], known: set[str]
) -> EnsembleInvalid:
    tensor = next(tensor for tensor in step.inputs.values() if tensor not in known)
    if tensor in produced:
        return EnsembleInvalid(
            model.config_path,
            f"the steps go in a circle: {step.model_name} needs the tensor {tensor!r} of "
            f"{produced[tensor]}, which waits for it",
            "break the circle in input_map",
        )
    return EnsembleInvalid(
        model.config_path,
        f"the step {step.model_name} needs the tensor {tensor!r}, which no step and no input "
        "provides",
        "map it to an input or to another step's output",
    )
