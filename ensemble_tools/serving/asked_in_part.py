"""Models -> models of which inner ensembles answer any part of their outputs. No I/O.

tritonserver fails to answer a part of some ensembles (fails_in_part). Where another model asks one
for a part, as a step of its own or by a call, an ensemble of one step takes its name: tritonserver
asks a step for all outputs that are mapped. What a caller asks of the entry model is widened where
the request is read (serve/invoke/all_outputs.py), which costs no step more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.model_config import (
    parse_model_config,
    print_model_config,
)
from ensemble_tools.serving.namespace import NAME_MAX
from ensemble_tools.serving.serving_plan import PublishedModel, fails_in_part

_SUFFIX = ".whole"


def answer_parts(
    models: tuple[PublishedModel, ...], entry: str, called: Iterable[str]
) -> tuple[PublishedModel, ...]:
    """The models; whoever answers the parts of an inner ensemble has its name.

    entry, called: Triton names, as a plan has them. Blocking: a config of many steps takes seconds
    to parse.
    """
    ensembles = [it for it in models if "ensemble_scheduling" in (it.config_text or "")]
    if {ensemble.triton_name for ensemble in ensembles} <= {entry}:
        return models
    configs = {ensemble.triton_name: ensemble.config for ensemble in ensembles}
    names = {*_find_asked_in_part(configs), *called} & configs.keys()
    failing = {name for name in names - {entry} if fails_in_part(configs[name])}
    taken = {model.triton_name for model in models}
    return tuple(
        part
        for model in models
        for part in (_split(model, taken) if model.triton_name in failing else [model])
    )


def _find_asked_in_part(configs: dict[str, pb.ModelConfig]) -> Iterator[str]:
    """Ensembles that are steps of others which do not map all of their outputs."""
    for config in configs.values():
        for step in config.ensemble_scheduling.step:
            inner = configs.get(step.model_name)
            if inner is not None and len(step.output_map) < len(inner.output):
                yield step.model_name


def _split(model: PublishedModel, taken: Collection[str]) -> list[PublishedModel]:
    """The ensemble under another name, and the one of one step that takes its own name."""
    whole = f"{model.triton_name}{_SUFFIX}"
    while whole in taken:
        whole += "_"
    if len(whole.encode()) > NAME_MAX:
        return [model]
    own, config = parse_model_config(model.config_text or "", Path(model.triton_name)), model.config
    steps = {step.model_name: step.model_name for step in own.steps}
    front = pb.ModelConfig(
        name=model.triton_name,
        platform="ensemble",
        max_batch_size=config.max_batch_size,
        version_policy=config.version_policy if config.HasField("version_policy") else None,
        input=config.input,
        output=config.output,
    )
    step = front.ensemble_scheduling.step.add(model_name=whole, model_version=-1)
    for tensor in front.input:
        tensor.ClearField("reshape")  # the whole one does it
        step.input_map[tensor.name] = tensor.name
    for tensor in front.output:
        tensor.ClearField("reshape")
        tensor.ClearField("label_filename")
        step.output_map[tensor.name] = tensor.name
    versions = [int(name) for name, _ in model.links if name.isascii() and name.isdigit()]
    return [
        replace(model, triton_name=whole, config_text=own.renamed(whole, steps)),
        PublishedModel(
            model.triton_name,
            model.source_name,
            print_model_config(front),
            empty_versions=(*model.empty_versions, *versions),
        ),
    ]
