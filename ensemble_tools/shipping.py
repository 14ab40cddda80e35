"""The functions for programs that ship archives: `merlin_deploy` imports this alone.

Find archives, check them by the rules of a load, pack them; and the sentences of what goes wrong.
What checks and packs takes half a second to import, so each function imports it when it is called.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import IO

from ensemble_tools.errors import (
    EnsembleToolsError,
    describe_packing_alone,
    printable,
    quoted,
    sentence_of,
)
from ensemble_tools.packing.source_tree import SourceTree, is_litter
from ensemble_tools.setting_names import AUTO_COMPLETE, FORMER_SETTINGS
from ensemble_tools.signals import (
    drop_output,
    heeded,
    ignore_signals,
    leave_in_order,
    open_outputs,
    reader_is_gone,
)

__all__ = [
    "ARCHIVE_ENDS",
    "AUTO_COMPLETE",
    "FORMER_SETTINGS",
    "EnsembleToolsError",
    "SourceTree",
    "check_archive",
    "describe_packing_alone",
    "drop_output",
    "find_archives",
    "heeded",
    "ignore_signals",
    "lay_out",
    "leave_in_order",
    "open_outputs",
    "pack_archive",
    "printable",
    "quoted",
    "reader_is_gone",
    "sentence_of",
]

#: How archives are called.
ARCHIVE_ENDS = (".tar.gz", ".tgz")


def find_archives(directory: Path) -> tuple[list[Path], list[str]]:
    """The archives that a directory stands for, and the names of its files that are none.

    A directory with models is one archive: itself. Any other one stands for the archives in it, and
    the directories, each of which is to be packed. Raises OSError, EnsembleToolsError.
    """
    from ensemble_tools.archive.files import names_in
    from ensemble_tools.archive.source_model import is_bare_model

    names = names_in(directory)
    inner = [directory / it for it in names if not (it.startswith(".") or is_litter(it))]
    if _holds_models(directory):
        return [directory], []
    if is_bare_model(directory) and not any(map(_is_archive, inner)):
        return [directory], []
    archives = [path for path in inner if path.is_dir() or path.name.endswith(ARCHIVE_ENDS)]
    return archives, [path.name for path in inner if path not in archives]


def check_archive(path: Path, *, strict: bool) -> tuple[str, ...]:
    """Notes on how an archive would be served, packed or not. Raises the refusal of its load.

    strict: Triton completes no config. Raises EnsembleToolsError, OSError.
    """
    from ensemble_tools.commands.path_argument import open_path
    from ensemble_tools.serving.opened_archive import check_archive as check_directory

    with open_path(path) as directory:
        return check_directory(directory, strict=strict)


def lay_out(directory: Path) -> SourceTree:
    """The entries of a directory's archive, and its size. Raises EnsembleToolsError, OSError.

    Models come to the top, whichever layout the directory has.
    """
    from ensemble_tools.packing.layout import find_packed_tree

    return find_packed_tree(directory)


def pack_archive(tree: SourceTree, file: IO[bytes], advance: Callable[[int], object]) -> None:
    """Write the .tar.gz; the same content gives the same bytes. advance: told of packed bytes.

    Raises OSError.
    """
    from ensemble_tools.packing.writing import write_archive

    write_archive(tree, file, advance)


def _holds_models(path: Path) -> bool:
    from ensemble_tools.archive.repository import model_directories
    from ensemble_tools.archive.source_model import is_model_directory

    return is_model_directory(path) or bool(model_directories(path))


def _is_archive(path: Path) -> bool:
    return path.name.endswith(ARCHIVE_ENDS) or (path.is_dir() and _holds_models(path))
