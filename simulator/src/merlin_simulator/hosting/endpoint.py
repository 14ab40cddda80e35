"""One endpoint: its production variants share the traffic by their weights."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from merlin_simulator.errors import NoInstance
from merlin_simulator.hosting.variant import Variant
from merlin_simulator.instance.instance import Instance
from merlin_simulator.instance.requests import ContainerAnswer, Invocation, StreamedAnswer
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import EventLog
from merlin_simulator.watch.view import EndpointView


@dataclass
class Share:
    """A variant and its weight: its part of the traffic is that of all weights."""

    variant: Variant
    weight: float = 1.0


class Endpoint:
    """What is invoked under one name. shares: at least one; see switch."""

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
        variant = self._chosen(invocation)
        return replace(await variant.invoke(invocation), variant=variant.name)

    async def invoke_stream(self, invocation: Invocation) -> StreamedAnswer:
        """InvokeEndpointWithResponseStream; told of when the last part was read, or closed."""
        variant = self._chosen(invocation)
        return replace(await variant.invoke_stream(invocation), variant=variant.name)

    def _any(self) -> Variant:
        return next(iter(self._shares.values())).variant

    def _chosen(self, invocation: Invocation) -> Variant:
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
