"""The straight line: start, load all forms, ask all, time all, measure all, stop."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from container.settings.reading import Settings
from container.tritonserver.runtime import SMALL_PYTHON, TritonRuntime, find_runtime
from ensemble_tools.answers.exchange import Refusal, TensorAnswer, TensorRequest
from ensemble_tools.archive.model_config import parse_model_config
from ensemble_tools.serving.plan import PublishedModel
from ensemble_tools.signals import blocking
from verification.comparing.comparison import Agreement, Comparison, Names, compare
from verification.comparing.distribution import SAMPLES, compare_distributions
from verification.comparing.forms import Forms, LoadedForm
from verification.errors import MerlinMissing, NothingToAsk
from verification.reports.progress import Progress
from verification.reports.report import Cost, Outcome, Report, Timing, WorkflowReport
from verification.requests.category_files import find_category_files, read_categories
from verification.requests.columns import Categories, find_unsupported, read_input_columns
from verification.requests.generation import make_generator
from verification.serving.asking import Late, ask, load
from verification.serving.memory import measure
from verification.serving.server import (
    Server,
    make_directory,
    run_tritonserver,
)
from verification.timing import time_in_turns

#: The request that is timed has this many rows, if there is such a one.
TIMED_ROWS = 5


@dataclass(frozen=True)
class Task:
    """A verification that is asked for."""

    forms: Forms
    #: None to generate them.
    requests: tuple[TensorRequest, ...] | None = None
    seed: int = 0
    batches: tuple[int, ...] = (1, 5, 100)
    tolerance: float = 0.0
    timing: bool = True


async def verify(
    task: Task,
    settings: Settings,
    environment: Mapping[str, str],
    progress: Progress,
) -> Report:
    """Carry it out; nothing is left behind, however it ends.

    settings: which tritonserver, which Python, which limits. environment: what tritonserver
    inherits. Raises VerificationError, ContainerError.
    """
    forms = task.forms
    all_forms = (forms.right, *forms.others)
    async with progress.shown():
        progress.tell("looking for tritonserver")
        with make_directory() as directory:
            with blocking():
                runtime = find_runtime(settings, directory, environment)
                check_for_merlin(runtime)
                categories = _read_categories(forms, runtime)
            requests = task.requests or generate(task, categories)
            progress.tell("starting tritonserver")
            async with run_tritonserver(settings, runtime, environment, directory) as server:
                seconds = await _load_all(server, all_forms, settings, progress)
                outcomes = await _compare_all(server, task, requests, progress)
                workflows = await _compare_workflows(server, task, categories, progress)
                timed = _make_timed_request(outcomes) if task.timing else None
                timings = await _time(server, all_forms, timed, progress)
                memories = [measure(server.serving, form.plan.triton_names) for form in all_forms]
                progress.tell("stopping tritonserver")
    titles = [form.title for form in all_forms]
    return Report(
        archive=str(forms.repository.path),
        form=forms.original.form.value,
        reasons=forms.original.reasons,
        notes=forms.original.notes,
        random=forms.random,
        tolerance=task.tolerance,
        outcomes=outcomes,
        costs=tuple(map(Cost, titles, seconds, memories, timings)) if task.timing else (),
        timed=timed.title if timed is not None else "",
        workflows=workflows,
    )


def check_for_merlin(runtime: TritonRuntime) -> None:
    """After make demo there is no Merlin; of other interpreters the executor's load tells."""
    python = runtime.backend_python
    if python is not None and python.executable == SMALL_PYTHON:
        raise MerlinMissing(python.executable)


def generate(task: Task, categories: Categories) -> tuple[TensorRequest, ...]:
    """Requests for the entry model's declared inputs; raises NothingToAsk."""
    columns = read_input_columns(task.forms.config)
    if unknown := find_unsupported(columns):
        raise NothingToAsk(task.forms.repository.entry.config_path, unknown)
    generator = make_generator(columns, task.forms.configs, categories, task.seed)
    return generator.make_requests(task.batches)


def _read_categories(forms: Forms, runtime: TritonRuntime) -> Categories:
    """The categories that the workflows know; blocking, under a second."""
    python = runtime.backend_python
    return read_categories(
        find_category_files(forms.repository), python.executable if python else None
    )


async def _compare_all(
    server: Server, task: Task, requests: Sequence[TensorRequest], progress: Progress
) -> tuple[Outcome, ...]:
    """Every request; once a form hangs, nobody is asked any more."""
    outcomes: list[Outcome] = []
    hangs = ""
    for number, request in enumerate(requests, 1):
        progress.tell(f"asking, {number} of {len(requests)}: {request.title}")
        comparisons, hangs = await _compare_one(server, task, request, hangs)
        outcomes.append(Outcome(request, *comparisons))
    return tuple(outcomes)


async def _compare_one(
    server: Server, task: Task, request: TensorRequest, hangs: str
) -> tuple[list[Comparison], str]:
    """Each form's outcome, and who hangs: nobody is asked then."""
    comparisons: list[Comparison] = []
    for form in task.forms.others:
        if hangs:
            comparison = Comparison(Agreement.NOT_ASKED, details=(hangs,), names=form.names)
        else:
            try:
                comparison = await _compare(server, task, form, request)
            except Late as error:
                details, hangs = (str(error),), f"{error}, before"
                comparison = Comparison(Agreement.UNDECIDED, details=details, names=form.names)
        comparisons.append(comparison)
    return comparisons, hangs


async def _compare(
    server: Server, task: Task, form: LoadedForm, request: TensorRequest
) -> Comparison:
    forms = task.forms
    executor = await ask(server, forms.executor, request)
    served = await ask(server, form.plan, request)
    comparison = compare(executor, served, task.tolerance, form.names)
    if not (isinstance(executor, TensorAnswer) and isinstance(served, TensorAnswer)):
        return comparison
    differs = comparison.verdict is Agreement.DIFFERENT
    if forms.random or (differs and await _is_random(server, task, request, executor)):
        return await _compare_random(server, (forms.right, form), request)
    return comparison


async def _is_random(
    server: Server, task: Task, request: TensorRequest, executor: TensorAnswer
) -> bool:
    """Whether the executor answers the same request in another way each time.

    Only an operator of the user's own does that: Merlin's are known.
    """
    again = await ask(server, task.forms.executor, request)
    return compare(executor, again).verdict is not Agreement.EQUAL


async def _compare_random(
    server: Server, pair: tuple[LoadedForm, LoadedForm], request: TensorRequest
) -> Comparison:
    names = pair[1].names
    answers: list[list[TensorAnswer]] = []
    for plan in (form.plan for form in pair):
        replies = [await ask(server, plan, request) for _ in range(SAMPLES)]
        refused = [reply for reply in replies if isinstance(reply, Refusal)]
        if refused:
            detail = f"{plan.entry} answers at times, and at times not: {refused[0].message}"
            return Comparison(Agreement.UNDECIDED, details=(detail,), names=names)
        answers.append([reply for reply in replies if isinstance(reply, TensorAnswer)])
    return compare_distributions(answers[0], answers[1], names)


async def _compare_workflows(
    server: Server, task: Task, categories: Categories, progress: Progress
) -> tuple[WorkflowReport, ...]:
    """Each workflow alone, compiled beside NVTabular; and those that are not compiled.

    None is asked alone where the task has requests of its own: those are the entry model's.
    """
    forms = task.forms
    reports = [WorkflowReport(name, not_compiled=why) for name, why in forms.not_compiled]
    for model in forms.compiled.models if forms.compiled else ():
        if model.compiled is not None:
            outcomes: tuple[Outcome, ...] = ()
            if task.requests is None:
                progress.tell(f"asking {model.source_name} alone")
                outcomes = await _compare_workflow(server, task, model, categories)
            program = model.compiled.program
            reasons = tuple(operator.reason for operator in program.kept)
            workflow_report = WorkflowReport(
                model.source_name, program.operators, "", outcomes, reasons
            )
            reports.append(workflow_report)
    return tuple(sorted(reports, key=lambda report: report.model))


async def _compare_workflow(
    server: Server, task: Task, model: PublishedModel, categories: Categories
) -> tuple[Outcome, ...]:
    forms = task.forms
    assert forms.compiled is not None
    originals = {original.source_name: original.triton_name for original in forms.original.models}
    config = parse_model_config(model.config_text or "", forms.repository.path)
    columns = read_input_columns(config)
    if find_unsupported(columns):
        return ()
    names, hangs = Names("NVTabular", "the compiled workflow"), ""
    outcomes: list[Outcome] = []
    generator = make_generator(columns, [config], categories, task.seed)
    for request in generator.make_requests(task.batches):
        try:
            right = await ask(server, forms.original, request, originals[model.source_name])
            ours = await ask(server, forms.compiled, request, model.triton_name)
            comparison = compare(right, ours, names=names, bit_for_bit=True)
        except Late as error:
            hangs = str(error)
            comparison = Comparison(Agreement.UNDECIDED, details=(hangs,), names=names)
        outcomes.append(Outcome(request, comparison))
        if hangs:
            break
    return tuple(outcomes)


def _make_timed_request(outcomes: Sequence[Outcome]) -> TensorRequest | None:
    """A request that all answer: ordinary, and of TIMED_ROWS rows, if there is such a one."""
    answered = [outcome.request for outcome in outcomes if outcome.is_answered]
    return min(
        answered,
        key=lambda request: (not request.ordinary, request.rows != TIMED_ROWS),
        default=None,
    )


async def _load_all(
    server: Server,
    forms: Sequence[LoadedForm],
    settings: Settings,
    progress: Progress,
) -> list[float]:
    """Seconds that each took."""
    seconds = []
    for form in forms:
        progress.tell(f"loading: {form.title}")
        seconds.append(await load(server, form.plan, settings.load_timeout))
    return seconds


async def _time(
    server: Server, forms: Sequence[LoadedForm], request: TensorRequest | None, progress: Progress
) -> tuple[Timing | None, ...]:
    """None of each where there is no request to time, or one form does not answer it in time."""
    if request is not None:
        with contextlib.suppress(Late):
            plans = [(form.title, form.plan) for form in forms]
            return await time_in_turns(server, plans, [request], progress)
    return (None,) * len(forms)
