"""Find the archives that a command line names, and check whether they could be served."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ensemble_tools.shipping import (
    ARCHIVE_ENDS,
    AUTO_COMPLETE,
    EnsembleToolsError,
    SourceTree,
    check_archive,
    describe_packing_alone,
    find_archives,
    lay_out,
    sentence_of,
)
from merlin_deploy.config.sections import Config
from merlin_deploy.config.values import archive_name
from merlin_deploy.errors import Refused

#: Names in a sentence.
_MOST_LISTED = 10
#: What the container reads as true.
_TRUE = ("true", "on", "1")


@dataclass(frozen=True)
class Source:
    """An archive, or a folder to be packed."""

    name: str  # as `put` calls it
    path: Path
    tree: SourceTree | None = None  # the folder to be packed, once it was checked
    notes: tuple[str, ...] = ()  # of the check, for whoever puts it

    @property
    def is_folder(self) -> bool:
        """Whether the source is a folder, which is packed first."""
        return self.path.is_dir()


def find_sources(
    paths: Sequence[Path], name: str | None, say: Callable[[str], None]
) -> tuple[Source, ...]:
    """A folder with models is one archive; another folder stands for the archives in it.

    name: for the archive, if there is only one. say: told which files of a folder are left out.
    Raises Refused, with all mistakes.
    """
    archives: list[Path] = []
    mistakes: list[str] = []
    for argument in paths:
        try:
            archives += _expand(argument, say)
        except (EnsembleToolsError, OSError) as error:
            mistakes.append(sentence_of(error))
        except ValueError as error:
            mistakes.append(str(error))
    if name is not None and len(archives) > 1:
        mistakes.append(
            f"--as {name} is for one archive; found {len(archives)}, such as {archives[0]} and "
            f"{archives[1]}"
        )
        archives.clear()  # else each would be said to have the name of the others
    sources: dict[str, Source] = {}
    for path in archives:
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


def check_all(
    sources: Sequence[Source], config: Config, *, check: bool, tell: Callable[[str], None]
) -> tuple[Source, ...]:
    """The sources as they are to be put. Raises Refused, with the refusal of each archive.

    check: False takes archives as they are.
    """
    environment = config.container.environment or {}
    strict = environment.get(AUTO_COMPLETE, "").lower() not in _TRUE
    checked, refusals = [], []
    for number, source in enumerate(sources, 1):
        tell(f"checking {source.path} ({number} of {len(sources)})")
        try:
            notes = check_archive(source.path, strict=strict) if check else ()
            tree = lay_out(source.path) if source.is_folder else None
            checked.append(replace(source, tree=tree, notes=notes))
        except OSError as error:
            refusals.append(str(refusal_of_disk(source, error)))
        except EnsembleToolsError as error:
            refusals.append(f"{source.name}: {error}")
    if refusals:
        raise Refused("\n".join([*refusals, "nothing was put; --no-check puts them as they are"]))
    return tuple(checked)


def refusal_of_disk(source: Source, error: OSError) -> Refused:
    """The system's error of an archive's files, or of temporary ones, with what to do."""
    sentence = f"{source.path}: {sentence_of(error)}"
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return Refused(sentence)
    return Refused(
        f"{sentence}: there is too little room in {tempfile.gettempdir()}; set TMPDIR to a "
        "directory with more"
    )


def _expand(argument: Path, say: Callable[[str], None]) -> Iterator[Path]:
    """Raises ValueError for what is neither an archive nor a folder with one."""
    if argument.is_file():
        if not argument.name.endswith(ARCHIVE_ENDS):
            raise ValueError(
                f"{argument}: found a file, expected an archive, whose name ends in .tar.gz, or a "
                f"folder{describe_packing_alone(argument)}"
            )
        yield argument
        return
    if not argument.is_dir():
        raise ValueError(f"{argument}: there is no such file or folder")
    archives, names = find_archives(argument)
    others = ", ".join(names[:_MOST_LISTED])
    if (more := len(names) - _MOST_LISTED) > 0:
        others += f" and {more} more"
    if not archives:
        raise ValueError(
            f"{argument}: found neither models nor archives in it ({others or 'nothing'}), "
            "expected an export, or a folder of exports and archives, whose names end in .tar.gz"
        )
    if others:
        say(f"{argument}: left out, as names of archives end in .tar.gz: {others}")
    yield from archives


def _name_source(path: Path, name: str | None) -> Source:
    """Raises ValueError if an archive cannot have its name."""
    own = path.resolve().name if path.name in ("", "..") else path.name
    own = next((own.removesuffix(end) for end in ARCHIVE_ENDS if own.endswith(end)), own)
    try:
        return Source(archive_name(own if name is None else name), path)
    except ValueError as error:
        if name is not None:
            raise ValueError(f"--as: found {name!r}, expected {error}") from error
        raise ValueError(
            f"{path}: as its name found {own!r}, expected {error}; put it by itself, with --as"
        ) from error
