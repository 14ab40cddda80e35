"""What an exported NVTabular workflow says of itself: the release that wrote it, its files.

Its pickle is read as data. The paths in it are of the machine that exported it; the files lie in
the workflow's own directory, which Workflow.load puts in their place (nvtabular, Categorify).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ensemble_tools.archive.executor_template import is_workflow_model
from ensemble_tools.archive.files import is_file, read_bounded
from ensemble_tools.archive.inert_pickle import (
    MAX_PICKLE_BYTES,
    Inert,
    NotInert,
    class_name,
    is_pickle,
    read_pickle,
)

PICKLE, METADATA, CATEGORIES = "workflow.pkl", "metadata.json", "categories"
#: The file is some hundred bytes.
MAX_METADATA_BYTES = 64 * 1024
#: Longer names are no files' (NAME_MAX, in bytes).
_MAX_NAME = 255
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,40}")


@dataclass(frozen=True)
class WorkflowFiles:
    """nvtabular: the version that wrote it, empty when it is not said. missing: files that are not
    there, by their places in the archive. broken: a file that NVTabular cannot read, and what was
    found; empty for none.
    """

    nvtabular: str = ""
    missing: tuple[Path, ...] = ()
    broken: tuple[tuple[Path, str], ...] = ()


class _Broken(Exception):
    """What was found in the place of what Workflow.load (nvtabular 23.8) reads."""


def read_workflow_files(
    directory: Path, program: Path | None = None, max_pickle_bytes: int = MAX_PICKLE_BYTES
) -> WorkflowFiles | None:
    """Look at a workflow's directory; None when it holds no workflow and Merlin's step wants none.

    program: the Python file that Triton runs beside it, None where it runs none. A pickle of more
    than max_pickle_bytes is not looked at. Raises as read_bounded does. Of what is not as
    NVTabular writes it only that is told which Merlin's own workflow step fails on; another
    program knows itself what it needs.
    """
    pickle, metadata = directory / PICKLE, directory / METADATA
    absent = tuple(path for path in (pickle, metadata) if not is_file(path))
    if absent and _is_merlins_step(program):
        return WorkflowFiles(missing=absent)
    if pickle in absent:
        return None
    broken: list[tuple[Path, str]] = []
    paths: tuple[str, ...] = ()
    version = ""
    try:
        paths = tuple(_category_paths(pickle, max_pickle_bytes))
    except _Broken as error:
        broken.append((pickle, str(error)))
    try:
        version = _read_release(metadata)
    except _Broken as error:
        broken.append((metadata, str(error)))
    if broken and _is_merlins_step(program):
        return WorkflowFiles(broken=tuple(broken))
    places = [
        directory / CATEGORIES / name
        for name in sorted({PurePosixPath(path).name for path in paths})
        if len(name) <= _MAX_NAME and name.isprintable()
    ]
    missing = tuple(place for place in places if not is_file(place))
    return WorkflowFiles(version, missing)


def _is_merlins_step(program: Path | None) -> bool:
    return program is not None and is_workflow_model(program)


def _read_release(path: Path) -> str:
    """Workflow.load takes versions.nvtabular apart as text."""
    data = read_bounded(path, MAX_METADATA_BYTES) if is_file(path) else None
    if data is None or len(data) > MAX_METADATA_BYTES:
        return ""
    try:
        release = json.loads(data)["versions"]["nvtabular"]
        if not isinstance(release, str):
            raise TypeError
    except (KeyError, TypeError) as error:
        raise _Broken("it does not say which release of NVTabular wrote it") from error
    except (ValueError, RecursionError) as error:
        raise _Broken("it is no JSON") from error
    return release if _VERSION.fullmatch(release) else ""


def _category_paths(pickle: Path, limit: int) -> Iterator[str]:
    """The parquet files that Categorify operators were fitted into."""
    data = read_bounded(pickle, limit)
    if data is None or len(data) > limit:
        return
    try:
        root = read_pickle(data)
    except NotInert as error:
        if not is_pickle(data):
            raise _Broken("it is truncated or no pickle") from error
        return
    for inert in _objects(root):
        categories = inert.state.get("categories")
        if class_name(inert).endswith(".Categorify") and isinstance(categories, dict):
            paths = (path for path in categories.values() if isinstance(path, str))
            yield from (path for path in paths if path.endswith(".parquet"))


def _objects(root: Any) -> Iterator[Inert]:
    """Every object that the pickle holds, each once."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if id(value) in seen or isinstance(value, str | bytes | int | float | type | None):
            continue
        seen.add(id(value))
        if isinstance(value, Inert):
            yield value
            waiting.extend(value.state.values())
        elif isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple | set | frozenset):
            waiting.extend(value)
