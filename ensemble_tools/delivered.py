"""PURE. What Triton must find in a delivered model, checked before Triton is asked.

tritonserver's own messages for these speak of its internals; some of these faults it accepts, and
then answers nothing for ever (an ensemble whose tensors go in a circle).
"""

from __future__ import annotations

from collections.abc import Mapping

from ensemble_tools.errors import ConfigIncomplete, EnsembleInvalid, PayloadMissing
from ensemble_tools.model_config import EnsembleStep, ModelConfig
from ensemble_tools.repository import ModelRepository, SourceModel

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
_TURN_ON = "add it, or set SERVE_AUTO_COMPLETE=true to let Triton ask the backend for it"


def reachable(repository: ModelRepository) -> tuple[SourceModel, ...]:
    """The entry model after all models that it needs as ensemble steps; raises EnsembleInvalid."""
    done: dict[str, SourceModel] = {}
    _visit(repository.entry, repository.models, done, ())
    return tuple(done.values())


def _visit(
    model: SourceModel,
    models: Mapping[str, SourceModel],
    done: dict[str, SourceModel],
    above: tuple[str, ...],
) -> None:
    if model.name in above:
        circle = " → ".join([*above[above.index(model.name) :], model.name])
        raise EnsembleInvalid(
            model.config_path, f"the ensemble contains itself ({circle})", "remove one of the steps"
        )
    for step in model.config.steps if model.config else ():
        if step.model_name not in models:
            raise EnsembleInvalid(
                model.config_path,
                f"the step {step.model_name!r} is not in the archive",
                f"add the model directory {step.model_name}/ beside {model.name}/",
            )
        if step.model_name not in done:
            _visit(models[step.model_name], models, done, (*above, model.name))
    done[model.name] = model


def check_servable(model: SourceModel, *, strict: bool) -> None:
    """Raise ConfigIncomplete or PayloadMissing when Triton could not load the model.

    strict: without auto-completion, where Triton needs to be told inputs and outputs.
    """
    config = model.config
    if config is None:
        if strict:
            raise ConfigIncomplete(
                model.config_path, "the whole file",
                "write a config.pbtxt, or set SERVE_AUTO_COMPLETE=true to let Triton make one",
            )  # fmt: skip
    else:
        _check_config(model, config, strict)
    if not model.is_ensemble:
        _check_payload(model, config)


def _check_config(model: SourceModel, config: ModelConfig, strict: bool) -> None:
    if model.is_ensemble:
        if not config.steps:
            raise ConfigIncomplete(
                model.config_path, "ensemble_scheduling.step", "name at least one step"
            )
    elif not strict:
        return
    for field, tensors in (("input", config.inputs), ("output", config.outputs)):
        if not tensors:
            raise ConfigIncomplete(model.config_path, field, _TURN_ON)
        for name, tensor in tensors.items():
            if not name:
                raise ConfigIncomplete(model.config_path, f"{field}.name", "name every tensor")
            if tensor.data_type == "TYPE_INVALID":
                raise ConfigIncomplete(model.config_path, f"{field}[{name!r}].data_type", _TURN_ON)


def _check_payload(model: SourceModel, config: ModelConfig | None) -> None:
    if not model.versions:
        raise PayloadMissing(
            model.directory,
            "no version directory in it; expected one such as 1/ that holds what is to be loaded",
        )
    version = model.versions[-1]
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
    known = set(model.config.inputs)
    waiting = list(model.config.steps)
    while waiting:
        ready = [step for step in waiting if known.issuperset(step.inputs.values())]
        if not ready:
            raise _never_ready(model, waiting[0], produced, known)
        waiting = [step for step in waiting if step not in ready]
        known.update(tensor for step in ready for tensor in step.outputs.values())
    for name in model.config.outputs:
        if name not in known:
            raise EnsembleInvalid(
                model.config_path, f"no step puts out the ensemble's output {name!r}",
                "map a step's output to it",
            )  # fmt: skip


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
