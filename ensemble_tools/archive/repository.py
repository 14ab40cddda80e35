"""A directory on disk -> ModelRepository: what an archive holds and which model is meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ensemble_tools.archive.calls import find_calls
from ensemble_tools.archive.entry_model import find_entry_model
from ensemble_tools.archive.files import is_directory, names_in
from ensemble_tools.archive.python_files import PythonFiles, read_python_files
from ensemble_tools.archive.source_model import (
    MAX_CONFIG_BYTES,
    SourceModel,
    find_likely_models,
    is_bare_model,
    is_model_directory,
    read_source_model,
)
from ensemble_tools.archive.walk import walk_archive
from ensemble_tools.errors import RepositoryUnusable

#: Of all models of an archive together.
MAX_CONFIGS_BYTES = 2 * MAX_CONFIG_BYTES
#: Model directories of an archive; exports have some ten.
MAX_MODELS = 2_000

#: What archivers and file systems leave beside the models.
_LITTER = {"__MACOSX", "lost+found"}


#: Beside the models: an archive that may take this one's place.
CANDIDATE = "candidate"

#: How far below the top models are still named that lie too deep.
_DEEPEST = 4
#: How archives are called.
PACKED = (".tar.gz", ".tgz", ".tar", ".zip")
#: How many names are listed in a sentence.
_MOST = 10


@dataclass(frozen=True)
class ModelRepository:
    """An archive's models and the one that invocations are meant for."""

    path: Path
    models: Mapping[str, SourceModel]
    entry: SourceModel
    #: The models that each Python model calls by name (find_calls); the executor's calls are in
    #: its graph.
    calls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: Names beside the models that are no models; a directory's ends in `/`.
    beside: tuple[str, ...] = ()
    #: The archive that lies in CANDIDATE beside the models.
    candidate: Path | None = None

    @property
    def graph_path(self) -> Path | None:
        """The entry model's ensemble.pkl, when the entry model is Merlin's executor."""
        return self.entry.graph_path

    def with_unusable(self, reasons: Mapping[str, str]) -> ModelRepository:
        """The repository, some of whose workflows have turned out unusable (WorkflowsUnusable)."""
        models = {
            name: replace(model, workflow=replace(model.workflow, unusable=reasons[name]))
            if model.workflow is not None and name in reasons
            else model
            for name, model in self.models.items()
        }
        return replace(self, models=models, entry=models[self.entry.name])


def read_repository(path: Path, entry_name: str | None = None) -> ModelRepository:
    """Read an extracted archive, after it was walked; nothing in it is changed or run.

    Layouts: model directories at the top; a single model's config.pbtxt and version directories at
    the top; a model's file alone; each of them inside one extra directory, too. entry_name
    overrides the choice of the entry model. Raises EntryRefused, RepositoryUnusable or
    ConfigUnreadable; ResourceLacking and SourceUnreadable, which say nothing of the archive.
    """
    walk_archive(path)
    top = _find_models_directory(path)
    models = {model.name: model for model in _read_models(top)}
    python = {
        name: _read_python(model) for name, model in models.items() if _is_python_model(model)
    }
    candidate = _find_candidate(top)
    beside = _list_beside(top, models if candidate is None else {*models, CANDIDATE})
    modules = read_python_files(*(top / name for name in beside), with_requests_only=True)
    calls = find_calls(
        models,
        python,
        has_callers_beside=modules.makes_requests,
        is_entry_named=entry_name is not None,
    )
    entry = find_entry_model(path, models, calls, entry_name)
    return ModelRepository(path, models, entry, calls, beside, candidate)


def model_directories(path: Path) -> tuple[str, ...]:
    """Names of the model directories directly under path, for messages and the single-model API."""
    return tuple(child.name for child in _list_visible(path) if is_model_directory(child))


def _list_beside(top: Path, models: Collection[str]) -> tuple[str, ...]:
    if is_model_directory(top) or not model_directories(top):
        return ()
    beside = [it for it in _list_visible(top) if it.name not in models]
    return tuple(f"{it.name}/" if is_directory(it) else it.name for it in beside)


def _find_candidate(top: Path) -> Path | None:
    """The archive beside model directories; with a config or a version of its own it is a model."""
    path = top / CANDIDATE
    if is_model_directory(top) or not is_directory(path) or is_model_directory(path):
        return None
    inner = [child for child in _list_visible(path) if is_directory(child)]
    return path if _find_top(path, inner) is not None else None


def _find_models_directory(path: Path) -> Path:
    """The directory that holds the models, past one extra directory around everything."""
    if not is_directory(path):
        raise RepositoryUnusable(
            path, "there is no such directory", "expected an extracted archive"
        )
    entries = _list_visible(path)
    inner = [child for child in entries if is_directory(child)]
    if (top := _find_top(path, inner)) is not None:
        return top
    _refuse_folder_of_archives(path, entries)
    if (bare := _find_bare(path, inner)) is not None:
        return bare
    deeper = _find_deeper(inner, _DEEPEST)
    if deeper is not None:
        raise RepositoryUnusable(
            path,
            f"its model directory {deeper.relative_to(path)}/ lies too deep",
            f"expected at most one directory around the models: pack what is in "
            f"{deeper.parent.relative_to(path)}/",
        )
    packed = next((it.name for it in entries if it.name.endswith(PACKED)), None)
    if packed is not None:
        raise RepositoryUnusable(
            path,
            f"no model directory in it, but another archive ({packed})",
            f"expected {packed} itself, or its content: pack the model directories, not an archive "
            "of them",
        )
    _refuse_several_files(path, inner)
    shown = ", ".join(child.name for child in entries[:10]) or "nothing"
    raise RepositoryUnusable(
        path,
        f"no model directory in it (found {shown})",
        "expected directories that hold a config.pbtxt and a version directory such as 1/, or the "
        "file alone of a model that Triton has a backend for: ONNX, TorchScript, XGBoost, "
        "LightGBM, a SavedModel",
    )


def _find_tops(path: Path, inner: Sequence[Path]) -> Sequence[Path]:
    """The directories that may hold the models of one archive. inner: the directories in it."""
    return (path, *inner) if len(inner) == 1 else (path,)


def _find_top(path: Path, inner: Sequence[Path]) -> Path | None:
    """The directory that holds the models of one archive."""
    tops = _find_tops(path, inner)
    return next((it for it in tops if is_model_directory(it) or model_directories(it)), None)


def _find_bare(path: Path, inner: Sequence[Path]) -> Path | None:
    """The directory in which a model's file lies alone, in one archive."""
    return next((it for it in _find_tops(path, inner) if is_bare_model(it)), None)


def _refuse_several_files(path: Path, inner: Sequence[Path]) -> None:
    """Raise RepositoryUnusable where several files may be the model."""
    for top in _find_tops(path, inner):
        if (files := find_likely_models(top))[1:]:
            more = ", …" if files[_MOST:] else ""
            raise RepositoryUnusable(
                path,
                f"each of {len(files)} files in it may be the model "
                f"({', '.join(files[:_MOST])}{more})",
                "expected one: pack each alone, or add a config.pbtxt whose default_model_filename "
                "names it",
            )


def _refuse_folder_of_archives(path: Path, entries: Iterable[Path]) -> None:
    """Raise RepositoryUnusable for what holds two archives, or more."""
    archives = [it.name for it in entries if _is_archive(it)]
    if archives[1:]:
        more = ", …" if archives[_MOST:] else ""
        raise RepositoryUnusable(
            path,
            f"it is a folder of {len(archives)} archives ({', '.join(archives[:_MOST])}{more})",
            f"expected one of them, such as {path / archives[0]}; explain, verify and pack take "
            f"several: {path}/*",
        )


def _is_archive(path: Path) -> bool:
    if not is_directory(path):
        return path.name.endswith(PACKED)
    inner = [it for it in _list_visible(path) if is_directory(it)]
    return _find_top(path, inner) is not None or _find_bare(path, inner) is not None


def _find_deeper(directories: Iterable[Path], levels: int) -> Path | None:
    """A model directory below these, the first of the least deep ones."""
    level = [*directories]
    for _ in range(levels):
        level = [child for it in level for child in _list_visible(it) if is_directory(child)]
        for child in level:
            if is_model_directory(child):
                return child
    return None


def _read_models(top: Path) -> list[SourceModel]:
    if is_model_directory(top) or not model_directories(top):
        return [read_source_model(top, own_name=False)]
    directories = [child for child in _list_visible(top) if is_model_directory(child)]
    if len(directories) > MAX_MODELS:
        raise RepositoryUnusable(
            top, f"it holds {len(directories)} model directories", f"expected at most {MAX_MODELS}"
        )
    models, bytes_left = [], MAX_CONFIGS_BYTES
    for directory in directories:
        models.append(read_source_model(directory, own_name=True))
        bytes_left -= len(models[-1].config.text) if models[-1].config else 0
        if bytes_left < 0:
            raise RepositoryUnusable(
                top,
                f"its configs have more than {MAX_CONFIGS_BYTES} bytes together",
                "expected a part of the models in an archive of their own",
            )
    return models


def _list_visible(directory: Path) -> list[Path]:
    return [
        directory / name
        for name in names_in(directory)
        if not name.startswith(".") and name not in _LITTER
    ]


def _is_python_model(model: SourceModel) -> bool:
    """Whether its own files may name models that it calls; an executor's are in its graph."""
    is_python = model.python_file is not None and model.served_version is not None
    return is_python and model.graph_path is None


def _read_python(model: SourceModel) -> PythonFiles:
    own = read_python_files(model.find_version_directory(model.served_version or 0))
    around = [model.directory / name for name in model.entries if not name.isdecimal()]
    modules = read_python_files(*around, with_requests_only=True)
    return PythonFiles(own.strings | modules.strings, own.makes_requests or modules.makes_requests)
