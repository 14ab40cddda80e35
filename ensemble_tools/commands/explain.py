"""`explain`: Merlin's graph beside what Triton is given in its place, in five formats."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from ensemble_tools.commands.atomic_output import write_file
from ensemble_tools.commands.exit_codes import EPILOG, REFUSED, SERVED
from ensemble_tools.commands.path_argument import add_paths, open_path
from ensemble_tools.commands.several import (
    Row,
    find_worst_code,
    summarize_in_document,
    summarize_in_lines,
    take_each,
)
from ensemble_tools.errors import EnsembleToolsError
from ensemble_tools.explain.archive_picture import make_picture
from ensemble_tools.explain.graphviz import draw
from ensemble_tools.explain.json_writer import to_json
from ensemble_tools.explain.mermaid import mermaid
from ensemble_tools.explain.text import text_lines
from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.opened_archive import Archive, read_archive
from ensemble_tools.serving.plan import Rewrite

#: The `format` of what is said of several archives as JSON.
SEVERAL = "merlin-sagemaker-explain-several"
FORMATS = ("text", "json", "mermaid", "svg", "png")
#: Which format a file is meant to have, by its name's end.
_SUFFIXES = {".txt": "text", ".json": "json", ".mmd": "mermaid", ".svg": "svg", ".png": "png"}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`explain PATH`."""
    parser = commands.add_parser(
        "explain",
        help="show Merlin's graph, what Triton is given in its place, and the reasons",
        description=(
            "Show what an archive holds, Merlin's operator graph if the model is an "
            "executor export, the Triton models that would be served with each edge of the "
            "ensemble, which NVTabular workflows are served compiled and why others are not, and "
            "what was left out or refused and why. Nothing is loaded or run: pickles are read as "
            "data."
        ),
        epilog=EPILOG,
    )
    add_paths(parser)
    _add_output_options(parser)
    _add_serving_options(parser)
    parser.set_defaults(run=run, run_several=run_several, misuse=parser.error)


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="text for people, json for programs, mermaid for Markdown, svg or png for slides "
        "(drawn by Graphviz); default: by the end of FILE's name, else text",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write to FILE, whole or not at all, instead of standard output",
    )


def _add_serving_options(parser: argparse.ArgumentParser) -> None:
    """Options for what the container's own settings would say."""
    parser.add_argument(
        "--model-name",
        default="model",
        help="SageMaker's name for the model, which becomes its namespace (default: %(default)s)",
    )
    parser.add_argument(
        "--auto-complete",
        action="store_true",
        help="judge configs as with SERVE_AUTO_COMPLETE=true",
    )
    parser.add_argument(
        "--rewrite",
        choices=[choice.value for choice in Rewrite],
        default=Rewrite.AUTO.value,
        help="judge as with SERVE_REWRITE: the first form with the executor's numbers, an "
        "ensemble or nothing, or the executor itself (default: %(default)s)",
    )
    parser.add_argument(
        "--compile",
        choices=[choice.value for choice in Compile],
        default=Compile.AUTO.value,
        help="judge NVTabular workflows as with SERVE_COMPILE: compiled to a numpy program where "
        "the numbers are certain to be the same, which reads their category files; or off: not "
        "judged (default: %(default)s)",
    )


def run(options: argparse.Namespace) -> int:
    """Read, draw, write; the exit code says whether the archive can be served."""
    format_name: str = options.format or _format_by_name(options.output)
    if not format_name:
        known = ", ".join(sorted(_SUFFIXES))
        options.misuse(f"{options.output}: no format goes by this ending; use {known}, or --format")
    if format_name == "png" and options.output is None and sys.stdout.isatty():
        options.misuse("a PNG is no text for a terminal: name a file with -o")
    archive = _read(options)
    _write(render_plans(archive, options.model_name, format_name), options.output)
    return SERVED if archive.plan else REFUSED


def run_several(options: argparse.Namespace) -> int:
    """Each of options.paths, and a table; as JSON one object of all."""
    format_name: str = options.format or _format_by_name(options.output)
    if format_name not in ("text", "json"):
        options.misuse(
            f"found {len(options.paths)} paths: {format_name or options.output} is for one "
            "archive; name one, or take text or json"
        )
    contents: list[bytes] = []

    def explain_one(path: Path) -> Row:
        options.given = path
        with open_path(path) as options.path:
            archive = _read(options)
            contents.append(render_plans(archive, options.model_name, format_name))
        if format_name == "text" and options.output is None:
            _write(contents[-1] + b"\n", None)
        document = json.loads(contents[-1]) if format_name == "json" else None
        return replace(_describe(path, archive), document=document)

    rows = take_each(options.paths, explain_one, (EnsembleToolsError, OSError), REFUSED)
    if format_name == "json":
        whole = json.dumps(summarize_in_document(SEVERAL, rows), indent=2)
        _write(f"{whole}\n".encode(), options.output)
    else:
        table = "".join(f"{line}\n" for line in summarize_in_lines(rows)).encode()
        before = b"" if options.output is None else b"".join(it + b"\n" for it in contents)
        _write(before + table, options.output)
    return find_worst_code(rows)


def _describe(path: Path, archive: Archive) -> Row:
    if archive.plan is None:
        return Row(str(path), REFUSED, "cannot be served", str(archive.refusal or ""))
    plan = archive.plan
    notes = (*plan.notes, *plan.doubts)
    return Row(str(path), SERVED, plan.form.value, "; ".join(plan.reasons), notes)


def _read(options: argparse.Namespace) -> Archive:
    archive = read_archive(
        options.path,
        options.model_name,
        strict=not options.auto_complete,
        rewrite=Rewrite(options.rewrite),
        workflows=Compile(options.compile),
    )
    archive = replace(archive, repository=replace(archive.repository, path=options.given))
    if archive.refusal is not None:  # it names files below the directory that is looked at
        sentence = str(archive.refusal).replace(str(options.path), str(options.given))
        archive.refusal.args = (sentence,)
    return archive


def _write(content: bytes, output: Path | None) -> None:
    if output is not None:
        write_file(output, content)
    else:
        sys.stdout.flush()
        _write_out(content)


def render_plans(archive: Archive, model_name: str, format_name: str) -> bytes:
    """The archive in one of FORMATS."""
    picture = make_picture(archive, model_name)
    if format_name == "text":
        return "".join(f"{line}\n" for line in text_lines(archive, picture)).encode(
            errors="backslashreplace"
        )
    if format_name == "json":
        return to_json(picture).encode()
    if format_name == "mermaid":
        return mermaid(picture).encode()
    return draw(picture, format_name)


def _format_by_name(output: Path | None) -> str:
    """The format that the file's name asks for: text without an ending, empty for another one."""
    suffix = output.suffix.lower() if output else ""
    return _SUFFIXES.get(suffix, "") if suffix else "text"


def _write_out(content: bytes) -> None:
    """To standard output as bytes; a stream that has none (a test's) gets text."""
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is not None:
        buffer.write(content)
        buffer.flush()
    else:
        sys.stdout.write(content.decode())
