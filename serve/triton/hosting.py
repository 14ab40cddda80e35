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
from serve.threads import in_daemon_thread
from serve.triton.client import TritonClient
from serve.triton.loading import Loading
from serve.triton.stubs import (
    Descendant,
    Stub,
    StubCounts,
    count,
    end_stubs,
    find_descendants,
    find_stubs,
)
from serve.triton.suspects import Suspects
from serve.triton.trials import Trials
from serve.triton.unloading import REPLACED_S, Unloading

_log = logging.getLogger(__name__)

#: One that is replaced for what it keeps may finish what it works on, for so long; and how often
#: that is looked at.
_FINISHED_S, _INSIDE_LOOK_S = 5.0, 0.02

#: What an unload ends beside tritonserver's models.
Processes = frozenset[Stub | Descendant]


@dataclass(frozen=True)
class Reloaded:
    """stubs: how many each Triton model has now. left: those of older generations, to be ended."""

    stubs: StubCounts
    left: Processes


class Hosting:
    """Brings models into tritonserver and out of it, in bounded time.

    replace: kills tritonserver, returns when nothing of it is left, and has it started again.
    denied: what the kernel has denied so far.
    """

    def __init__(
        self,
        triton: TritonClient,
        serving_repository: Path,
        load_timeout_s: float,
        trials: Trials | None = None,
        replace: Callable[[float], Awaitable[None]] | None = None,
        denied: Callable[[], Denials] = denials,
    ) -> None:
        self._triton, self._serving_repository = triton, serving_repository
        self._replace = replace
        self.loading = Loading(triton, load_timeout_s, trials or Trials(), denied)
        self.unloading = Unloading(triton, serving_repository, self.loading, replace)

    @property
    def suspects(self) -> Suspects:
        """The book that loads are entered in."""
        return self.loading.suspects

    async def load(self, plan: ServingPlan, archive: str, limit: Deadline) -> StubCounts:
        """Load it; how many stubs each of its Triton models has, for one that calls others.

        archive: its identity, which changes with its content. limit: of the load. Raises what
        Loading.load does; after that it is to be unloaded.
        """
        await self.loading.load(plan, archive, limit)
        return count(await self._stubs(plan)) if plan.called else {}

    async def reload(
        self, plan: ServingPlan, archive: str, timeout_s: float, *, lost: Collection[str]
    ) -> Reloaded:
        """Load again what was lost in part or altogether. Raises what load and unload do.

        lost: TritonClient.unload's. After an error tritonserver has nothing of it, where it can be
        asked; stubs may be left.
        """
        try:
            left = await self._ending(plan)  # now: what a dead stub has started is not found later
            await self.unloading.unload(plan, timeout_s, lost=lost)
            old = await self._stubs(plan)
            await self.loading.load(plan, archive, self.loading.limit())
            stubs = await self._stubs(plan) - old if plan.called else ()
        except TritonUnavailable:  # one that is gone holds nothing
            raise
        except (ResourceExhausted, TritonError):
            await self._release(plan, timeout_s, lost)
            raise
        return Reloaded(count(stubs), left | old)

    async def unload(
        self, plan: ServingPlan, timeout_s: float, *, lost: Collection[str] = ()
    ) -> Processes:
        """Return when tritonserver has the plan's models no more; what is left is to be ended.

        Raises TritonTimeout when tritonserver holds them although it works, or TritonUnavailable.
        """
        ending = await self._ending(plan)
        await self.unloading.unload(plan, timeout_s, lost=lost)
        return ending | await self._ending(plan)

    async def end(self, processes: Processes) -> None:
        """Return when these have ended; where they cannot be looked at, that is logged."""
        try:
            await end_stubs(processes)
        except OSError as error:
            _log.error("python stubs may be left: %s", error)

    async def stubs(self, plan: ServingPlan) -> StubCounts:
        """How many run of each of its Triton models; raises OSError where that cannot be seen."""
        return count(await self._stubs(plan))

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
        await self._triton.until_live(self.loading.load_timeout_s)

    async def _release(self, plan: ServingPlan, timeout_s: float, lost: Collection[str]) -> None:
        """Unload what a failed reload did load. Stubs stay: an older one may still answer."""
        try:
            await self.unloading.unload(plan, timeout_s, lost=lost)
        except ServeError as error:
            facts = {"model_name": plan.model_name}
            _log.error("a failed reload could not be undone: %s", error, extra=facts)

    async def _stubs(self, plan: ServingPlan) -> frozenset[Stub]:
        return await in_daemon_thread(lambda: self._found(plan), "stubs")

    async def _ending(self, plan: ServingPlan) -> Processes:
        """The stubs that an unload ends, also those of what was lost under the plan before.

        With what they have started. None where they cannot be looked for.
        """

        def look() -> Processes:
            stubs = self._found(plan)
            return stubs | find_descendants(stubs)

        try:
            try:
                return await in_daemon_thread(look, "stubs")
            except RuntimeError:  # no thread is to be had: what is looked for may have them all
                return look()
        except OSError as error:
            _log.warning("python stubs cannot be looked for: %s", error)
            return frozenset()

    def _found(self, plan: ServingPlan) -> frozenset[Stub]:
        return find_stubs(self._serving_repository, plan.triton_names)
