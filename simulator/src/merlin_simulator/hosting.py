"""One endpoint: its variants, their fleets of instances, and how traffic is split among them."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from merlin_simulator.api.wire import wire_error
from merlin_simulator.errors import ContainerFailed, NoInstance, PlatformFailed, SimulatorError
from merlin_simulator.instance.container_client import InstanceGone
from merlin_simulator.instance.instance import Instance, Passage
from merlin_simulator.instance.requests import (
    ClosingParts,
    ContainerAnswer,
    Invocation,
    StreamedAnswer,
)
from merlin_simulator.rules import VARIANT, Rules, route, route_alike
from merlin_simulator.threads import run_in_thread
from merlin_simulator.watch.events import EventLog, Value
from merlin_simulator.watch.state import EndpointView, InstanceState

AnswerT = TypeVar("AnswerT", ContainerAnswer, StreamedAnswer)


@dataclass
class Variant:
    """Instances of one model or of many; they come and go."""

    endpoint_name: str
    multi_model: bool
    models: str  # where the archives lie, for people
    rules: Rules
    log: EventLog
    name: str = VARIANT  # of the variant

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
        invocation_log = _InvocationLog(self, invocation)
        answer = await self._route(invocation, invocation_log, Instance.invoke)
        invocation_log.answered(answer.status)
        return answer

    async def invoke_stream(self, invocation: Invocation) -> StreamedAnswer:
        """InvokeEndpointWithResponseStream; told of when the last part was read, or closed."""
        invocation_log = _InvocationLog(self, invocation)
        answer = await self._route(invocation, invocation_log, Instance.invoke_stream)

        async def ended(error: Exception | None) -> None:
            await answer.parts.aclose()
            if error is None:
                invocation_log.answered(answer.status)
            else:
                invocation_log.failed(error)

        return replace(answer, parts=ClosingParts(aiter(answer.parts), ended))

    async def _route(
        self,
        invocation: Invocation,
        invocation_log: _InvocationLog,
        ask: Callable[[Instance, Invocation, Passage], Awaitable[AnswerT]],
    ) -> AnswerT:
        try:
            return await self._ask_in_turn(invocation, invocation_log.passage, ask)
        except Exception as error:
            invocation_log.failed(error)
            raise

    async def _ask_in_turn(
        self,
        invocation: Invocation,
        passage: Passage,
        ask: Callable[[Instance, Invocation, Passage], Awaitable[AnswerT]],
    ) -> AnswerT:
        gone: dict[str, str] = {}
        while True:
            instance = await self._choose(invocation.target_model or "", gone)
            passage.instance = instance.name
            try:
                return await ask(instance, invocation, passage)
            except InstanceGone as error:
                gone[instance.name] = str(error)

    async def _choose(self, target_model: str, gone: Mapping[str, str]) -> Instance:
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


class _InvocationLog:
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


_logger = logging.getLogger(__name__)

#: Between two looks at instances that come or leave.
_LOOK_S = 0.05
#: Before an instance that was given up is replaced, so that a container that always ends does not
#: keep the machine busy.
_REPLACED_AFTER_S = 2.0


class InstanceRunner(Protocol):
    """Keeps the container of one instance going; see runners."""

    instance: Instance

    async def run(self) -> None:
        """Until stopped, or given up. Raises PlatformFailed where it was never in service."""

    async def stop(self) -> None:
        """The container ends, in the time the platform gives it."""


@dataclass
class _RunningInstance:
    runner: InstanceRunner
    running: asyncio.Task[None]


class Fleet:
    """Keeps a variant at a number of instances.

    make: makes the runner of a new instance by its name; it may block, and may raise
    SimulatorError, as it does soon once the other argument says that nobody wants it any more.
    names: of instances; none comes twice at an endpoint. forget: removes what an instance that is
    gone has on the disk; it may block.
    """

    def __init__(
        self,
        variant: Variant,
        make: Callable[[str, Callable[[], bool]], InstanceRunner],
        names: Iterator[str],
        forget: Callable[[str], None],
    ) -> None:
        self.variant, self.desired = variant, 0
        self._make, self._names, self._forget = make, names, forget
        self._running: dict[str, _RunningInstance] = {}
        self._failure: SimulatorError | None = None
        self._changing = asyncio.Lock()
        self._leaving: set[asyncio.Task[None]] = set()
        self._replacing: set[asyncio.Task[None]] = set()

    @property
    def in_service(self) -> int:
        """Instances that take requests now."""
        states = (entry.runner.instance.state for entry in self._running.values())
        return sum(state is InstanceState.IN_SERVICE for state in states)

    async def scale(self, count: int) -> None:
        """Come to this many; returns once all of them are in service, and others are leaving.

        Raises SimulatorError where one that came never was in service: those that came are taken
        away then, and the wish is what it was before. So it is where this is cancelled.
        """
        # A replacement that does not come up is not waited for: it is a part of this now.
        self._end_replacing()
        try:
            await self._scale_to(count)
        except BaseException:
            self._replace_missing()
            raise

    async def stop(self) -> None:
        """No instance is left, nor is any of its processes."""
        while self._replacing:
            self._end_replacing()
            await asyncio.wait(set(self._replacing))
        self.desired = 0
        for name in list(self._running):
            self._leave(name)
        while self._leaving:
            await asyncio.wait(set(self._leaving))

    async def _scale_to(self, count: int | None) -> None:
        """As scale does; None: the number that is wanted once it is this one's turn."""
        async with self._changing:
            before, came = self.desired, list[str]()
            self.desired, self._failure = before if count is None else count, None
            try:
                self._shed(len(self._running) - self.desired)
                await self._fill(came)
            except BaseException:
                self.desired = before
                for name in came:
                    self._leave(name)
                raise

    async def _fill(self, came: list[str]) -> None:
        """Until all that are wanted are in service; came gets the names of those that are new."""
        while self._failure is None:
            if len(self._running) < self.desired:
                came.append(await self._add())
            elif self.in_service >= self.desired:
                return
            else:
                await asyncio.sleep(_LOOK_S)
        raise self._failure

    async def _add(self) -> str:
        name = next(self._names)
        given_up = threading.Event()
        making = asyncio.ensure_future(run_in_thread(lambda: self._make(name, given_up.is_set)))
        try:
            runner = await asyncio.shield(making)
        except BaseException:
            # Its thread ends soon, and until then it may write to the instance's folder.
            given_up.set()
            self._keep_until_done(self._drop(name, making))
            raise
        self.variant.join(runner.instance)
        running = asyncio.create_task(runner.run())
        self._running[name] = _RunningInstance(runner, running)
        running.add_done_callback(lambda task: self._ended(name, task))
        return name

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """The runner gave the instance up: it leaves, and another one is made."""
        error = None if task.cancelled() else task.exception()
        if task.cancelled() or name not in self._running:
            return
        if isinstance(error, SimulatorError):
            self._failure = error
        elif error is not None:
            self._failure = PlatformFailed(f"{type(error).__name__}: {error}")
        self._leave(name)
        if not self._changing.locked():
            self._replace_missing()

    def _replace_missing(self) -> None:
        """Where instances lack, others come."""
        if len(self._running) < self.desired:
            replacing = asyncio.create_task(self._replace())
            self._replacing.add(replacing)
            replacing.add_done_callback(self._replacing.discard)

    def _end_replacing(self) -> None:
        for task in self._replacing:
            task.cancel()

    async def _replace(self) -> None:
        """Tries for ever: the variant is wanted with as many."""
        while len(self._running) < self.desired:
            await asyncio.sleep(_REPLACED_AFTER_S)
            with suppress(SimulatorError):
                await self._scale_to(None)

    def _shed(self, count: int) -> None:
        """Those leave first that are not in service, then the youngest."""
        names = sorted(
            self._running,
            key=lambda name: (
                self._running[name].runner.instance.state is InstanceState.IN_SERVICE,
                -list(self._running).index(name),
            ),
        )
        for name in names[: max(0, count)]:
            self._leave(name)

    async def _drop(self, name: str, making: asyncio.Future[InstanceRunner]) -> None:
        """An instance that nobody wants any more, or that was not made; it never started."""
        await asyncio.wait({making})
        if making.exception() is None:
            await making.result().instance.close()
        await run_in_thread(lambda: self._forget(name))

    def _keep_until_done(self, work: Coroutine[Any, Any, None]) -> None:
        """It goes on in the background; stop waits for it."""
        leaving = asyncio.create_task(work)
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def _leave(self, name: str) -> None:
        entry = self._running.pop(name, None)
        if entry is None:
            return
        entry.runner.instance.stop()
        self._keep_until_done(self._release(entry))

    async def _release(self, entry: _RunningInstance) -> None:
        """Its requests end in their own time, then its container, then its connections."""
        instance, rules = entry.runner.instance, self.variant.rules
        # The last request may wait for its model before it waits for its answer.
        longest_s = rules.cold_wait_s + rules.invoke_timeout_s
        await instance.wait_until_idle(longest_s)
        try:
            await instance.holdings.stop()
            await entry.runner.stop()
        except Exception:
            _logger.exception("the container of %s did not end as it should", instance.name)
        finally:
            entry.running.cancel()
            await asyncio.wait({entry.running})
            self.variant.leave(instance.name)
            await instance.close()
            await run_in_thread(lambda: self._forget(instance.name))


@dataclass
class Share:
    """A variant and its weight: its part of the traffic is that of all weights."""

    variant: Variant
    weight: float = 1.0


class Endpoint:
    """The variants that answer under one name. shares: at least one; see switch."""

    def __init__(self, endpoint_name: str, shares: Sequence[Share], log: EventLog) -> None:
        self.endpoint_name, self.log = endpoint_name, log
        self._shares = {share.variant.name: share for share in shares}

    def switch(self, shares: Sequence[Share]) -> None:
        """From now on these answer; what the others were asked already, they answer still."""
        self._shares = {share.variant.name: share for share in shares}

    @property
    def shares(self) -> tuple[Share, ...]:
        """The variants that answer now."""
        return tuple(self._shares.values())

    @property
    def variant_names(self) -> Collection[str]:
        """Those that a request may name."""
        return self._shares.keys()

    @property
    def multi_model(self) -> bool:
        """Whether requests name a target model: all variants are alike in it."""
        return self._any().multi_model

    @property
    def rules(self) -> Rules:
        """The platform's rules for its requests."""
        return self._any().rules

    @property
    def instances(self) -> tuple[Instance, ...]:
        """Of all variants, in service or not."""
        return tuple(
            instance for share in self._shares.values() for instance in share.variant.instances
        )

    async def stop(self) -> None:
        """Its instances get no more requests; callers of models that are coming are told."""
        for share in self._shares.values():
            await share.variant.stop()

    def view(self) -> EndpointView:
        """The endpoint as it stands now."""
        instances = tuple(
            replace(instance.view(), variant=share.variant.name)
            for share in self._shares.values()
            for instance in share.variant.instances
        )
        return replace(self._any().view(), sequence=self.log.last, instances=instances)

    async def invoke(self, invocation: Invocation) -> ContainerAnswer:
        """InvokeEndpoint. Raises what errors.py says."""
        variant = self._choose(invocation)
        return replace(await variant.invoke(invocation), variant=variant.name)

    async def invoke_stream(self, invocation: Invocation) -> StreamedAnswer:
        """InvokeEndpointWithResponseStream; told of when the last part was read, or closed."""
        variant = self._choose(invocation)
        return replace(await variant.invoke_stream(invocation), variant=variant.name)

    def _any(self) -> Variant:
        return next(iter(self._shares.values())).variant

    def _choose(self, invocation: Invocation) -> Variant:
        """AWS, "InvokeEndpoint": the named variant, whatever its weight; else by the weights."""
        named = self._shares.get(invocation.target_variant or "")
        if named is not None:
            return named.variant
        shares = list(self._shares.values())
        if len(shares) == 1:
            return shares[0].variant
        weights = [share.weight for share in shares]
        if not sum(weights):
            raise NoInstance(f"No variant of {self.endpoint_name} has any weight: give one some.")
        return random.choices(shares, weights)[0].variant
