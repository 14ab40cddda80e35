"""What an exported NVTabular workflow says of itself: the release that wrote it, its files.

Its pickle is read as data. The paths in it are of the machine that exported it; the files lie in
the workflow's own directory, which Workflow.load puts in their place (nvtabular, Categorify).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ensemble_tools.executor_template import is_workflow_model
from ensemble_tools.inert_pickle import MAX_PICKLE_BYTES, Inert, NotInert, class_name, read_pickle

PICKLE, METADATA, CATEGORIES = "workflow.pkl", "metadata.json", "categories"
#: The workflow step's program, one directory above.
PYTHON_FILE = "model.py"
#: The file is some hundred bytes.
MAX_METADATA_BYTES = 64 * 1024
#: Longer names are no files' (NAME_MAX, in bytes).
_MAX_NAME = 255
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,40}")


@dataclass(frozen=True)
class WorkflowFiles:
    """nvtabular: the version that wrote it, empty when it is not said. missing: files that are not
    there, by their places in the archive.
    """

    nvtabular: str = ""
    missing: tuple[Path, ...] = ()


def read_workflow_files(directory: Path) -> WorkflowFiles | None:
    """Look at a workflow's directory; None when it holds no workflow and Merlin's step wants none.

    Raises nothing for what cannot be read: the workflow step says so when it loads.
    """
    pickle = directory / PICKLE
    absent = tuple(path for path in (pickle, directory / METADATA) if not path.is_file())
    if absent and is_workflow_model(directory.parent / PYTHON_FILE):
        return WorkflowFiles(missing=absent)
    if pickle in absent:
        return None
    names = {PurePosixPath(path).name for path in _category_paths(pickle)}
    places = [
        directory / CATEGORIES / name
        for name in sorted(names)
        if len(name) <= _MAX_NAME and name.isprintable()
    ]
    missing = tuple(place for place in places if not os.path.isfile(place))
    return WorkflowFiles(_nvtabular(directory / METADATA), missing)


def _nvtabular(path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(MAX_METADATA_BYTES))["versions"]["nvtabular"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""
    return found if isinstance(found, str) and _VERSION.fullmatch(found) else ""


def _category_paths(pickle: Path) -> Iterator[str]:
    """The parquet files that Categorify operators were fitted into."""
    try:
        with pickle.open("rb") as file:
            root = read_pickle(file.read(MAX_PICKLE_BYTES))
    except (OSError, NotInert):
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
