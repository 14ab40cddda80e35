"""`pack`: a directory -> model.tar.gz as SageMaker wants it, checked first by the rules of a load.

The same input gives the same bytes. Model directories are at the top, which is the one layout that
multi-model and single-model endpoints, this container and AWS's own all take.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ensemble_tools.archive.source_model import CONFIG_FILE
from ensemble_tools.commands.atomic_output import (
    DestinationUnusable,
    check_no_directory,
    read_default_mode,
    stage_beside,
)
from ensemble_tools.commands.exit_codes import EPILOG, REFUSED, SERVED
from ensemble_tools.commands.path_argument import add_paths, open_path
from ensemble_tools.commands.progress import format_size, progress
from ensemble_tools.commands.several import Row, find_worst_code, summarize_in_lines, take_each
from ensemble_tools.errors import EnsembleToolsError
from ensemble_tools.packing.layout import find_packed_tree
from ensemble_tools.packing.source_tree import SourceTree
from ensemble_tools.packing.writing import write_archive
from ensemble_tools.serving.opened_archive import check_archive, open_repository

SUFFIXES = (".tar.gz", ".tgz")
#: A file is meant by a name that ends so.
_FILES = (*SUFFIXES, ".gz", ".tar", ".zip")
MAX_COPIES = 100_000
_MAX_LISTED = 10

_DESCRIPTION = (
    "Write the archive that SageMaker downloads: gzip, model directories at the top, no "
    "links, no owners. It is first checked by the rules of a load. Links become "
    "what they lead to; one that leads nowhere is refused, though the container would "
    "mind it only where something reads it. Equal input gives equal bytes. Litter "
    "(__pycache__, .DS_Store, __MACOSX, .git, …) is left out. "
    "The output appears whole or not at all; an older file of that name is replaced."
)


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`pack PATH… -o FILE`."""
    parser = commands.add_parser(
        "pack",
        help="check an archive or export and pack it as SageMaker wants it",
        description=_DESCRIPTION,
        epilog=EPILOG,
    )
    add_paths(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="the archive to write; its name ends in .tar.gz. Or a directory, which several need "
        "and which is made for them: each archive is NAME.tar.gz in it, NAME being the path's own",
    )
    parser.add_argument(
        "--copies",
        type=_parse_copies,
        metavar="N",
        help="write N archives, FILE-000.tar.gz and so on, equal but for their names: for load "
        "tests with many models. They are real files, and compressed once",
    )
    parser.add_argument(
        "--no-check", action="store_true", help="pack it even if it could not be served"
    )
    parser.add_argument(
        "--auto-complete",
        action="store_true",
        help="check configs as with SERVE_AUTO_COMPLETE=true",
    )
    parser.set_defaults(run=run, run_several=run_several, misuse=parser.error)


def _parse_copies(raw: str) -> int:
    """How many; raises ArgumentTypeError, which argparse prints behind the option's name."""
    if raw.isascii() and raw.isdecimal() and len(raw) < 10 and 1 <= int(raw) <= MAX_COPIES:
        return int(raw)
    raise argparse.ArgumentTypeError(f"found {raw!r}, expected a number from 1 to {MAX_COPIES}")


def run(options: argparse.Namespace) -> int:
    """Check and pack the archive, and tell of it."""
    output: Path = options.output
    suffix = _find_suffix(output)
    if not suffix and output.is_dir():
        output, suffix = _name_in(output, options.given), SUFFIXES[0]
    if not suffix or output.name == suffix:
        options.misuse(
            f"-o {output}: expected a name that ends in .tar.gz, as SageMaker does, or a directory "
            "that is there"
        )
    _run(options, output, suffix)
    return SERVED


def run_several(options: argparse.Namespace) -> int:
    """Each of options.paths into one directory, and a table; no two under one name."""
    directory: Path = options.output
    if options.copies is not None:
        options.misuse(f"--copies is for one archive; found {len(options.paths)} paths")
    if not directory.is_dir() and (directory.exists() or directory.name.endswith(_FILES)):
        options.misuse(
            f"-o {directory}: found {len(options.paths)} paths, expected a directory, for an "
            "archive of each"
        )
    outputs: dict[Path, Path] = {}
    for path in options.paths:
        output = _name_in(directory, path)
        _check_outside(path, output)
        other = outputs.setdefault(output, path)
        if other is not path:
            options.misuse(
                f"{other} and {path} would both be {output}; nothing was "
                f"written: {_advise_names(other, path)}"
            )
    directory.mkdir(parents=True, exist_ok=True)

    def pack_one(path: Path) -> Row:
        options.given, output = path, _name_in(directory, path)
        with open_path(path) as options.path:
            size, notes = _run(options, output, SUFFIXES[0])
        return Row(str(path), SERVED, format_size(size), str(output), notes)

    rows = take_each(options.paths, pack_one, (EnsembleToolsError, OSError), REFUSED)
    for line in summarize_in_lines(rows):
        print(line)
    return find_worst_code(rows)


def _advise_names(first: Path, other: Path) -> str:
    """How two archives of one name get two."""
    above = (first.parent, other.parent)
    if above[0].name != above[1].name and all(map(_is_one_archive, above)):
        return f"name the folders above, {above[0]} and {above[1]}: the archives get their names"
    return "pack one of them by itself, under another name"


def _is_one_archive(path: Path) -> bool:
    try:
        return path.name != "" and bool(open_repository(path).models)
    except EnsembleToolsError:
        return False


def _find_suffix(path: Path) -> str:
    """The end of its name, if that is an archive's."""
    return next((end for end in SUFFIXES if path.name.endswith(end)), "")


def _name_in(directory: Path, path: Path) -> Path:
    """The archive's path in a directory, with the name of what is packed."""
    name = Path(os.path.realpath(path)).name if path.name in ("", "..") else path.name
    return directory / f"{name.removesuffix(_find_suffix(path))}{SUFFIXES[0]}"


def _run(options: argparse.Namespace, output: Path, suffix: str) -> tuple[int, tuple[str, ...]]:
    """Check, pack, tell; the size of an archive in bytes, and the notes."""
    notes = _check(options)
    tree = find_packed_tree(options.path)
    outputs = _name_outputs(output, suffix, options.copies)
    _check_outputs(options.path, outputs)
    size = pack(tree, outputs)
    _print_report(tree, outputs, size, notes)
    return size, notes


def pack(tree: SourceTree, outputs: list[Path]) -> int:
    """Write every output, or none; the size of one in bytes. Blocking."""
    mode = read_default_mode(0o666)
    with stage_beside(outputs[0]) as staging:
        first = staging / "0"
        with progress("packing", tree.size) as advance, first.open("wb") as file:
            write_archive(tree, file, advance)
        size = first.stat().st_size
        staged = [first, *(staging / str(number) for number in range(1, len(outputs)))]
        _check_space(outputs[0], size * (len(outputs) - 1))
        with progress("copying", size * (len(outputs) - 1)) as advance:
            for copy in staged[1:]:
                shutil.copyfile(first, copy)
                advance(size)
        for archive in staged:
            archive.chmod(mode)
        _rename_all(staged, outputs)
    return size


def _rename_all(staged: list[Path], outputs: list[Path]) -> None:
    renamed: list[Path] = []
    try:
        for archive, output in zip(staged, outputs, strict=True):
            archive.replace(output)
            renamed.append(output)
    except BaseException:
        for output in renamed:
            output.unlink(missing_ok=True)
        raise


def _check(options: argparse.Namespace) -> tuple[str, ...]:
    if options.no_check:
        return ()
    return check_archive(options.path, strict=not options.auto_complete)


def _name_outputs(output: Path, suffix: str, copies: int | None) -> list[Path]:
    if copies is None:
        return [output]
    stem = output.name.removesuffix(suffix)
    width = max(3, len(str(copies - 1)))
    return [output.with_name(f"{stem}-{number:0{width}}{suffix}") for number in range(copies)]


def _check_outputs(path: Path, outputs: list[Path]) -> None:
    _check_outside(path, outputs[0])
    for output in outputs:
        check_no_directory(output)


def _check_outside(path: Path, output: Path) -> None:
    destination = Path(os.path.realpath(output.absolute().parent))
    source = Path(os.path.realpath(path))
    if destination == source or source in destination.parents:
        raise DestinationUnusable(
            output, "it lies inside what is to be packed", "name a place outside of it"
        )


def _check_space(output: Path, needed: int) -> None:
    free = shutil.disk_usage(output.absolute().parent).free
    if needed > free:
        raise DestinationUnusable(
            output,
            f"the copies need {format_size(needed)} and {format_size(free)} are free there",
            "ask for fewer copies, or name another place",
        )


def _print_report(tree: SourceTree, outputs: list[Path], size: int, notes: tuple[str, ...]) -> None:
    for line in _report_lines(tree, outputs, size, notes):
        print(line)


def _report_lines(
    tree: SourceTree, outputs: list[Path], size: int, notes: tuple[str, ...]
) -> Iterator[str]:
    if tree.left_out:
        unlisted = len(tree.left_out) - _MAX_LISTED
        more = f" and {unlisted} more" if unlisted > 0 else ""
        yield f"left out: {', '.join(tree.left_out[:_MAX_LISTED])}{more}"
    for note in notes:
        yield f"note: {note}"
    configs = sum(entry.path.endswith(f"/{CONFIG_FILE}") for entry in tree.files)
    contents = (
        f"{max(1, configs)} models, {len(tree.files)} files, {format_size(tree.size)} unpacked"
    )
    if len(outputs) == 1:
        yield f"{outputs[0]}  {format_size(size)}  ({contents})"
        return
    yield f"{outputs[0]} … {outputs[-1].name}  {format_size(size)} each  ({contents})"
    yield f"{len(outputs)} archives, {format_size(size * len(outputs))} in all"
