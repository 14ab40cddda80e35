"""A delivered model -> what is published of it, and sentences about what is not.

No I/O, but for a look at the model.py of a step whose workflow is graph.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.backend_names import describe_backend
from ensemble_tools.archive.files import kind
from ensemble_tools.archive.model_config import print_model_config
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.archive.source_model import CONFIG_FILE, WORKFLOW, SourceModel
from ensemble_tools.serving.namespace import LAYOUT_LINK
from ensemble_tools.serving.serving_plan import OwnCode, PublishedModel

#: How many names are listed in a sentence.
_MOST = 10


def overlay_model(model: SourceModel, names: Mapping[str, str], archive: Path) -> PublishedModel:
    """An overlay of the model's directory: everything in it linked, the names replaced."""
    versions = (model.config.specific_versions if model.config else None) or (1,)
    missing = versions if model.is_ensemble and not model.versions else ()
    ours = {CONFIG_FILE, LAYOUT_LINK}
    links = tuple(
        (f"{model.bare}{name}", model.directory / name)
        for name in model.entries
        if name not in ours
    )
    links += tuple((name, model.directory / name) for name in _labels_of(model))
    beside = model.config.environment_beside if model.config else ""
    environment = PurePosixPath(beside).name
    while environment in model.entries:
        environment = f"_{environment}"
    return PublishedModel(
        names[model.name],
        model.name,
        model.config.renamed(names[model.name], names, environment) if model.config else None,
        (*links, (environment, model.directory / beside)) if beside else links,
        missing,
        own_code=_find_own_code(model, names, archive),
        categories=model.workflow.categories if model.workflow else (),
        json_workflow_path=_find_unpickled(model),
    )


def _labels_of(model: SourceModel) -> list[str]:
    """Files of a bare model that its config names beside the version, not in it."""
    outputs = model.config.message.output if model.bare and model.config else ()
    return sorted({str(it.label_filename) for it in outputs} & {*model.entries})


def add_input(model: PublishedModel, after: pb.ModelInput | None) -> PublishedModel:
    """The model with one input more, which it does not read: it runs once that is there."""
    if after is None:
        return model
    added = print_model_config(pb.ModelConfig(input=[after]))
    return replace(model, config_text=f"{(model.config_text or '').rstrip()}\n{added}")


def describe_models(repository: ModelRepository, models: Sequence[SourceModel]) -> tuple[str, ...]:
    """Sentences about the models that are served, and about what of the archive is not."""
    return (
        *_describe_completed(models),
        *_describe_backends(models),
        *_describe_beside(repository.beside, models),
        *_describe_left_out(repository, models),
    )


def describe_doubts(entry: SourceModel, models: Sequence[SourceModel]) -> tuple[str, ...]:
    """A sentence for each config with a field that is not understood; models: that are served."""
    fates = [(model, "it is passed on as it is") for model in models]
    if entry not in models:
        fates.append((entry, "it is not passed on to the ensemble"))
    return tuple(
        f"{model.name}/{CONFIG_FILE} has a field that this container does not know "
        f"({model.config.unknown_field}); {what_becomes_of_it}"
        for model, what_becomes_of_it in fates
        if model.config and model.config.unknown_field
    )


def _describe_backends(models: Iterable[SourceModel]) -> tuple[str, ...]:
    """A sentence for each served model whose backend is none of Triton's, and may be misspelt."""
    described = [(it.name, describe_backend(it.config.message)) for it in models if it.config]
    return tuple(
        f"{name}/{CONFIG_FILE}: {description}" for name, description in described if description
    )


def _describe_completed(models: Iterable[SourceModel]) -> tuple[str, ...]:
    """A sentence for each model whose config says what its file says."""
    return tuple(
        f"{model.name}: its inputs and outputs are those that {model.completed_by} says, "
        f"{_describe_config(model)}"
        for model in models
        if model.completed_by and model.config
    )


def _describe_config(model: SourceModel) -> str:
    if kind(model.config_path) is not None:
        return f"which {CONFIG_FILE} leaves out"
    assert model.config is not None
    return f"and its backend is {model.config.backend}: there is no {CONFIG_FILE}"


def _describe_left_out(
    repository: ModelRepository, models: Iterable[SourceModel]
) -> tuple[str, ...]:
    """A sentence for each model of the archive that is neither the entry nor among the models."""
    used = {repository.entry.name, *(model.name for model in models)}
    return tuple(
        f"{name} is not served: the entry model {repository.entry.name} does not use it"
        for name in sorted(repository.models.keys() - used)
    )


def _describe_beside(beside: Sequence[str], models: Iterable[SourceModel]) -> tuple[str, ...]:
    """A sentence about what lies beside the models: who finds it there, or that nobody reads it."""
    if not beside:
        return ()
    readers = sorted(it.name for it in models if it.python_file and it.workflow is None)
    what = f"beside the models there is {_list(beside)}"
    if not readers:
        return (f"{what}: no Python model of the archive's own is served that could read it",)
    where = f'args["model_repository"]/../{beside[0]}'
    return (f"{what}: it is there for {_list(readers)}, at {where}",)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST]) + (", …" if names[_MOST:] else "")


def _find_unpickled(model: SourceModel) -> str:
    """The directory of a workflow that is no pickle, for Merlin's own step to read."""
    workflow = model.workflow
    if workflow is None or workflow.pickled or not workflow.merlins_step:
        return ""
    return f"{model.served_version}/{WORKFLOW}"


def _find_own_code(model: SourceModel, names: Mapping[str, str], archive: Path) -> OwnCode | None:
    """In every version that has the file that the python backend runs."""
    file = model.python_file or ""
    files = tuple(
        f"{version}/{file}"
        for version, payload in model.payload.items()
        if file in payload and file.endswith(".py")
    )
    if not files:
        return None
    directory = PurePosixPath(model.directory.relative_to(archive))
    return OwnCode(files, archive, directory, dict(names))
