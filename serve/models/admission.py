"""Reserves what a load will take, or refuses the load, so that the kernel kills nobody.

What the load is expected to take (footprints) is held against what is free (resources, gpus), less
what is kept for others and what loads under way will still take (ledger). A load that does not fit
is refused (507), and the platform unloads a model. A load that is let in when memory is nearly gone
ends with the kernel killing a process, perhaps tritonserver with every model in it.

What is free and what is held are read at the same moment, in a thread; the decision and its entry
in the ledger are one step on the event loop. What a load took is looked at after it has answered.
A forecast only ever refuses beside other models: an empty endpoint tries whatever it is asked.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ensemble_tools import Demand, ServingPlan, measure_demand
from serve.errors import KilledForMemory, ResourceExhausted, TritonError
from serve.limit import named
from serve.models.registry import Model, Registry, State
from serve.resources.census import Census, take_census
from serve.resources.footprints import Footprints, Forecast, MeasuredLoad, StubSettings
from serve.resources.free import (
    DESCRIPTORS,
    MEMORY,
    OWN_DESCRIPTORS,
    SHARED_MEMORY,
    TASKS,
    Amounts,
    Kernel,
    Resource,
    gpu_memory,
    measure_free,
)
from serve.resources.gpus import GpuMemory, Gpus
from serve.resources.ledger import Lack, Ledger, LedgerEntry
from serve.threads import run_in_daemon_thread

_log = logging.getLogger(__name__)

#: What is kept beside memory: for connections, for threads of both servers.
_KEPT: Amounts = {DESCRIPTORS: 32, OWN_DESCRIPTORS: 32, TASKS: 32}
#: From one replacement of tritonserver to the next, in seconds.
_RENEWED_S = 600.0
#: Bytes of a GPU below which a difference is other models' requests.
_NOISE = 16 * 1024 * 1024


@dataclass(frozen=True)
class AdmissionSettings:
    """How much is kept free. Limits, where a message is to name their settings."""

    serving_repository: Path
    memory_reserve_bytes: int  # 0: no load is refused
    gpu_reserve_bytes: int = 0  # 0: no GPU is asked
    stubs: StubSettings = field(default_factory=StubSettings)
    kernel: Kernel = field(default_factory=Kernel)
    #: Loads that come together share one look: what is consumed meanwhile is in the ledger.
    fresh_s: float = 0.1
    patience_s: float = 20.0  # a load waits so long at most for what others turn out to take
    take_census: Callable[[Path, Kernel], Census] = take_census
    gpus: int = 0  # that the machine has


@dataclass(frozen=True)
class Snapshot:
    """Free memory and its holders at one moment."""

    at: float
    free: Amounts
    census: Census
    gpus: Mapping[int, GpuMemory]


def take_snapshot(
    settings: AdmissionSettings, at: float, gpus: Mapping[int, GpuMemory]
) -> Snapshot:
    """Blocking, some ms. Free last: what is taken between the two is counted twice then."""
    census = settings.take_census(settings.serving_repository, settings.kernel)
    return Snapshot(at, measure_free(settings.kernel, census.pid), census, gpus)


class Reservation:
    """The memory that one load was promised; it ends in exactly one of two ways."""

    def __init__(
        self, admission: Admission, entry: LedgerEntry | None, before: Snapshot | None
    ) -> None:
        self._admission, self._entry, self._before = admission, entry, before

    def failed(self, _: object, error: BaseException | None, __: object) -> None:
        """The load failed, so that its memory is free again; called as an __exit__.

        Nothing is known of what it takes, but that what was free was too little if the kernel
        killed a process: the next try is told so before it takes all that the others need.
        """
        if isinstance(error, KilledForMemory) and self._entry is not None:
            self._admission._was_killed(self._entry, self._before)
        self.give_back()

    def give_back(self) -> None:
        """Its memory is free again, or it took none."""
        if self._entry is not None:
            self._admission._give_back(self._entry)

    def settle(self) -> None:
        """The load ended well; how much it took is measured later."""
        if self._entry is not None:
            self._admission._finish(self._entry, self._before)


class Admission:
    """Lets loads in, and learns what they take.

    renew: has tritonserver replaced, with its models (Revival.renew).
    """

    def __init__(
        self,
        registry: Registry,
        settings: AdmissionSettings,
        gpus: Gpus | None = None,
        clock: Callable[[], float] = time.monotonic,
        renew: Callable[[], Awaitable[None]] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self._renew, self._renewing = renew, asyncio.Lock()
        self._renewed_at: float | None = None
        self._registries, self._settings = [registry], settings
        self._gpus = gpus if settings.gpu_reserve_bytes else None
        self._clock = clock
        self._ledger = ledger or Ledger(Footprints(settings.stubs))
        self._footprints = self._ledger.footprints
        self._looking: asyncio.Future[Snapshot] | None = None
        self._snapshot: Snapshot | None = None
        self._unused_gpus: Mapping[int, GpuMemory] = {}
        #: Loads that have ended well and are being looked at.
        self.learning: set[asyncio.Future[None]] = set()
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def waiting(self) -> int:
        """How many loads wait for what others turn out to take."""
        return len(self._waiting)

    def follow(self, registry: Registry) -> None:
        """Its models count, too."""
        self._registries.append(registry)

    @property
    def reserve_bytes(self) -> int:
        """Memory that loads leave free."""
        return self._settings.memory_reserve_bytes

    async def reserve(self, plan: ServingPlan, *, spare: bool = False) -> Reservation:
        """Hold what a load of this plan is expected to take; raises ResourceExhausted.

        It may wait, for some seconds at most, for what others turn out to take. spare: no other
        load waits for what this one takes, and tritonserver is not replaced for it.
        """
        if not self._settings.memory_reserve_bytes:
            return Reservation(self, None, None)
        try:
            gpus = self._settings.gpus
            demand = await run_in_daemon_thread(lambda: measure_demand(plan, gpus), "demand")
            snapshot = await self.look()
            patience = self._clock() + self._settings.patience_s
            while self._should_wait(demand, snapshot) and self._clock() < patience:
                await self._change(patience - self._clock())
                snapshot = await self.look()
            if not spare and self._would_help(demand, snapshot):
                snapshot = await self._after_renewal(demand)
            elif self._renewing.locked():  # or tritonserver would be killed under this load
                async with self._renewing:
                    snapshot = await self._look_anew()
        except (OSError, RuntimeError) as error:  # no descriptor, no thread
            raise ResourceExhausted(
                f"no resources to load the model {plan.model_name}: {error}; unload a model"
            ) from error
        entry = self._decide(plan.model_name, demand, snapshot)
        entry.told = spare
        return Reservation(self, entry, snapshot)

    def _should_wait(self, demand: Demand, snapshot: Snapshot) -> bool:
        """Not for what lacks room already: the platform can unload a model meanwhile."""
        self._follow_registry(snapshot.census)
        forecast, lack = self._weigh(demand, snapshot)
        coming = self._ledger.coming(snapshot.census, snapshot.at)
        spare = snapshot.free.get(MEMORY, 1 << 62) - self._settings.memory_reserve_bytes
        return lack is None and self._ledger.is_better_known_soon(
            forecast, snapshot.census, spare, coming
        )

    def _would_help(self, demand: Demand, snapshot: Snapshot) -> bool:
        """Whether a new tritonserver makes room: the one that is there keeps what dead stubs had.

        It must keep more for the dead than the living have, since all wait while it is replaced; a
        model without stubs counts as one with one. And not soon again, whoever makes stubs die.
        While models are loaded or unloaded, a region without a stub may be one that is just being
        made, or removed.
        """
        lack = self._weigh(demand, snapshot)[1]
        if self._renew is None or lack is None or self._ledger.loading:
            return False
        if self._count(State.RELOADING, State.UNLOADING):
            return False
        if self._renewed_at is not None and self._clock() - self._renewed_at < _RENEWED_S:
            return False
        living = sum(held.region for held in snapshot.census.models.values())
        each = self._count(State.READY) * self._settings.stubs.region
        worth_it = snapshot.census.abandoned >= max(lack.missing, living, each)
        return lack.resource in (SHARED_MEMORY, MEMORY) and worth_it

    async def _after_renewal(self, demand: Demand) -> Snapshot:
        """One at a time: who comes later finds room."""
        async with self._renewing:
            snapshot = await self._look_anew()
            if self._renew is not None and self._would_help(demand, snapshot):
                _log.warning(
                    "tritonserver keeps %d MB of /dev/shm of python stubs that died; it is replaced"
                    " to make room, and its models are loaded again",
                    snapshot.census.abandoned >> 20,
                )
                self._renewed_at = self._clock()
                try:
                    await self._renew()
                except TritonError as error:
                    _log.error("tritonserver could not be replaced: %s", error)
                snapshot = await self._look_anew()
            self._snapshot = snapshot
            return snapshot

    async def _change(self, timeout_s: float) -> None:
        """Return when a load has ended and what it took is known, or after timeout_s."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait({waiter}, timeout=timeout_s)
        finally:
            self._waiting.discard(waiter)

    def _notify(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _decide(self, name: str, demand: Demand, snapshot: Snapshot) -> LedgerEntry:
        forecast, lack = self._weigh(demand, snapshot)
        if lack is not None:
            why = forecast.why_of(lack.resource)
            raise ResourceExhausted(_describe_lack(name, lack, self._list_kept(snapshot), why))
        return self._ledger.begin(name, demand, forecast)

    def _weigh(self, demand: Demand, snapshot: Snapshot) -> tuple[Forecast, Lack | None]:
        forecast = self._footprints.forecast(demand, snapshot.gpus)
        coming = self._ledger.coming(snapshot.census, snapshot.at)
        free = {**snapshot.free, **self._measure_free_of_gpus(demand, snapshot)}
        return forecast, self._ledger.lacking(forecast, free, self._list_kept(snapshot), coming)

    def _list_kept(self, snapshot: Snapshot) -> dict[Resource, int]:
        gpus = {gpu_memory(gpu): self._settings.gpu_reserve_bytes for gpu in snapshot.gpus}
        return {**_KEPT, MEMORY: self._settings.memory_reserve_bytes, **gpus}

    def _measure_free_of_gpus(self, demand: Demand, snapshot: Snapshot) -> dict[Resource, int]:
        """For models that live in tritonserver, what frameworks there keep of unloaded ones too.

        They give no memory back to the driver, and use it again for the next model.
        """
        inside = self._footprints.in_server(demand)
        free = {}
        for gpu, memory in snapshot.gpus.items():
            what = gpu_memory(gpu)
            shares = sum(entry.forecast.amounts.get(what, 0) for entry in self._ledger.entries)
            before = self._unused_gpus.get(gpu, memory).used
            again = max(0, memory.used - before - shares) if inside else 0
            free[what] = memory.free + again
        return free

    # -- what there is

    async def look(self) -> Snapshot:
        """A snapshot that is hardly older than this call, or a new one."""
        if (
            self._snapshot is not None
            and self._clock() - self._snapshot.at < self._settings.fresh_s
        ):
            return self._snapshot
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look_anew())
            self._looking.add_done_callback(self._keep_snapshot)
        return await asyncio.shield(self._looking)

    def _keep_snapshot(self, looked: asyncio.Future[Snapshot]) -> None:
        self._looking = None
        if not looked.cancelled() and looked.exception() is None:
            self._snapshot = looked.result()

    async def _look_anew(self) -> Snapshot:
        at = self._clock()
        gpus = await self._gpus.memory() if self._gpus is not None else {}
        self._unused_gpus = self._unused_gpus or gpus
        return await run_in_daemon_thread(
            lambda: take_snapshot(self._settings, at, gpus), "resources"
        )

    def _follow_registry(self, census: Census) -> None:
        """Forget models that are gone; see which will be loaded again and which have grown."""
        models = self._list_loaded()
        for entry in list(self._ledger.entries):
            if entry.loaded_at is None:
                continue
            model = models.get(entry.name)
            if model is None:
                self._ledger.end(entry)
            elif model.generation != entry.generation and model.state is State.READY:
                entry.generation, entry.server, entry.lost = model.generation, census.pid, False
            else:
                restarted = entry.server is not None and entry.server != census.pid
                entry.lost = restarted or model.state is State.RELOADING
            if model is not None and entry.is_there(census):
                self._footprints.observe(entry.demand, entry.held(census))

    def _list_loaded(self) -> Mapping[str, Model]:
        return {it.name: it for registry in self._registries for it in registry.all_loaded()}

    def _count(self, *states: State) -> int:
        return sum(registry.count(*states) for registry in self._registries)

    def _give_back(self, entry: LedgerEntry) -> None:
        self._ledger.end(entry)
        self._notify()

    # -- what loads took

    def _was_killed(self, entry: LedgerEntry, before: Snapshot | None) -> None:
        if before is not None and entry.alone:  # or another one may have been meant
            self._footprints.killed(entry.demand, before.free.get(MEMORY, 0))

    def _finish(self, entry: LedgerEntry, before: Snapshot | None) -> None:
        self._ledger.finish(entry, self._clock())
        learning = asyncio.ensure_future(self._learn(entry, before))
        self.learning.add(learning)
        learning.add_done_callback(self.learning.discard)

    async def _learn(self, entry: LedgerEntry, before: Snapshot | None) -> None:
        """Look at what the load took; where that fails, nothing is learned."""
        try:
            self._note(entry, before, await self._look_anew())
        except (OSError, RuntimeError) as error:
            _log.debug("what a load took cannot be looked at: %s", error)
        finally:
            entry.told = True
            self._notify()

    def _note(self, entry: LedgerEntry, before: Snapshot | None, after: Snapshot) -> None:
        model = self._list_loaded().get(entry.name)
        if self._ledger.get(entry.name) is not entry or model is None:
            return
        if model.state is not State.READY or after.census.pid is None:
            return
        entry.stubs, entry.server = entry.held(after.census).processes, after.census.pid
        entry.generation = model.generation
        alone = entry.alone and not self._ledger.loading and before is not None
        taken = _measure_taken(entry.demand, before if alone else None, after)
        self._footprints.learn(entry.demand, taken)
        entry.forecast = self._footprints.forecast(entry.demand, after.gpus)


def _measure_taken(demand: Demand, before: Snapshot | None, after: Snapshot) -> MeasuredLoad:
    names = {model.triton_name for model in demand.models}
    held = {name: it for name, it in after.census.models.items() if name in names}
    if before is None or before.census.pid != after.census.pid:
        return MeasuredLoad(held)
    gpus = {
        gpu: memory.used - before.gpus[gpu].used
        for gpu, memory in after.gpus.items()
        if gpu in before.gpus
    }
    grown = after.census.server.memory - before.census.server.memory
    return MeasuredLoad(held, grown, {gpu: more for gpu, more in gpus.items() if more >= _NOISE})


def _describe_lack(name: str, lack: Lack, reserves: Amounts, why: str) -> str:
    """A sentence: the resource, how much there is and is needed, why, and what to do."""
    amount = lack.resource.amount
    found = f"no {lack.resource.name} to load the model {name}: {amount(lack.free)} available"
    setting = named(reserves.get(lack.resource, 0))
    kept = f", and {amount(lack.kept)} are kept free{setting}" if lack.kept else ""
    if lack.free < lack.kept:
        return f"{found}{kept}; {_suggest_remedy(lack)}"
    coming = (
        f", of which other models are expected to take {amount(lack.coming)}"
        if lack.free - lack.kept >= lack.needed
        else ""
    )
    return (
        f"{found}{coming}{kept}; the load is expected to take {amount(lack.needed)}, {why}: "
        f"{_suggest_remedy(lack)}"
    )


def _suggest_remedy(lack: Lack) -> str:
    """Docker gives a container 64 MB of /dev/shm unless it is told otherwise."""
    more = ", or give the container more (docker run --shm-size)"
    return f"unload a model{more if lack.resource is SHARED_MEMORY else ''}"
