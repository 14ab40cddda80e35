"""PURE. Which models of an archive are served together: the entry model and all that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.archive.source_model import SourceModel
from ensemble_tools.errors import NAMED_COLUMNS, EnsembleInvalid, GraphNotServable, shortened


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


def find_reachable(
    repository: ModelRepository, calls: Mapping[str, Iterable[str]] | None = None
) -> tuple[SourceModel, ...]:
    """The entry model after all models that it needs; raises EnsembleInvalid.

    calls: what models call by name; the repository's own calls when it is not given.
    """
    known = repository.calls if calls is None else calls
    return gather_steps([repository.entry], repository.models, known)


def gather_steps(
    wanted: Iterable[SourceModel],
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]] | None = None,
) -> tuple[SourceModel, ...]:
    """The models, each after all that it needs: its ensemble steps, and what it calls by name.

    Every name in calls must be in models. Models that call each other come in some order. Raises
    EnsembleInvalid for a step that is missing and for ensembles that contain themselves.
    """
    done: dict[str, SourceModel] = {}
    for model in wanted:
        if model.name not in done:
            _gather(model, models, calls or {}, done)
    return tuple(done.values())


def find_called_by_name(
    models: Iterable[SourceModel], calls: Mapping[str, Iterable[str]]
) -> tuple[str, ...]:
    """Those of the models that others of them call, in their order, the last one left out.

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
        return iter([*_list_step_names(model), *calls.get(model.name, ())])

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
            if all(models[each].is_ensemble for each in circle):
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


def _list_step_names(model: SourceModel) -> list[str]:
    return [step.model_name for step in model.config.steps] if model.config else []


def _refuse_circle(model: SourceModel, circle: list[str]) -> EnsembleInvalid:
    shown = (
        [*circle[:NAMED_COLUMNS], "…", circle[-1]] if len(circle) > 2 * NAMED_COLUMNS else circle
    )
    return EnsembleInvalid(
        model.config_path,
        f"the ensemble contains itself ({' → '.join(shown)})",
        "remove one of the steps",
    )
