"""Loads a ready model's Triton models again when they were lost under it.

Two things lose them: a python stub that dies leaves its model in tritonserver's index as READY and
failing for ever (triton-inference-server/python_backend has no recovery), and a tritonserver that
dies takes all of them with it. Callers wait; the model stays in the list.

tritonserver 2.51 never releases a model whose stub died under a request, so that its other
instances stay as well. They may still answer what they were sent; after that they are ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Coroutine
from pathlib import Path

from ensemble_tools import retract
from serve.deadline import within
from serve.errors import (
    ModelNotLoaded,
    ResourceExhausted,
    ServeError,
    TritonError,
    TritonUnavailable,
)
from serve.models.health import Health
from serve.models.registry import Model, Registry, State
from serve.telemetry.telemetry import Telemetry
from serve.threads import NoThread, run_in_daemon_thread
from serve.triton.hosting import Hosting, Processes
from serve.triton.suspects import LoadWork, Standing

_log = logging.getLogger(__name__)

#: Models that a new tritonserver is given at once; it loads about as many in parallel.
_AT_ONCE = 4


class Revival:
    """Brings models back, each once however many callers met its death.

    health: is told what keeps models away, but for what is an archive's fault.
    """

    def __init__(
        self,
        registry: Registry,
        hosting: Hosting,
        serving_repository: Path,
        unload_timeout_s: float,
        health: Health,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        self._registry, self._hosting, self._health = registry, hosting, health
        self._serving_repository = serving_repository
        self._unload_timeout_s = unload_timeout_s
        self._tasks: set[asyncio.Future[None]] = set()
        self._looked_at: set[str] = set()
        #: Set unless a new tritonserver is being given those that nobody suspects.
        self._others_back = asyncio.Event()
        self._others_back.set()

    async def revive(self, model: Model, generation: int) -> None:
        """Return when the model of that generation has been loaded again, by whomever.

        Raises what kept it from that: ResourceExhausted, TritonUnavailable or TritonTimeout, after
        which it can be tried again, or ModelNotLoaded, after which it is not listed.
        """
        if model.generation == generation and model.state is State.READY:
            self._begin_reload(model)  # now, before another caller can look
            # A task of its own: the caller may go away, the others that wait may not be left.
            self._begin(self._reload(model, "stub" if model.lost else "tritonserver"))
        await model.settled()
        if model.generation != generation:
            return
        if model.state is State.READY and model.reload_error is not None:
            raise model.reload_error
        raise ModelNotLoaded(
            model.name, "was lost and could not be loaded again; see the log, then load it anew"
        )

    def look_at(self, model: Model) -> None:
        """Begin to find out whether a stub of the model has died, and then to load it again."""
        if model.state is State.READY and model.name not in self._looked_at:
            self._looked_at.add(model.name)
            self._begin(self._revive_if_dead(model))

    async def _revive_if_dead(self, model: Model) -> None:
        generation = model.generation
        try:
            for name in await self.find_dead_stubs(model):
                self._registry.note_lost(model, generation, name)
            if model.lost:
                await self.revive(model, generation)
        except (OSError, NoThread, ServeError) as error:
            _log.warning("the model will be looked at later: %s", error, extra=_describe(model))
        finally:
            self._looked_at.discard(model.name)

    async def find_dead_stubs(self, model: Model) -> frozenset[str]:
        """Those of its Triton models that have lost a stub since they were loaded.

        Also where another one runs in its place: tritonserver 2.36 starts a dead stub again by
        itself, and may have done so before anybody looks.
        """
        lost = model.stubs - await self._hosting.find_stubs(model.plan)
        return frozenset(stub.triton_name for stub in lost)

    async def revive_all(self) -> None:
        """Load every ready model again: a new tritonserver has none. What fails is logged.

        A few at a time, so that none times out waiting for others; a model that is asked for
        meanwhile goes first, since its caller finds it lost. One whose load may have killed the
        tritonserver before comes after all others, alone: if it does so again, it is known.
        """
        turns = asyncio.Semaphore(_AT_ONCE)
        models = self._registry.all_loaded()
        suspects = [model for model in models if self._is_suspect(model)]
        others = [model for model in models if model not in suspects]
        self._others_back.clear()
        await asyncio.gather(*(self._bring_back(model, turns) for model in others))
        self._others_back.set()
        for model in suspects:
            await self._bring_back(model, turns)

    async def renew(self) -> None:
        """Have tritonserver replaced, since it keeps what it should not, and its models loaded.

        Callers wait meanwhile, and none is turned away whose request is finished in time
        (Hosting.renew). Raises TritonUnavailable or TritonTimeout where that fails; then its
        models are as lost as after a death.
        """
        models = [it for it in self._registry.all_loaded() if it.state is State.READY]
        for model in models:
            self._begin_reload(model)
        try:
            await self._hosting.renew()
        except BaseException:
            for model in models:
                self._note_restarting(model)
            raise
        await asyncio.gather(*(self._reload_in_turn(models) for _ in range(_AT_ONCE)))

    def _is_suspect(self, model: Model) -> bool:
        work = LoadWork(model.name, model.archive)
        return self._hosting.suspects.standing(work) is not Standing.INNOCENT

    async def _bring_back(self, model: Model, turns: asyncio.Semaphore) -> None:
        generation = model.generation
        async with turns:
            await model.settled()  # a reload that the old tritonserver took with it may be ending
            if model.state is State.READY and model.generation == generation:
                self._begin_reload(model)
                await self._reload(model, "tritonserver")

    async def _reload_in_turn(self, left: list[Model]) -> None:
        """One after another, those first that most callers wait for."""
        while left:
            model = max(left, key=lambda model: model.in_flight)
            left.remove(model)
            await self._reload(model, "renewal")

    def _begin_reload(self, model: Model) -> None:
        self._registry.begin_reload(model)
        self._health.begin()

    def _fail_reload(self, model: Model, error: ServeError) -> None:
        self._registry.fail_reload(model, error)
        self._health.failed(str(error))

    def _note_restarting(self, model: Model) -> None:
        """It is as lost as tritonserver is; whoever waits for it is told so."""
        if model.state is State.RELOADING:
            self._fail_reload(model, TritonUnavailable("it is restarting"))

    async def _reload(self, model: Model, cause: str) -> None:
        """RELOADING to READY or gone; raises nothing but CancelledError. cause: of its loss."""
        result, began = "postponed", time.monotonic()
        try:
            result = await self._reload_or_give_up(model)
        except asyncio.CancelledError:  # tritonserver died again; its restart calls revive_all
            self._note_restarting(model)
            raise
        except Exception as error:  # something of our own: no descriptor, no thread
            _log.error("the model will be loaded later: %s", error, extra=_describe(model))
            if model.state is State.RELOADING:
                lacking = f"no resources to load the model {model.name} again: {error}"
                self._fail_reload(model, ResourceExhausted(lacking))
        finally:
            self._telemetry.revived(model.name, began, cause, result)

    async def _reload_or_give_up(self, model: Model) -> str:
        """How it ended: one of REVIVAL_RESULTS."""
        _log.warning(
            "a model's Triton models were lost; loading them again", extra=_describe(model)
        )
        try:
            if self._is_suspect(model):
                await self._others_back.wait()
            back = await self._hosting.reload(
                model.plan, model.archive, self._unload_timeout_s, lost=model.lost
            )
        except (ResourceExhausted, TritonError) as error:
            _log.warning("the model will be loaded later: %s", error, extra=_describe(model))
            self._fail_reload(model, error)
            return "postponed"
        except (OSError, NoThread):  # not the model's fault
            raise
        except Exception as error:
            _log.error("the model could not be loaded again: %s", error, extra=_describe(model))
            await self._give_up(model)
            return "given_up"
        else:
            self._registry.finish_reload(model, back.stubs)
            _log.info("the model was loaded again", extra=_describe(model))
            if back.left:
                self._begin(self._end_when_idle(model, back.left))
            return "revived"

    async def _end_when_idle(self, model: Model, old: Processes) -> None:
        """End what is left of an older generation, once nobody can be waiting for its answer."""
        with contextlib.suppress(asyncio.TimeoutError):
            await within(model.idle(), self._unload_timeout_s)
        await self._hosting.end_processes(old)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _give_up(self, model: Model) -> None:
        plan = model.plan
        await self._hosting.undo("reload", plan, self._unload_timeout_s, lost=model.lost)
        await run_in_daemon_thread(lambda: retract(plan, self._serving_repository), "retract")
        self._registry.forget(model)


def _describe(model: Model) -> dict[str, object]:
    return {"model_name": model.name, "generation": model.generation}
