"""Loads that end, whatever tritonserver and the kernel make of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from ensemble_tools import ServingPlan
from serve.deadline import Deadline
from serve.errors import (
    KilledForMemory,
    ModelUnusable,
    ResourceExhausted,
    ServeError,
    TritonTimeout,
    TritonUnavailable,
)
from serve.limit import TimeLimit
from serve.resources.shortages import Denials, denials
from serve.triton.control import ModelControl
from serve.triton.diagnosis.verdicts import quotes_a_death
from serve.triton.suspects import LoadWork, Suspects
from serve.triton.trials import Trials

#: A load goes on so long after a process was denied a thread, which may not have been needed.
DENIED_S = TimeLimit(30.0, "the pids limit")
LOOK_S = 1.0


class Loading:
    """Has tritonserver load models, and remembers which it has not answered.

    denied: what the kernel has denied so far, looked at every look_s; a load goes on for denied_s
    after it has denied a process. under_way: what tritonserver loads now. given_up: by entry model,
    loads that took too long, or were cancelled, and may go on; whoever unloads the model takes it
    out.
    """

    def __init__(
        self,
        control: ModelControl,
        load_timeout_s: float,
        trials: Trials,
        denied: Callable[[], Denials] = denials,
        denied_s: float = DENIED_S,
        look_s: float = LOOK_S,
    ) -> None:
        self._control, self.load_timeout_s = control, load_timeout_s
        self._trials, self._denied = trials, denied
        self._denied_s, self._look_s = denied_s, look_s
        self.under_way: set[LoadWork] = set()
        self.given_up: dict[str, LoadWork] = {}

    @property
    def suspects(self) -> Suspects:
        """The book that loads are entered in."""
        return self._trials.suspects

    def new_deadline(self) -> Deadline:
        """For a load that begins now."""
        return Deadline(self.load_timeout_s)

    async def load(self, plan: ServingPlan, archive: str, limit: Deadline) -> None:
        """Load it, alone if its load is suspected of having killed tritonserver.

        archive: its identity, which changes with its content. limit: for all that is left of the
        load. Raises what ModelControl.request_load does;
        ModelUnusable for a culprit. A model whose load was not answered is to be unloaded.
        """
        work = LoadWork(plan.model_name, archive)
        await self._trials.run(work, lambda: self._load(work, plan, limit))

    async def _load(self, work: LoadWork, plan: ServingPlan, limit: Deadline) -> None:
        before = self._denied()
        with self._enter_in_book(work):
            try:
                await self._unless_denied(self._control.request_load(plan, limit), before)
            except ServeError as error:
                if isinstance(error, TritonTimeout):
                    self.given_up[plan.entry] = work
                now = self._denied()
                lack = now.since(before)
                if lack is None or not _may_be_shortage(error, plan):
                    raise
                self.suspects.acquit(work)
                kind = KilledForMemory if now.killed_since(before) else ResourceExhausted
                raise kind(
                    f"no resources to load the model {plan.model_name}: {lack}; unload a model"
                ) from error
            except asyncio.CancelledError:
                self.given_up[plan.entry] = work
                raise
        self.suspects.clear(work)

    @contextmanager
    def _enter_in_book(self, work: LoadWork) -> Iterator[None]:
        """In the book for as long as tritonserver has it; answered is a refusal, too."""
        self.under_way.add(work)
        self.suspects.enter(work)
        try:
            yield
        except (ModelUnusable, ResourceExhausted):
            self.suspects.answered(work)
            self.suspects.clear(work)
            raise
        except BaseException as error:
            self.suspects.lost(work, broken=isinstance(error, TritonUnavailable))
            raise
        else:
            self.suspects.answered(work)
        finally:
            self.under_way.discard(work)

    async def _unless_denied(self, loading: Awaitable[None], before: Denials) -> None:
        """The load; raises TritonTimeout some time after a process was denied.

        A stub that is denied a thread may wait for it for ever (seen).
        """
        task = asyncio.ensure_future(loading)
        left_s = float(self._denied_s)
        try:
            while not task.done() and left_s > 0:
                await asyncio.wait({task}, timeout=self._look_s)
                if self._denied().processes > before.processes:
                    left_s -= self._look_s
            if not task.done():
                raise TritonTimeout("a load that was denied a process", self._denied_s)
            task.result()
        finally:
            if not task.cancel() and not task.cancelled():
                task.exception()  # looked at: asyncio logs those that nobody has seen


def _may_be_shortage(error: ServeError, plan: ServingPlan) -> bool:
    """Whether a lack may be behind it: a stub that died, a load that stands, a tritonserver gone.

    A model that raised, or a config that is wrong, says so itself.
    """
    return not isinstance(error, ModelUnusable) or quotes_a_death(str(error), plan.triton_names)
