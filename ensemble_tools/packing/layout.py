"""The layout of an archive: model directories at the top, whichever layout they came in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ensemble_tools.errors import ArchiveError
from ensemble_tools.packing.source_tree import Entry, SourceTree, walk
from ensemble_tools.serving.opened_archive import open_repository


def find_packed_tree(path: Path) -> SourceTree:
    """The archive's entries: models at the top, whichever layout path has.

    One extra directory around the models is dropped; a model that is the top gets its name in
    front. What cannot be read as a repository (--no-check) is taken as it lies there.
    """
    try:
        repository = open_repository(path)
    except ArchiveError:
        return walk(path, path)
    model = repository.entry
    if not model.directory.samefile(path):
        return walk(model.directory.parent, path)
    inner = walk(path, path)
    moved = (replace(entry, path=f"{model.name}/{entry.path}") for entry in inner.entries)
    return SourceTree(
        (Entry(model.name, path, is_directory=True), *moved),
        tuple(f"{model.name}/{file}" for file in inner.left_out),
    )
