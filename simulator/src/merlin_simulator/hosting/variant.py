"""A production variant: each invocation goes to the instance that is to answer it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from merlin_simulator.api.wire_errors import wire_error
from merlin_simulator.errors import ContainerFailed, NoInstance
from merlin_simulator.instance.container_client import InstanceGone
from merlin_simulator.instance.instance import Instance, Passage
from merlin_simulator.instance.requests import (
    ClosingParts,
    ContainerAnswer,
    Invocation,
    StreamedAnswer,
)
from merlin_simulator.routing import route, route_alike
from merlin_simulator.rules import VARIANT, Rules
from merlin_simulator.watch.events import EventLog, Value
from merlin_simulator.watch.view import EndpointView, InstanceState

AnswerT = TypeVar("AnswerT", ContainerAnswer, StreamedAnswer)


@dataclass
class Variant:
    """Instances of one model or of many; they come and go. name: of the variant.

    models: where the archives lie, for people.
    """

    endpoint_name: str
    multi_model: bool
    models: str
    rules: Rules
    log: EventLog
    name: str = VARIANT

    def __post_init__(self) -> None:
        self._instances: dict[str, Instance] = {}

    def join(self, instance: Instance) -> None:
        """An instance belongs to the variant from now on."""
        self._instances[instance.name] = instance

    def leave(self, name: str) -> None:
        """An instance is gone for good."""
        self._instances.pop(name, None)

    async def stop(self) -> None:
        """Its instances get no more requests; callers of models that are coming are told."""
        for instance in self.instances:
            instance.stop()
            await instance.holdings.stop()

    @property
    def instances(self) -> tuple[Instance, ...]:
        """Every instance, in service or not."""
        return tuple(self._instances.values())

    def view(self) -> EndpointView:
        """The variant as it stands now, as an endpoint of its own."""
        return EndpointView(
            self.endpoint_name,
            self.multi_model,
            self.models,
            self.rules.cache.value,
            self.log.last,
            tuple(instance.view() for instance in self._instances.values()),
        )

    async def invoke(self, invocation: Invocation) -> ContainerAnswer:
        """InvokeEndpoint. Raises what errors.py says."""
        teller = _Teller(self, invocation)
        answer = await self._routed(invocation, teller, Instance.invoke)
        teller.answered(answer.status)
        return answer

    async def invoke_stream(self, invocation: Invocation) -> StreamedAnswer:
        """InvokeEndpointWithResponseStream; told of when the last part was read, or closed."""
        teller = _Teller(self, invocation)
        answer = await self._routed(invocation, teller, Instance.invoke_stream)

        async def ended(error: Exception | None) -> None:
            await answer.parts.aclose()
            if error is None:
                teller.answered(answer.status)
            else:
                teller.failed(error)

        return replace(answer, parts=ClosingParts(aiter(answer.parts), ended))

    async def _routed(
        self,
        invocation: Invocation,
        teller: _Teller,
        ask: Callable[[Instance, Invocation, Passage], Awaitable[AnswerT]],
    ) -> AnswerT:
        try:
            return await self._first_that_answers(invocation, teller.passage, ask)
        except Exception as error:
            teller.failed(error)
            raise

    async def _first_that_answers(
        self,
        invocation: Invocation,
        passage: Passage,
        ask: Callable[[Instance, Invocation, Passage], Awaitable[AnswerT]],
    ) -> AnswerT:
        gone: dict[str, str] = {}
        while True:
            instance = await self._chosen(invocation.target_model or "", gone)
            passage.instance = instance.name
            try:
                return await ask(instance, invocation, passage)
            except InstanceGone as error:
                gone[instance.name] = str(error)

    async def _chosen(self, target_model: str, gone: Mapping[str, str]) -> Instance:
        candidates = [
            instance.candidate(target_model)
            for instance in self._instances.values()
            if instance.state is InstanceState.IN_SERVICE and instance.name not in gone
        ]
        chosen = (
            route(candidates, self.rules.busy_at) if self.multi_model else route_alike(candidates)
        )
        if chosen is None:
            raise NoInstance(self._why_none(gone))
        if chosen.copy_to is not None:
            await self._instances[chosen.copy_to].prepare(target_model)
        return self._instances[chosen.name]

    def _why_none(self, gone: Mapping[str, str]) -> str:
        states = []
        for instance in self._instances.values():
            why = gone.get(instance.name) or instance.message
            states.append(f"{instance.name} {instance.state.value}" + (f" ({why})" if why else ""))
        listed = "; ".join(states) or "there is none"
        return f"No instance of {self.endpoint_name} takes the request: {listed}."


class _Teller:
    """The one event that each invocation ends with."""

    def __init__(self, variant: Variant, invocation: Invocation) -> None:
        self._variant, self._invocation = variant, invocation
        self.passage = Passage()

    def answered(self, status: int) -> None:
        """The container's answer went to the caller."""
        self._tell("invoked", status)

    def failed(self, error: Exception) -> None:
        """The caller got an error."""
        wire = wire_error(error, self._variant.endpoint_name)
        original = error.status if isinstance(error, ContainerFailed) else None
        self._tell(
            "invocation_failed",
            wire.status,
            error=wire.name,
            message=str(error),
            original_status=original,
        )

    def _tell(self, kind: str, status: int, **fields: Value) -> None:
        seconds = time.monotonic() - self.passage.start
        parts = self.passage.parts(seconds)
        self._variant.log.tell(
            kind,
            self.passage.instance,
            target_model=self._invocation.target_model,
            status=status,
            seconds=seconds,
            cold=self.passage.cold_s > 0,
            cold_seconds=self.passage.cold_s,
            waiting_seconds=self.passage.waiting_s,
            container_statuses=" ".join(map(str, self.passage.container_statuses)),
            request_id=self._invocation.request_id,
            **{f"{part}_seconds": took for part, took in parts.items()},
            **fields,
        )
