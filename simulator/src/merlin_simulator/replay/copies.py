"""Archives that are copies of one model, under names of their own."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from merlin_simulator.replay.asking import (
    Asking,
    Expected,
    NamedAsking,
    RepeatedAsking,
    read_expected,
)
from merlin_simulator.replay.settings import UnusableModel

#: Weights hardly compress.
_LEVEL = 1
#: What Python leaves beside a model that was imported.
_LEFT_OUT = "__pycache__"


def write_archive(
    archive: Path, folder: Path, prefix: str = "", own: Mapping[str, bytes] | None = None
) -> None:
    """A folder's content below the prefix, then files of the archive's own, by name.

    Links are followed, owners and times left out. It is never whole in memory.
    """
    with (
        archive.open("wb") as file,
        gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", dereference=True) as tar,
    ):
        for path in sorted(folder.iterdir()):
            tar.add(path, prefix + path.name, filter=_make_anonymous)
        for name, content in (own or {}).items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def _make_anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """The time of packing, and who packed, are left out."""
    if Path(entry.name).name == _LEFT_OUT:
        return None
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


#: The model that answers its own name.
NAMED_MODEL = Path(__file__).with_name("named")
SUFFIX = ".tar.gz"
#: Of an export with its request: where its models are, and what is sent to them.
_REPOSITORY, _REQUEST = "repository", "request.json"

Advance = Callable[[int], object]


@dataclass(frozen=True)
class SourceModel:
    """One model repository with the request for it, and the answer, if known."""

    repository: Path
    request: bytes
    expected: Expected | None


def make_names(models: int) -> tuple[str, ...]:
    """model-001, model-002, ...: as many digits as the last one has; rank 0 is the first."""
    digits = len(str(models))
    return tuple(f"model-{number:0{digits}d}" for number in range(1, models + 1))


def find_source_models(folder: Path, request: Path | None) -> tuple[SourceModel, ...]:
    """The models of a folder. Raises UnusableModel.

    The folder is, for the first rule that fits
        1. an export with its request: it has repository/, with request.json beside that
        2. a model repository, or a single model: request.json lies beside the folder, or in it
        3. several exports of either kind, each in a folder of its own: copies take turns with them,
           and request.json lies in each, or in the folder for all of them
    expected.json beside the request is compared with, where there is one. A request given by name
    is sent to all of them.
    """
    if (folder / _REPOSITORY).is_dir():
        return (_make_source(folder / _REPOSITORY, (folder,), request),)
    if _has_models(folder):
        return (_make_source(folder, (folder.resolve().parent, folder), request),)
    exports = sorted(child for child in folder.iterdir() if _is_export(child))
    if not exports:
        raise UnusableModel(
            f"{folder}: found neither config.pbtxt nor */config.pbtxt nor repository/, nor folders "
            "that have them, expected a Triton model repository, an export or a folder of exports; "
            "give the folder that holds one with --model."
        )
    return tuple(_exported(export, request) for export in exports)


def make_asking(names: tuple[str, ...], sources: tuple[SourceModel, ...]) -> Asking:
    """The requests to the copies; to the package's own model without sources."""
    if not sources:
        return NamedAsking(names)
    turns = [sources[rank % len(sources)] for rank in range(len(names))]
    expected = {
        rank: variant.expected for rank, variant in enumerate(turns) if variant.expected is not None
    }
    return RepeatedAsking([variant.request for variant in turns], expected)


def write_copies(
    names: tuple[str, ...], sources: tuple[SourceModel, ...], folder: Path, advance: Advance
) -> None:
    """All archives, NAME.tar.gz in the folder, which exists; advance is told of each one."""
    for rank, name in enumerate(names):
        archive = folder / (name + SUFFIX)
        archive.parent.mkdir(parents=True, exist_ok=True)
        if not sources:
            write_archive(archive, NAMED_MODEL, "named/", {"named/1/name.txt": name.encode()})
        elif rank < len(sources):
            write_archive(archive, sources[rank].repository)
        else:
            _link(folder / (names[rank % len(sources)] + SUFFIX), archive)
        advance(1)


def _link(archive: Path, copy: Path) -> None:
    copy.unlink(missing_ok=True)
    try:
        os.link(archive, copy)
    except OSError:  # a file system without links
        shutil.copyfile(archive, copy)


def _exported(export: Path, request: Path | None) -> SourceModel:
    """The model of one export of several."""
    repository = export / _REPOSITORY
    folders = (export, export.parent)
    return _make_source(repository if repository.is_dir() else export, folders, request)


def _is_export(folder: Path) -> bool:
    """Whether its models are where a container looks for them: one directory around them may be."""
    if folder.name.startswith(".") or not folder.is_dir():
        return False
    inner = [child for child in folder.iterdir() if child.is_dir()]
    return _has_models(folder) or (len(inner) == 1 and _has_models(inner[0]))


def _has_models(folder: Path) -> bool:
    return any(folder.glob("config.pbtxt")) or any(folder.glob("*/config.pbtxt"))


def _make_source(repository: Path, folders: Sequence[Path], request: Path | None) -> SourceModel:
    """folders: the first one with a request.json gives the request."""
    requests = (path for folder in folders if (path := folder / _REQUEST).exists())
    path = request or next(requests, folders[0] / _REQUEST)
    return SourceModel(repository, _request(path), _expected(path.with_name("expected.json")))


def _request(path: Path) -> bytes:
    try:
        body = path.read_bytes()
        json.loads(body)
    except OSError as error:
        raise UnusableModel(
            f"{path}: found no readable file ({error.strerror}), expected the request to send as "
            "JSON of the v2 inference protocol; `python -m ensemble_tools request EXPORT -o "
            f"{path}` makes one, or give one with --request."
        ) from error
    except ValueError as error:
        raise UnusableModel(
            f"{path}: found no JSON ({error}), expected a request of the v2 inference protocol; "
            "correct the file or give another one with --request."
        ) from error
    return body


def _expected(path: Path) -> Expected | None:
    if not path.exists():
        return None
    try:
        return read_expected(path.read_text("utf-8"))
    except ValueError as error:
        raise UnusableModel(
            f"{path}: found no outputs ({error}), expected an answer of the v2 inference "
            "protocol; correct the file or remove it, and answers are compared with the first."
        ) from error
