"""How an archive is served: the model directories that Triton will be given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.model_config import parse_leniently, put_on_cpu
from ensemble_tools.workflows.program import Program

#: Where a model has the directories of its own steps.
STEPS = "1/steps"

#: In the configs that Merlin and NVTabular write for a workflow: its `python_module`.
_WORKFLOW_MODULE = ".workflow_model"


class QueueBound(NamedTuple):
    """How many requests may wait in front of a model, and the step whose config says so."""

    most: int
    step: str


class Form(Enum):
    """How a model is served."""

    PURE_ENSEMBLE = "pure ensemble"
    STEP_ALONE = "the only step itself"
    STEPPED_ENSEMBLE = "ensemble with generated steps"
    EXECUTOR = "executor"
    AS_DELIVERED = "as delivered"


class Rewrite(Enum):
    """The forms that an executor model may take.

    AUTO: the first form that gives the executor's numbers. ENSEMBLE: an ensemble or nothing.
    EXECUTOR: the executor itself, whatever the graph.
    """

    AUTO = "auto"
    ENSEMBLE = "ensemble"
    EXECUTOR = "executor"


@dataclass(frozen=True)
class Compiled:
    """An NVTabular workflow as a program that needs numpy alone."""

    program: Program
    #: The model's file in its directory, such as `1/model.py`, which the compiled one replaces.
    model_file: str
    #: Whose workflow it was recognised as, and by what, for people.
    recognised: str = ""


@dataclass(frozen=True)
class OwnCode:
    """Python files of the archive's in a model, which see nothing but their archive."""

    #: Paths in the model's directory, such as `1/model.py`.
    files: tuple[str, ...]
    archive: Path
    #: The model's directory, in the archive.
    model_path: PurePosixPath
    #: The models that the files can call, and the Triton names of these.
    names: Mapping[str, str]


@dataclass(frozen=True)
class PublishedModel:
    """One model directory of the serving repository."""

    triton_name: str
    #: The model's name in the archive.
    source_name: str
    #: Its config.pbtxt, None for none.
    config_text: str | None
    #: Names in the directory, and what each stands for; files become links.
    links: tuple[tuple[str, Path], ...] = ()
    #: Version directories that Triton wants and that nothing is put into.
    empty_versions: tuple[int, ...] = ()
    #: Paths in the directory, such as `1/model.py`, and the text of each: generated files, which
    #: replace what is linked there.
    files: tuple[tuple[str, str], ...] = ()
    #: What is published instead of the model's workflow.
    compiled: Compiled | None = None
    #: Why a workflow is published as delivered; empty for other models.
    not_compiled: str = ""
    #: Whether its process runs a step of ours alone, no code of the archive's that may have
    #: something to do at its end.
    generated: bool = False
    #: Its file, such as `1/model.py`, if a child of a warm interpreter may run it: that is
    #: Merlin's or ours and needs a large library. Else empty.
    warm: str = ""
    #: Whether its process may use a GPU, on a machine that has one: no forked process may.
    may_use_gpu: bool = False
    #: The warm interpreter that has what a step of ours needs; empty for NVTabular's, or none.
    interpreter: str = ""
    #: Models that it runs itself: their directories lie in its own (STEPS), and tritonserver does
    #: not know them.
    steps: tuple[PublishedModel, ...] = ()
    #: The operator in Merlin's graph whose step it is: its number behind those of the Subgraphs
    #: around it. Empty for a model that is no operator's step.
    node_path: tuple[int, ...] = ()
    #: What the archive's own Python in it may see.
    own_code: OwnCode | None = None
    #: The files that its workflow was fitted into.
    categories: tuple[Path, ...] = ()
    #: The directory of its workflow, such as `1/workflow`, if Merlin's own step reads it and it
    #: is saved as graph.json.
    json_workflow_path: str = ""

    @cached_property
    def config(self) -> pb.ModelConfig:
        """Its config.pbtxt, or an empty one: parsed once, since many steps take seconds."""
        return parse_leniently(self.config_text or "")

    @cached_property
    def triton_config(self) -> str | None:
        """The config.pbtxt that tritonserver is given.

        A workflow that is a program of numpy alone is on the CPU: for Merlin's configs tritonserver
        would make an instance of it for each GPU.
        """
        if self.config_text is None or not self.is_compiled_whole:
            return self.config_text
        return put_on_cpu(self.config_text)

    def without_values(self) -> PublishedModel:
        """ServingPlan.without_values, of the model and its steps."""
        steps = tuple(step.without_values() for step in self.steps)
        if self.compiled is None:
            return replace(self, steps=steps)
        program = self.compiled.program
        tables = tuple(replace(table, given=()) for table in program.tables)
        compiled = replace(self.compiled, program=replace(program, tables=tables))
        return replace(self, steps=steps, compiled=compiled)

    @property
    def is_compiled_whole(self) -> bool:
        """Whether its workflow is a program of numpy alone."""
        return self.compiled is not None and not self.compiled.program.kept

    @property
    def runs_own_code(self) -> bool:
        """Whether a process of tritonserver's runs the archive's own Python."""
        return self.own_code is not None and self.compiled is None and not self.warm

    @property
    def finalizes(self) -> bool:
        """Whether its python process, if it has one, may have something to do at its end."""
        return not (self.generated or self.warm or self.compiled is not None)


@dataclass(frozen=True)
class ServingPlan:
    """Everything that serves one SageMaker model."""

    model_name: str
    form: Form
    entry: str
    #: Steps before the models that need them.
    models: tuple[PublishedModel, ...]
    #: Triton names of models that Python models call by name, in the order in which they are
    #: loaded: tritonserver loads an ensemble with its steps, but knows nothing of such calls.
    called: tuple[str, ...] = ()
    #: Why the forms that come before this one were not taken, a sentence for each cause.
    reasons: tuple[str, ...] = ()
    #: What was left out and why, in sentences for people.
    notes: tuple[str, ...] = ()
    #: What was passed on without being understood, for the message of a load that then fails.
    doubts: tuple[str, ...] = ()
    #: Why an ensemble's steps are processes of their own where they might be one, a sentence for
    #: each.
    not_joined: tuple[str, ...] = ()
    #: How many requests may wait, where a step's config says so; None for any number.
    queue: QueueBound | None = None

    def without_values(self) -> ServingPlan:
        """Without what was read of pickles for tables: that is on the disk once it is published."""
        models = tuple(model.without_values() for model in self.models)
        return replace(self, models=models)

    @property
    def everything(self) -> tuple[PublishedModel, ...]:
        """The models, each after the steps that it runs itself."""
        return tuple(part for model in self.models for part in (*model.steps, model))

    @property
    def triton_names(self) -> tuple[str, ...]:
        """Every Triton model of the plan, the entry model last."""
        return tuple(model.triton_name for model in self.models)

    @cached_property
    def inputs(self) -> Mapping[str, bool]:
        """A request's inputs, and whether each must be there; none where Triton completes them."""
        return {spec.name: not spec.optional for spec in self.entry_model.config.input}

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that a request may ask for; none where Triton completes them."""
        return tuple(spec.name for spec in self.entry_model.config.output)

    @property
    def has_columns(self) -> bool:
        """Whether a request's inputs are the columns of one table: an export of Merlin's."""
        if self.form is not Form.AS_DELIVERED or self.compiled or self.not_compiled:
            return True
        return any(_WORKFLOW_MODULE in (model.config_text or "") for model in self.models)

    @property
    def fails_in_part(self) -> bool:
        """Whether tritonserver may fail to answer a part of the outputs; blocking."""
        return fails_in_part(self.entry_model.config)

    @property
    def entry_model(self) -> PublishedModel:
        """The model that requests go to."""
        return next(model for model in self.models if model.triton_name == self.entry)

    @property
    def source_names(self) -> Mapping[str, str]:
        """Triton name -> the model's name in the archive, for messages."""
        return {model.triton_name: model.source_name for model in self.everything}

    @property
    def compiled(self) -> int:
        """How many of its models are compiled workflows."""
        return sum(model.compiled is not None for model in self.everything)

    @property
    def not_compiled(self) -> tuple[str, ...]:
        """Why NVTabular itself serves a workflow; a sentence for each."""
        return tuple(
            f"{model.source_name}: {model.not_compiled}"
            for model in self.everything
            if model.not_compiled
        )

    @property
    def json_workflows(self) -> int:
        """How many of its models have a workflow that was saved without a pickle."""
        return sum(bool(model.json_workflow_path) for model in self.everything)

    @property
    def kept(self) -> tuple[str, ...]:
        """Which operators of compiled workflows NVTabular runs, and why; a sentence for each."""
        return tuple(
            f"{model.source_name}: {kept.reason}"
            for model in self.everything
            if model.compiled is not None
            for kept in model.compiled.program.kept
        )


def fails_in_part(config: pb.ModelConfig) -> bool:
    """Whether it is an ensemble that tritonserver may fail to answer a part of ("unexpected
    deadlock", triton-inference-server/server#7482, seen with 2.36 and 2.51).

    tritonserver leaves out the steps that it takes for unnecessary, and is wrong in two cases: a
    step reads an output that nobody asked for; or it leaves out whoever reads an input, and then
    the first step as well, as if that made the input (EnsembleContext in ensemble_scheduler.cc).
    """
    steps = config.ensemble_scheduling.step
    if len(config.output) < 2 or not steps:
        return False
    read = {name for step in steps for name in step.input_map.values()}
    outputs = {output.name for output in config.output}
    inputs = {tensor.name for tensor in config.input} & read
    return bool(outputs & read) or not inputs <= {*steps[0].input_map.values()}
