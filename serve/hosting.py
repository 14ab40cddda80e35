"""What tritonserver hosts: loads and unloads that end, whatever tritonserver makes of them.

A load or an unload that is not answered in time is given up. What stands in its way is then ended:
first the python stubs of the models that are being loaded or unloaded (a killed stub ends a load
within two seconds, and a request that nobody waits for); if tritonserver can then not load for
others, it is itself replaced, and its models are brought back (revival.py).

Whether it can is certain from two loads of our own. tritonserver looks for every model under one
lock, and answers for a name that is nowhere as soon as it has that lock: an archive that it walks
for ever keeps it. Models are then loaded by four threads, and one of a backend that does not exist
is refused by such a thread: loads that never end keep those. Neither load starts anything. Tried on
2.36 and 2.51, where an unload waits for the load of the same model, and the index always answers.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ensemble_tools import ServingPlan
from serve.deadline import Deadline, within
from serve.errors import (
    KilledForMemory,
    ModelUnusable,
    ResourceExhausted,
    ServeError,
    TritonTimeout,
    TritonUnavailable,
)
from serve.shortages import Denials, denials
from serve.stub_processes import Stub, find_stubs, has_threads, kill_stubs
from serve.suspects import LoadWork, Suspects
from serve.threads import in_daemon_thread
from serve.trials import Trials
from serve.triton_client import TritonClient
from serve.triton_messages import quotes_a_death

_log = logging.getLogger(__name__)

#: How long an unload may take before the stubs of what is unloaded are killed, at most; requests
#: whose callers are gone are finished for nobody.
_PATIENCE_S = 30.0
#: The same for what was given up already: a load that took too long.
_HURRY_S = 0.5
#: How long tritonserver may take to notice that stubs are dead; up to 4 s was seen.
_FORCED_S = 10.0
_KILL_AGAIN_S = 0.2
#: The index is there in some ms, and nothing is lost when it is late.
_STATES_S = 3.0
#: How long tritonserver may take for a load that starts nothing; it takes some ms.
_PROBE_S = 10.0
#: How long a killed tritonserver may take to be gone.
_REPLACED_S = 10.0
#: A load goes on so long after a process was denied a thread, which may not have been needed.
_DENIED_S = 30.0
_LOOK_S = 1.0
#: One that is replaced for what it keeps may finish what it works on, for so long; and how often
#: that is looked at.
_FINISHED_S, _INSIDE_LOOK_S = 5.0, 0.02

#: Names that no namespace makes (ensemble_tools.namespace): a tilde has a dot after it there.
_CANARY, _UNKNOWN = "serve~canary", "serve~unknown"
_CANARY_CONFIG = """backend: "serve_canary"
input { name: "IN" data_type: TYPE_FP32 dims: [1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [1] }
"""


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
        self._load_timeout_s = load_timeout_s
        self._trials = trials or Trials()
        self._replace, self._denied = replace, denied
        self._loading: set[LoadWork] = set()
        self._given_up: dict[str, LoadWork] = {}
        self._probing = asyncio.Lock()

    @property
    def suspects(self) -> Suspects:
        """The book that loads are entered in."""
        return self._trials.suspects

    # -- loading

    async def load(self, plan: ServingPlan, archive: str) -> None:
        """Load it, alone if its load is suspected of having killed tritonserver.

        archive: its identity, which changes with its content. Raises what TritonClient.load does;
        ModelUnusable for a culprit. A model whose load was not answered is to be unloaded.
        """
        work = LoadWork(plan.model_name, archive)
        await self._trials.of(work, lambda: self._load(work, plan))

    async def _load(self, work: LoadWork, plan: ServingPlan) -> None:
        before = self._denied()
        with self._entered(work):
            try:
                await self._unless_denied(self._triton.load(plan, self._load_timeout_s), before)
            except ServeError as error:
                if isinstance(error, TritonTimeout):
                    self._given_up[plan.model_name] = work
                now = self._denied()
                lack = now.since(before)
                if lack is None or not _may_be_shortage(error, plan):
                    raise
                self.suspects.acquit(work)
                kind = KilledForMemory if now.killed_since(before) else ResourceExhausted
                raise kind(
                    f"no resources to load the model {plan.model_name}: {lack}; unload a model"
                ) from error
        self.suspects.clear(work)

    @contextmanager
    def _entered(self, work: LoadWork) -> Iterator[None]:
        """In the book for as long as tritonserver has it; answered is a refusal, too."""
        self._loading.add(work)
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
            self._loading.discard(work)

    async def _unless_denied(self, loading: Awaitable[None], before: Denials) -> None:
        """The load; raises TritonTimeout some time after a process was denied.

        A stub that is denied a thread may wait for it for ever (seen).
        """
        task = asyncio.ensure_future(loading)
        left_s = _DENIED_S
        try:
            while not task.done() and left_s > 0:
                await asyncio.wait({task}, timeout=_LOOK_S)
                if self._denied().processes > before.processes:
                    left_s -= _LOOK_S
            if not task.done():
                raise TritonTimeout("a load that was denied a process", _DENIED_S, "the pids limit")
            task.result()
        finally:
            if not task.cancel() and not task.cancelled():
                task.exception()  # looked at: asyncio logs those that nobody has seen

    # -- unloading

    async def unload(
        self, plan: ServingPlan, timeout_s: float, *, lost: Collection[str] = ()
    ) -> None:
        """Return when tritonserver has the plan's models no more; lost is TritonClient.unload's.

        Raises TritonTimeout when tritonserver holds them although it works, or TritonUnavailable.
        """
        deadline = Deadline(timeout_s, "SERVE_UNLOAD_TIMEOUT")
        try:
            await self._unload(plan, deadline, lost)
        finally:
            self._given_up.pop(plan.model_name, None)

    async def _unload(self, plan: ServingPlan, deadline: Deadline, lost: Collection[str]) -> None:
        most = _HURRY_S if plan.model_name in self._given_up else _PATIENCE_S
        if await self._is_gone(plan, min(most, deadline.limit_s / 2), lost):
            return
        left = set(lost)  # UNLOADING for ever, once their stubs are killed
        killed = await self._kill_stubs(plan, left)
        killing = asyncio.ensure_future(self._keep_killing(plan, left))
        try:
            if killed and await self._is_gone(plan, min(_FORCED_S, deadline.remaining), left):
                return
            await self._replace_if_stuck()
            # What is forced gets the time for that, also where the limit is short.
            if not await self._is_gone(plan, max(_FORCED_S, deadline.remaining), left):
                raise deadline.missed(f"unloading the model {plan.model_name}")
        finally:
            killing.cancel()

    async def _is_gone(self, plan: ServingPlan, timeout_s: float, lost: Collection[str]) -> bool:
        try:
            await self._triton.unload(plan, timeout_s, lost=lost)
        except TritonTimeout:
            return False
        return True

    async def _keep_killing(self, plan: ServingPlan, left: set[str]) -> None:
        """A load that waited for a thread begins late; 2.36 starts a stub for the next request."""
        while True:
            await self._kill_stubs(plan, left)

    async def _kill_stubs(self, plan: ServingPlan, left: set[str]) -> bool:
        """Kill those of models that are being loaded or unloaded, the latter's names into left.

        Whether there were any; there are none when they cannot be looked for. Only those that are
        seen twice with their threads are killed (stub_processes.has_threads).
        """
        try:
            states = await within(self._triton.states(plan), _STATES_S)
            busy = {name for name, state in states.items() if state != "READY"}
            found = await self._running_stubs(busy)
            await asyncio.sleep(_KILL_AGAIN_S)
            found &= await self._running_stubs(busy)
        except (OSError, RuntimeError, ServeError, asyncio.TimeoutError) as error:
            _log.warning("python stubs cannot be looked for: %s", error or "no answer in time")
            await asyncio.sleep(_KILL_AGAIN_S)
            return False
        names = {stub.triton_name for stub in found}
        if names:
            _log.warning("tritonserver does not answer; ending python stubs of: %s", sorted(names))
            kill_stubs(found)
            left |= {name for name in names if states[name] == "UNLOADING"}
        return bool(names)

    async def _running_stubs(self, triton_names: Collection[str]) -> frozenset[Stub]:
        def look() -> frozenset[Stub]:
            found = find_stubs(self._serving_repository, triton_names)
            return frozenset(stub for stub in found if has_threads(stub))

        return await in_daemon_thread(look, "stubs")

    # -- a tritonserver that stands still, or keeps what it should not

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
        await self._replace(_REPLACED_S)
        await self._triton.until_live(self._load_timeout_s)

    async def _replace_if_stuck(self) -> None:
        """One at a time: who comes later finds a new tritonserver."""
        async with self._probing:
            if self._replace is None or not await self._is_stuck():
                return
            _log.error("tritonserver carries out no loads and unloads any more; it is replaced")
            works = [*self._given_up.values()] or [*self._loading]
            if judgement := self.suspects.stood_still(works):
                _log.error("not to be carried out again: %s", judgement.culprit)
            await self._replace(_REPLACED_S)

    async def _is_stuck(self) -> bool:
        if not await self._triton.answers_load(_UNKNOWN, _PROBE_S):
            return True
        with self._canary():
            answered = asyncio.ensure_future(
                self._triton.answers_load(_CANARY, self._load_timeout_s)
            )
            try:
                while True:  # others may be loaded by all threads, each within its own time
                    await asyncio.wait({answered}, timeout=_PROBE_S)
                    if answered.done() or not self._loading:
                        return not (answered.done() and answered.result())
            finally:
                answered.cancel()

    @contextmanager
    def _canary(self) -> Iterator[None]:
        _log.info("tritonserver is tried with a model that it has to refuse: %s", _CANARY)
        directory = self._serving_repository / _CANARY
        try:
            with suppress(
                OSError
            ):  # a full disk: tritonserver then has to refuse what is not there
                (directory / "1").mkdir(parents=True, exist_ok=True)
                (directory / "config.pbtxt").write_text(_CANARY_CONFIG)
            yield
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _may_be_shortage(error: ServeError, plan: ServingPlan) -> bool:
    """Whether a lack may be behind it: a stub that died, a load that stands, a tritonserver gone.

    A model that raised, or a config that is wrong, says so itself.
    """
    return not isinstance(error, ModelUnusable) or quotes_a_death(str(error), plan.triton_names)
