"""One instance: a container that is asked, once the model is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from merlin_simulator.errors import ContainerFailed, ModelNotReady, NoInstance
from merlin_simulator.instance.container_client import ContainerClient, InstanceGone
from merlin_simulator.instance.decisions import LACKS_MEMORY, NOT_FOUND, Stage
from merlin_simulator.instance.holdings import Holdings
from merlin_simulator.instance.memory import Resident
from merlin_simulator.instance.requests import (
    ClosingParts,
    ContainerAnswer,
    Invocation,
    StreamedAnswer,
)
from merlin_simulator.rules import RoutableInstance, Rules, WithoutMemory
from merlin_simulator.watch.events import EventLog, Value
from merlin_simulator.watch.state import InstanceState, InstanceView, ModelState

#: Before another try at a second copy that failed to come: its callers are answered meanwhile.
COPY_AGAIN_S = 30.0
#: How often a model that the container lost is brought again for one invocation.
_BROUGHT_AGAIN = 2

#: Between two looks whether an instance that leaves has answered.
_IDLE_EVERY_S = 0.05

AnswerT = TypeVar("AnswerT", ContainerAnswer, StreamedAnswer)
Ask = Callable[[str, bytes, Mapping[str, str]], Awaitable[AnswerT]]


@dataclass
class Passage:
    """How one invocation goes: where, and in what time. Seconds."""

    start: float = field(default_factory=time.monotonic)
    instance: str | None = None
    #: How long its model took to be there; 0.0: it was.
    cold_s: float = 0.0
    #: What it waited for on its way to the container.
    waits: dict[Stage, float] = field(default_factory=dict)
    #: From the start until the container was asked.
    waiting_s: float = 0.0
    #: What containers answered to it, in order; 0: not in time. Empty: none was asked.
    container_statuses: list[int] = field(default_factory=list)

    def wait(self, seconds: Mapping[Stage, float]) -> None:
        """It has waited for these, too."""
        for stage, more in seconds.items():
            self.waits[stage] = self.waits.get(stage, 0.0) + more

    def parts(self, seconds: float) -> dict[str, float]:
        """A cold one's seconds by what they were spent on, the rest being the answer; else none."""
        if not self.cold_s:
            return {}
        parts = {stage.value: self.waits.get(stage, 0.0) for stage in Stage}
        return {**parts, "answer": max(0.0, seconds - sum(parts.values()))}


class Instance:
    """One container behind the endpoint; its models are in holdings."""

    def __init__(
        self,
        name: str,
        client: ContainerClient,
        holdings: Holdings,
        rules: Rules,
        log: EventLog,
        multi_model: bool = True,
    ) -> None:
        self.name, self.client, self.holdings = name, client, holdings
        self._rules, self._log, self._multi_model = rules, log, multi_model
        self.state, self.message = InstanceState.STARTING, "starting"
        #: Set when it is worth looking at the container before the next poll.
        self.look = asyncio.Event()
        self._in_flight = 0

    # -- what the router and the page see

    def candidate(self, target_model: str) -> RoutableInstance:
        """This instance as the router sees it for one target model."""
        resident = self.holdings.residents.find(target_model)
        used, limit = self.holdings.memory.reading.used, self.holdings.budget.memory
        return RoutableInstance(
            self.name,
            loaded=resident is not None and resident.state is ModelState.LOADED,
            coming=resident is not None and resident.load_task is not None,
            model_in_flight=resident.callers if resident else 0,
            in_flight=self._in_flight,
            models=sum(r.state is not None for r in self.holdings.residents),
            memory=used / limit if used is not None and limit else None,
        )

    def view(self) -> InstanceView:
        """This instance as it stands now."""
        models = filter(None, (r.as_view() for r in self.holdings.residents))
        return InstanceView(
            self.name,
            self.client.url,
            self.state,
            self.message,
            self.holdings.memory.reading.used,
            self.holdings.budget.memory,
            self.holdings.disk_used(),
            self.holdings.budget.disk,
            self._in_flight,
            tuple(sorted(models, key=lambda model: model.target_model)),
            self.holdings.memory.reading.cpu_percent,
        )

    # -- invocations

    async def invoke(self, invocation: Invocation, passage: Passage) -> ContainerAnswer:
        """The container's answer, its model brought here first where it is not.

        Raises what errors.py says, and InstanceGone when the request did not reach the container.
        """
        with self._count_request(invocation.target_model) as resident:
            return await self._answer(resident, invocation, passage, self.client.invoke)

    async def invoke_stream(self, invocation: Invocation, passage: Passage) -> StreamedAnswer:
        """As invoke; the model stays wanted until the parts are read or closed."""
        async with AsyncExitStack() as stack:
            resident = stack.enter_context(self._count_request(invocation.target_model))
            ask = self.client.invoke_stream
            answer = await self._answer(resident, invocation, passage, ask)
            kept = stack.pop_all()

        async def ended(_: Exception | None) -> None:
            await answer.parts.aclose()
            await kept.aclose()

        return replace(answer, parts=ClosingParts(aiter(answer.parts), ended))

    async def prepare(self, target_model: str) -> None:
        """Bring a model here that nobody waits for: a second copy. Its failures are events."""
        resident = self.holdings.residents.of(target_model)
        failed = resident.failed_at
        if failed is None or time.monotonic() - failed > COPY_AGAIN_S:
            self.holdings.start_load(resident)

    async def wait_until_idle(self, seconds: float) -> None:
        """Until it has no request, so long at the most."""
        end = time.monotonic() + seconds
        while self._in_flight and time.monotonic() < end:  # noqa: ASYNC110 - bounded, and rare
            await asyncio.sleep(_IDLE_EVERY_S)

    @contextmanager
    def _count_request(self, target_model: str | None) -> Iterator[Resident | None]:
        self._in_flight += 1
        try:
            if target_model is None:
                yield None
                return
            resident = self.holdings.residents.of(target_model)
            with self.holdings.hold(resident):
                yield resident
        finally:
            self._in_flight -= 1

    async def _answer(
        self, resident: Resident | None, invocation: Invocation, passage: Passage, ask: Ask[AnswerT]
    ) -> AnswerT:
        if resident is None:
            return await self._ask("/invocations", invocation, passage, ask)
        losses = retries = 0
        while True:
            await self._ensure_loaded(resident, passage)
            since = self.holdings.evictor.evictions
            resident.invocations += 1
            try:
                path = f"/models/{resident.model_name}/invoke"
                return await self._ask(path, invocation, passage, ask)
            except ContainerFailed as error:
                if error.status == NOT_FOUND and losses < _BROUGHT_AGAIN:
                    losses += 1
                    if await self._is_lost(resident):
                        continue
                if error.status == LACKS_MEMORY and retries < self._rules.evictions_per_call:
                    retries += 1
                    if await self._free_memory(resident, since, passage):
                        continue
                raise self._without_memory(error) from error

    async def _free_memory(self, resident: Resident, since: int, passage: Passage) -> bool:
        start = time.monotonic()
        try:
            return await self.holdings.evictor.free_for_invocation(resident, since)
        finally:
            passage.wait({Stage.ROOM: time.monotonic() - start})

    async def _ensure_loaded(self, resident: Resident, passage: Passage) -> None:
        """The model is loaded when this returns; the callers of a cold one share its task."""
        if resident.state is ModelState.LOADED:
            return
        start = time.monotonic()
        task = self.holdings.start_load(resident)
        course = resident.course
        done, _ = await asyncio.wait({task}, timeout=self._rules.cold_wait_s)
        end = time.monotonic()
        passage.cold_s += end - start
        passage.wait(course.between(start, end))
        if not done:
            raise ModelNotReady(resident.target_model, self._rules.cold_wait_s)
        if task.cancelled():
            raise InstanceGone("it is stopping")
        if (error := task.exception()) is not None:
            raise self._without_memory(error)

    async def _ask(
        self, path: str, invocation: Invocation, passage: Passage, ask: Ask[AnswerT]
    ) -> AnswerT:
        passage.waiting_s = time.monotonic() - passage.start
        try:
            answer = await ask(path, invocation.body, invocation.headers)
        except InstanceGone:
            self.look.set()
            raise
        except ContainerFailed as error:
            passage.container_statuses.append(error.status)
            raise
        passage.container_statuses.append(answer.status)
        return answer

    async def _is_lost(self, resident: Resident) -> bool:
        """Whether the container has a model no more; a model may answer 404 on its own account."""
        before = self.holdings.loads()
        try:
            listed = await self.client.loaded()
        except (ContainerFailed, InstanceGone):
            return False
        if listed is not None:
            self.holdings.reconcile(before, listed)
        return resident.state is not ModelState.LOADED

    def _without_memory(self, error: BaseException) -> BaseException:
        lacks = isinstance(error, ContainerFailed) and error.status == LACKS_MEMORY
        if lacks and self._rules.without_memory is WithoutMemory.SERVICE_UNAVAILABLE:
            return NoInstance(f"no instance has the memory for this model: {error}")
        return error

    # -- health

    @property
    def stopped(self) -> bool:
        """It is being stopped, or was."""
        return self.state is InstanceState.STOPPED

    def start(self) -> None:
        """A container was started, or is waited for."""
        self.state, self.message = InstanceState.STARTING, "starting"

    def stop(self) -> None:
        """It gets no more requests, and is not asked how it is."""
        self.state, self.message = InstanceState.STOPPED, "stopping"

    def serve(self, seconds: float) -> None:
        """It is well: it gets requests."""
        if self.state not in (InstanceState.IN_SERVICE, InstanceState.STOPPED):
            self.state, self.message = InstanceState.IN_SERVICE, ""
            self.tell("instance_in_service", seconds=seconds)

    def suspect(self, message: str) -> None:
        """It does not answer: no requests until it does."""
        if self.state is InstanceState.IN_SERVICE:
            self.state, self.message = InstanceState.UNHEALTHY, message
            self.tell("instance_unhealthy", message=message)

    def end(self, message: str, state: InstanceState) -> None:
        """Its container is not there any more."""
        self.state, self.message = state, message
        self.holdings.lose_all()
        self.tell("instance_ended", message=message)

    def fail(self, message: str) -> None:
        """Its start-up window is over, and it is not healthy."""
        self.end(message, InstanceState.FAILED)

    async def close(self) -> None:
        """Let go of everything; the container is somebody else's to stop."""
        await self.holdings.stop()
        await self.client.close()

    def tell(self, kind: str, **fields: Value) -> None:
        """An event of this instance."""
        self._log.tell(kind, self.name, **fields)
