"""Whether archives could be served: all of them are looked at before the first is sent."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deploy.archives.sources import Source
from deploy.config.config import Config
from deploy.errors import Refused
from ensemble_tools.commands.path_argument import opened_path
from ensemble_tools.commands.setting_names import CONTAINERS_NAMES
from ensemble_tools.errors import EnsembleToolsError, sentence_of
from ensemble_tools.packing.checking import check_archive
from ensemble_tools.packing.layout import packed_tree
from ensemble_tools.packing.source_tree import SourceTree

#: What the container reads as true.
_TRUE = ("true", "on", "1")


@dataclass(frozen=True)
class Checked:
    """tree: what is to be packed; None of an archive that is packed. notes: for whoever puts it."""

    source: Source
    tree: SourceTree | None
    notes: tuple[str, ...] = ()


def completes_configs(config: Config) -> bool:
    """Whether the endpoint's containers let Triton complete configs."""
    environment = config.container.environment or {}
    return environment.get(CONTAINERS_NAMES.auto_complete, "").lower() in _TRUE


def check_all(
    sources: Sequence[Source], *, strict: bool, check: bool, tell: Callable[[str], None]
) -> tuple[Checked, ...]:
    """strict: Triton completes no config. check: False: any archive is taken, as it is.

    Raises Refused, with the refusal of every archive.
    """
    checked, refusals = [], []
    for number, source in enumerate(sources, 1):
        tell(f"checking {source.path} ({number} of {len(sources)})")
        try:
            checked.append(_check(source, strict=strict, check=check))
        except OSError as error:
            refusals.append(str(refusal_of_disk(source, error)))
        except EnsembleToolsError as error:
            refusals.append(f"{source.name}: {error}")
    if refusals:
        raise Refused("\n".join([*refusals, "nothing was put; --no-check puts them as they are"]))
    return tuple(checked)


def refusal_of_disk(source: Source, error: OSError) -> Refused:
    """What the system says of an archive's files, or of the temporary ones."""
    said = f"{source.path}: {sentence_of(error)}"
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return Refused(said)
    return Refused(
        f"{said}: there is too little room in {tempfile.gettempdir()}; set TMPDIR to a directory "
        "with more"
    )


def _check(source: Source, *, strict: bool, check: bool) -> Checked:
    notes: tuple[str, ...] = ()
    if check:
        with opened_path(source.path) as path:
            notes = check_archive(path, strict=strict, names=CONTAINERS_NAMES)
    return Checked(source, packed_tree(source.path) if source.is_folder else None, notes)
