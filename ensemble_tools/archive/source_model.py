"""One model directory -> SourceModel: its config, its versions, and what lies in them."""

from __future__ import annotations

import codecs
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.backend_names import derive_backend
from ensemble_tools.archive.completion import SAVED_MODEL, Advice, complete_config
from ensemble_tools.archive.files import (
    A_POINTER,
    is_directory,
    is_file,
    is_pointer,
    kind,
    names_in,
    read_bounded,
    size_of,
)
from ensemble_tools.archive.model_config import EXECUTOR_PLATFORM, ModelConfig, parse_model_config
from ensemble_tools.archive.model_file import find_likely_files, find_model_file, find_named_file
from ensemble_tools.archive.saved_model import SAVED_GRAPH, measure_constants
from ensemble_tools.archive.signatures import read_external_files
from ensemble_tools.archive.workflow_files import WorkflowFiles, read_workflow_files
from ensemble_tools.archive.zip_sizes import measure_unpacked
from ensemble_tools.errors import ConfigUnreadable, quoted

CONFIG_FILE = "config.pbtxt"
#: Where the graph of Merlin's executor lies in a version.
GRAPH_FILE = "ensemble/ensemble.pkl"
#: Where a workflow step has its workflow, in a version.
WORKFLOW = "workflow"
#: What the python backend runs, unless default_model_filename says otherwise.
PYTHON_FILE = "model.py"
#: What the pytorch backend loads, unless default_model_filename says otherwise; both are zip files.
TORCHSCRIPT, _AOT_INDUCTOR = "model.pt", "model.pt2"
#: What the onnxruntime backend loads, also in a directory of that name.
_ONNX = "model.onnx"
#: By a path with this in it ONNX Runtime means an address in its own memory.
_IN_MEMORY = "_ORT_MEM_ADDR_"
#: Where the files of a model without version directories belong: any file, and a SavedModel's own.
_IN_VERSION, _IN_SAVED_MODEL = "1/", "1/model.savedmodel/"
#: What the tensorflow backend loads, likewise.
_SAVED_MODEL = "model.savedmodel"
#: The name of a single model whose directory is the archive's top and whose config has no name.
UNNAMED_MODEL = "model"
#: A config.pbtxt is some KB; an ensemble of 10,000 steps has a MiB, which takes up to 4 s to parse.
MAX_CONFIG_BYTES = 2 * 1024 * 1024
#: What a text in UTF-16 or UTF-32 begins with, where that is no zero.
_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: Of a version's number; Triton reads it as 64 bits.
_VERSION_DIGITS = 18


@dataclass(frozen=True)
class SourceModel:
    """One model directory as delivered."""

    name: str
    directory: Path
    #: None where there is no config.pbtxt.
    config: ModelConfig | None
    #: The names of everything in the directory.
    entries: tuple[str, ...]
    #: The numeric version directories, ascending.
    versions: tuple[int, ...]
    #: The names in each version directory; a directory's ends in `/`.
    payload: Mapping[int, frozenset[str]]
    #: The pickled graph of the served version, if the config says that this is Merlin's executor
    #: and the file is there.
    graph_path: Path | None
    #: The NVTabular workflow of the served version, if there is one.
    workflow: WorkflowFiles | None = None
    #: The names of the files beside the graph.
    artifacts: frozenset[str] = frozenset()
    #: TorchScript files: path, bytes, and the bytes that they unpack to.
    packed: tuple[tuple[Path, int, int], ...] = ()
    #: SavedModels' graphs: path, bytes with their variables, and the bytes of the constants that
    #: TensorFlow makes of them.
    constants: tuple[tuple[Path, int, int], ...] = ()
    #: Files of the served version that hold nothing that could be loaded, and why.
    hollow: Mapping[str, str] = field(default_factory=dict)
    #: The prefix that each file would have in a whole model directory, such as `1/`; empty where
    #: the directory is whole.
    bare: str = ""
    #: The file that says what the config lacks; empty where it lacks nothing or no file says it.
    completed_by: str = ""
    #: What to write into the config where no file says what it lacks.
    advice: Advice | None = None

    @property
    def misnamed_config(self) -> str:
        """The file most likely meant for a config.pbtxt that is not there; empty for none."""
        names = (name for name in self.entries if name.lower().startswith(CONFIG_FILE))
        return "" if self.config is not None else next(names, "")

    def find_version_directory(self, version: int) -> Path:
        """The directory of a version's files."""
        return self.directory if self.bare else self.directory / str(version)

    @property
    def config_path(self) -> Path:
        """The path of the config.pbtxt, there or not."""
        return self.directory / CONFIG_FILE

    @property
    def served_version(self) -> int | None:
        """The version that a request without one goes to: the highest that the policy serves."""
        return _choose_version(self.config, self.versions)

    @property
    def is_ensemble(self) -> bool:
        """Whether it is a Triton ensemble."""
        return self.config is not None and self.config.is_ensemble

    @property
    def step_names(self) -> tuple[str, ...]:
        """The models that it is made of, if it is an ensemble."""
        return tuple(step.model_name for step in self.config.steps) if self.config else ()

    @property
    def backend(self) -> str:
        """Its backend, as Triton derives it; empty for an ensemble, and where nothing tells it."""
        if self.is_ensemble:
            return ""
        message = self.config.message if self.config else pb.ModelConfig()
        version = self.served_version or max(self.versions, default=0)
        return derive_backend(message, self.payload.get(version, ()))

    @property
    def named_file(self) -> str:
        """The file that the config names for its backend (default_model_filename); or empty."""
        return str(self.config.message.default_model_filename) if self.config else ""

    @property
    def python_file(self) -> str | None:
        """The file of each version for the python backend; None for another backend."""
        return (self.named_file or PYTHON_FILE) if self.backend == "python" else None


def is_model_directory(directory: Path) -> bool:
    """Whether it holds a config.pbtxt or a version; raises as kind does."""
    return is_directory(directory) and (
        kind(directory / CONFIG_FILE) is not None or bool(_read_versions(directory))
    )


def is_bare_model(directory: Path) -> bool:
    """Whether a model's file lies in it, without config and version; raises as read_with does."""
    return bool(_read_bare(directory, None)[0])


def find_likely_models(directory: Path) -> list[str]:
    """Names of the files in it that may be a model; raises as read_with does."""
    return [file.name for file in find_likely_files(directory, _read_payload(directory))]


def read_source_model(directory: Path, *, own_name: bool) -> SourceModel:
    """Read a model directory; nothing in it is changed or run.

    own_name: the model is named after its directory, not by its config. Raises ConfigUnreadable,
    EntryRefused, ResourceLacking, SourceUnreadable.
    """
    config = _read_config(directory / CONFIG_FILE)
    numbers = _read_versions(directory)
    versions = _drop_hollow(directory, config, numbers)
    declared = config.name if config else ""
    served, numbered = {*map(str, versions)}, {*map(str, numbers)}
    payload = {version: _read_payload(directory / str(version)) for version in versions}
    bare, bare_payload = _read_bare(directory, config) if not numbers else ("", frozenset())
    model = SourceModel(
        name=directory.name if own_name else declared or UNNAMED_MODEL,
        directory=directory,
        config=config,
        entries=tuple(
            name for name in names_in(directory) if name in served or name not in numbered
        ),
        versions=(1,) if bare else versions,
        payload={1: bare_payload} if bare else payload,
        graph_path=_find_graph(directory, config, versions),
        bare=bare,
    )
    model = _complete(model)
    return replace(
        model,
        workflow=_read_workflow(model),
        artifacts=_list_artifacts(model),
        packed=tuple(_read_packed(model)),
        constants=tuple(_read_constants(model)),
        hollow=dict(_find_hollow(model)),
    )


def _read_bare(directory: Path, config: ModelConfig | None) -> tuple[str, frozenset[str]]:
    """Of a directory without versions where its files belong, and what its version then holds.

    Empty where no file in it is a model.
    """
    payload = _read_payload(directory) - {CONFIG_FILE}
    if SAVED_MODEL in payload:
        return _IN_SAVED_MODEL, frozenset({"model.savedmodel/"})
    if config is not None and config.is_ensemble:
        return "", frozenset()
    named = find_named_file(config.message, directory, payload) if config else None
    file = named or find_model_file(directory, payload)
    return (_IN_VERSION, payload) if file else ("", frozenset())


def _complete(model: SourceModel) -> SourceModel:
    """With what its file says of what its config lacks."""
    version = model.served_version
    needs_no_file = model.is_ensemble or model.backend == "python"
    if version is None or needs_no_file or model.misnamed_config:
        return model
    directory = model.find_version_directory(version)
    completion = complete_config(model.config, model.config_path, directory, model.payload[version])
    return replace(
        model,
        config=completion.config,
        completed_by=completion.file,
        advice=completion.advice,
    )


def _drop_hollow(
    directory: Path, config: ModelConfig | None, versions: tuple[int, ...]
) -> tuple[int, ...]:
    """An executor's versions without hollow ones, which have neither its model.py nor its graph.

    merlin-systems' export(version=3) leaves an empty 3/ensemble beside the graph, which is in 1/;
    tritonserver would take 3/ and wait for its model.py for ever (seen with 2.51).
    """
    if config is None or config.platform != EXECUTOR_PLATFORM:
        return versions
    model_file = config.message.default_model_filename or "model.py"
    whole = [
        version
        for version in versions
        if any(is_file(directory / str(version) / name) for name in (model_file, GRAPH_FILE))
    ]
    return tuple(whole) or versions


def _read_payload(version: Path) -> frozenset[str]:
    """The names in a version; a link that leads nowhere is nothing that a model could be."""
    kinds = {name: kind(version / name) for name in names_in(version)}
    return frozenset(
        f"{name}/" if mode == stat.S_IFDIR else name for name, mode in kinds.items() if mode
    )


def _read_config(path: Path) -> ModelConfig | None:
    data = read_bounded(path, MAX_CONFIG_BYTES)
    if data is None:
        return None
    if len(data) > MAX_CONFIG_BYTES:
        raise ConfigUnreadable(path, f"it is larger than {MAX_CONFIG_BYTES} bytes")
    if b"\0" in data[:2] or data.startswith(_MARKS):
        raise ConfigUnreadable(path, "it is UTF-16 or binary; save it as UTF-8")
    try:
        return parse_model_config(data.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigUnreadable(path, "it is not UTF-8 text", line) from error


def _choose_version(config: ModelConfig | None, versions: Iterable[int]) -> int | None:
    """Triton's VersionsToLoad: of `specific` those that are there, otherwise from the highest."""
    specific = config.specific_versions if config else None
    served = versions if specific is None else set(specific).intersection(versions)
    return max(served, default=None)


def _read_workflow(model: SourceModel) -> WorkflowFiles | None:
    if model.served_version is None:
        return None
    version, file = model.find_version_directory(model.served_version), model.python_file
    return read_workflow_files(version / WORKFLOW, version / file if file else None)


def _read_packed(model: SourceModel) -> Iterator[tuple[Path, int, int]]:
    if model.backend != "pytorch":
        return
    config = model.config
    names = (model.named_file,) if model.named_file else (TORCHSCRIPT, _AOT_INDUCTOR)
    for version, name in product(model.versions, names):
        path = model.find_version_directory(version) / name
        if Path(name).is_absolute() or ".." in Path(name).parts or not is_file(path):
            continue
        size, unpacked = size_of(path), measure_unpacked(path)
        if PYTHON_FILE in model.payload[version] or (config and config.message.runtime):
            unpacked = unpacked or None  # Python code of the model's own may read it
        if size is not None and unpacked is not None:
            yield path, size, unpacked


def _find_hollow(model: SourceModel) -> Iterator[tuple[str, str]]:
    """A module may be empty; what else is loaded may not."""
    version = model.served_version
    if version is None:
        return
    graph = (model.named_file or _ONNX) if model.backend == "onnxruntime" else None
    for name in model.payload.get(version, ()):
        path = model.find_version_directory(version) / name
        if is_pointer(path):
            yield name, f"it is {A_POINTER}"
        elif size_of(path) == 0 and not name.endswith(".py"):
            yield name, "it is empty"
        elif name.rstrip("/") == graph and (lacking := _find_lacking_weights(path)):
            yield name, lacking


def _find_lacking_weights(path: Path) -> str:
    """Why the files of an ONNX model's weights are not to be had; empty where they are there."""
    file = path / _ONNX if is_directory(path) else path
    for name in sorted(read_external_files(file)) if is_file(file) else ():
        weights = f"it has its weights in {quoted(name)}"
        parts = Path(name).parts
        if Path(name).is_absolute() or not {"..", _IN_MEMORY}.isdisjoint(parts):
            return f"{weights}, which is not below its directory"
        if "\0" in name or not is_file(file.parent / name):
            return f"{weights}, which is not there"
    return ""


def _read_constants(model: SourceModel) -> Iterator[tuple[Path, int, int]]:
    if model.backend != "tensorflow":
        return
    name = model.named_file or _SAVED_MODEL
    if Path(name).is_absolute() or ".." in Path(name).parts:
        return
    for version in model.versions:
        is_bare = model.bare == _IN_SAVED_MODEL
        directory = model.directory if is_bare else model.find_version_directory(version) / name
        if is_directory(directory) and (sizes := measure_constants(directory)) is not None:
            yield directory / SAVED_GRAPH, *sizes


def _find_graph(
    directory: Path, config: ModelConfig | None, versions: Iterable[int]
) -> Path | None:
    """The graph that Merlin's executor loads; a python model may have a file of that name too."""
    version = _choose_version(config, versions) or max(versions, default=None)
    if config is None or config.platform != EXECUTOR_PLATFORM or version is None:
        return None
    path = directory / str(version) / GRAPH_FILE
    return path if is_file(path) else None


def _list_artifacts(model: SourceModel) -> frozenset[str]:
    if model.graph_path is None:
        return frozenset()
    beside = model.graph_path.parent
    files = {name for name in names_in(beside) if is_file(beside / name)}
    return frozenset(files | {f"{it}/" for it in names_in(beside) if is_directory(beside / it)})


def _read_versions(directory: Path) -> tuple[int, ...]:
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
