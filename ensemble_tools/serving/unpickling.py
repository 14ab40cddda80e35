"""Finds the pickles that somebody reads when an archive is served: file, reader, reason.

Unpickling runs what the file says. Nothing here does that: this package reads pickles as data
(archive/inert_pickle.py). These do it, in models' processes:

1. NVTabular its workflow, where that is not compiled, or kept in part, which a process without
   NVTabular may do as well; and a type that a category file may name, with a pyarrow from before
   14.0.1 (CVE-2023-47248);
2. Merlin's executor, or a step that runs Merlin's operators, the graph: ensemble.pkl;
3. Feast the functions that its registry holds (dill), whatever the archive's own is like: the
   registry is read again and again, and may lie elsewhere;
4. torch a `.pt` that is no TorchScript. What torch.jit.load reads of one that is, libtorch reads,
   and it makes tensors and TorchScript's own classes alone;
5. an archive's own Python whatever it likes. A file of the archive's that is a pickle by its
   name or by its first bytes is taken for one that it reads; nobody knows what it hides.

FAISS, implicit (numpy without objects), XGBoost, LightGBM, TensorFlow and ONNX read formats of
their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ensemble_tools.archive.files import is_directory, is_file, names_in, read_with
from ensemble_tools.archive.parquet_footer import names_pickle
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.archive.saved_workflow import PICKLE
from ensemble_tools.archive.source_model import (
    GRAPH_FILE,
    PYTHON_FILE,
    TORCHSCRIPT,
    WORKFLOW,
    SourceModel,
)
from ensemble_tools.archive.torchscript_file import TORCHSCRIPT_ENTRY
from ensemble_tools.archive.zip_sizes import holds_entry
from ensemble_tools.errors import PicklesRefused, printable, shown
from ensemble_tools.serving.serving_plan import PublishedModel, ServingPlan
from ensemble_tools.setting_names import PICKLES
from ensemble_tools.workflows.program import PANDAS

#: torch itself tells TorchScript from what torch.save wrote by this entry.
_SAVED_ENTRY = "data.pkl"
#: How the files are called that torch compiled to native code.
_COMPILED_BY_TORCH = ".pt2"
_PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle")
#: PROTO and the protocols that Python writes.
_BEGINNINGS = tuple(bytes((0x80, protocol)) for protocol in range(2, 6))
#: How numpy's files begin, whose elements are pickled where their type is an object's.
_NUMPY, _OBJECTS, _NUMPY_HEADER = b"\x93NUMPY", b"'|O'", 256
#: Entries of a model's directory that are looked at.
_MOST_ENTRIES = 10_000


@dataclass(frozen=True)
class Unpickled:
    """A file that is unpickled when a plan is served."""

    path: Path
    #: Who unpickles it.
    reader: str
    #: The operator, and the reason.
    why: str
    #: A change that makes unpickling unnecessary.
    remedy: str


def find_unpickled(plan: ServingPlan, repository: ModelRepository) -> tuple[Unpickled, ...]:
    """The files that are unpickled when the plan is served. Blocking; raises as names_in does."""
    files = [
        unpickled
        for model in plan.everything
        for unpickled in _find_in_model(model, plan, repository)
    ]
    return tuple(dict.fromkeys(files))


def check_unpickled(plan: ServingPlan, repository: ModelRepository) -> None:
    """Raise PicklesRefused for the first of what would be unpickled."""
    for unpickled in find_unpickled(plan, repository):
        raise PicklesRefused(
            unpickled.path, unpickled.reader, unpickled.why, unpickled.remedy, PICKLES
        )


def describe_unpickled(plan: ServingPlan, repository: ModelRepository) -> Iterator[str]:
    """Sentences for people, with paths in the archive."""
    for unpickled in find_unpickled(plan, repository):
        path = unpickled.path
        if path.is_relative_to(repository.path):
            path = path.relative_to(repository.path)
        yield (
            f"{shown(path)}: {unpickled.reader} unpickles it, which runs what it says "
            f"({unpickled.why}); {PICKLES}=off refuses that"
        )


def _find_in_model(
    model: PublishedModel, plan: ServingPlan, repository: ModelRepository
) -> Iterator[Unpickled]:
    if model.generated:
        yield from _find_in_generated(model, plan, repository)
        return
    source = repository.models.get(model.source_name)
    if source is None:
        return
    why = _why_not_whole(model)
    for version in source.versions:
        directory = source.find_version_directory(version)
        if why is not None:
            yield from _find_in_workflow(directory, why, _reader(model), model.categories)
        graph = directory / GRAPH_FILE
        if is_file(graph):
            yield _by_executor(graph, plan)
    yield from _find_torch(source)
    calls_functions = why is not None and source.workflow is not None
    if model.runs_own_code or calls_functions or _runs_in_pytorch(source):
        yield from _find_beside_own_code(source, repository)


def _why_not_whole(model: PublishedModel) -> str | None:
    """Why NVTabular reads the model's workflow, if it has one; None where it does not."""
    if model.compiled is None:
        return model.not_compiled or "it is served as delivered"
    kept = model.compiled.program.kept
    return f"compiled in part: {kept[0].reason}" if kept else None


def _reader(model: PublishedModel) -> str:
    """The process that unpickles the workflow first."""
    alone = model.compiled is not None and model.compiled.program.interpreter == PANDAS
    return "the model's process" if alone else "NVTabular"


def _find_in_workflow(
    directory: Path, why: str, reader: str, categories: Iterable[Path]
) -> Iterator[Unpickled]:
    workflow = directory / WORKFLOW
    remedy = "export a workflow that is compiled whole (docs/workflows.md lists the operators)"
    if is_file(workflow / PICKLE):
        yield Unpickled(workflow / PICKLE, reader, why, remedy)
    for path in categories:
        parts = _walk(path) if is_directory(path) else [path]
        if any(map(names_pickle, parts)):
            reason = f"its schema names a type that is a pickle; {why}"
            yield Unpickled(path, "NVTabular's pyarrow", reason, remedy)


def _by_executor(graph: Path, plan: ServingPlan) -> Unpickled:
    return Unpickled(
        graph,
        "Merlin's executor",
        plan.reasons[0] if plan.reasons else "it is served as delivered",
        "export a graph that needs no executor (explain says why this one does)",
    )


def _find_in_generated(
    model: PublishedModel, plan: ServingPlan, repository: ModelRepository
) -> Iterator[Unpickled]:
    graph = repository.graph_path
    linked = dict(model.links)
    if graph is not None and f"1/{graph.parent.name}" in linked:
        yield Unpickled(
            graph,
            "a step that runs Merlin's own operators",
            plan.reasons[0] if plan.reasons else "its operators are code of the archive's",
            "export a graph without these operators",
        )
    elif model.interpreter == "feast":
        yield Unpickled(
            next(iter(linked.values()), repository.path),
            "Feast",
            f"{model.source_name}: functions that the registry of a feature repository may hold",
            "look features up before the request",
        )


def _find_torch(source: SourceModel) -> Iterator[Unpickled]:
    if source.backend != "pytorch":
        return
    name = source.named_file or TORCHSCRIPT
    if name.endswith(_COMPILED_BY_TORCH):
        return
    for version in source.versions:
        path = source.find_version_directory(version) / name
        if is_file(path) and not holds_entry(path, TORCHSCRIPT_ENTRY):
            yield Unpickled(path, "torch", "it is no TorchScript", "save it with torch.jit.save")


def _runs_in_pytorch(source: SourceModel) -> bool:
    """NVIDIA's pytorch backend runs a model.py as well."""
    return source.backend == "pytorch" and any(
        PYTHON_FILE in files for files in source.payload.values()
    )


def _find_beside_own_code(source: SourceModel, repository: ModelRepository) -> Iterator[Unpickled]:
    """Anywhere in the archive: code finds it from its own path."""
    known = {PICKLE, Path(GRAPH_FILE).name}
    for path in _walk(repository.path):
        if path.name not in known and _is_pickle(path):
            yield Unpickled(
                path,
                f"the archive's own Python ({source.python_file or PYTHON_FILE})",
                f"{printable(source.name)} can read it",
                "use a format without code, such as JSON, numpy's or safetensors",
            )


def _walk(top: Path) -> Iterator[Path]:
    waiting, left = [top], _MOST_ENTRIES
    while waiting and left > 0:
        directory = waiting.pop()
        for name in names_in(directory)[:left]:
            left -= 1
            path = directory / name
            if is_file(path):
                yield path
            elif is_directory(path) and not path.is_symlink():
                waiting.append(path)


def _is_pickle(path: Path) -> bool:
    """Whether its name, compressed or not, or its beginning is a pickle's, or torch.save's."""
    if any(suffix.lower() in _PICKLES for suffix in path.suffixes[-2:]):
        return True
    if read_with(path, _begins_as_pickle):
        return True
    return holds_entry(path, _SAVED_ENTRY) and not holds_entry(path, TORCHSCRIPT_ENTRY)


def _begins_as_pickle(file: BinaryIO) -> bool:
    beginning = file.read(_NUMPY_HEADER)
    if beginning.startswith(_NUMPY):
        return _OBJECTS in beginning
    return beginning.startswith(_BEGINNINGS)
