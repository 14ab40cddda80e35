"""`rewrite`: an archive -> a plain Triton repository, which needs nothing of ours at run time.

AWS's SageMaker Triton container is tritonserver with its own frontend. How that finds what to load
(triton-inference-server/server, src/sagemaker_server.cc, SageMakerMMELoadModel): it reads the
config.pbtxt of each directory (no links) at the top of the archive, and takes the one whose text
matches `platform:(\\s)*"ensemble"`; of several, the last that the file system happens to list. So
exactly one config's text must match, the entry model's. The search knows nothing of comments, and
nothing of single quotes: with these, what it finds is ours to say without a change of meaning.

A compiled workflow is written without what NVTabular would read: its step runs on numpy alone.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from google.protobuf import text_format

from ensemble_tools.archive.model_config import parse_leniently
from ensemble_tools.archive.repository import PACKED, read_repository
from ensemble_tools.archive.source_model import CONFIG_FILE, WORKFLOW
from ensemble_tools.commands.atomic_output import (
    DestinationUnusable,
    check_empty,
    read_default_mode,
    stage_beside,
)
from ensemble_tools.commands.exit_codes import EPILOG, SERVED
from ensemble_tools.commands.path_argument import add_path
from ensemble_tools.commands.progress import format_size
from ensemble_tools.errors import ConfigIncomplete, EnsembleToolsError, shortened
from ensemble_tools.packing.source_tree import check_link, walk
from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.opened_archive import (
    Archive,
    describe_operators,
    read_archive,
    require_plan,
)
from ensemble_tools.serving.plan import Choices, Form, PublishedModel, ServingPlan, plan_archive
from ensemble_tools.serving.publish import put_compiled

#: platform_ensemble_regex_ of sagemaker_server.h.
_FOUND_BY_FRONTEND = re.compile(r'platform:(\s*)"ensemble"')
_MARK = '# AWS\'s frontend finds the model to load by this text: platform: "ensemble"\n'
#: The frontend's model_path_regex_ takes these in paths; a dot would be escaped in Triton's name.
_LEGAL_NAME = re.compile(r"[A-Za-z0-9_-]+")
#: Empty directories do not survive `aws s3 sync` and git; Triton wants an ensemble's version.
_KEEP = ".keep"
STRICT_FLAG = "--disable-auto-complete-config"


class NotPlain(EnsembleToolsError):
    """A Triton server without this container cannot serve the archive's form."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"{path}: {reason}, and a Triton server without this container would not load them "
            "with it; ship the archive as it is and serve it with this container"
        )


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`rewrite SOURCE DEST`."""
    parser = commands.add_parser(
        "rewrite",
        help="write a plain Triton repository that AWS's own SageMaker Triton container serves",
        description=(
            "Rewrite an archive ahead of time: real files, a Triton ensemble in the executor's "
            "place, NVTabular workflows compiled to numpy programs, nothing of this container "
            "needed at run time. DEST appears whole or not at all. Refused where only this "
            "container can serve the archive: when the executor itself must run, or models call "
            "others by name."
        ),
        epilog=EPILOG,
    )
    add_path(parser, metavar="source")
    parser.add_argument("destination", type=Path, metavar="dest", help="directory to make")
    parser.add_argument(
        "--name",
        help="name of the model to invoke; its steps are named <name>.<step>. Give each archive "
        "of one endpoint a name of its own (default: DEST's name)",
    )
    parser.add_argument(
        "--compile",
        choices=[choice.value for choice in Compile],
        default=Compile.AUTO.value,
        help="what becomes of NVTabular workflows, as with SERVE_COMPILE: compiled to a numpy "
        "program where the numbers are certain to be the same, which then needs nothing but numpy "
        "in Triton's Python; or off: NVTabular itself (default: %(default)s)",
    )
    parser.set_defaults(run=run, misuse=parser.error)


def run(options: argparse.Namespace) -> int:
    """Plan, write, check what was written, tell."""
    destination: Path = options.destination
    name = options.name
    if name is None:
        name = re.sub(r"[^A-Za-z0-9_-]+", "_", destination.absolute().name)
    if not _LEGAL_NAME.fullmatch(name):
        options.misuse(f"--name {shortened(name)!r}: expected letters, digits, _ and -")
    if destination.name.endswith(PACKED):
        options.misuse(f"{destination}: expected a directory's name; `pack` makes an archive of it")
    check_empty(destination)
    archive, lacking = _read(options.path, name, Compile(options.compile))
    plan = require_plan(archive)
    check_plain(options.path, plan)
    _check_outside(options.path, destination)
    repository = archive.repository
    top = repository.entry.directory.parent
    beside = [top / name for name in repository.beside] if _reads_beside(plan) else []
    check_beside(options.path, plan, beside)
    size = write_repository(plan, options.path, destination, beside)
    for line in report_lines(plan, destination, size, lacking):
        print(line)
    return SERVED


def write_repository(
    plan: ServingPlan, source: Path, destination: Path, beside: Sequence[Path] = ()
) -> int:
    """The plan as plain files, by rename; on any error nothing is left behind. How many bytes.

    beside: what is copied beside the models.
    """
    with stage_beside(destination) as staging:
        repository = staging / "repository"
        repository.mkdir(mode=read_default_mode(0o777))
        for model in plan.models:
            _write(model, plan.entry, source, repository)
        for path in beside:
            _copy(path, repository / path.name, source)
        _check_result(repository, plan)
        size = sum(path.stat().st_size for path in repository.rglob("*") if path.is_file())
        repository.rename(destination)
    return size


def findable(text: str, path: Path, *, entry: bool) -> str:
    """The config with its meaning kept, found by the frontend's search if it is the entry's.

    The entry's text gets a comment where the search would miss it, any other's quotes are changed
    where the search would hit it. Raises DestinationUnusable where that would change the meaning.
    """
    if bool(_FOUND_BY_FRONTEND.search(text)) == entry:
        return text
    changed = _MARK + text if entry else _FOUND_BY_FRONTEND.sub(r"platform:\1'ensemble'", text)
    if not _mean_the_same(changed, text):
        raise DestinationUnusable(
            path,
            'a value in it reads `platform: "ensemble"`, by which AWS\'s frontend would take '
            "this step for the model to load",
            "write that value in another way",
        )
    return changed


def _mean_the_same(changed: str, text: str) -> bool:
    try:
        return bool(parse_leniently(changed) == parse_leniently(text))
    except text_format.ParseError:  # a quote was inside a value
        return False


def _read(source: Path, name: str, workflows: Compile) -> tuple[Archive, ConfigIncomplete | None]:
    """The archive as strict mode sees it, else as AWS's container does, and what strict mode lacks."""  # noqa: E501  # one sentence
    archive = read_archive(source, name, workflows=workflows)
    if not isinstance(archive.refusal, ConfigIncomplete):
        return archive, None
    completed = read_archive(source, name, strict=False, workflows=workflows)
    return completed, archive.refusal if completed.plan else None


def check_plain(source: Path, plan: ServingPlan) -> None:
    """Raises NotPlain for a plan that needs this container when it is served."""
    if plan.form is Form.EXECUTOR:
        why = f" ({plan.reasons[0].rstrip('.')})" if plan.reasons else ""
        raise NotPlain(source, f"Merlin's executor itself must run{why}: it calls its models")
    generated = [model.source_name for model in plan.models if model.files]
    if plan.called and plan.form is Form.STEPPED_ENSEMBLE:
        why = plan.reasons[0] if plan.reasons else "a generated model calls others"
        raise NotPlain(source, f"{why}; the generated model {generated[-1]} calls others by name")
    if plan.called:
        called = ", ".join(plan.source_names.get(name, name) for name in plan.called[:10])
        raise NotPlain(source, f"models in it call others by name ({called})")


def check_beside(source: Path, plan: ServingPlan, beside: Iterable[Path]) -> None:
    """Raises NotPlain where AWS's frontend would not know which directory is the model."""
    directories = [path.name for path in beside if path.is_dir()]
    if directories and len(plan.models) == 1:
        raise NotPlain(
            source,
            f"beside its only model lies {directories[0]}/, and AWS's frontend takes a model that "
            "is the only directory",
        )


def _reads_beside(plan: ServingPlan) -> bool:
    return any(it.runs_own_code and not it.not_compiled for it in plan.models)


def _check_outside(source: Path, destination: Path) -> None:
    real_destination, real_source = destination.resolve(), source.resolve()
    if real_destination == real_source or real_source in real_destination.parents:
        raise DestinationUnusable(
            destination, "it lies inside of the source", "name a place outside of it"
        )


def _write(model: PublishedModel, entry: str, source: Path, repository: Path) -> None:
    """Write a model directory. Every link of the plan becomes the files that it stands for."""
    directory = repository / model.triton_name
    directory.mkdir()
    for name, target in model.links:
        _copy(target, directory / name, source)
    for name, text in model.files:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    for version in model.empty_versions:
        (directory / str(version)).mkdir(exist_ok=True)
        (directory / str(version) / _KEEP).touch()
    put_compiled(model, directory)
    if model.triton_config is not None:
        config = directory / CONFIG_FILE
        text = findable(model.triton_config, config, entry=_wants_mark(model, entry))
        config.write_text(text, encoding="utf-8")
    if model.compiled is not None and not model.compiled.program.kept:
        shutil.rmtree(directory / Path(model.compiled.model_file).parts[0] / WORKFLOW)


def _wants_mark(model: PublishedModel, entry: str) -> bool:
    """A single model needs no mark and bears none: the frontend takes the only directory."""
    config = model.config
    is_ensemble = config.platform == "ensemble" or config.HasField("ensemble_scheduling")
    return model.triton_name == entry and is_ensemble


def _copy(target: Path, destination: Path, within: Path) -> None:
    check_link(target, within)
    destination.parent.mkdir(parents=True, exist_ok=True)
    if not target.is_dir():
        shutil.copy(target, destination)
        return
    destination.mkdir()
    tree = walk(target, within)
    for entry in tree.entries:
        if entry.is_directory:
            (destination / entry.path).mkdir()
        else:
            shutil.copy(entry.source, destination / entry.path)


def _check_result(written: Path, plan: ServingPlan) -> None:
    """Plan the written archive as any other, and compare that with what was planned."""
    repository = read_repository(written, plan.entry)
    read_again = plan_archive(repository, None, Namespace("m"), Choices(strict=False))
    if len(read_again.models) != len(plan.models):
        missing = {*plan.triton_names} - {model.source_name for model in read_again.models}
        raise EnsembleToolsError(
            f"{written}: the rewritten repository does not use {', '.join(sorted(missing))}, which "
            "the plan needs; serve the archive with this container, and report this"
        )


def report_lines(
    plan: ServingPlan, destination: Path, size: int, lacking: ConfigIncomplete | None
) -> Iterator[str]:
    """The models that were written and what to do with them, for people.

    size: in bytes. lacking: what strict mode would miss in the configs, None for nothing.
    """
    entry, models = plan.entry, plan.models
    for note in (*plan.reasons, *plan.notes, *plan.doubts):
        yield f"note: {note}"
    for model in models:
        yield from _note_nvtabular(model)
    if len(models) > 1 and _reads_beside(plan):
        other = next(it for it in models if it.triton_name != entry)
        yield (
            f"note: {other.source_name}/ is {other.triton_name}/ in it: a Python model that reads "
            "another's directory finds it under that name"
        )
    count = "1 model" if len(models) == 1 else f"{len(models)} models"
    yield f"{destination}  {plan.form.value}, {count}, {format_size(size)}"
    for model in models:
        mark = "  ← invoked" if model.triton_name == entry else ""
        yield f"  {model.triton_name}{_describe_compiled(model)}{mark}"
    command = shlex.join(("pack", str(destination), "-o", f"{entry}.tar.gz"))
    yield f"next: python -m ensemble_tools {command}"
    if len(models) > 1:
        yield (
            "as a single-model endpoint it needs SAGEMAKER_TRITON_DEFAULT_MODEL_NAME="
            f"{entry}; a multi-model endpoint finds it"
        )
    if lacking is None:
        yield (
            "all configs are complete: with SAGEMAKER_TRITON_ADDITIONAL_ARGS="
            f"{STRICT_FLAG} loads are several times faster"
        )
    else:
        yield f"do not switch auto-completion off ({STRICT_FLAG}): {lacking}"


def _note_nvtabular(model: PublishedModel) -> Iterator[str]:
    if model.not_compiled:
        yield (
            f"note: {model.source_name} is not compiled, it needs NVTabular in Triton's "
            f"Python: {model.not_compiled}"
        )
    for operator in model.compiled.program.kept if model.compiled else ():
        yield (
            f"note: {model.source_name} is compiled in part, it needs NVTabular in Triton's "
            f"Python: {operator.reason}"
        )


def _describe_compiled(model: PublishedModel) -> str:
    if model.compiled is None:
        return ""
    program = model.compiled.program
    how = "compiled in part" if program.kept else "compiled"
    return f"  {how}: numpy  ({describe_operators(program.operators)})"
