"""Checks that every tensor of a delivered ensemble comes to exist. No I/O.

tritonserver accepts an ensemble whose tensors go in a circle, and then answers nothing for ever.
"""

from __future__ import annotations

from collections.abc import Mapping

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.model_config import ModelConfig
from ensemble_tools.archive.source_model import SourceModel
from ensemble_tools.errors import EnsembleInvalid


def check_ensemble(model: SourceModel) -> None:
    """Raise EnsembleInvalid unless every tensor of the ensemble comes to exist.

    A model that is no ensemble passes.
    """
    if not model.is_ensemble or model.config is None:
        return
    produced = _check_producers(model, model.config)
    known = _find_existing(model, model.config, produced)
    for name in model.config.outputs:
        if name not in known:
            raise EnsembleInvalid(
                model.config_path,
                f"no step puts out the ensemble's output {name!r}",
                "map a step's output to it",
            )


def _find_existing(
    model: SourceModel, config: ModelConfig, produced: Mapping[str, str]
) -> set[str]:
    """All tensors, by running each step once what it reads is there; raises EnsembleInvalid."""
    readers: dict[str, list[int]] = {}
    missing = [set(step.input_map.values()) for step in config.steps]
    for number, tensors in enumerate(missing):
        for tensor in tensors:
            readers.setdefault(tensor, []).append(number)
    new = [*config.inputs]
    for number, tensors in enumerate(missing):
        if not tensors:
            new.extend(config.steps[number].output_map.values())
    known: set[str] = set()
    while new:
        tensor = new.pop()
        known.add(tensor)
        for number in readers.pop(tensor, ()):
            missing[number].discard(tensor)
            if not missing[number]:
                new.extend(config.steps[number].output_map.values())
    for step, tensors in zip(config.steps, missing, strict=True):
        if tensors:
            raise _refuse_never_ready(model, step, produced, known)
    return known


def _check_producers(model: SourceModel, config: ModelConfig) -> dict[str, str]:
    """Ensemble tensor -> the step that puts it out; each may have only one."""
    produced: dict[str, str] = {}
    for step in config.steps:
        for tensor in step.output_map.values():
            if tensor in produced or tensor in config.inputs:
                other = produced.get(tensor, "the request")
                raise EnsembleInvalid(
                    model.config_path,
                    f"the ensemble tensor {tensor!r} comes from {other} and from {step.model_name}",
                    "give each of them a name of its own in output_map",
                )
            produced[tensor] = step.model_name
    return produced


def _refuse_never_ready(
    model: SourceModel, step: pb.ModelEnsembling.Step, produced: Mapping[str, str], known: set[str]
) -> EnsembleInvalid:
    tensor = next(tensor for tensor in step.input_map.values() if tensor not in known)
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
