"""What tritonserver hosts of a model, from its load to its end: models in it, stubs beside it.

The one piece that knows both. An unload looks for the model's stubs before tritonserver has it no
more and after that: they end by themselves or are ended, with what they have started. What is
lacking to look for them, a descriptor or a thread, never keeps an unload from its end: what it
gives back is more than they hold.

When they end is for the caller to say: those of an older generation may still answer what they were
sent, and an unload that was cancelled is over when tritonserver has the model no more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from ensemble_tools import ServingPlan
from serve.deadline import Deadline
from serve.errors import ResourceExhausted, ServeError, TritonError, TritonUnavailable
from serve.resources.shortages import Denials, denials
from serve.threads import InThread, run_in_daemon_thread
from serve.triton.client import TritonClient
from serve.triton.loading import DENIED_S, LOOK_S, Loading
from serve.triton.stubs import (
    PATIENCE,
    Descendant,
    Patience,
    Stub,
    end_stubs,
    find_descendants,
    find_forked,
    find_stubs,
    kill_stubs,
)
from serve.triton.suspects import Suspects
from serve.triton.trials import Trials
from serve.triton.unloading import PROBE_S, REPLACED_S, Unloading

_log = logging.getLogger(__name__)

#: One that is replaced for what it keeps may finish what it works on, for so long; and how often
#: that is looked at.
_FINISHED_S, _INSIDE_LOOK_S = 5.0, 0.02

#: What an unload ends beside tritonserver's models.
Processes = frozenset[Stub | Descendant]


@dataclass(frozen=True)
class Reloaded:
    """A model that was loaded again."""

    stubs: frozenset[Stub]  # of the Triton models now
    left: Processes  # those of older generations, to be ended


@dataclass(frozen=True)
class HostingSettings:
    """How the system is looked at, and how long it is waited for, in seconds."""

    denied: Callable[[], Denials] = denials  # what the kernel has denied so far
    denied_s: float = DENIED_S  # Loading's
    denied_look_s: float = LOOK_S  # Loading's
    probe_s: float = PROBE_S  # Unloading's
    patience: Patience = PATIENCE  # with processes that are to end
    find_stubs: Callable[[Path, Collection[str]], frozenset[Stub]] = find_stubs
    end_stubs: Callable[[Processes, Patience], Awaitable[None]] = end_stubs
    in_thread: InThread = run_in_daemon_thread


class Hosting:
    """Brings models into tritonserver and out of it, in bounded time.

    replace: kills tritonserver, returns when nothing of it is left, and has it started again.
    """

    def __init__(
        self,
        triton: TritonClient,
        serving_repository: Path,
        load_timeout_s: float,
        trials: Trials | None = None,
        replace: Callable[[float], Awaitable[None]] | None = None,
        settings: HostingSettings | None = None,
    ) -> None:
        self._triton, self._serving_repository = triton, serving_repository
        self._replace = replace
        self._settings = settings = settings or HostingSettings()
        self.loading = Loading(
            triton.control,
            load_timeout_s,
            trials or Trials(),
            settings.denied,
            settings.denied_s,
            settings.denied_look_s,
        )
        self.unloading = Unloading(
            triton.control, serving_repository, self.loading, replace, settings.probe_s
        )

    @property
    def suspects(self) -> Suspects:
        """The book that loads are entered in."""
        return self.loading.suspects

    async def host(self, plan: ServingPlan, archive: str, limit: Deadline) -> frozenset[Stub]:
        """Have it loaded; the stubs of its Triton models, for one that calls others.

        archive: its identity, which changes with its content. limit: of the load. Raises what
        Loading.load does; after that it is to be unloaded.
        """
        await self.loading.load(plan, archive, limit)
        return await self.find_stubs(plan) if plan.called else frozenset()

    async def reload(
        self, plan: ServingPlan, archive: str, timeout_s: float, *, lost: Collection[str]
    ) -> Reloaded:
        """Load again what was lost in part or altogether. Raises what load and unload do.

        lost: ModelControl.request_unload's. After an error tritonserver has nothing of it, where it
        can be asked; stubs may be left. The order:

        1. Look who is there, before a dead stub's end takes away what tells its children.
        2. Unload.
        3. Look who has stayed: of an older generation, since the new one is not there yet.
        4. Load.
        5. Look who is new. Those of 1 and 3 are left to be ended when nobody waits for them.
        6. After a failure unload what 4 did load; but a tritonserver that is gone holds nothing.
        """
        try:
            left = await self.find_ending(plan)  # 1
            names = _have_stubs(left)
            await self.unloading.unload(  # 2
                plan, Deadline(timeout_s), lost=lost, with_stubs=names
            )
            old = await self.find_stubs(plan)  # 3
            await self.loading.load(plan, archive, self.loading.new_deadline())  # 4
            stubs = await self.find_stubs(plan) - old if plan.called else frozenset()  # 5
        except TritonUnavailable:
            raise
        except (ResourceExhausted, TritonError):  # 6
            await self._release(plan, timeout_s, lost)
            raise
        return Reloaded(stubs, left | old)

    async def end_model(
        self,
        plan: ServingPlan,
        deadline: Deadline,
        *,
        lost: Collection[str] = (),
        killed: Processes = frozenset(),
    ) -> Processes:
        """Return when tritonserver has the plan's models no more; what is left is to be ended.

        killed: what was ended just now. tritonserver lets go of what they had, so it is waited for.
        Raises TritonTimeout when tritonserver holds them although it works, or TritonUnavailable.
        """
        before = await self.find_ending(plan)  # what they have started does not end with them
        names = _have_stubs(before | killed)
        await self.unloading.unload(plan, deadline, lost=lost, with_stubs=names)
        return before | await self.find_ending(plan)  # 2.36 starts a stub for the next request

    async def undo(
        self, what: str, plan: ServingPlan, timeout_s: float, *, lost: Collection[str] = ()
    ) -> None:
        """Unload and end what a failed load has left; where that fails, it is logged."""
        try:
            await self.end_processes(await self.end_model(plan, Deadline(timeout_s), lost=lost))
        except ServeError as error:
            _log_not_undone(what, plan, error)

    async def find_unfinalized(self, plan: ServingPlan) -> Processes:
        """The processes of a model that may be killed when it is not asked any more.

        Those of generated steps and of stand-in backends have nothing to finalize. None where one
        of the model's may have, or where they cannot be looked for.
        """
        processes = await self.find_ending(plan)
        finalize = {model.triton_name for model in plan.models if model.finalizes}
        stubs = (it for it in processes if isinstance(it, Stub))
        if any(it.runs_python_file and it.triton_name in finalize for it in stubs):
            return frozenset()
        return processes

    async def kill_processes(self, processes: Processes) -> None:
        """End stubs now, and what they have started; returns when they have ended.

        To be done before tritonserver is asked to unload their models: it sleeps for a second, then
        finds them dead and waits no further (2.36, 2.51). For one that dies after that second it
        waits for ever.
        """
        kill_stubs([it for it in processes if isinstance(it, Stub)])
        await self.end_processes(processes)

    async def end_processes(self, processes: Processes) -> None:
        """Return when these have ended; where they cannot be looked at, that is logged."""
        try:
            await self._settings.end_stubs(processes, self._settings.patience)
        except OSError as error:
            _log.error("python stubs may be left: %s", error)

    async def find_stubs(self, plan: ServingPlan) -> frozenset[Stub]:
        """Those of its Triton models that run; raises OSError where that cannot be seen."""
        return await self._settings.in_thread(lambda: self._find_stubs(plan), "stubs")

    async def renew(self) -> None:
        """Return when there is a new tritonserver, without models, and it is live.

        What it still works on is waited for, for some seconds. Raises TritonUnavailable.
        """
        if self._replace is None:
            raise TritonUnavailable("it cannot be replaced")
        for _ in range(round(_FINISHED_S / _INSIDE_LOOK_S)):
            if not self.suspects.inside:
                break
            await asyncio.sleep(_INSIDE_LOOK_S)
        await self._replace(REPLACED_S)
        await self._triton.wait_until_live(self.loading.load_timeout_s)

    async def _release(self, plan: ServingPlan, timeout_s: float, lost: Collection[str]) -> None:
        """Unload what a failed reload did load. Stubs stay: an older one may still answer."""
        try:
            await self.unloading.unload(plan, Deadline(timeout_s), lost=lost)
        except ServeError as error:
            _log_not_undone("reload", plan, error)

    async def find_ending(self, plan: ServingPlan) -> Processes:
        """The stubs that an unload ends, also those of what was lost under the plan before.

        With what they have started. None where they cannot be looked for.
        """

        def look() -> Processes:
            stubs = self._find_stubs(plan)
            forked = find_forked(self._serving_repository, plan.triton_names)
            return stubs | forked | find_descendants(stubs | forked)

        try:
            try:
                return await self._settings.in_thread(look, "stubs")
            except RuntimeError:  # no thread is to be had: what is looked for may have them all
                return look()
        except OSError as error:
            _log.warning("python stubs cannot be looked for: %s", error)
            return frozenset()

    def _find_stubs(self, plan: ServingPlan) -> frozenset[Stub]:
        return self._settings.find_stubs(self._serving_repository, plan.triton_names)


def _log_not_undone(what: str, plan: ServingPlan, error: ServeError) -> None:
    facts = {"model_name": plan.model_name}
    _log.error("a failed %s could not be undone: %s", what, error, extra=facts)


def _have_stubs(processes: Processes) -> frozenset[str]:
    """The Triton names of those of them that are stubs."""
    return frozenset(it.triton_name for it in processes if isinstance(it, Stub))
