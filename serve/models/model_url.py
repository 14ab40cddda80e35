"""Where an archive may lie: below the model root, after symbolic links are followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from ensemble_tools import EnsembleToolsError
from ensemble_tools.archive.files import is_directory, read_bounded
from serve.errors import BadRequest, shortened


def check_source_directory(url: str, root: Path, root_setting: str = "") -> Path:
    """The directory that a load's `url` names; touches the file system.

    Raises BadRequest unless it is an absolute path of an existing directory inside root, both taken
    after symbolic links. The platform names /opt/ml/models/<hash>/model. root_setting: what sets
    the root, as a message names it.
    """
    if not url.startswith("/") or not _is_path(url):
        raise BadRequest("the field `url`", shortened(url), f"an absolute path under {root}")
    directory = Path(os.path.realpath(url))
    real_root = Path(os.path.realpath(root))
    if directory == real_root:
        raise BadRequest(
            "the field `url`", f"{shortened(url)}, the model root itself", "a directory inside it"
        )
    if real_root not in directory.parents:
        raise BadRequest(
            "the field `url`",
            f"{shortened(url)}, which lies outside of the model root",
            f"a directory under {root}"
            + (f" (set {root_setting} to change the root)" if root_setting else ""),
        )
    if not is_directory(directory):
        raise BadRequest(
            "the field `url`", f"{shortened(url)}, which is no directory", "an extracted archive"
        )
    return directory


#: Files up to this size count with their content, and so many bytes of them in all.
_READ, _READ_IN_ALL = 64 * 1024, 4 * 1024 * 1024
#: Entries that are looked at, the first by name.
_MOST_ENTRIES = 5_000


def identify_archive(url: str) -> str:
    """Tells this archive from another one, wherever it lies; touches the file system.

    url: as check_source_directory took it. The names and sizes of its files, and the contents of
    short ones: configs and programs. The same archive, extracted anew, is the same; a mended one
    is another.
    """
    digest = blake2b(digest_size=16)
    left = _READ_IN_ALL
    for path in islice(_list_files(Path(url)), _MOST_ENTRIES):
        with suppress(OSError, ValueError, EnsembleToolsError):
            size = path.lstat().st_size
            digest.update(f"{path.relative_to(url)}\0{size}\0".encode(errors="surrogateescape"))
            if size <= min(_READ, left) and path.is_file() and not path.is_symlink():
                left -= size
                digest.update(read_bounded(path, _READ) or b"")
    return digest.hexdigest()


def _list_files(top: Path) -> Iterator[Path]:
    """Everything below, in the order of names; links are not followed."""
    for directory, names, files in os.walk(top):
        names.sort()
        for name in sorted((*names, *files)):
            yield Path(directory, name)


def _is_path(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
