"""Models whose processes are gone, and that tritonserver is not done with yet.

tritonserver's Python backend sleeps for a second before it ends a stub. A model whose processes
have nothing to finalize is ended by us first: its memory is free at once, its caller is answered,
and tritonserver unloads it behind the answer. Nobody waits for that: a model that comes back
meanwhile has Triton names of its own, and no request and no unload of one can reach the other.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable

from ensemble_tools import Namespace, ServingPlan
from serve.deadline import Deadline
from serve.errors import ServeError
from serve.models.registry import Model, Registry
from serve.triton.hosting import Hosting, Processes

_log = logging.getLogger(__name__)
#: Between two tries of an unload that tritonserver did not carry out, in seconds.
_PAUSE_S = 1.0
#: From a model's load or last answer until its processes are killed, at least. Of a stub that is
#: killed right behind its load tritonserver may never let go, nor of its region in /dev/shm (2.51,
#: seen once in a hundred such unloads on a busy machine).
SETTLED_S = 0.25


class Departures:
    """Models on their way out of tritonserver.

    retract: removes what is published of a model. timeout_s: of each try to unload one.
    """

    def __init__(
        self,
        registry: Registry,
        hosting: Hosting,
        retract: Callable[[ServingPlan], Awaitable[None]],
        timeout_s: float,
    ) -> None:
        self._registry, self._hosting, self._retract = registry, hosting, retract
        self._timeout_s = timeout_s
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by their entry models

    def begin(self, model: Model, processes: Processes) -> asyncio.Future[None]:
        """End a model that is being unloaded and not asked any more; done when its memory is free.

        It goes on whoever stops to wait for it.
        """
        freed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks[model.plan.entry] = asyncio.ensure_future(self._depart(model, processes, freed))
        return freed

    @property
    def under_way(self) -> frozenset[asyncio.Task[None]]:
        """Those that tritonserver is not done with."""
        return frozenset(self._tasks.values())

    def free_namespace(self, name: str) -> Namespace:
        """Names for a model that comes, which none has that leaves. Raises IllegalName."""
        namespaces = (Namespace(name, number) for number in itertools.count())
        return next(it for it in namespaces if it.entry not in self._tasks)

    async def wait_until_free(self, namespace: Namespace) -> None:
        """Return when no model that leaves has these names."""
        if task := self._tasks.get(namespace.entry):
            await asyncio.wait({task})

    def stop(self) -> None:
        """tritonserver ends, and with it all that it holds."""
        for task in self._tasks.values():
            task.cancel()

    async def _depart(
        self, model: Model, processes: Processes, freed: asyncio.Future[None]
    ) -> None:
        try:
            try:
                await asyncio.sleep(model.idle_since + SETTLED_S - time.monotonic())
                await self._hosting.kill_processes(processes)
            finally:
                self._registry.leave(model)
                freed.set_result(None)
            await self._end_model(model, processes)
            await self._retract(model.plan)
        finally:
            self._registry.forget(model)
            del self._tasks[model.plan.entry]

    async def _end_model(self, model: Model, killed: Processes) -> None:
        while True:
            try:
                # Should tritonserver wait for the word of one that is dead, it is not waited for.
                left = await self._hosting.end_model(
                    model.plan,
                    Deadline(self._timeout_s),
                    lost=model.plan.triton_names,
                    killed=killed,
                )
            except ServeError as error:
                facts = {"model_name": model.name}
                _log.error("tritonserver does not unload a model: %s", error, extra=facts)
                await asyncio.sleep(_PAUSE_S)
            else:
                return await self._hosting.end_processes(left)
