"""A directory on disk -> ModelRepository: what an archive holds and which model is meant."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ensemble_tools.archive_walk import walk_archive
from ensemble_tools.calls import Traces, find_calls
from ensemble_tools.errors import ConfigUnreadable, RepositoryUnusable
from ensemble_tools.files import is_directory, is_file, kind, names_in, read_bounded
from ensemble_tools.model_config import ModelConfig, parse_model_config
from ensemble_tools.python_files import read_python_files
from ensemble_tools.workflow_files import WorkflowFiles, read_workflow_files

CONFIG_FILE = "config.pbtxt"
#: What merlin-systems writes into an executor's config, and where its graph lies in a version.
EXECUTOR_PLATFORM = "merlin_executor"
GRAPH_FILE = "ensemble/ensemble.pkl"
#: Where a workflow step has its workflow, in a version.
WORKFLOW = "workflow"
#: What the python backend runs, unless default_model_filename says otherwise.
PYTHON_FILE = "model.py"
#: The name of a single model whose directory is the archive's top and whose config has no name.
UNNAMED_MODEL = "model"
#: A config.pbtxt is some KB; an ensemble of 10,000 steps has a MiB, which takes up to 4 s to parse.
MAX_CONFIG_BYTES = 2 * 1024 * 1024
#: Of all models of an archive together.
MAX_CONFIGS_BYTES = 2 * MAX_CONFIG_BYTES
#: Model directories of an archive; exports have some ten.
MAX_MODELS = 2_000

#: How Merlin names the models that an executor calls: 0_transformworkflowtriton, 1_predict...
_CHILD_NAME = re.compile(r"\d+_[a-z]+")

#: Of a version's number; Triton reads it as 64 bits.
_VERSION_DIGITS = 18

#: What archivers and file systems leave beside the models.
_LITTER = {"__MACOSX", "lost+found"}


@dataclass(frozen=True)
class SourceModel:
    """One model directory as delivered.

    config is None when there is no config.pbtxt. entries are the names of all that is in the
    directory. versions are the numeric ones, ascending; payload is what lies in each of them, a
    directory's name ending in `/`; graph_path is the pickled graph of the served version, if the
    model is Merlin's executor: its config says so, and the graph is there. workflow is what the
    served version's NVTabular workflow says of itself, if there is one.
    """

    name: str
    directory: Path
    config: ModelConfig | None
    entries: tuple[str, ...]
    versions: tuple[int, ...]
    payload: Mapping[int, frozenset[str]]
    graph_path: Path | None
    workflow: WorkflowFiles | None = None

    @property
    def config_path(self) -> Path:
        """Where the config.pbtxt is, or would be."""
        return self.directory / CONFIG_FILE

    @property
    def served_version(self) -> int | None:
        """The version that a request without one goes to: the highest that the policy serves."""
        return _served_version(self.config, self.versions)

    @property
    def is_ensemble(self) -> bool:
        """Whether it is a Triton ensemble."""
        return self.config is not None and self.config.is_ensemble

    @property
    def python_file(self) -> str | None:
        """What the python backend runs in each version; None for a model of another backend."""
        if self.config is None:
            return (
                PYTHON_FILE
                if any(PYTHON_FILE in found for found in self.payload.values())
                else None
            )
        if self.config.backend != "python":
            return None
        return str(self.config.message.default_model_filename) or PYTHON_FILE


@dataclass(frozen=True)
class ModelRepository:
    """An archive's models and the one that invocations are meant for.

    calls: which models the python models call by name, as find_calls tells; what Merlin's executor
    calls is in its graph instead.
    """

    path: Path
    models: Mapping[str, SourceModel]
    entry: SourceModel
    calls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def graph_path(self) -> Path | None:
        """The entry model's ensemble.pkl, when the entry model is Merlin's executor."""
        return self.entry.graph_path


def read_repository(path: Path, entry_name: str | None = None) -> ModelRepository:
    """Read an extracted archive, after it was walked; nothing in it is changed or run.

    Layouts: model directories at the top; a single model's config.pbtxt and version directories at
    the top; either of them inside one extra directory. entry_name overrides the choice of the entry
    model. Raises EntryRefused, RepositoryUnusable or ConfigUnreadable; ResourceLacking and
    SourceUnreadable, which say nothing of the archive.
    """
    walk_archive(path)
    top = _top(path)
    models = {model.name: model for model in _models(top)}
    calls = find_calls({name: _traces(model) for name, model in models.items()})
    return ModelRepository(path, models, _entry(path, models, calls, entry_name), calls)


def model_directories(path: Path) -> tuple[str, ...]:
    """Names of the model directories directly under path, for messages and the single-model API."""
    return tuple(child.name for child in _visible(path) if _is_model(child))


def _top(path: Path) -> Path:
    """The directory that holds the models, past one extra directory around everything."""
    if not is_directory(path):
        raise RepositoryUnusable(
            path, "there is no such directory", "expected an extracted archive"
        )
    if _is_model(path) or model_directories(path):
        return path
    inner = [child for child in _visible(path) if is_directory(child)]
    if len(inner) == 1 and (_is_model(inner[0]) or model_directories(inner[0])):
        return inner[0]
    found = ", ".join(child.name for child in _visible(path)[:10]) or "nothing"
    raise RepositoryUnusable(
        path,
        f"no model directory in it (found {found})",
        "expected directories that hold a config.pbtxt and a version directory such as 1/",
    )


def _models(top: Path) -> list[SourceModel]:
    if _is_model(top):
        return [_read_model(top, own_name=False)]
    found = [child for child in _visible(top) if _is_model(child)]
    if len(found) > MAX_MODELS:
        raise RepositoryUnusable(
            top, f"it holds {len(found)} model directories", f"expected at most {MAX_MODELS}"
        )
    models, left = [], MAX_CONFIGS_BYTES
    for directory in found:
        models.append(_read_model(directory, own_name=True))
        left -= len(models[-1].config.text) if models[-1].config else 0
        if left < 0:
            raise RepositoryUnusable(
                top, f"its configs have more than {MAX_CONFIGS_BYTES} bytes together",
                "expected a part of the models in an archive of their own",
            )  # fmt: skip
    return models


def _is_model(directory: Path) -> bool:
    return is_directory(directory) and (
        kind(directory / CONFIG_FILE) is not None or bool(_versions(directory))
    )


def _visible(directory: Path) -> list[Path]:
    return [
        directory / name
        for name in names_in(directory)
        if not name.startswith(".") and name not in _LITTER
    ]


def _versions(directory: Path) -> tuple[int, ...]:
    """Version directories: Triton takes names that are numbers without a leading zero."""
    return tuple(
        sorted(
            int(name)
            for name in names_in(directory)
            if name.isascii()
            and name.isdigit()
            and not name.startswith("0")
            and len(name) <= _VERSION_DIGITS
            and is_directory(directory / name)
        )
    )


def _read_model(directory: Path, *, own_name: bool) -> SourceModel:
    config = _read_config(directory / CONFIG_FILE)
    found = _versions(directory)
    versions = _without_hollow(directory, config, found)
    declared = config.name if config else ""
    kept, numbered = {*map(str, versions)}, {*map(str, found)}
    model = SourceModel(
        name=directory.name if own_name else declared or UNNAMED_MODEL,
        directory=directory,
        config=config,
        entries=tuple(name for name in names_in(directory) if name in kept or name not in numbered),
        versions=versions,
        payload={version: _payload(directory / str(version)) for version in versions},
        graph_path=_graph_path(directory, config, versions),
    )
    return replace(model, workflow=_workflow(model))


def _without_hollow(
    directory: Path, config: ModelConfig | None, versions: tuple[int, ...]
) -> tuple[int, ...]:
    """An executor's versions without hollow ones, which have neither its program nor its graph.

    merlin-systems' export(version=3) leaves an empty 3/ensemble beside the graph, which is in 1/;
    tritonserver would take 3/ and wait for its model.py for ever (seen with 2.51).
    """
    if config is None or config.platform != EXECUTOR_PLATFORM:
        return versions
    program = config.message.default_model_filename or "model.py"
    whole = [
        version
        for version in versions
        if any(is_file(directory / str(version) / name) for name in (program, GRAPH_FILE))
    ]
    return tuple(whole) or versions


def _payload(version: Path) -> frozenset[str]:
    """What lies in it; a link that leads nowhere is nothing that a model could be."""
    found = {name: kind(version / name) for name in names_in(version)}
    return frozenset(
        f"{name}/" if one == stat.S_IFDIR else name for name, one in found.items() if one
    )


def _read_config(path: Path) -> ModelConfig | None:
    data = read_bounded(path, MAX_CONFIG_BYTES)
    if data is None:
        return None
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigUnreadable(path, f"it is larger than {MAX_CONFIG_BYTES} bytes")
    try:
        return parse_model_config(data.decode(), path)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigUnreadable(path, "it is not UTF-8 text", line) from error


def _served_version(config: ModelConfig | None, versions: Iterable[int]) -> int | None:
    """Triton's VersionsToLoad: of `specific` those that are there, otherwise from the highest."""
    specific = config.specific_versions if config else None
    served = versions if specific is None else set(specific).intersection(versions)
    return max(served, default=None)


def _workflow(model: SourceModel) -> WorkflowFiles | None:
    if model.served_version is None:
        return None
    version, file = model.directory / str(model.served_version), model.python_file
    return read_workflow_files(version / WORKFLOW, version / file if file else None)


def _graph_path(
    directory: Path, config: ModelConfig | None, versions: Iterable[int]
) -> Path | None:
    """The graph that Merlin's executor loads; a python model may have a file of that name too."""
    version = _served_version(config, versions) or max(versions, default=None)
    if config is None or config.platform != EXECUTOR_PLATFORM or version is None:
        return None
    path = directory / str(version) / GRAPH_FILE
    return path if is_file(path) else None


def _traces(model: SourceModel) -> Traces:
    """Where to look for the names of models that it calls; an executor's are in its graph."""
    version = model.served_version
    if model.python_file is None or version is None or model.graph_path is not None:
        return Traces(model.config, None)
    return Traces(model.config, read_python_files(model.directory / str(version)))


def _entry(
    path: Path,
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]],
    entry_name: str | None,
) -> SourceModel:
    """The model that is meant, by these rules:

    1. the one that is named; 2. the only one; 3. with an executor, see _entry_beside_executors;
    4. the only ensemble that is no step of another one, or the only model that calls such a one;
    5. without an ensemble, the only model that no other one calls.
    """
    if entry_name is not None:
        if entry_name not in models:
            raise RepositoryUnusable(
                path, f"no model {entry_name!r} in it", f"expected one of {_listed(models)}"
            )
        return models[entry_name]
    if len(models) == 1:
        return next(iter(models.values()))
    outermost = _outermost_ensembles(models)
    executors = [model for model in models.values() if model.graph_path is not None]
    if executors:
        return _entry_beside_executors(path, models, executors, outermost)
    meant = _uncalled(outermost or list(models.values()), models, calls)
    if len(meant) == 1:
        return meant[0]
    raise RepositoryUnusable(
        path,
        f"several models ({_listed(models)}) and nothing that says which one is meant",
        "expected one ensemble or one executor model over the others, one python model that calls "
        "the others by name, or a single model" + _almost_executors(models),
    )


def _uncalled(
    tops: list[SourceModel],
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]],
) -> list[SourceModel]:
    """What is at the top once calls by name count: a called model gives way to who needs it.

    A call by what the model itself needs, such as an ensemble's own step, leads back and is none.
    """
    users: dict[str, set[str]] = {}
    for user in models.values():
        for name in (*_step_names(user), *calls.get(user.name, ())):
            users.setdefault(name, set()).add(user.name)
    seen: set[str] = set()
    found: dict[str, SourceModel] = {}
    waiting = list(tops)
    while waiting:
        model = waiting.pop()
        if model.name in seen:
            continue
        seen.add(model.name)
        above = users.get(model.name, set()) - _below(model, models, calls)
        waiting.extend(models[name] for name in above)
        if not above:
            found[model.name] = model
    return list(found.values())


def _entry_beside_executors(
    path: Path,
    models: Mapping[str, SourceModel],
    executors: list[SourceModel],
    outermost: list[SourceModel],
) -> SourceModel:
    """The executor, or the ensemble that a user made of its children.

    1. An ensemble with a number in front of its name is a child: the executor calls it.
    2. One other ensemble, over all numbered models (without any, over all plain ones), wins.
    3. Without another ensemble, the only executor.
    """
    ensembles = [model for model in outermost if not _CHILD_NAME.fullmatch(model.name)]
    if not ensembles and len(executors) == 1:
        return executors[0]
    if len(ensembles) == 1 and _children(models) <= _below(ensembles[0], models):
        return ensembles[0]
    meant = _listed(model.name for model in (*executors, *ensembles))
    raise RepositoryUnusable(
        path,
        f"several models that could be meant ({meant}), beside {_listed(_children(models))}",
        "expected one executor model, or one ensemble with all of the executor's models as steps: "
        "remove the directories of the others",
    )


def _children(models: Mapping[str, SourceModel]) -> set[str]:
    """The models that an executor is taken to call, by their names."""
    numbered = {name for name in models if _CHILD_NAME.fullmatch(name)}
    plain = {
        name for name, model in models.items() if model.graph_path is None and not model.is_ensemble
    }
    return numbered or plain


def _below(
    top: SourceModel,
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]] | None = None,
) -> set[str]:
    """What the model needs as steps, and with calls what is called; names, known or not."""
    found: set[str] = set()
    waiting = [top]
    while waiting:
        model = waiting.pop()
        new = _step_names(model).union((calls or {}).get(model.name, ())) - found
        found |= new
        waiting.extend(models[name] for name in new if name in models)
    return found


def _step_names(model: SourceModel) -> set[str]:
    return {step.model_name for step in model.config.steps} if model.config else set()


def _almost_executors(models: Mapping[str, SourceModel]) -> str:
    """A hint at models that hold a graph and do not say that they are Merlin's executor."""
    names = [
        name
        for name, model in models.items()
        if not (model.config and model.config.platform == EXECUTOR_PLATFORM)
        and model.versions
        and is_file(model.directory / str(model.versions[-1]) / GRAPH_FILE)
    ]
    hint = (
        f'{_listed(names)} holds {GRAPH_FILE}, and its config lacks `platform: "merlin_executor"`'
    )
    return f" ({hint})" if names else ""


def _outermost_ensembles(models: Mapping[str, SourceModel]) -> list[SourceModel]:
    ensembles = [model for model in models.values() if model.is_ensemble]
    inner = {step.model_name for model in ensembles if model.config for step in model.config.steps}
    # Where every ensemble is a step of another one, planning the first will name the circle.
    return [model for model in ensembles if model.name not in inner] or ensembles[:1]


def _listed(models: Iterable[str]) -> str:
    return ", ".join(sorted(models)[:20])
