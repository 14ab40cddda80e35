"""Which of an archive's models invocations are meant for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ensemble_tools.archive.files import is_file
from ensemble_tools.archive.model_config import EXECUTOR_PLATFORM
from ensemble_tools.archive.source_model import GRAPH_FILE, SourceModel
from ensemble_tools.errors import RepositoryUnusable

#: How Merlin names the models that an executor calls: 0_transformworkflowtriton, 1_predict...
_CHILD_NAME = re.compile(r"\d+_[a-z]+")


def find_entry_model(
    path: Path,
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]],
    entry_name: str | None,
) -> SourceModel:
    """The model that is meant, by these rules:

    1. the one that is named; 2. the only one; 3. with an executor, see _choose_beside_executors;
    4. the only ensemble that is no step of another one, or the only model that calls such a one;
    5. without an ensemble, the only model that no other one calls.
    """
    if entry_name is not None:  # 1
        if entry_name not in models:
            raise RepositoryUnusable(
                path, f"no model {entry_name!r} in it", f"expected one of {_join_names(models)}"
            )
        return models[entry_name]
    if len(models) == 1:  # 2
        return next(iter(models.values()))
    outermost = _find_outermost(models)
    executors = [model for model in models.values() if model.graph_path is not None]
    if executors:  # 3
        return _choose_beside_executors(path, models, executors, outermost)
    tops = _find_uncalled(outermost or list(models.values()), models, calls)  # 4, 5
    if len(tops) == 1:
        return tops[0]
    raise RepositoryUnusable(
        path,
        f"several models ({_join_names(models)}) and nothing that says which one is meant",
        "expected one ensemble or one executor model over the others, one python model that calls "
        "the others by name (as whole strings in its files, or in `parameters` of its config), or "
        "a single model" + _hint_at_executors(models),
    )


def _find_uncalled(
    tops: list[SourceModel],
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]],
) -> list[SourceModel]:
    """The top models once calls by name count: a called model gives way to who needs it.

    A call by what the model itself needs, such as an ensemble's own step, leads back and is none.
    """
    users: dict[str, set[str]] = {}
    for user in models.values():
        for name in (*user.step_names, *calls.get(user.name, ())):
            users.setdefault(name, set()).add(user.name)
    seen: set[str] = set()
    uncalled: dict[str, SourceModel] = {}
    waiting = list(tops)
    while waiting:
        model = waiting.pop()
        if model.name in seen:
            continue
        seen.add(model.name)
        above = users.get(model.name, set()) - _names_below(model, models, calls)
        waiting.extend(models[name] for name in above)
        if not above:
            uncalled[model.name] = model
    return list(uncalled.values())


def _choose_beside_executors(
    path: Path,
    models: Mapping[str, SourceModel],
    executors: list[SourceModel],
    outermost: list[SourceModel],
) -> SourceModel:
    """The executor, or the ensemble that a user made of its children.

    1. An ensemble with a number in front of its name is a child: the executor calls it.
    2. One other ensemble, over all numbered models (without any, over all plain ones), wins.
    3. Without another ensemble, the only executor.
    """
    ensembles = [model for model in outermost if not _CHILD_NAME.fullmatch(model.name)]  # 1
    if not ensembles and len(executors) == 1:  # 3
        return executors[0]
    if len(ensembles) == 1 and _find_children(models) <= _names_below(ensembles[0], models):  # 2
        return ensembles[0]
    candidates = _join_names(model.name for model in (*executors, *ensembles))
    children = _join_names(_find_children(models))
    raise RepositoryUnusable(
        path,
        f"several models that could be meant ({candidates}), beside {children}",
        "expected one executor model, or one ensemble with all of the executor's models as steps: "
        "remove the directories of the others",
    )


def _find_children(models: Mapping[str, SourceModel]) -> set[str]:
    """The models that an executor is taken to call, by their names."""
    numbered = {name for name in models if _CHILD_NAME.fullmatch(name)}
    plain = {
        name for name, model in models.items() if model.graph_path is None and not model.is_ensemble
    }
    return numbered or plain


def _names_below(
    top: SourceModel,
    models: Mapping[str, SourceModel],
    calls: Mapping[str, Iterable[str]] | None = None,
) -> set[str]:
    """The names of the steps that the model needs, and with calls those it calls; known or not."""
    names: set[str] = set()
    waiting = [top]
    while waiting:
        model = waiting.pop()
        new_names = {*model.step_names, *(calls or {}).get(model.name, ())} - names
        names |= new_names
        waiting.extend(models[name] for name in new_names if name in models)
    return names


def _hint_at_executors(models: Mapping[str, SourceModel]) -> str:
    """A hint at models that have one alone of an executor's graph and its platform."""
    with_graph = {
        name
        for name, model in models.items()
        if model.versions and is_file(model.directory / str(model.versions[-1]) / GRAPH_FILE)
    }
    with_platform = {
        name
        for name, model in models.items()
        if model.config and model.config.platform == EXECUTOR_PLATFORM
    }
    if names := with_graph - with_platform:
        listed = _join_names(names)
        return f' ({listed} holds {GRAPH_FILE}, and its config lacks `platform: "merlin_executor"`)'
    if names := with_platform - with_graph:
        return f" ({_join_names(names)} is an executor by its config, and lacks {GRAPH_FILE})"
    return ""


def _find_outermost(models: Mapping[str, SourceModel]) -> list[SourceModel]:
    ensembles = [model for model in models.values() if model.is_ensemble]
    inner = {name for model in ensembles for name in model.step_names}
    # Where every ensemble is a step of another one, planning the first will name the circle.
    return [model for model in ensembles if model.name not in inner] or ensembles[:1]


def _join_names(models: Iterable[str]) -> str:
    return ", ".join(sorted(models)[:20])
