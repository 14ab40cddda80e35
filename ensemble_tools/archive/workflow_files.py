"""Reads what an exported NVTabular workflow says of itself: its release, its files.

Its pickle is read as data. The paths in it are of the machine that exported it. Workflow.save
copies what lies under an operator's out_path, and Workflow.load puts the directory that it is
given in the place of that path, as text. So a file lies in the workflow's directory, or beside it:
Categorify joins the default out_path, `./`, and `categories/` of its vocabs without another slash,
and `1/workflowcategories/` comes of it. What does not lie under out_path is not copied.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ensemble_tools.archive.executor_template import is_workflow_model
from ensemble_tools.archive.files import is_file, kind, read_bounded
from ensemble_tools.archive.inert_pickle import (
    Inert,
    NotInert,
    Unpicklable,
    class_name,
)
from ensemble_tools.archive.nvtabular_release import Content, judge_content, judge_saved
from ensemble_tools.archive.saved_workflow import GRAPH, find_workflow_file, read_objects
from ensemble_tools.errors import EnsembleToolsError

METADATA = "metadata.json"
#: Fitted operators that have files -> the attribute with their paths.
_FILES_OF = {
    "nvtabular.ops.categorify.Categorify": "categories",
    "nvtabular.ops.join_groupby.JoinGroupby": "categories",
    "nvtabular.ops.target_encoding.TargetEncoding": "stats",
}
_FILLS_LISTS = "nvtabular.ops.list_slice.ListSlice"
#: Elements that it may fill a list up to; each row of a request has its own.
_MOST_ELEMENTS = 1_000_000
#: The file is some hundred bytes.
MAX_METADATA_BYTES = 64 * 1024
#: PATH_MAX.
_LONGEST_PATH = 4096
_VERSION = re.compile(r"[0-9A-Za-z.+!_-]{1,40}")


@dataclass(frozen=True)
class WorkflowFiles:
    """The files of an NVTabular workflow, and what they say of it."""

    #: The version of NVTabular in the workflow's label, empty where it names none.
    nvtabular: str = ""
    #: Files that are not there, by their paths in the archive.
    missing: tuple[Path, ...] = ()
    #: Files that NVTabular cannot read, and why.
    broken: tuple[tuple[Path, str], ...] = ()
    #: Operators, and their files that are neither in the archive nor on this machine.
    elsewhere: tuple[tuple[str, str], ...] = ()
    #: The category files that are there.
    categories: tuple[Path, ...] = ()
    #: The release that wrote the workflow, by what the pickle holds.
    content: Content = field(default_factory=Content)
    #: Why NVTabular fails on the label, which compiling does not need; empty where it does not
    #: fail.
    unlabelled: str = ""
    #: False for a workflow that was saved as graph.json.
    pickled: bool = True
    #: Whether the model.py beside it is Merlin's own workflow step, as merlin-systems 23.08
    #: exports it.
    merlins_step: bool = False
    #: Why no tables can be made of the category files, once their reader has said so; else empty.
    unusable: str = ""


class _Broken(Exception):
    """The file is none that Workflow.load (nvtabular 23.8) reads; the message says what it is."""


class _Unlabelled(Exception):
    """The label in metadata.json is wrong; the message says how."""


def find_category_path(path: Any, out_path: Any, directory: Path) -> Path | None:
    """The path at which Workflow.load reads an operator's file (nvtabular, _copy_storage).

    path, out_path: as the operator has them. None for what lies neither in the directory nor beside
    it, such as a file that was not copied; and for what is no path.
    """
    if not isinstance(path, str) or not isinstance(out_path, str) or not out_path:
        return None
    if max(len(path), len(out_path)) > _LONGEST_PATH or not path.isprintable():
        return None
    text = path.replace(out_path, str(directory))
    below = text.removeprefix(str(directory))
    if len(text) > _LONGEST_PATH or below == text or ".." in Path(below).parts:
        return None
    return Path(text)


def read_workflow_files(directory: Path, model_file: Path | None = None) -> WorkflowFiles | None:
    """Look at a workflow's directory; None when it holds no workflow and Merlin's step wants none.

    model_file: the Python file that Triton runs beside it, None where it runs none. Raises as
    read_bounded does. Of what is not as NVTabular writes it only that is told which Merlin's own
    workflow step fails on; another model.py knows itself what it needs.
    """
    saved, metadata = find_workflow_file(directory), directory / METADATA
    absent = tuple(path for path in (saved, metadata) if not is_file(path))
    merlins_step = model_file is not None and is_workflow_model(model_file)
    if absent and merlins_step:
        return WorkflowFiles(missing=absent, merlins_step=True)
    if saved in absent:
        return None
    pickled = saved.name != GRAPH
    broken: list[tuple[Path, str]] = []
    content, files = Content(), []
    version = unlabelled = ""
    try:
        root = _read_root(saved)
        objects = _walk_objects(root)
        content = judge_content(root, objects) if pickled else judge_saved(objects)
        files = list(_find_operators_files(root))
    except _Broken as error:
        broken.append((saved, str(error)))
    try:
        version = _read_label(metadata)
    except _Unlabelled as error:
        unlabelled = str(error)
    except _Broken as error:
        broken.append((metadata, str(error)))
    if not merlins_step:
        unlabelled = ""
    elif broken:
        return WorkflowFiles(pickled=pickled, broken=tuple(broken), merlins_step=True)
    return replace(
        _find_files(version, files, directory),
        content=content,
        unlabelled=unlabelled,
        pickled=pickled,
        merlins_step=merlins_step,
    )


def _find_files(
    version: str, files: Iterable[tuple[str, Any, Any]], directory: Path
) -> WorkflowFiles:
    there: set[Path] = set()
    missing: set[Path] = set()
    elsewhere: set[tuple[str, str]] = set()
    for operator, path, out_path in files:
        path_in_archive = find_category_path(path, out_path, directory)
        if path_in_archive is not None:
            (missing if kind(path_in_archive) is None else there).add(path_in_archive)
        elif _is_path(path) and not _is_here(path):
            elsewhere.add((operator, path))
        elif _is_path(path):
            there.add(Path(path))
    return WorkflowFiles(
        version,
        tuple(sorted(missing)),
        elsewhere=tuple(sorted(elsewhere)),
        categories=tuple(sorted(there)),
    )


def _is_path(path: Any) -> bool:
    return isinstance(path, str) and path.isprintable() and 0 < len(path) <= _LONGEST_PATH


def _is_here(path: str) -> bool:
    """Whether there is such a file on this machine, which NVTabular then reads."""
    try:
        return os.path.isabs(path) and kind(Path(path)) is not None
    except EnsembleToolsError:
        return False


def _read_label(path: Path) -> str:
    """Workflow.load takes versions.nvtabular apart as text."""
    data = read_bounded(path, MAX_METADATA_BYTES) if is_file(path) else None
    if data is None or len(data) > MAX_METADATA_BYTES:
        return ""
    try:
        release = json.loads(data)["versions"]["nvtabular"]
        if not isinstance(release, str):
            raise TypeError
    except (KeyError, TypeError) as error:
        raise _Unlabelled("it does not say which release of NVTabular wrote it") from error
    except (ValueError, RecursionError) as error:
        raise _Broken("it is no JSON") from error
    return release if _VERSION.fullmatch(release) else ""


def _read_root(saved: Path) -> Any:
    """The workflow, None where it takes too much to read; raises _Broken where it is none."""
    try:
        return read_objects(saved)
    except Unpicklable as error:
        raise _Broken(str(error)) from error
    except NotInert:
        return None


def _find_operators_files(root: Any) -> Iterator[tuple[str, Any, Any]]:
    """Operators, the paths of files that they were fitted into, and their out_paths."""
    for inert in _walk_objects(root):
        if class_name(inert) == _FILLS_LISTS:
            _check_filling(inert)
        files = inert.state.get(_FILES_OF.get(class_name(inert), ""))
        if isinstance(files, dict):
            operator = class_name(inert).rpartition(".")[2]
            yield from ((operator, path, inert.state.get("out_path")) for path in files.values())


def _check_filling(inert: Inert) -> None:
    elements = inert.state.get("max_elements")
    fills = inert.state.get("pad") not in (False, None)
    if fills and isinstance(elements, int) and elements > _MOST_ELEMENTS:
        raise _Broken(
            f"ListSlice with pad fills each list up to {elements} elements, and up to "
            f"{_MOST_ELEMENTS} are served: give it an end"
        )


def _walk_objects(root: Any) -> Iterator[Inert]:
    """Every object that it holds, each once."""
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
