"""Unloads that end, whatever tritonserver makes of them, and a tritonserver that stands still.

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
from serve.errors import ServeError, TritonTimeout
from serve.threads import run_in_daemon_thread
from serve.triton.control import LOST_UNLOAD_S, ModelControl
from serve.triton.loading import Loading
from serve.triton.stubs import Stub, find_stubs, has_threads, kill_stubs

_log = logging.getLogger(__name__)

#: How long an unload may take before the stubs of what is unloaded are killed, at most; requests
#: whose callers are gone are finished for nobody.
_PATIENCE_S = 30.0
#: The same for what was given up already: a load that took too long.
_HURRY_S = 0.5
#: How long tritonserver may take to notice that stubs are dead; up to 4 s was seen.
_FORCED_S = 10.0
_KILL_AGAIN_S = 0.2
#: Between two looks for stubs that died in an unload, and how many in a row have to find none.
_DEATHS_LOOK_S, _DEATHS_LOOKS = 1.0, 3
#: The index is there in some ms, and nothing is lost when it is late.
_STATES_S = 3.0
#: How long tritonserver may take for a load that starts nothing; it takes some ms.
PROBE_S = 10.0
#: How long a killed tritonserver may take to be gone.
REPLACED_S = 10.0

#: Names that no namespace makes (ensemble_tools.serving.namespace): there an equals sign in front
#: of the first dot has a `_`, a `-` or `candidate` after it.
_CANARY, _UNKNOWN = "serve=canary", "serve=unknown"
_CANARY_CONFIG = """backend: "serve_canary"
input { name: "IN" data_type: TYPE_FP32 dims: [1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [1] }
"""


class Unloading:
    """Has tritonserver unload models in bounded time.

    replace: kills tritonserver, returns when nothing of it is left, and has it started again.
    probe_s: how long it may take for a load that starts nothing.
    """

    def __init__(
        self,
        control: ModelControl,
        serving_repository: Path,
        loading: Loading,
        replace: Callable[[float], Awaitable[None]] | None = None,
        probe_s: float = PROBE_S,
    ) -> None:
        self._control, self._serving_repository = control, serving_repository
        self._loading, self._replace = loading, replace
        self._probing, self._probe_s = asyncio.Lock(), probe_s

    async def unload(
        self,
        plan: ServingPlan,
        deadline: Deadline,
        *,
        lost: Collection[str] = (),
        with_stubs: Collection[str] = (),
    ) -> None:
        """Return when tritonserver has the plan's models no more.

        lost: ModelControl.request_unload's. with_stubs: those that have stubs now, or had them just
        now.
        Raises TritonTimeout when tritonserver holds them although it works, or TritonUnavailable.
        """
        left = set(lost)  # UNLOADING for ever, once their stubs are dead
        # Those without stubs have nothing to give back, unless tritonserver starts them anew.
        lost_s = LOST_UNLOAD_S
        if lost and not {*lost} & {*with_stubs}:
            await self._control.learn_version()
            lost_s = LOST_UNLOAD_S if self._control.restarts_stubs else 0.0
        watching = asyncio.ensure_future(self._watch_for_deaths(plan, {*with_stubs} - left, left))
        try:
            await self._wait_then_force(plan, deadline, left, lost_s)
        finally:
            watching.cancel()
            self._loading.given_up.pop(plan.entry, None)

    async def _wait_then_force(
        self, plan: ServingPlan, deadline: Deadline, left: set[str], lost_s: float
    ) -> None:
        """Wait for tritonserver; then end what stands in its way: stubs first, then itself."""
        most = _HURRY_S if plan.entry in self._loading.given_up else _PATIENCE_S
        if await self._unload_within(plan, min(most, deadline.remaining / 2), left, lost_s):
            return
        killed = await self._kill_stubs(plan, left)
        killing = asyncio.ensure_future(self._keep_killing(plan, left))
        try:
            if killed and await self._unload_within(plan, min(_FORCED_S, deadline.remaining), left):
                return
            await self._replace_if_stuck()
            # What is forced gets the time for that, also where the limit is short.
            if not await self._unload_within(plan, max(_FORCED_S, deadline.remaining), left):
                raise deadline.missed(f"unloading the model {plan.model_name}")
        finally:
            killing.cancel()

    async def _unload_within(
        self,
        plan: ServingPlan,
        timeout_s: float,
        lost: Collection[str],
        lost_s: float = LOST_UNLOAD_S,
    ) -> bool:
        """Whether it is unloaded in that time."""
        try:
            await self._control.request_unload(plan, Deadline(timeout_s), lost=lost, lost_s=lost_s)
        except TritonTimeout:
            return False
        return True

    async def _watch_for_deaths(self, plan: ServingPlan, watched: set[str], left: set[str]) -> None:
        """Put into left those whose stubs die while they are unloaded.

        tritonserver waits for a stub's word that it has finalized, and for ever if that dies before
        (seen on 2.36 and 2.51). So that is told by a model that goes on unloading without stubs.
        """
        looks = dict.fromkeys(watched, 0)
        while watched:
            await asyncio.sleep(_DEATHS_LOOK_S)
            try:
                states = await within(self._control.states(plan), _STATES_S)
                ending = {name for name in watched if states.get(name) == "UNLOADING"}
                ending -= {stub.triton_name for stub in await self._find_stubs(ending)}
            except (OSError, RuntimeError, ServeError, asyncio.TimeoutError):
                continue
            looks = {name: looks[name] + 1 if name in ending else 0 for name in watched}
            if dead := {name for name in watched if looks[name] >= _DEATHS_LOOKS}:
                _log.warning(
                    "python stubs died while they were unloaded; tritonserver keeps: %s",
                    ", ".join(sorted(dead)),
                )
                left |= dead
                watched -= dead

    async def _find_stubs(self, triton_names: Collection[str]) -> frozenset[Stub]:
        return await run_in_daemon_thread(
            lambda: find_stubs(self._serving_repository, triton_names), "stubs"
        )

    async def _keep_killing(self, plan: ServingPlan, left: set[str]) -> None:
        """A load that waited for a thread begins late; 2.36 starts a stub for the next request."""
        while True:
            await self._kill_stubs(plan, left)

    async def _kill_stubs(self, plan: ServingPlan, left: set[str]) -> bool:
        """Kill those of models that are being loaded or unloaded, the latter's names into left.

        Whether there were any; there are none when they cannot be looked for. Only those that are
        seen twice with their threads are killed (stubs.has_threads).
        """
        try:
            states = await within(self._control.states(plan), _STATES_S)
            busy = {name for name, state in states.items() if state != "READY"}
            stubs = await self._find_running_stubs(busy)
            await asyncio.sleep(_KILL_AGAIN_S)
            stubs &= await self._find_running_stubs(busy)
        except (OSError, RuntimeError, ServeError, asyncio.TimeoutError) as error:
            _log.warning("python stubs cannot be looked for: %s", error or "no answer in time")
            await asyncio.sleep(_KILL_AGAIN_S)
            return False
        names = {stub.triton_name for stub in stubs}
        if names:
            _log.warning("tritonserver does not answer; ending python stubs of: %s", sorted(names))
            kill_stubs(stubs)
            left |= {name for name in names if states[name] == "UNLOADING"}
        return bool(names)

    async def _find_running_stubs(self, triton_names: Collection[str]) -> frozenset[Stub]:
        def look() -> frozenset[Stub]:
            stubs = find_stubs(self._serving_repository, triton_names)
            return frozenset(stub for stub in stubs if has_threads(stub))

        return await run_in_daemon_thread(look, "stubs")

    # -- a tritonserver that stands still

    async def _replace_if_stuck(self) -> None:
        """One at a time: who comes later finds a new tritonserver."""
        async with self._probing:
            if self._replace is None or not await self.is_stuck():
                return
            _log.error("tritonserver carries out no loads and unloads any more; it is replaced")
            works = [*self._loading.given_up.values()] or [*self._loading.under_way]
            if judgement := self._loading.suspects.stood_still(works):
                _log.error("not to be carried out again: %s", judgement.culprit)
            await self._replace(REPLACED_S)

    async def is_stuck(self) -> bool:
        """Whether tritonserver carries out no loads any more. Blocks for as long as others load."""
        if not await self._control.answers_load(_UNKNOWN, self._probe_s):
            return True
        with self._ask_canary():
            answered = asyncio.ensure_future(
                self._control.answers_load(_CANARY, self._loading.load_timeout_s)
            )
            try:
                while True:  # others may be loaded by all threads, each within its own time
                    await asyncio.wait({answered}, timeout=self._probe_s)
                    if answered.done() or not self._loading.under_way:
                        return not (answered.done() and answered.result())
            finally:
                answered.cancel()

    @contextmanager
    def _ask_canary(self) -> Iterator[None]:
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
