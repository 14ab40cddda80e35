"""Where an archive may lie: below the model root, after symbolic links are followed."""

from __future__ import annotations

import os
from pathlib import Path

from ensemble_tools.files import is_directory
from serve.archive_errors import archive_errors
from serve.errors import BadRequest, shortened


def source_directory(url: str, root: Path) -> Path:
    """The directory that a load's `url` names; touches the file system.

    Raises BadRequest unless it is an absolute path of an existing directory inside root, both taken
    after symbolic links. The platform names /opt/ml/models/<hash>/model.
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
            f"a directory under {root} (set SERVE_MODEL_ROOT to change the root)",
        )
    with archive_errors(f"the directory {shortened(url)} could not be looked at"):
        found = is_directory(directory)
    if not found:
        raise BadRequest(
            "the field `url`", f"{shortened(url)}, which is no directory", "an extracted archive"
        )
    return directory


def archive_identity(url: str) -> str:
    """What tells this archive from another one at the same place; touches the file system."""
    try:
        found = os.stat(url)
    except (OSError, ValueError):
        return url
    return f"{url} {found.st_dev} {found.st_ino} {found.st_mtime_ns}"


def _is_path(text: str) -> bool:
    try:
        return b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
