"""ServingPlan -> Demand: what its models are, how many instances they have, how large they are.

What a load will take of a machine depends on that. Only this library knows configs and the files
behind a plan; what such a model takes on this machine is for others to measure. Sizes are asked of
the file system; of category files, which are small beside what they become, the number of rows is
read. The walk is bounded: what is beyond the bound does not count.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.backend_names import name_backend
from ensemble_tools.archive.files import SHORTAGES, is_directory, names_in, size_of
from ensemble_tools.archive.instance_groups import find_instances
from ensemble_tools.archive.model_config import (
    EXECUTOR_PLATFORM,
    count_served_versions,
    parse_leniently,
)
from ensemble_tools.archive.parquet_footer import count_rows
from ensemble_tools.errors import EnsembleToolsError, ResourceLacking
from ensemble_tools.serving.serving_plan import PublishedModel, ServingPlan
from ensemble_tools.workflows.program import NVTABULAR, PANDAS

#: Entries of one plan that are looked at; a SavedModel or an NVTabular workflow has some hundred.
MAX_ENTRIES = 10_000
#: Directories in one another; links may lead back.
MAX_DEPTH = 20
#: Of a category's row, measured with millions of them: in NVTabular at the first request, and in
#: the process that writes a compiled workflow's tables. Texts, of 7 to 2000 letters, take as much
#: again for each of their bytes; of a file's bytes texts may come to so many times as much.
_ROW_BYTES, _WRITTEN_ROW_BYTES = 170, 90
_TEXT_RATIO, _WRITTEN_TEXT_RATIO = 6, 10
_MOST_TEXTS = 64
#: In that process, for each byte of a table that the workflow's pickle holds.
_PICKLED_TABLE_RATIO = 6
#: So many rows count, or one for each byte of the file: what has more is refused.
_MOST_ROWS = 4_000_000
#: A backend that is Python code may be named otherwise; an ensemble has no backend.
ENSEMBLE, PYTHON = "ensemble", "python"
GENERATED, COMPILED, WORKFLOW = "generated step", "compiled workflow", "workflow"
#: One of which a part is compiled, and the rest runs in pandas without NVTabular.
IN_PANDAS = "workflow in pandas"
EXECUTOR = "executor"
#: Kinds that are Python code in processes of their own, whatever the machine's backends are.
PYTHON_KINDS = frozenset({PYTHON, GENERATED, COMPILED, IN_PANDAS, WORKFLOW, EXECUTOR})

#: By what a compiled workflow's process has imported.
_WORKFLOWS = {"": COMPILED, PANDAS: IN_PANDAS, NVTABULAR: WORKFLOW}
_PLATFORMS = {"ensemble": ENSEMBLE, EXECUTOR_PLATFORM: EXECUTOR}


@dataclass(frozen=True)
class ModelDemand:
    """One Triton model of a plan."""

    triton_name: str
    #: One of the names above, or the backend.
    kind: str
    #: How many instances tritonserver makes.
    instances: int
    #: The files in its largest version.
    payload_bytes: int
    #: How many of its instances may be on each GPU, by the GPU's number.
    on_gpus: Mapping[int, int] = field(default_factory=dict)
    #: Category files' rows, and tables in a workflow's pickle: held while lookups are written of
    #: them, and by NVTabular from the first request on.
    table_bytes: int = 0


@dataclass(frozen=True)
class Demand:
    """The models of a plan, and what they ask of the machine."""

    #: The same for copies of an archive, whatever their names.
    identity: str
    models: tuple[ModelDemand, ...]


def measure_demand(plan: ServingPlan, gpus: int = 0) -> Demand:
    """The demand of the plan's models on a machine with so many GPUs.

    Blocking for as long as some hundred stat() take.

    The identity is made of forms, names in the archive, and file names with their sizes; contents
    are not read. What cannot be looked at has no size; raises OSError where that is for a lack of
    the machine.
    """
    digest = hashlib.sha256(plan.form.value.encode())
    budget = iter(range(MAX_ENTRIES))
    models = []
    for model in plan.models:
        config = _parse_config(model.triton_config)
        kind = _find_kind(model, config)
        instances = find_instances(config, gpus)
        named = f"\n{model.source_name}\0{kind}\0{instances.count}"
        digest.update(named.encode(errors="replace"))
        for step in model.steps:
            digest.update(f"\n{step.source_name}".encode(errors="replace"))
        versions = _sum_versions(model, budget, digest)
        served = max(1, count_served_versions(config, versions))
        largest = max(versions.values(), default=0) + sum(
            max(_sum_versions(step, budget, digest).values(), default=0) for step in model.steps
        )
        models.append(
            ModelDemand(
                model.triton_name,
                kind,
                instances.count * served,
                largest,
                {gpu: number * served for gpu, number in instances.on_gpus.items()},
                sum(_sum_tables(part, budget) for part in (model, *model.steps)),
            )
        )
    return Demand(digest.hexdigest(), tuple(models))


def _sum_versions(
    model: PublishedModel, budget: Iterator[int], digest: hashlib._Hash
) -> dict[int, int]:
    """Bytes by version; names and sizes of all files are told to the digest."""
    sizes: dict[str, int] = {}
    for name, target in model.links:
        for path, size in _walk_files(target, name, budget):
            top = path.partition("/")[0]
            sizes[top] = sizes.get(top, 0) + size
            digest.update(f"\n{path}\0{size}".encode(errors="replace"))
    return {int(top): size for top, size in sizes.items() if top.isascii() and top.isdigit()}


def _sum_tables(model: PublishedModel, budget: Iterator[int]) -> int:
    program = model.compiled.program if model.compiled is not None else None
    values_given = [values for table in program.tables for values in table.given] if program else []
    pickled = _PICKLED_TABLE_RATIO * sum(
        len(values.data) * 3 // 4 for values in values_given
    )  # base64
    try:
        return pickled + sum(
            _weigh(part, model.is_compiled_whole)
            for path in model.categories
            for part in ([path / it for it in names_in(path)] if is_directory(path) else [path])
            if next(budget, None) is not None
        )
    except ResourceLacking as error:
        raise OSError(errno.EAGAIN, str(error)) from error
    except EnsembleToolsError:  # a load tells what is wrong with it
        return pickled


def _weigh(file: Path, is_written: bool) -> int:
    """Bytes that a category file's rows become."""
    rows, size = count_rows(file), size_of(file) or 0
    row, ratio = (
        (_WRITTEN_ROW_BYTES, _WRITTEN_TEXT_RATIO) if is_written else (_ROW_BYTES, _TEXT_RATIO)
    )
    texts = min(rows.text_bytes, size * _MOST_TEXTS)
    return row * min(rows.count, max(_MOST_ROWS, size)) + ratio * texts


def _parse_config(text: str | None) -> pb.ModelConfig:
    try:
        return parse_leniently(text or "")
    except (text_format.ParseError, RecursionError):
        return pb.ModelConfig()  # tritonserver will say what is wrong with it


def _find_kind(model: PublishedModel, config: pb.ModelConfig) -> str:
    if model.steps:  # beside the one that is no step of ours the others are small
        kinds = [_find_kind(step, _parse_config(step.config_text)) for step in model.steps]
        others = IN_PANDAS if IN_PANDAS in kinds else GENERATED
        return next((kind for kind in kinds if kind not in PYTHON_KINDS), others)
    if model.compiled is not None:
        return _WORKFLOWS[model.compiled.program.interpreter]
    if model.not_compiled:
        return WORKFLOW
    kind = _PLATFORMS.get(config.platform) or name_backend(config) or PYTHON
    if config.HasField("ensemble_scheduling"):
        return ENSEMBLE
    return GENERATED if kind == PYTHON and model.files and not model.links else kind


def _walk_files(top: Path, name: str, budget: Iterator[int]) -> Iterator[tuple[str, int]]:
    """(path in the model's directory, bytes) of the regular files, in order; links are followed."""
    waiting = [(top, name, 0)]
    while waiting and next(budget, None) is not None:
        path, name, depth = waiting.pop()
        try:
            status = path.stat()
            if S_ISREG(status.st_mode):
                yield name, status.st_size
            elif S_ISDIR(status.st_mode) and depth < MAX_DEPTH:
                inside = sorted(os.listdir(path), reverse=True)[-MAX_ENTRIES:]
                waiting += [(path / child, f"{name}/{child}", depth + 1) for child in inside]
        except OSError as error:
            if error.errno in SHORTAGES:
                raise
            continue
