"""Candidates: archives that may take their model's place, loaded beside it to be asked a sample.

A candidate is a model in a registry of its own: no caller can ask for it, and nobody lists it. It
goes through the same line as any model, behind its model's load, one at a time, and while no model
is being loaded. Whatever goes wrong with it ends it, with a line in the log: it comes back when its
model is loaded anew.

It has only memory that nobody else needs. Its load replaces no tritonserver and holds up no load of
a model; a model that finds no room gets a candidate's; one whose processes grow is dropped, and so
is the newest when memory is nearly gone. Should memory be gone all the same, the kernel is told to
kill candidates' processes first.

Its processes are killed before tritonserver unloads it: a request that hangs in it holds up nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_tools import ServingPlan, check_candidate, name_candidate, parse_published
from serve.deadline import Deadline
from serve.errors import ModelNotLoaded, ResourceExhausted, ServeError
from serve.models.admission import Admission, Reservation, Snapshot
from serve.models.lifecycle import Archive, Lifecycle, LifecycleSettings
from serve.models.registry import Model, Registry, State
from serve.resources.census import Usage
from serve.resources.free import MEMORY
from serve.telemetry.candidate_metrics import CandidateMetrics
from serve.telemetry.telemetry import Telemetry
from serve.triton.client import TritonClient
from serve.triton.hosting import Hosting, Processes

_log = logging.getLogger(__name__)

#: Between two looks at candidates' memory, and for the end of models' loads, in seconds.
_LOOK_S = 0.5
#: A candidate's processes may grow to twice what they had, or what its model's have, and by so many
#: bytes beside; and so may their threads.
_GROWTH, _MORE_THREADS = 64 << 20, 512
#: A model's unload waits so long at most for its candidate's, in seconds; it does not wait for one
#: that is being loaded, which takes longer to end.
_ENDED_S = 3.0
#: What the kernel adds for processes that it should kill first (proc_pid_oom_score_adj(5)).
_FIRST = b"1000"


@dataclass(eq=False)
class Candidate:
    """That of a model that was loaded. itself: once it is loaded."""

    of: Model
    itself: Model | None = None
    has_begun: bool = False  # its load, for which it may have waited
    is_asked: bool = False
    failures: int = 0  # requests that it failed at, one after the other
    first: Usage | None = None  # what its processes held when they were looked at first
    server: int | None = None  # tritonserver's process then
    generation: int = 0  # its model's then
    pids: set[int] = field(default_factory=set)  # those that the kernel knows of
    before: asyncio.Task[None] | None = None  # the end of the one that its model had before
    loading: asyncio.Task[None] | None = None
    ending: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """In its registry, and in tritonserver."""
        return name_candidate(self.of.name)


class CandidateLifecycle(Lifecycle):
    """Loads and unloads candidates. models: the registry of their models."""

    def __init__(
        self,
        models: Registry,
        triton: TritonClient,
        hosting: Hosting,
        settings: LifecycleSettings,
        admission: Admission,
    ) -> None:
        self._models, self.registry = models, Registry()
        admission.follow(self.registry)
        super().__init__(self.registry, triton, hosting, settings, admission)

    @property
    def leaving(self) -> frozenset[asyncio.Task[None]]:
        """Those whose memory tritonserver has not given back altogether."""
        return self._departures.under_way

    def _check_name(self, name: str) -> None:
        """Its model's was checked."""

    def _note_candidate(self, model: Model, directory: Path) -> None:
        """A candidate has none."""

    async def _decide(self, archive: Archive, name: str, limit: Deadline) -> ServingPlan:
        plan = await super()._decide(archive, name, limit)
        models = {name_candidate(it.name): it for it in self._models.all_loaded()}
        if name in models:
            check_candidate(models[name].plan, plan, archive.repository.path)
        return plan

    async def _reserve(self, plan: ServingPlan) -> Reservation:
        return await self._admission.reserve(plan, spare=True)

    async def _find_killable(self, plan: ServingPlan) -> Processes:
        return await self._hosting.find_ending(plan)


class Candidates:
    """All of them.

    models_load: whether a model is being loaded now. unwanted_s: as of LifecycleSettings.
    """

    def __init__(
        self,
        lifecycle: CandidateLifecycle,
        admission: Admission,
        metrics: CandidateMetrics,
        models_load: Callable[[], bool],
        unwanted_s: float,
    ) -> None:
        self._lifecycle, self._admission = lifecycle, admission
        self._metrics, self._models_load = metrics, models_load
        self._unwanted_s = unwanted_s
        self._candidates: dict[str, Candidate] = {}  # by their models' names
        self._turn = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._stopping = False

    def stop(self) -> None:
        """The container is stopping: they are asked no more, and tritonserver takes them along."""
        self._stopping = True
        self._candidates.clear()
        self._lifecycle.stop()
        if self._watching is not None:
            self._watching.cancel()

    def find(self, model: Model) -> Candidate | None:
        """The model's, if it can be asked and nobody asks it. The hot path."""
        candidate = self._candidates.get(model.name)
        if candidate is None or candidate.is_asked or candidate.first is None:
            return None
        return None if candidate.ending else candidate

    def begin(self, model: Model, directory: Path) -> None:
        """The model was loaded: load its candidate from there, in the background."""
        before = self.end(model.name)
        candidate = Candidate(model, before=before.ending if before else None)
        self._candidates[model.name] = candidate
        candidate.loading = asyncio.ensure_future(self._load(candidate, directory))
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._watch())

    def end(self, model_name: str) -> Candidate | None:
        """The model is being unloaded: begin to end its candidate, if it has one."""
        self._metrics.forget(model_name)
        candidate = self._candidates.get(model_name)
        if candidate is not None:
            self._begin_end(candidate, self._unwanted_s)
        return candidate

    def drop(self, candidate: Candidate, why: str, *, has_died: bool = False) -> None:
        """Ask it no more, and unload it; idempotent. has_died: tritonserver has lost it."""
        if has_died and candidate.itself is not None:
            candidate.itself.lost |= {*candidate.itself.plan.triton_names}
        if candidate.ending is None and not self._stopping:
            facts = {"model_name": candidate.of.name}
            _log.warning("the model's candidate is dropped: %s", why, extra=facts)
            self._metrics.dropped(candidate.of.name)
            self._begin_end(candidate)

    async def make_room(self) -> bool:
        """Drop one for a model that needs room; whether any gave back something."""
        holders = [it for it in self._candidates.values() if it.has_begun and not it.ending]
        if holders:
            self.drop(holders[-1], "a model that is loaded needs the room")
        ending = {it.ending for it in self._candidates.values() if it.ending and it.has_begun}
        if not ending and not self._lifecycle.leaving:
            return False
        if ending:
            await asyncio.wait(ending)
        if leaving := self._lifecycle.leaving:
            await asyncio.wait(leaving)
        return True

    async def _load(self, candidate: Candidate, directory: Path) -> None:
        if candidate.before is not None:
            await asyncio.wait({candidate.before})
        async with self._turn:
            while self._models_load():  # noqa: ASYNC110 (nobody waits for it)
                await asyncio.sleep(_LOOK_S)
            candidate.has_begun = True
            try:
                await self._lifecycle.load(candidate.name, str(directory))
            except Exception as error:  # whatever it is: its model is not to notice
                said = error.logged if isinstance(error, ServeError) else repr(error)
                self.drop(candidate, f"it cannot be loaded: {said}")
                return
        candidate.itself = self._lifecycle.registry.loaded(candidate.name)
        await self._look()

    def _begin_end(self, candidate: Candidate, patience_s: float = 0.0) -> asyncio.Task[None]:
        """patience_s: how long a load that has begun may go on: where a stub is killed in it,
        tritonserver keeps its region in /dev/shm, 16 MiB, for ever (seen on 2.51).
        """
        if candidate.ending is None:
            candidate.ending = asyncio.ensure_future(self._end(candidate, patience_s))
        return candidate.ending

    async def _end(self, candidate: Candidate, patience_s: float) -> None:
        if candidate.loading is not None:
            if candidate.has_begun:
                await asyncio.wait({candidate.loading}, timeout=patience_s)
            candidate.loading.cancel()
            await asyncio.wait({candidate.loading})
        if candidate.before is not None:
            await asyncio.wait({candidate.before})
        if candidate.itself is not None and candidate.pids:
            # Its processes are killed, or have died: tritonserver would wait for their word.
            candidate.itself.lost |= {*candidate.itself.plan.triton_names}
        try:
            await self._lifecycle.unload(candidate.name)
        except ModelNotLoaded:  # it never was
            pass
        except ServeError as error:
            facts = {"model_name": candidate.of.name}
            _log.error("tritonserver keeps a candidate: %s", error, extra=facts)
        finally:
            if self._candidates.get(candidate.of.name) is candidate:
                del self._candidates[candidate.of.name]

    # -- memory

    async def _watch(self) -> None:
        while self._candidates:
            await asyncio.sleep(_LOOK_S)
            await self._look()

    async def _look(self) -> None:
        try:
            snapshot = await self._admission.look()
        except (OSError, RuntimeError):  # no descriptor, no thread
            return
        census, models = snapshot.census, _list_triton_models(snapshot)
        present = [it for it in self._candidates.values() if it.has_begun]
        for candidate in present:
            names = models.get(candidate.name, ())
            for pid in (pid for name in names for pid in census.pids[name]):
                _offer_to_kernel(candidate, pid)
            held, of_model = (
                sum((census.models[name] for name in models.get(it, ())), Usage())
                for it in (candidate.name, candidate.of.name)
            )
            if candidate.of.state is State.GONE:  # its reload failed
                self.end(candidate.of.name)
            elif why := _find_fault(candidate, held, of_model, census.pid):
                self.drop(candidate, why)
        free, kept = snapshot.free.get(MEMORY, 1 << 62), self._admission.reserve_bytes
        if free < kept and (left := [it for it in present if not it.ending]):
            why = f"{free >> 20} MiB of memory are free, and {kept >> 20} MiB are kept free"
            self.drop(left[-1], why)


class LifecycleBesideCandidates(Lifecycle):
    """Loads and unloads models, whose candidates come behind them and go before them."""

    def __init__(
        self,
        registry: Registry,
        triton: TritonClient,
        hosting: Hosting,
        settings: LifecycleSettings,
        admission: Admission,
        telemetry: Telemetry | None = None,
    ) -> None:
        super().__init__(registry, triton, hosting, settings, admission, telemetry)
        self.candidates = Candidates(
            CandidateLifecycle(registry, triton, hosting, settings, admission),
            admission,
            self._telemetry.candidates,
            lambda: bool(self._loads),
            settings.unwanted_s,
        )

    def stop(self) -> None:
        """Candidates' loads, too."""
        self.candidates.stop()
        super().stop()

    def _note_candidate(self, model: Model, directory: Path) -> None:
        self.candidates.begin(model, directory)

    async def _reserve(self, plan: ServingPlan) -> Reservation:
        while True:
            try:
                return await super()._reserve(plan)
            except ResourceExhausted:
                if not await self.candidates.make_room():
                    raise

    async def unload(self, name: str) -> None:
        """Its candidate's end begins first; what of that takes long goes on behind the answer."""
        candidate = self.candidates.end(name)
        await super().unload(name)
        if candidate is not None and candidate.itself is not None and candidate.ending:
            await asyncio.wait({candidate.ending}, timeout=_ENDED_S)


def _list_triton_models(snapshot: Snapshot) -> Mapping[str, list[str]]:
    """The Triton names of each model that has processes."""
    names: dict[str, list[str]] = {}
    for triton_name in snapshot.census.models:
        with contextlib.suppress(ValueError):  # of somebody who shares tritonserver with us
            names.setdefault(parse_published(triton_name)[0], []).append(triton_name)
    return names


def _find_fault(candidate: Candidate, held: Usage, of_model: Usage, server: int | None) -> str:
    """Why it is dropped; empty for nothing. held: by its processes. of_model: by its model's, which
    grow with the same requests.
    """
    model, first = candidate.of, candidate.first
    if held.tasks > 2 * max(first.tasks if first else 0, of_model.tasks) + _MORE_THREADS:
        return f"its processes have {held.tasks} threads"
    if candidate.itself is None:
        return ""
    if first is None:
        candidate.first, candidate.server, candidate.generation = held, server, model.generation
        return ""
    if candidate.server != server:
        return "tritonserver was started again"
    if candidate.generation != model.generation:
        return "its model's process died"
    if held.memory > 2 * max(first.memory, of_model.memory) + _GROWTH:
        return f"its processes grew from {first.memory >> 20} to {held.memory >> 20} MiB"
    return ""


def _offer_to_kernel(candidate: Candidate, pid: int) -> None:
    if pid not in candidate.pids:
        candidate.pids.add(pid)
        with contextlib.suppress(OSError):  # it has ended
            Path(f"/proc/{pid}/oom_score_adj").write_bytes(_FIRST)
