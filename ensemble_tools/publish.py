"""ServingPlan -> directories in the serving repository, by rename; retract takes them away.

Each published model is an overlay: its config.pbtxt is ours, every other file is a symbolic link to
what SageMaker delivered, which is never changed. Directories are made anew: Triton's python stubs
write `__pycache__` beside what they import, whatever PYTHONDONTWRITEBYTECODE says (seen with 2.36
and 2.51). A model is made whole under a hidden name and then renamed, so tritonserver never sees
half of one.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path

from ensemble_tools.errors import shortened
from ensemble_tools.plan import PublishedModel, ServingPlan
from ensemble_tools.repository import CONFIG_FILE

_STAGING_PREFIX = ".staging-"
#: Directories in one another, in a model directory; a SavedModel or a python package has some ten.
MAX_DEPTH = 100
#: Entries that are reached through links to directories: a few such links can multiply without end.
MAX_BELOW_LINKS = 10_000

_Identity = tuple[int, int]


def publish(plan: ServingPlan, serving_repository: Path) -> None:
    """Write the plan's model directories; on an error nothing of the plan is left behind.

    Blocking. Raises OSError (no space, name taken): FileExistsError means that a name is in use.
    """
    staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=serving_repository))
    published: list[Path] = []
    try:
        for model in plan.models:
            _write(model, staging / model.triton_name)
        for model in plan.models:
            target = serving_repository / model.triton_name
            if target.exists():
                raise FileExistsError(f"{target} is in use")
            (staging / model.triton_name).rename(target)
            published.append(target)
    except BaseException:
        for target in published:
            shutil.rmtree(target, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def retract(plan: ServingPlan, serving_repository: Path) -> None:
    """Remove the plan's model directories; those already gone are no error. Blocking."""
    for model in plan.models:
        shutil.rmtree(serving_repository / model.triton_name, ignore_errors=True)


def _write(model: PublishedModel, directory: Path) -> None:
    directory.mkdir()
    if model.config_text is not None:
        (directory / CONFIG_FILE).write_text(model.config_text, encoding="utf-8")
    for name, target in model.links:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        _overlay(target.parent.resolve() / target.name, directory / name)
    for version in model.empty_versions:
        (directory / str(version)).mkdir()
    for name, text in model.files:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # a link: writing to it would change what was delivered
        path.write_text(text, encoding="utf-8")


def _overlay(source: Path, place: Path) -> None:
    """Links to files in directories of our own; a link to a directory is followed.

    A link that leads nowhere, or back to a directory that it is in, is linked to as it is. Raises
    OSError for what goes on for ever, or nearly.
    """
    made_below_links = 0
    waiting: list[tuple[Path, Path, tuple[_Identity, ...], bool]] = [(source, place, (), False)]
    while waiting:
        source, place, above, below_link = waiting.pop()
        made_below_links += below_link
        if made_below_links > MAX_BELOW_LINKS:
            reason = f"its links to directories lead to more than {MAX_BELOW_LINKS} entries"
            raise OSError(errno.ELOOP, reason, shortened(str(source)))
        if not source.is_dir() or _identity(source) in above:
            place.symlink_to(source)
            continue
        if len(above) >= MAX_DEPTH:
            reason = f"directories are nested more than {MAX_DEPTH} deep"
            raise OSError(errno.ENAMETOOLONG, reason, shortened(str(source)))
        place.mkdir()
        inside = (*above, _identity(source))
        below = below_link or source.is_symlink()
        waiting += [(child, place / child.name, inside, below) for child in source.iterdir()]


def _identity(path: Path) -> _Identity:
    found = path.stat()
    return found.st_dev, found.st_ino
