"""An executor model whose children are served, in the ensemble that takes its place. No I/O."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ensemble_tools.archive.executor_graph import ExecutorGraph
from ensemble_tools.archive.model_config import print_model_config
from ensemble_tools.archive.repository import ModelRepository
from ensemble_tools.archive.source_model import CONFIG_FILE, GRAPH_FILE, SourceModel
from ensemble_tools.ensembles.edges import list_columns
from ensemble_tools.ensembles.ensemble_form import form_ensemble
from ensemble_tools.ensembles.operator_kinds import has_foreign_operators
from ensemble_tools.ensembles.render import EnsembleForm, GeneratedModel
from ensemble_tools.ensembles.wiring import Wiring, wire
from ensemble_tools.errors import GraphNotExpressible, PayloadMissing
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.selection import (
    Selection,
    find_called_by_name,
    find_child,
    gather_steps,
)
from ensemble_tools.serving.servability import Rules, check_servable
from ensemble_tools.serving.serving_plan import Form, PublishedModel
from ensemble_tools.setting_names import EXECUTOR_REMEDY, REWRITE


def select_as_ensemble(
    repository: ModelRepository,
    graph: ExecutorGraph,
    namespace: Namespace,
    rules: Rules,
) -> Selection:
    """The children, and what is generated around them.

    Raises GraphNotExpressible where only the executor itself gives its numbers, ArchiveError and
    IllegalName.
    """
    executor = repository.entry
    assert executor.config is not None
    assert executor.graph_path is not None
    _check_known(graph, executor.graph_path.parent.parent)
    wiring = wire(
        graph,
        list_columns(executor.config.inputs),
        list_columns(executor.config.outputs),
        executor.graph_path,
    )
    _check_artifacts(wiring, executor)
    calls = [call for call in wiring.calls if call.work is None]
    called = [find_child(repository, call.model_name) for call in calls]
    steps = gather_steps(called, repository.models, repository.calls)
    check_servable(steps, rules)
    _check_all_known(wiring, graph, repository, steps)
    form = form_ensemble(
        wiring,
        executor,
        {step.name: step for step in steps},
        namespace.step,
        frozenset(name for called in repository.calls.values() for name in called),
    )
    _check_release(form, graph, executor.graph_path)
    children = [repository.models[name] for name in form.children]
    models = gather_steps(children, repository.models, repository.calls)
    return Selection(
        _name_form(form),
        models,
        form.step_alone,
        (*find_called_by_name((*models, executor), repository.calls), *form.called),
        tuple(_publish_generated(model, executor, namespace) for model in form.models),
        form.waits,
        form.reasons,
        (*form.notes, *_describe_waits(form)),
        _describe_repositories(form, executor),
    )


def _check_artifacts(wiring: Wiring, executor: SourceModel) -> None:
    """Raise PayloadMissing where a file is not there that an operator reads.

    A directory may lie elsewhere on the machine that serves; the step says so if it does not.
    """
    assert executor.graph_path is not None
    for call in wiring.calls:
        if call.work is None or call.work.artifact.endswith("/"):
            continue
        if call.work.artifact not in {"", *executor.artifacts}:
            raise PayloadMissing(
                executor.graph_path.parent / call.work.artifact,
                f"there is no such file, and {call.operator} reads it; export it again, or add it",
            )


def _describe_repositories(form: EnsembleForm, executor: SourceModel) -> tuple[str, ...]:
    """Directories that the archive has not: they must be where the graph was exported."""
    assert executor.graph_path is not None
    beside = executor.graph_path.parent.relative_to(executor.directory.parent)
    lacking = [
        f"{call.operator}: the feature repository {beside / work.artifact}/ is not in the "
        f"archive; add it, or copy it to {work.elsewhere} on each machine that serves"
        for call, work in ((it.call, it.call.work) for it in form.models if it.call)
        if work is not None and work.elsewhere
        if work.artifact not in executor.artifacts
    ]
    return tuple(dict.fromkeys(lacking))


def _name_form(form: EnsembleForm) -> Form:
    if form.step_alone is not None:
        return Form.STEP_ALONE
    return Form.PURE_ENSEMBLE if form.is_pure else Form.STEPPED_ENSEMBLE


def _check_known(graph: ExecutorGraph, version: Path) -> None:
    """Raise GraphNotExpressible where Merlin's own code alone knows what the executor does."""
    if graph.unread:
        raise GraphNotExpressible(
            version / GRAPH_FILE,
            "Merlin's graph",
            (),
            f"it cannot be read without running it: {graph.unread}",
            EXECUTOR_REMEDY,
        )
    if graph.customised:
        raise GraphNotExpressible(
            version / "model.py",
            "the executor",
            (),
            f"model.py is not the one that merlin-systems exports ({graph.customised}): what it "
            "adds would be lost in an ensemble",
            EXECUTOR_REMEDY,
        )


def _check_all_known(
    wiring: Wiring,
    graph: ExecutorGraph,
    repository: ModelRepository,
    steps: Iterable[SourceModel],
) -> None:
    """A user's own operator may call models by itself: then only the executor knows the calls."""
    others = repository.models.keys() - {step.name for step in steps} - {repository.entry.name}
    if not wiring.inlines or not (others or (has_foreign_operators(graph) and wiring.calls)):
        return
    inlines = [*wiring.inlines.values()]
    foreign = [inline for inline in inlines if inline.foreign] or inlines
    may_call = min(others) if others else wiring.calls[0].model_name
    raise GraphNotExpressible(
        repository.graph_path or repository.path,
        foreign[0].operator,
        foreign[0].columns,
        f"this inline operator may call the model {may_call} by itself, which only the executor "
        "lets it do",
        EXECUTOR_REMEDY,
    )


def _check_release(form: EnsembleForm, graph: ExecutorGraph, path: Path) -> None:
    """Generated steps do what the executor does since 23.06; what an older one does, it knows."""
    if graph.outdated and any(model.source is not None for model in form.models):
        raise GraphNotExpressible(
            path,
            "the executor",
            (),
            f"merlin-systems {graph.outdated} wrote it, whose executor converts columns in another "
            f"way than those since 23.06 ({form.reasons[0]})",
            f"export it again with merlin-systems 23.08, or {REWRITE}=auto serves the executor",
        )


def _publish_generated(
    model: GeneratedModel, executor: SourceModel, namespace: Namespace
) -> PublishedModel:
    name = namespace.entry if model.name is None else namespace.step(model.name)
    graph = executor.graph_path
    assert graph is not None
    work = model.call.work if model.call is not None else None
    links = _link_beside_step(executor, graph) if model.with_graph else ()
    if work is not None and work.artifact in executor.artifacts:
        artifact = work.artifact.rstrip("/")
        links = ((f"1/{artifact}", graph.parent / artifact),)
    return PublishedModel(
        name,
        model.name or executor.name,
        print_model_config(model.config),
        links,
        (1,) if model.source is None else (),
        (("1/model.py", model.source),) if model.source is not None else (),
        generated=True,
        interpreter=work.interpreter if work is not None else "",
        node_path=model.call.node_path if model.call is not None else (),
    )


def _link_beside_step(executor: SourceModel, graph: Path) -> tuple[tuple[str, Path], ...]:
    """Links to what the executor has: the graph, modules of its operators, its environment."""
    version = graph.parent.parent
    inside = sorted(name.rstrip("/") for name in executor.payload[int(version.name)])
    around = (
        name
        for name in executor.entries
        if name != CONFIG_FILE and name not in map(str, executor.versions)
    )
    left_out = {executor.python_file, "__pycache__"}
    return (
        *((f"1/{name}", version / name) for name in inside if name not in left_out),
        *((name, executor.directory / name) for name in around),
    )


def _describe_waits(form: EnsembleForm) -> tuple[str, ...]:
    """A sentence for each child that is given one input more."""
    return tuple(
        f"{name} waits for another step by its input {after.name!r}, which it does not read: "
        "tritonserver never releases a request in which a step errs while another one runs"
        for name, after in form.waits.items()
    )
