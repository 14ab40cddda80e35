"""The straight line of a comparison: start, load both archives, ask both, time both, stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from container.settings.reading import Settings
from container.tritonserver.runtime import find_runtime
from ensemble_tools import Compile, Rewrite, ServingPlan
from ensemble_tools.answers.exchange import Reply, TensorAnswer, TensorRequest
from ensemble_tools.answers.targets import Target, find_targets, has_lists
from ensemble_tools.archive.model_config import ModelConfig
from ensemble_tools.errors import NothingRanked
from ensemble_tools.serving.opened_archive import read_archive, require_plan
from ensemble_tools.signals import blocking
from verification.comparing.distribution import RANDOM_OPERATORS
from verification.comparing.forms import label_operators
from verification.errors import (
    FormUnusable,
    NoAnswer,
    RequestsUnusable,
)
from verification.ranking.bounds import Bound
from verification.ranking.tally import CURVE, Tally
from verification.reports.progress import Progress
from verification.reports.ranking_report import ArchiveSide, Asked, RankingReport, make_asked
from verification.reports.report import Cost, Timing
from verification.requests.columns import describe_input, find_fitting
from verification.serving.asking import Late, ask, load
from verification.serving.memory import measure
from verification.serving.server import (
    ANSWER_TIMEOUT_S,
    Server,
    make_directory,
    run_tritonserver,
)
from verification.timing import TIMED_REQUESTS, time_in_turns


@dataclass(frozen=True)
class Contender:
    """One of the two archives, read and planned."""

    title: str
    path: Path
    plan: ServingPlan
    #: The entry model's, None where Triton would complete it.
    config: ModelConfig | None
    random: tuple[str, ...] = ()

    @property
    def side(self) -> ArchiveSide:
        """What the report says of it."""
        return ArchiveSide(self.title, str(self.path), self.plan.form.value, self.random)


@dataclass(frozen=True)
class Comparing:
    """A comparison that is asked for."""

    old: Contender
    new: Contender
    requests: tuple[TensorRequest, ...]
    #: The K of the overlaps.
    places: tuple[int, ...]
    bounds: tuple[Bound, ...] = ()
    #: Outputs that rank, where they are named.
    scores: tuple[str, ...] = ()
    ids: str | None = None
    #: The input that names the user of each row.
    user: str | None = None
    timing: bool = True

    @property
    def all_places(self) -> tuple[int, ...]:
        """Every K that is measured, in order."""
        of_bounds = {bound.places for bound in self.bounds if bound.places is not None}
        return tuple(sorted({*CURVE, *self.places, *of_bounds}))


def read_contender(title: str, path: Path, directory: Path, settings: Settings) -> Contender:
    """Read and plan as the container would; raises EnsembleToolsError. Nothing is run."""
    archive = read_archive(
        directory,
        title.lower(),
        strict=not settings.auto_complete,
        rewrite=Rewrite(settings.rewrite),
        workflows=Compile(settings.compile),
    )
    labels = label_operators(archive.graph, set()) if archive.graph else ()
    random = tuple(sorted({*labels} & RANDOM_OPERATORS))
    return Contender(title, path, require_plan(archive), archive.repository.entry.config, random)


async def compare_archives(
    comparing: Comparing,
    settings: Settings,
    environment: Mapping[str, str],
    progress: Progress,
) -> RankingReport:
    """Carry it out; nothing is left behind, however it ends.

    Raises VerificationError, ContainerError.
    """
    contenders = (comparing.old, comparing.new)
    async with progress.shown():
        progress.tell("looking for tritonserver")
        with make_directory() as directory:
            with blocking():
                runtime = find_runtime(settings, directory, environment)
            progress.tell("starting tritonserver")
            async with run_tritonserver(settings, runtime, environment, directory) as server:
                seconds = []
                for contender in contenders:
                    progress.tell(f"loading {contender.title}")
                    seconds.append(await _load(server, contender, settings.load_timeout))
                asked, tallies, own = await _ask_all(server, comparing, progress)
                timings = await _time(server, comparing, asked, progress)
                memories = [measure(server.serving, it.plan.triton_names) for it in contenders]
                progress.tell("stopping tritonserver")
    titles = [contender.title for contender in contenders]
    return RankingReport(
        comparing.old.side,
        comparing.new.side,
        asked,
        tallies,
        own,
        tuple(map(Cost, titles, seconds, memories, timings)) if comparing.timing else (),
        tuple(sorted({*comparing.places, *(it.places for it in comparing.bounds if it.places)})),
        comparing.bounds,
        tuple(_list_input_changes(comparing)),
    )


async def _load(server: Server, contender: Contender, timeout_s: float) -> float:
    try:
        return await load(server, contender.plan, timeout_s)
    except FormUnusable as error:
        who = f"{contender.title} ({contender.path})"
        raise FormUnusable(who, error.reason) from error


async def _ask_all(
    server: Server, comparing: Comparing, progress: Progress
) -> tuple[tuple[Asked, ...], tuple[Tally, ...], tuple[Tally, ...]]:
    """Every request of OLD, of NEW, and of OLD again; answers are not kept.

    The first tallies are NEW's, the others OLD's own: how much chance there is in its answers.
    """
    asked: list[Asked] = []
    targets = await _recognise(server, comparing)
    tallies, own = (
        tuple(Tally(target, comparing.all_places, comparing.user) for target in targets)
        for _ in range(2)
    )
    for number, request in enumerate(comparing.requests, 1):
        progress.tell(f"asking request {number} of {len(comparing.requests)}")
        old = await _ask(server, comparing.old, request)
        new = await _ask(server, comparing.new, request)
        again = await _ask(server, comparing.old, request)
        asked.append(make_asked(request.title, old, new, again))
        if not isinstance(old, TensorAnswer):
            continue
        for tally, own_tally in zip(tallies, own, strict=True):
            if isinstance(new, TensorAnswer):
                tally.add(request, old, new)
                _check_recognised(comparing, tally, request)
            if isinstance(again, TensorAnswer):
                own_tally.add(request, old, again)
    for tally in (*tallies, *own):
        tally.close()
    return tuple(asked), tallies, own


async def _recognise(server: Server, comparing: Comparing) -> tuple[Target, ...]:
    """The targets by OLD's first answer with a list of several items, else by its last answer."""
    shown: TensorAnswer | None = None
    for request in comparing.requests:
        reply = await _ask(server, comparing.old, request)
        if isinstance(reply, TensorAnswer):
            shown = reply
            if has_lists(reply):
                break
    return () if shown is None else find_targets(shown, comparing.scores, comparing.ids)


def _check_recognised(comparing: Comparing, tally: Tally, request: TensorRequest) -> None:
    """Raise NothingRanked for ids that nobody named, and that repeat after all."""
    if comparing.ids is None and tally.repeats:
        outputs = ", ".join(tally.target.outputs)
        raise NothingRanked(
            f"values of {tally.target.ids} repeat in an answer to {request.title}, and may be no "
            "ids: name the ids with --ids, or the scores of the request's rows with --scores",
            outputs,
        )


def _make_tallies(comparing: Comparing, old: TensorAnswer, new: TensorAnswer) -> tuple[Tally, ...]:
    targets = find_targets(old, comparing.scores, comparing.ids)
    return tuple(Tally(target, comparing.all_places, comparing.user) for target in targets)


async def _ask(server: Server, contender: Contender, request: TensorRequest) -> Reply:
    try:
        return await ask(server, contender.plan, request)
    except Late as error:
        title, path = contender.title, contender.path
        raise NoAnswer(title, path, request.title, ANSWER_TIMEOUT_S) from error


async def _time(
    server: Server, comparing: Comparing, asked: Sequence[Asked], progress: Progress
) -> tuple[Timing | None, ...]:
    """Over requests that both answer, evenly chosen; None of each without one."""
    answered = [
        request
        for request, it in zip(comparing.requests, asked, strict=True)
        if not it.old_refusal and not it.new_refusal
    ]
    if not answered or not comparing.timing:
        return (None, None)
    count = min(len(answered), TIMED_REQUESTS)
    chosen = [answered[number * len(answered) // count] for number in range(count)]
    plans = [(it.title, it.plan) for it in (comparing.old, comparing.new)]
    try:
        return await time_in_turns(server, plans, chosen, progress)
    except Late:
        return (None, None)


def check_requests(comparing: Comparing, path: Path) -> None:
    """Raise RequestsUnfit where an archive could answer none of them, or one names no user."""
    for request in comparing.requests:
        if comparing.user is not None and comparing.user not in request.tensors:
            found = f"no input {comparing.user!r}, as --user says"
            raise RequestsUnusable(
                path, request.title, found, f"one of {', '.join(request.tensors)}"
            )
    for contender in (comparing.old, comparing.new):
        who = f"{contender.title} ({contender.path})"
        advice = "both archives are asked the same, so give requests that both take"
        find_fitting(comparing.requests, contender.config, path, who, advice)


def _list_input_changes(comparing: Comparing) -> Iterator[str]:
    old, new = comparing.old.config, comparing.new.config
    if old is None or new is None:
        return
    for name in sorted({*old.inputs, *new.inputs}):
        declared = [
            describe_input(config, config.inputs[name]) if name in config.inputs else ""
            for config in (old, new)
        ]
        if not declared[0]:
            yield f"{name}: NEW alone declares it, {declared[1]}"
        elif not declared[1]:
            yield f"{name}: OLD alone declares it, {declared[0]}"
        elif declared[0] != declared[1]:
            yield f"{name}: OLD declares {declared[0]}, NEW {declared[1]}"
