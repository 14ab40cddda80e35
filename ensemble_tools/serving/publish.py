"""ServingPlan -> directories in the serving repository, by rename; retract takes them away.

Each published model is an overlay: its config.pbtxt is ours, files of labels are copies, every
other file is a symbolic link to what SageMaker delivered, which is never changed. Directories are
made anew: Triton's python stubs write `__pycache__` beside what they import, whatever
PYTHONDONTWRITEBYTECODE says (seen with 2.36 and 2.51). A model is made whole under a hidden name
and then renamed, so tritonserver never sees half of one. A compiled workflow's tables are written
where they will lie; if its category files turn out to be unusable, nothing is published.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path, PurePosixPath

from ensemble_tools.archive.model_config import label_files
from ensemble_tools.archive.saved_workflow import GRAPH, PICKLE
from ensemble_tools.archive.source_model import CONFIG_FILE
from ensemble_tools.errors import PayloadBroken, WorkflowsUnusable, shortened
from ensemble_tools.serving.layout import remove_layout, write_layout, write_own_code
from ensemble_tools.serving.serving_plan import STEPS, Compiled, PublishedModel, ServingPlan
from ensemble_tools.steps.sources import SERVED, render_warm
from ensemble_tools.workflows.program import NVTABULAR, Plain, Table, program_text
from ensemble_tools.workflows.runtime.feature_counts import are_held
from ensemble_tools.workflows.runtime.program import COUNTS
from ensemble_tools.workflows.tables import TableBroken, TableUnusable, write_tables

_STAGING_PREFIX = ".staging-"
#: Directories in one another, in a model directory; a SavedModel or a python package has some ten.
MAX_DEPTH = 100
#: Entries that are reached through links to directories: a few such links can multiply without end.
MAX_BELOW_LINKS = 10_000

#: Models whose counts stay, the last that were loaded, beside those that are here.
MOST_COUNTED = 1_000

_Identity = tuple[int, int]


#: Writes tables into a directory; the rows of program.json. Raises TableUnusable.
TableWriter = Callable[[Sequence[Table], Path], list[dict[str, Plain]]]
#: What a compiled workflow is published as, beside the file that Triton runs.
_WHOLE, _PART = "compiled_model.py", "partly_compiled_model.py"
#: Beside the runtime, where an operator is kept.
_FOR_KEPT = {
    "graph_json.py": "graph_json_model.py",
    "nvtabular_workflow.py": "nvtabular_workflow_model.py",
}
_RUNTIME, _TABLES, _PROGRAM = "compiled_workflow", "tables", "program.json"


def publish(
    plan: ServingPlan,
    serving_repository: Path,
    write: TableWriter = write_tables,
    counts: Path | None = None,
    runtime: Path | None = None,
) -> None:
    """Write the plan's model directories; on an error nothing of the plan is left behind.

    runtime: as put_compiled's.

    Blocking. Raises WorkflowsUnusable for compiled workflows of whose category files no tables can
    be made: the plan is to be made without them. Raises OSError (no space, name taken):
    FileExistsError means that a name is in use. Raises PayloadBroken for a category file that
    NVTabular cannot read either, and for two workflows in one directory, which it would read.
    counts: where compiled workflows count the values of their columns (find_counts), also when the
    model comes back; None: nowhere.
    """
    staging = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=serving_repository))
    published: list[Path] = []
    try:
        _write_all(plan, staging, write, counts, runtime)
        for model in plan.models:
            _check_one_workflow(model)
        archives = [it.own_code.archive for it in plan.models if it.own_code and it.runs_own_code]
        if archives and (staging / plan.entry).is_dir():
            write_layout(archives[0], staging / plan.entry)
        for model in plan.models:
            target = serving_repository / model.triton_name
            _check_name_free(target)
            (staging / model.triton_name).rename(target)
            published.append(target)
    except BaseException:
        for entry in (staging / plan.entry, serving_repository / plan.entry):
            remove_layout(entry)
        for target in published:
            shutil.rmtree(target, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def retract(plan: ServingPlan, serving_repository: Path) -> None:
    """Remove the plan's model directories; those already gone are no error. Blocking."""
    remove_layout(serving_repository / plan.entry)
    for model in plan.models:
        shutil.rmtree(serving_repository / model.triton_name, ignore_errors=True)


def find_counts(plan: ServingPlan, serving_repository: Path) -> dict[str, Path]:
    """The directories in which compiled workflows count, by their models' names in the archive.

    They are there if the plan was published with counts (workflows/runtime/feature_counts.py).
    """
    folders = [(model, serving_repository / model.triton_name) for model in plan.models]
    for model, folder in folders:  # it grows
        folders += [(step, folder / STEPS / step.triton_name) for step in model.steps]
    return {
        model.source_name: _counts_of(model.compiled, folder)
        for model, folder in folders
        if model.compiled is not None
    }


def _counts_of(compiled: Compiled, directory: Path) -> Path:
    return directory / Path(compiled.model_file).parts[0] / COUNTS


def _check_one_workflow(model: PublishedModel) -> None:
    """Raise PayloadBroken where it depends on NVTabular which of two workflows it serves."""
    if not model.json_workflow_path or model.compiled is not None:
        return
    version, _, workflow = model.json_workflow_path.partition("/")
    pickle = dict(model.links)[version] / workflow / PICKLE
    if os.path.lexists(pickle):
        found = f"it lies beside {GRAPH}, and NVTabular reads the one or the other by its release"
        raise PayloadBroken(pickle, found, "take out the older one")


def _check_name_free(target: Path) -> None:
    if target.exists():
        raise FileExistsError(errno.EEXIST, "the name is in use", str(target))


def _write_all(
    plan: ServingPlan, staging: Path, write: TableWriter, counts: Path | None, runtime: Path | None
) -> None:
    """Write every model; raises WorkflowsUnusable for all workflows of the plan that are."""
    unusable: dict[str, str] = {}
    waiting = [(model, staging / model.triton_name) for model in plan.models]
    counted: list[Path] = []
    while waiting:
        model, directory = waiting.pop(0)
        _write_overlay(model, directory, plan.entry)
        try:
            put_compiled(model, directory, write, runtime)
            if counts is not None and model.compiled is not None:
                link = _counts_of(model.compiled, directory)
                counted.append(_link_counts(link, counts / plan.model_name, len(counted)))
            _put_in_front(model, directory)
        except WorkflowsUnusable as error:
            unusable.update(error.reasons)
        waiting += [(step, directory / STEPS / step.triton_name) for step in model.steps]
    if unusable:
        raise WorkflowsUnusable(unusable)
    if counts is not None and counted:
        _forget_counts(counts, counted)


def _link_counts(link: Path, counts: Path, number: int) -> Path:
    """Put a link there to where the same workflow of the same model counts, whenever it is here.

    The program has all that a file of counts says of its columns. counts: of the model.
    """
    program = (link.with_name(_TABLES) / _PROGRAM).read_bytes()
    own = counts / f"{number}-{hashlib.blake2b(program, digest_size=16).hexdigest()}"
    own.mkdir(parents=True, exist_ok=True)
    os.utime(counts)
    link.symlink_to(own)
    return own


def _forget_counts(counts: Path, counted: Sequence[Path]) -> None:
    """Remove those of a former archive of the model; and of models, where there are too many.

    counted: those of the model. The models that were loaded the longest ago go, but for those that
    are still here.
    """
    with contextlib.suppress(OSError):  # another load removes some
        rest = [path for path in counted[0].parent.iterdir() if path not in counted]
        models = [*counts.iterdir()]
        if len(models) > MOST_COUNTED:
            oldest = sorted(models, key=lambda path: path.stat().st_mtime)[:-MOST_COUNTED]
            rest += [model for model in oldest if not any(map(are_held, model.iterdir()))]
        for path in rest:
            shutil.rmtree(path, ignore_errors=True)


def _put_in_front(model: PublishedModel, directory: Path) -> None:
    """The stub runs a file that has the model's own run for it; that is beside it."""
    served = directory / Path(model.warm).parent / SERVED
    if model.warm and not model.is_compiled_whole and not os.path.lexists(served):
        (directory / model.warm).rename(served)
        _put(directory / model.warm, render_warm(_interpreter(model)))


def _interpreter(model: PublishedModel) -> str:
    """Whose children run it."""
    compiled = model.compiled.program.interpreter if model.compiled is not None else ""
    return compiled or model.interpreter or NVTABULAR


def put_compiled(
    model: PublishedModel,
    directory: Path,
    write: TableWriter = write_tables,
    runtime: Path | None = None,
) -> None:
    """Put the model's compiled workflow into its directory, in the place of what is there.

    runtime: where the one lies, or is put, that models link to, so that Python compiles it once for
    all of them; None for one of its own.

    Raises WorkflowsUnusable where no tables can be made of its category files; PayloadBroken, also
    where NVTabular serves it: nothing should read what stands for many times its size.
    """
    checked = [Table(path, (), ()) for path in model.categories]
    if model.compiled is None:
        with contextlib.suppress(TableUnusable), _broken_payloads():
            write(checked, directory)
        return
    version = directory / Path(model.compiled.model_file).parts[0]
    tables = version / _TABLES
    try:
        with _broken_payloads():
            _check_free(version)
            tables.mkdir()
            rows = write([*model.compiled.program.tables, *checked], tables)
    except TableUnusable as error:
        raise WorkflowsUnusable({model.source_name: str(error)}) from error
    (tables / _PROGRAM).write_text(program_text(model.compiled.program, rows), encoding="utf-8")
    model_file = directory / model.compiled.model_file
    if runtime is None:
        _put_runtime(model_file.parent / _RUNTIME, for_kept=not model.is_compiled_whole)
    else:
        _share_runtime(runtime)
        (model_file.parent / _RUNTIME).symlink_to(runtime.absolute())
    _put(model_file, _read_model_file(_WHOLE if model.is_compiled_whole else _PART))


def _share_runtime(runtime: Path) -> None:
    if runtime.is_dir():
        return
    made = Path(tempfile.mkdtemp(prefix=_STAGING_PREFIX, dir=runtime.parent))
    try:
        _put_runtime(made, for_kept=True)
        made.rename(runtime)
    except OSError:
        if not runtime.is_dir():  # another load has made it meanwhile
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _put_runtime(directory: Path, for_kept: bool) -> None:
    """for_kept: with what an operator needs that is kept."""
    texts = dict(_read_runtime())
    if for_kept:
        texts.update({name: _read_model_file(file) for name, file in _FOR_KEPT.items()})
    for name, text in texts.items():
        _put(directory / name, text)


@contextlib.contextmanager
def _broken_payloads() -> Iterator[None]:
    try:
        yield
    except TableBroken as error:
        raise PayloadBroken(error.path, error.found, "export it again") from error


def _check_free(version: Path) -> None:
    for name in (_TABLES, _RUNTIME, COUNTS):
        if os.path.lexists(version / name):
            raise TableUnusable(f"it has a {name}/ of its own")


@cache
def _read_runtime() -> dict[str, str]:
    """Its files' texts, by their paths in it."""
    root = Path(str(files("ensemble_tools.workflows").joinpath("runtime")))
    return {str(path.relative_to(root)): path.read_text("utf-8") for path in root.rglob("*.py")}


@cache
def _read_model_file(name: str) -> str:
    return files("ensemble_tools.workflows").joinpath(name).read_text("utf-8")


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # a link: writing to it would change what was delivered
    path.write_text(text, encoding="utf-8")


def _write_overlay(model: PublishedModel, directory: Path, entry: str) -> None:
    directory.mkdir(parents=True)
    _write_config(model, directory)
    if model.own_code is not None and model.runs_own_code:
        write_own_code(model, model.own_code, directory, entry)
        _copy_labels(model, directory)
        return
    for name, target in model.links:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        _link(target.parent.resolve() / target.name, directory / name)
    for version in model.empty_versions:
        (directory / str(version)).mkdir()
    for name, text in model.files:
        _put(directory / name, text)
    _copy_labels(model, directory)


def _copy_labels(model: PublishedModel, directory: Path) -> None:
    """Files of labels as files, not as links.

    tritonserver from 26.02 on follows links, and loads no model whose labels lie outside of its
    directory (core f2226c0). Of a model of the archive's own Python a directory may be a link.
    """
    delivered = dict(model.links)
    for label in label_files(model.config_text or ""):
        top, *below = PurePosixPath(label).parts or (label,)
        if top not in delivered or not delivered[top].joinpath(*below).is_file():
            continue  # tritonserver says that there is none
        source, path = delivered[top], directory / top
        for name in below:
            _make_own(path, source)
            source, path = source / name, path / name
        if path.is_symlink() or not path.exists():
            path.unlink(missing_ok=True)
            shutil.copyfile(source, path)


def _make_own(folder: Path, source: Path) -> None:
    """A directory of links instead of a link to a directory."""
    if folder.is_symlink():
        target = os.readlink(folder)
        folder.unlink()
        folder.mkdir()
        for name in os.listdir(source):
            (folder / name).symlink_to(os.path.join("..", target, name))


def _write_config(model: PublishedModel, directory: Path) -> None:
    if model.triton_config is not None:
        (directory / CONFIG_FILE).write_text(model.triton_config, encoding="utf-8")


def _link(source: Path, path: Path) -> None:
    """Links to files in directories of our own; a link to a directory is followed.

    A link that leads nowhere, or back to a directory that it is in, is linked to as it is. Raises
    OSError for what goes on for ever, or nearly.
    """
    made_below_links = 0
    waiting: list[tuple[Path, Path, tuple[_Identity, ...], bool]] = [(source, path, (), False)]
    while waiting:
        source, path, above, below_link = waiting.pop()
        made_below_links += below_link
        if made_below_links > MAX_BELOW_LINKS:
            reason = f"its links to directories lead to more than {MAX_BELOW_LINKS} entries"
            raise OSError(errno.ELOOP, reason, shortened(str(source)))
        if not source.is_dir() or _identify(source) in above:
            path.symlink_to(source)
            continue
        if len(above) >= MAX_DEPTH:
            reason = f"directories are nested more than {MAX_DEPTH} deep"
            raise OSError(errno.ENAMETOOLONG, reason, shortened(str(source)))
        path.mkdir()
        inside = (*above, _identify(source))
        below = below_link or source.is_symlink()
        waiting += [(child, path / child.name, inside, below) for child in source.iterdir()]


def _identify(path: Path) -> _Identity:
    status = path.stat()
    return status.st_dev, status.st_ino
