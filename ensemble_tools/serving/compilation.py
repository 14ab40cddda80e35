"""NVTabular workflows as programs that need numpy alone.

Only Merlin's own workflow step is replaced, as nvtabular and merlin-systems 23.08 export it, known
by what it holds; a model directory of another kind, or of another release, stays as it is, and the
model says why.
"""

from __future__ import annotations

import json
from dataclasses import replace
from enum import Enum

from ensemble_tools.archive.graph_reader import read_graph_file
from ensemble_tools.archive.model_config import ModelConfig
from ensemble_tools.archive.nvtabular_release import (
    RELEASE,
    describe_recognition,
    refuse_label,
)
from ensemble_tools.archive.saved_workflow import find_workflow_file
from ensemble_tools.archive.source_model import WORKFLOW, SourceModel
from ensemble_tools.errors import (
    GraphNotInert,
    GraphUnreadable,
    ResourceLacking,
    SourceUnreadable,
    quoted,
    shortened,
)
from ensemble_tools.serving.serving_plan import Compiled, PublishedModel
from ensemble_tools.workflows.compiler import compile_workflow
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.program import Program

#: Of the reason why a workflow is not compiled, in characters: it stands in the log.
_LONGEST_REASON = 1_000


class Compile(Enum):
    """How NVTabular workflows are served.

    AUTO: compiled where the result is certain to be the same. OFF: as they were delivered.
    """

    AUTO = "auto"
    OFF = "off"


def compile_model(model: PublishedModel, source: SourceModel | None) -> PublishedModel:
    """The model; if it has a workflow, that is compiled, or the model says why it is not.

    source: what the archive has of it.

    Raises ResourceLacking, SourceUnreadable and MemoryError: they are no reasons to serve another
    form.
    """
    if source is None or source.workflow is None:
        return model
    try:
        program, path = _compile_source(source)
    except NotCompiled as error:
        return replace(model, not_compiled=_shorten(str(error)))
    except (GraphNotInert, GraphUnreadable) as error:
        reason = f"{error.path.name} cannot be read without running it: {error.reason}"
        return replace(model, not_compiled=reason)
    except (ResourceLacking, SourceUnreadable, MemoryError):
        raise
    except Exception as error:  # what a hostile pickle holds can make anything raise
        reason = shortened(f"{type(error).__name__}: {error}")
        return replace(model, not_compiled=f"it cannot be compiled ({reason})")
    workflow = source.workflow
    recognised = describe_recognition(workflow.nvtabular, pickled=workflow.pickled)
    return replace(model, compiled=Compiled(program, path, recognised))


def _shorten(reason: str) -> str:
    """A reason can quote what a pickle says, which may be megabytes."""
    return reason if len(reason) <= _LONGEST_REASON else f"{reason[:_LONGEST_REASON]}…"


def _compile_source(source: SourceModel) -> tuple[Program, str]:
    assert source.workflow is not None
    if source.workflow.unusable:
        raise NotCompiled(source.workflow.unusable)
    config, version, file = source.config, source.served_version, source.python_file
    if config is None or version is None or file is None:
        raise NotCompiled("the model is not one of the python backend with a config.pbtxt")
    model_file = f"{version}/{file}"
    for path, problem in source.workflow.broken:
        raise NotCompiled(f"{path.name}: {problem}")
    missing = source.workflow.missing
    _check_release(f"{missing[0].name} is not there" if missing else "")
    _check_release(refuse_label(source.workflow.nvtabular))
    if source.workflow.pickled:
        _check_release(source.workflow.content.unlike)
    if not source.workflow.merlins_step:
        raise NotCompiled(f"{model_file} is not the one that merlin-systems exports")
    if config.message.max_batch_size:
        raise NotCompiled("its max_batch_size is not 0")
    if len(source.versions) != 1:
        raise NotCompiled("it has several versions")
    directory = source.directory / str(version) / WORKFLOW
    graph = read_graph_file(find_workflow_file(directory))
    program = compile_workflow(graph, config.inputs, directory)
    # Where an operator has no rule at all, that is the better reason.
    _check_release(source.workflow.content.unlike)
    _check_outputs(config, program)
    return program, model_file


def _check_release(why: str) -> None:
    """Raise NotCompiled with the reason why another NVTabular may have written it; none: empty."""
    if why:
        raise NotCompiled(
            f"it is not known to be written by NVTabular {RELEASE}, which is compiled: {why}; "
            f"export it again with Merlin {RELEASE}"
        )


def _check_outputs(config: ModelConfig, program: Program) -> None:
    """The original does not load without them (TritonPythonModel._set_output_dtype)."""
    names = [output.name for output in program.outputs]
    tensors = [tensor for output in program.outputs for tensor in output.tensors]
    absent = [name for name in tensors if name not in config.outputs]
    if absent:
        raise NotCompiled(f"config.pbtxt declares no output {quoted(absent[0])}")
    for parameter in ("cats", "conts"):
        text = (
            config.message.parameters[parameter].string_value
            if (parameter in config.message.parameters)
            else ""
        )
        try:
            expected = json.loads(text or "[]")
        except ValueError as error:
            raise NotCompiled(f"its parameter {parameter} is no JSON") from error
        if not isinstance(expected, list) or any(name not in names for name in expected):
            raise NotCompiled(f"its parameter {parameter} names other columns")
