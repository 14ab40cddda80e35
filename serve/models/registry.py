"""Which models exist and in what state: the one writer of that fact. Synchronous, no I/O, no locks.

    LOADING ──▶ READY ──▶ UNLOADING ──▶ GONE
       │         │ ▲          │
       ▼         ▼ │          ▼
      GONE    RELOADING     READY   (an unload that failed)
                 │
                 ▼
                GONE                (a reload that failed for good)

RELOADING is a ready model whose Triton models were lost (a dead stub, a dead tritonserver) and are
being loaded again; it counts as loaded.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from enum import Enum
from math import inf

from ensemble_tools import ServingPlan
from serve.errors import ModelAlreadyLoaded, ModelNotLoaded, ServeError
from serve.limit import Limit
from serve.models.request_queue import RequestQueue, RequestQueues
from serve.triton.stubs import Stub


class State(Enum):
    """A model's state; the value completes the sentence "the model is ..."."""

    LOADING = "being loaded"
    READY = "loaded"
    RELOADING = "being loaded again"
    UNLOADING = "being unloaded"
    GONE = "gone"

    @property
    def remedy(self) -> str:
        """Advice to a caller whom this state stands in the way."""
        return {
            State.LOADING: "wait until its POST /models has answered",
            State.READY: "unload it with DELETE before it is loaded again",
            State.RELOADING: "wait until it can be invoked, or unload it with DELETE",
            State.UNLOADING: "wait until its DELETE has answered, then load it with POST /models",
            State.GONE: "load it with POST /models",
        }[self]


_NEXT: Mapping[State, Set[State]] = {
    State.LOADING: {State.READY, State.GONE},
    State.READY: {State.RELOADING, State.UNLOADING},
    State.RELOADING: {State.READY, State.GONE},
    State.UNLOADING: {State.READY, State.GONE},
    State.GONE: set(),
}
_LOADED = {State.READY, State.RELOADING}
#: A model that failed at so many requests one after another is no more said to answer others.
MOST_FAILURES = 20


@dataclass
class Model:
    """One SageMaker model."""

    name: str
    url: str
    state: State = State.LOADING
    _plan: ServingPlan | None = None
    generation: int = 0  # how often its Triton models were loaded again
    in_flight: int = 0  # invocations that somebody still wants
    idle_since: float = -inf  # its load or the end of the last of them, by time.monotonic
    answers_large: bool = False  # its last answer in JSON was worth translating
    fails_in_part: bool = False  # as its plan says, which parses configs for it
    #: At how many requests it failed since it answered one; as if at many where it answered none.
    failures: int = MOST_FAILURES
    _reload_error: ServeError | None = None
    lost: frozenset[str] = frozenset()  # Triton models of this generation whose stubs died
    #: Those of its Triton models once it was loaded; none for a model that calls no others by name.
    stubs: frozenset[Stub] = frozenset()
    archive: str = ""  # the identity of what it is loaded from
    due: int = 0  # its next request's time at its highest rate, in ns (request_rate.py)
    queue: RequestQueue = field(default_factory=lambda: RequestQueues().queue(""))
    _changed: asyncio.Event | None = None

    @property
    def plan(self) -> ServingPlan:
        """The plan of a model that has been loaded."""
        assert self._plan is not None, "only a loading model has no plan"
        return self._plan

    @property
    def reload_error(self) -> ServeError | None:
        """Why its last reload failed: an error of its own for each who raises it.

        One that was raised knows everything in the frames that it passed, callers' bodies included.
        """
        return None if self._reload_error is None else _unraised(self._reload_error)

    def begin_invocation(self) -> None:
        """One more is in flight; an unload waits for it."""
        self.in_flight += 1

    def end_invocation(self) -> None:
        """One that had begun is over."""
        self.in_flight -= 1
        if self.in_flight == 0:
            self.idle_since = time.monotonic()
            self._notify()

    def note_answer(self, *, large: bool) -> None:
        """Its last answer in JSON was one worth translating, or was not."""
        self.answers_large = large

    def count_failure(self) -> int:
        """Count a request at which it failed; at how many it has since it answered one."""
        self.failures += 1
        return self.failures

    def enter(self, state: State) -> None:
        """Change state along the table above; anything else is a bug of ours."""
        assert state in _NEXT[self.state], f"{self.name}: {self.state} → {state}"
        self.state = state
        self._notify()

    def _notify(self) -> None:
        if self._changed is not None:  # somebody waits: not so at nearly every request
            self._changed.set()
            self._changed = None

    async def _change(self) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        await self._changed.wait()

    async def idle(self) -> None:
        """Wait until no invocation is in flight. Unbounded: the caller names the limit."""
        while self.in_flight:
            await self._change()

    async def settled(self) -> None:
        """Wait until the model is not being loaded again. Unbounded: the caller names the limit."""
        while self.state is State.RELOADING:
            await self._change()


def _unraised(error: ServeError) -> ServeError:
    """The same error, with no memory of where it was raised."""
    fresh = type(error).__new__(type(error), *error.args)  # __init__ would make another message
    fresh.__dict__.update(error.__dict__)
    return fresh


class Registry:
    """All models by SageMaker's name for them."""

    def __init__(self, queues: RequestQueues | None = None) -> None:
        self.queues = queues or RequestQueues()
        self._models: dict[str, Model] = {}
        self._leaving: dict[str, Model] = {}  # by their entry models
        #: How many loads and reloads went well so far.
        self.brought = 0

    def begin_load(self, name: str, url: str) -> Model:
        """Take the name; raises ModelAlreadyLoaded when a model of any state has it."""
        if name in self._models:
            state = self._models[name].state
            raise ModelAlreadyLoaded(name, f"is already {state.value}; {state.remedy}")
        self._models[name] = Model(name, url, queue=self.queues.queue(name))
        return self._models[name]

    def finish_load(
        self,
        model: Model,
        plan: ServingPlan,
        stubs: frozenset[Stub] = frozenset(),
        places: int | None = None,
        archive: str = "",
        *,
        most_places: int | None = None,
        fails_in_part: bool = False,
    ) -> None:
        """The model can be invoked from now on; places: the fewest in tritonserver."""
        model.queue.open(places, _most_waiting(plan), most_places)
        model._plan, model.stubs, model.archive = plan, stubs, archive
        model.fails_in_part = fails_in_part
        model.idle_since = time.monotonic()
        self.brought += 1
        model.enter(State.READY)

    def begin_unload(self, name: str) -> Model:
        """No new invocations from now on; raises ModelNotLoaded unless it is ready."""
        model = self.loaded(name)
        if model.state is not State.READY:
            raise ModelNotLoaded(name, f"is {model.state.value}; {model.state.remedy}")
        model.enter(State.UNLOADING)
        return model

    def fail_unload(self, model: Model) -> None:
        """It could not be unloaded: it is listed again, so that it can be tried again."""
        model.enter(State.READY)

    def note_lost(self, model: Model, generation: int, triton_name: str) -> None:
        """A request of that generation met the death of one of its Triton models' stubs."""
        if model.generation == generation:
            model.lost |= {triton_name}

    def begin_reload(self, model: Model) -> None:
        """Its Triton models are lost and will be loaded again; invocations wait."""
        model.enter(State.RELOADING)

    def finish_reload(self, model: Model, stubs: frozenset[Stub] = frozenset()) -> None:
        """It can be invoked again."""
        model.stubs = stubs
        model.generation += 1
        model.lost = frozenset()
        model._reload_error = None
        model.idle_since = time.monotonic()
        self.brought += 1
        model.enter(State.READY)

    def fail_reload(self, model: Model, error: ServeError) -> None:
        """It is as lost as before, and can be tried again; error is for those who wait for it."""
        model._reload_error = _unraised(error)
        model.enter(State.READY)

    def forget(self, model: Model) -> None:
        """The name is free. Whoever waits for the model finds that it is gone; idempotent."""
        self._free(model)
        if model._plan is not None and self._leaving.get(model.plan.entry) is model:
            del self._leaving[model.plan.entry]
        if model.state is not State.GONE:
            model.enter(State.GONE)

    def leave(self, model: Model) -> None:
        """The name is free, and what its processes held; tritonserver is not done with it yet.

        It counts as being unloaded until forget.
        """
        self._free(model)
        self._leaving[model.plan.entry] = model

    def _free(self, model: Model) -> None:
        if self._models.get(model.name) is model:
            del self._models[model.name]

    def loaded(self, name: str, if_unknown: str = "") -> Model:
        """The model if it is ready or being loaded again; raises ModelNotLoaded otherwise.

        if_unknown: what to say of a name that nobody has loaded, the usual advice for none.
        """
        model = self._models.get(name)
        if model is None:
            raise ModelNotLoaded(name, if_unknown)
        if model.state not in _LOADED:
            raise ModelNotLoaded(name, f"is {model.state.value}; {model.state.remedy}")
        return model

    def may_serve(self) -> bool:
        """Whether the last reload of some loaded model has not failed, or none is loaded."""
        loaded = [model for model in self._models.values() if model.state in _LOADED]
        return not loaded or any(model._reload_error is None for model in loaded)

    def count(self, *states: State) -> int:
        """How many models are in one of these states."""
        models = (*self._models.values(), *self._leaving.values())
        return sum(model.state in states for model in models)

    def all_loaded(self) -> list[Model]:
        """Every loaded model, in the order of names."""
        return [model for _, model in sorted(self._models.items()) if model.state in _LOADED]

    def all_busy(self) -> list[Model]:
        """Every loaded model, and those whose last requests are awaited by an unload."""
        busy = _LOADED | {State.UNLOADING}
        return [model for model in self._models.values() if model.state in busy]

    def find_entries(self) -> dict[str, str]:
        """The entry model of each model that tritonserver has; the newest of a name."""
        models = (*self._leaving.values(), *self._models.values())
        return {model.name: model.plan.entry for model in models if model._plan is not None}

    def page(self, after: str, limit: int | None) -> tuple[list[Model], bool]:
        """Loaded models whose names come after a name, at most limit; and whether more follow.

        A page stays true while models come and go: it is cut by name, not by position.
        """
        models = self.all_loaded()
        start = bisect_right([model.name for model in models], after) if after else 0
        end = len(models) if limit is None else start + limit
        return models[start:end], end < len(models)


def _most_waiting(plan: ServingPlan) -> Limit | None:
    """How many may wait, by its archive."""
    return Limit(plan.queue.most, f"max_queue_size of {plan.queue.step}") if plan.queue else None
