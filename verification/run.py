"""The straight line: start, load both forms, ask both, time both, measure both, stop."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from container.settings import Settings
from container.triton_runtime import TritonRuntime, find_runtime
from ensemble_tools import ServingPlan
from verification.asking import Late, ask, load
from verification.category_files import category_files, known_values, read_categories
from verification.columns import input_columns, list_lengths, unsupported
from verification.comparison import Comparison, Verdict, compare
from verification.distribution import SAMPLES, compare_distributions
from verification.errors import NothingToAsk
from verification.exchange import Answer, Refusal, Request
from verification.forms import Forms
from verification.generation import Generator
from verification.memory import measure
from verification.progress import Progress
from verification.report import Cost, Outcome, Report, Timing
from verification.server import Server, tritonserver

#: Requests of each form that count, in short turns (executor, served, executor, served, ...), so
#: that whatever else the machine does meets both.
TIMED_REQUESTS, _TURNS, _WARM_UPS = 100, 10, 10
#: The request that is timed has this many rows, if there is such a one.
TIMED_ROWS = 5


@dataclass(frozen=True)
class Task:
    """What is to be verified. requests: None to generate them."""

    forms: Forms
    requests: tuple[Request, ...] | None = None
    seed: int = 0
    batches: tuple[int, ...] = (1, 5, 100)
    tolerance: float = 0.0
    timing: bool = True


async def verify(
    task: Task, settings: Settings, environment: Mapping[str, str], progress: Progress
) -> Report:
    """Carry it out; nothing is left behind, however it ends.

    settings: which tritonserver, which Python, which limits. environment: what tritonserver
    inherits. Raises VerificationError, ContainerError.
    """
    forms = task.forms
    async with progress.shown():
        progress.tell("looking for tritonserver")
        with _directory() as directory:
            runtime = find_runtime(settings, directory, environment)
            requests = task.requests or generate(task, runtime)
            progress.tell("starting tritonserver")
            async with tritonserver(settings, runtime, environment, directory) as server:
                seconds = []
                for what, plan in (("executor", forms.executor), (_served(forms), forms.served)):
                    progress.tell(f"loading the {what}")
                    seconds.append(await load(server, plan, settings.load_timeout))
                outcomes = await _compare_all(server, task, requests, progress)
                timed = _timed_request(outcomes) if task.timing else None
                timings: tuple[Timing | None, ...] = (None, None)
                if timed is not None:
                    with contextlib.suppress(Late):
                        timings = await _time(server, forms, timed, progress)
                memories = [
                    measure(server.serving, plan.triton_names)
                    for plan in (forms.executor, forms.served)
                ]
                progress.tell("stopping tritonserver")
    names = ("executor", _served(forms))
    return Report(
        archive=str(forms.repository.path),
        form=forms.served.form.value,
        reasons=forms.served.reasons,
        notes=forms.served.notes,
        random=forms.random,
        tolerance=task.tolerance,
        outcomes=outcomes,
        costs=tuple(map(Cost, names, seconds, memories, timings)) if task.timing else (),
        timed=timed.title if timed is not None else "",
    )


def generate(task: Task, runtime: TritonRuntime) -> tuple[Request, ...]:
    """Requests for the executor's declared inputs; blocking while category files are read.

    Raises NothingToAsk.
    """
    columns = input_columns(task.forms.config)
    if unknown := unsupported(columns):
        raise NothingToAsk(task.forms.repository.entry.config_path, unknown)
    python = runtime.backend_python
    categories = read_categories(
        category_files(task.forms.repository), python.executable if python else None
    )
    known = tuple(replace(one, known=known_values(one, categories)) for one in columns)
    generator = Generator(known, list_lengths(task.forms.configs), task.seed)
    return generator.requests(task.batches)


def _served(forms: Forms) -> str:
    return forms.served.form.value


@contextlib.contextmanager
def _directory() -> Iterator[Path]:
    """For all that is written; gone at the end."""
    directory = Path(tempfile.mkdtemp(prefix="verify-")).resolve()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def _compare_all(
    server: Server, task: Task, requests: Sequence[Request], progress: Progress
) -> tuple[Outcome, ...]:
    """Every request; once a form hangs, nobody is asked any more."""
    outcomes: list[Outcome] = []
    hangs = ""
    for number, request in enumerate(requests, 1):
        progress.tell(f"asking, {number} of {len(requests)}: {request.title}")
        if hangs:
            comparison = Comparison(Verdict.NOT_ASKED, details=(hangs,))
        else:
            comparison, hangs = await _compare_one(server, task, request)
        outcomes.append(Outcome(request, comparison))
    return tuple(outcomes)


async def _compare_one(server: Server, task: Task, request: Request) -> tuple[Comparison, str]:
    """What it showed, and who hangs."""
    try:
        return await _compare(server, task, request), ""
    except Late as error:
        return Comparison(Verdict.UNDECIDED, details=(str(error),)), f"{error}, before"


async def _compare(server: Server, task: Task, request: Request) -> Comparison:
    forms = task.forms
    executor = await ask(server, forms.executor, request)
    served = await ask(server, forms.served, request)
    found = compare(executor, served, task.tolerance)
    if not (isinstance(executor, Answer) and isinstance(served, Answer)):
        return found
    differs = found.verdict is Verdict.DIFFERENT
    if forms.random or (differs and await _is_random(server, task, request, executor)):
        return await _compare_random(server, forms, request)
    return found


async def _is_random(server: Server, task: Task, request: Request, executor: Answer) -> bool:
    """Whether the executor answers the same request in another way each time.

    Only an operator of the user's own does that: Merlin's are known.
    """
    again = await ask(server, task.forms.executor, request)
    return compare(executor, again).verdict is not Verdict.EQUAL


async def _compare_random(server: Server, forms: Forms, request: Request) -> Comparison:
    answers: list[list[Answer]] = []
    for plan in (forms.executor, forms.served):
        replies = [await ask(server, plan, request) for _ in range(SAMPLES)]
        refused = [reply for reply in replies if isinstance(reply, Refusal)]
        if refused:
            detail = f"{plan.entry} answers at times, and at times not: {refused[0].message}"
            return Comparison(Verdict.UNDECIDED, details=(detail,))
        answers.append([reply for reply in replies if isinstance(reply, Answer)])
    return compare_distributions(*answers)


def _timed_request(outcomes: Sequence[Outcome]) -> Request | None:
    """One that both answer: ordinary, and of TIMED_ROWS rows, if there is such a one."""
    answered = [outcome.request for outcome in outcomes if _both_answer(outcome.comparison)]
    return min(
        answered,
        key=lambda request: (not request.ordinary, request.rows != TIMED_ROWS),
        default=None,
    )


def _both_answer(comparison: Comparison) -> bool:
    return comparison.verdict.is_answered or comparison.verdict is Verdict.DIFFERENT


async def _time(
    server: Server, forms: Forms, request: Request, progress: Progress
) -> tuple[Timing, ...]:
    plans = (forms.executor, forms.served)
    taken: tuple[list[float], ...] = ([], [])
    for plan in plans:
        await _ask_often(server, plan, request, _WARM_UPS)
    for turn in range(_TURNS):
        for plan, seconds in zip(plans, taken, strict=True):
            progress.tell(f"timing {plan.form.value}, {turn + 1} of {_TURNS}")
            seconds += await _ask_often(server, plan, request, TIMED_REQUESTS // _TURNS)
    return tuple(
        Timing(len(one), float(np.median(one)), float(np.quantile(one, 0.95))) for one in taken
    )


async def _ask_often(
    server: Server, plan: ServingPlan, request: Request, times: int
) -> list[float]:
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        await ask(server, plan, request)
        seconds.append(time.perf_counter() - started)
    return seconds
