"""Which models of an archive a form serves: those of the archive, and those that are made.

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.executor_graph import ExecutorGraph
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.archive.source_model import SourceModel
from ensemble_tools.ensembles.operator_kinds import has_foreign_operators, list_called_models
from ensemble_tools.ensembles.operators import find_work
from ensemble_tools.errors import NAMED_COLUMNS, EnsembleInvalid, GraphNotServable, shortened
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.overlay import add_input, overlay_model
from ensemble_tools.serving.serving_plan import Form, PublishedModel


@dataclass(frozen=True)
class Selection:
    """The models that a form serves."""

    form: Form
    #: The archive's own models, each after those that it needs.
    models: tuple[SourceModel, ...]
    #: The name of the one that is the entry model; None where a generated one is.
    entry: str | None
    #: Names of the models that Python models call, in the order in which they are loaded.
    called: tuple[str, ...]
    #: Models that are published beside the archive's own.
    generated: tuple[PublishedModel, ...] = ()
    #: Inputs that models are given so that they wait for others.
    waits: Mapping[str, pb.ModelInput] = field(default_factory=dict)
    #: As in ServingPlan, like notes and doubts.
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def make_models(self, namespace: Namespace, archive: Path) -> tuple[PublishedModel, ...]:
        """The models to publish, under the names of the namespace. Raises IllegalName."""
        names = {
            model.name: namespace.entry if model.name == self.entry else namespace.step(model.name)
            for model in self.models
        }
        overlays = (
            add_input(overlay_model(model, names, archive), self.waits.get(model.name))
            for model in self.models
        )
        return (*overlays, *self.generated)


def select_as_delivered(repository: ModelRepository) -> Selection:
    """The entry model and all that it needs. Raises EnsembleInvalid."""
    models = gather_steps([repository.entry], repository.models, repository.calls)
    return Selection(
        Form.AS_DELIVERED,
        models,
        repository.entry.name,
        find_called_by_name(models, repository.calls),
    )


def select_as_executor(repository: ModelRepository, graph: ExecutorGraph, reason: str) -> Selection:
    """The executor itself, and what it calls. reason: why no ensemble is made of it.

    Raises GraphNotServable, EnsembleInvalid.
    """
    calls = {**repository.calls, repository.entry.name: _find_calls(repository, graph)}
    models = gather_steps([repository.entry], repository.models, calls)
    return Selection(
        Form.EXECUTOR,
        models,
        repository.entry.name,
        find_called_by_name(models, calls),
        reasons=(reason,),
        doubts=_describe_elsewhere(graph),
    )


def find_child(repository: ModelRepository, name: str) -> SourceModel:
    """The model directory that an operator of the graph calls; raises GraphNotServable."""
    if name not in repository.models:
        raise GraphNotServable(
            repository.graph_path or repository.path,
            name,
            (),
            "the graph calls this model, and the archive has no directory of that name",
            f"add {shortened(name)}/ beside {repository.entry.name}/",
        )
    return repository.models[name]


def gather_steps(
    first: Iterable[SourceModel],
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]] | None = None,
) -> tuple[SourceModel, ...]:
    """The models, each after all that it needs: its ensemble steps, and what it calls by name.

    Every name in calls must be in models. Models that call each other come in some order. Raises
    EnsembleInvalid for a step that is missing and for ensembles that contain themselves.
    """
    done: dict[str, SourceModel] = {}
    for model in first:
        if model.name not in done:
            _gather(model, models, calls or {}, done)
    return tuple(done.values())


def find_called_by_name(
    models: Iterable[SourceModel], calls: Mapping[str, Iterable[str]]
) -> tuple[str, ...]:
    """The models that others of them call, in their order, the last one left out.

    tritonserver does not load them with their callers. The last one is the entry model.
    """
    ordered = [model.name for model in models]
    called = {name for caller in ordered for name in calls.get(caller, ())}
    return tuple(name for name in ordered[:-1] if name in called)


def _gather(
    first: SourceModel,
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]],
    done: dict[str, SourceModel],
) -> None:
    """Depth first, without recursion: an archive may nest ensembles without end."""

    def needed(model: SourceModel) -> Iterator[str]:
        return iter([*model.step_names, *calls.get(model.name, ())])

    waiting = {first.name: needed(first)}
    while waiting:
        model = models[next(reversed(waiting))]
        name = next((name for name in waiting[model.name] if name not in done), None)
        if name is None:
            del waiting[model.name]
            done[model.name] = model
        elif name in waiting:
            above = list(waiting)
            circle = above[above.index(name) :]
            if all(models[member].is_ensemble for member in circle):
                raise _refuse_circle(models[name], [*circle, name])
            # A call leads back: Triton can load these, and whether the calls end is theirs to know.
        elif name not in models:
            raise EnsembleInvalid(
                model.config_path,
                f"the step {name!r} is not in the archive",
                f"add the model directory {name}/ beside {model.name}/",
            )
        else:
            waiting[name] = needed(models[name])


def _refuse_circle(model: SourceModel, circle: list[str]) -> EnsembleInvalid:
    shown = (
        [*circle[:NAMED_COLUMNS], "…", circle[-1]] if len(circle) > 2 * NAMED_COLUMNS else circle
    )
    return EnsembleInvalid(
        model.config_path,
        f"the ensemble contains itself ({' → '.join(shown)})",
        "remove one of the steps",
    )


def _describe_elsewhere(graph: ExecutorGraph) -> tuple[str, ...]:
    """The feature repositories outside of the archive that Merlin's code reads."""
    works = ((node.operator.label, find_work(node)) for node in graph.nodes)
    paths = {(label, it.elsewhere) for label, it in works if it is not None and it.elsewhere}
    return tuple(
        f"{label}: Merlin's executor reads the feature repository {path} and no other; "
        "copy it there"
        for label, path in sorted(paths)
    )


def _find_calls(repository: ModelRepository, graph: ExecutorGraph) -> tuple[str, ...]:
    """What the graph names; and all else in the archive, where a user's own code may call it, or
    the graph is not known."""
    named = tuple(find_child(repository, name).name for name in list_called_models(graph))
    if not (graph.customised or graph.unread or has_foreign_operators(graph)):
        return named
    executors = {model.name for model in repository.models.values() if model.graph_path}
    return tuple(dict.fromkeys((*named, *sorted(repository.models.keys() - executors))))
