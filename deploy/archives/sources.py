"""Find the archives that a command line names, and check whether they could be served."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.config.sections import Config
from deploy.config.values import archive_name
from deploy.errors import Refused
from ensemble_tools import model_directories
from ensemble_tools.archive.files import names_in
from ensemble_tools.archive.source_model import is_bare_model, is_model_directory
from ensemble_tools.commands.path_argument import opened_path
from ensemble_tools.commands.setting_names import CONTAINERS_NAMES
from ensemble_tools.errors import EnsembleToolsError, describe_packing_alone, sentence_of
from ensemble_tools.packing.checking import check_archive
from ensemble_tools.packing.layout import packed_tree
from ensemble_tools.packing.source_tree import SourceTree, is_litter

#: How archives are called.
_ENDS = (".tar.gz", ".tgz")
#: How many names are listed in a sentence.
_MOST = 10


@dataclass(frozen=True)
class Source:
    """An archive that was packed, or a folder that is to be. name: what it is called from now."""

    name: str
    path: Path

    @property
    def is_folder(self) -> bool:
        """Whether it is to be packed."""
        return self.path.is_dir()


def find_sources(
    paths: Sequence[Path], name: str | None, say: Callable[[str], None]
) -> tuple[Source, ...]:
    """A folder that has models is one archive; any other one stands for all that lies in it.

    name: of the one archive that there is then. say: of files in a folder that are left out.
    Raises Refused, with all mistakes.
    """
    found, mistakes = [], []
    for given in paths:
        try:
            found += list(_expand(given, say))
        except (EnsembleToolsError, OSError) as error:
            mistakes.append(sentence_of(error))
        except ValueError as error:
            mistakes.append(str(error))
    if name is not None and len(found) > 1:
        mistakes.append(
            f"--as {name} is for one archive; found {len(found)}, such as {found[0]} and {found[1]}"
        )
        found.clear()  # else each would be told of the others, too
    sources: dict[str, Source] = {}
    for path in found:
        try:
            source = _name_source(path, name)
        except ValueError as error:
            mistakes.append(str(error))
            continue
        other = sources.setdefault(source.name, source)
        if other is not source:
            mistakes.append(
                f"{other.path} and {path} are both called {source.name}; put one of them by "
                "itself, with --as"
            )
    if mistakes:
        raise Refused("\n".join(mistakes))
    return tuple(sources.values())


def _expand(given: Path, say: Callable[[str], None]) -> Iterator[Path]:
    """Raises ValueError for what is neither."""
    if given.is_file():
        if not given.name.endswith(_ENDS):
            raise ValueError(
                f"{given}: found a file, expected an archive, whose name ends in .tar.gz, or a "
                f"folder{describe_packing_alone(given)}"
            )
        yield given
        return
    if not given.is_dir():
        raise ValueError(f"{given}: there is no such file or folder")
    names = (name for name in names_in(given) if not (name.startswith(".") or is_litter(name)))
    inner = [given / name for name in names]
    if _holds_models(given) or (is_bare_model(given) and not any(map(_is_archive, inner))):
        yield given
        return
    archives = [one for one in inner if one.is_dir() or one.name.endswith(_ENDS)]
    others = _list([one.name for one in inner if one not in archives])
    if not archives:
        raise ValueError(
            f"{given}: found neither models nor archives in it ({others or 'nothing'}), expected "
            "an export, or a folder of exports and archives, whose names end in .tar.gz"
        )
    if others:
        say(f"{given}: left out, as names of archives end in .tar.gz: {others}")
    yield from archives


def _holds_models(path: Path) -> bool:
    return is_model_directory(path) or bool(model_directories(path))


def _is_archive(path: Path) -> bool:
    return path.name.endswith(_ENDS) or (path.is_dir() and _holds_models(path))


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST]) + (f" and {len(names) - _MOST} more" if names[_MOST:] else "")


def _name_source(path: Path, name: str | None) -> Source:
    """Raises ValueError where its name cannot be an archive's."""
    own = path.resolve().name if path.name in ("", "..") else path.name
    called = next((own.removesuffix(end) for end in _ENDS if own.endswith(end)), own)
    try:
        return Source(archive_name(called if name is None else name), path)
    except ValueError as error:
        if name is not None:
            raise ValueError(f"--as: found {name!r}, expected {error}") from error
        raise ValueError(
            f"{path}: as its name found {called!r}, expected {error}; put it by itself, with --as"
        ) from error


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
