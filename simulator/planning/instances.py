"""One instance of a plan: which models it has, in memory and on the disk."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from simulator.instance.eviction import HeldModel
from simulator.planning.archives import Figures, Machine
from simulator.planning.demand import Demand
from simulator.planning.happening import Places
from simulator.rules import Rules
from simulator.watch.view import ModelState

#: As holdings has it: archives fetched at the same time, and loads that there is made room for.
_DOWNLOADS_AT_ONCE, _SOON = 8, 2


class Copy:
    """A model that is loaded. Nothing is known of its requests after `seen`; `used`: the last
    that is known of. share: of the model's requests. busy_until: somebody waits for it until then.
    """

    __slots__ = ("busy_until", "model", "seen", "share", "used")

    def __init__(self, model: int, now: float, busy_until: float) -> None:
        self.model, self.used, self.seen = model, now, now
        self.share, self.busy_until = 1.0, busy_until


class PlannedInstance:
    """Bytes, seconds. rate and work: of the models that it has, requests a second and the seconds
    that they take, at the demand's mean."""

    def __init__(self, number: int, machine: Machine, rules: Rules) -> None:
        self.number, self.machine = number, machine
        self.name = f"instance-{number:04d}"
        self.in_service, self.version = True, 0
        self.copies: dict[int, Copy] = {}
        #: Archives that are only on the disk, and when each was used last; least recent first.
        self.on_disk: dict[int, float] = {}
        #: Memory of models that come, in the order in which they asked for room; and that leave.
        self.coming: dict[int, int] = {}
        self.unloading: dict[int, int] = {}
        self.used_memory, self.used_disk = machine.base_memory, 0
        self.downloads = Places(_DOWNLOADS_AT_ONCE)
        self.soon = Places(_SOON * rules.loads_at_once)
        self.loads = Places(rules.loads_at_once)
        self.loading = 0
        self.load_cores_s = 0.0
        self._by_use: list[tuple[float, int]] = []

    @property
    def emptiness(self) -> tuple[float, int, str]:
        """What the router sees of it."""
        models = len(self.copies) + len(self.on_disk) + len(self.coming)
        return (self.used_memory / self.machine.memory, models, self.name)

    def add(self, copy: Copy, memory: int) -> None:
        """A model is loaded."""
        self.copies[copy.model] = copy
        self.used_memory += memory
        heapq.heappush(self._by_use, (copy.used, copy.model))

    def least_recent(
        self, now: float, demand: Demand, archives: list[Figures]
    ) -> Iterator[HeldModel]:
        """Loaded models from the least recently used on, as far as they are taken.

        A model's last use is found out when it is its turn. It is a lower bound before.
        """
        heap, taken = self._by_use, []
        try:
            while heap:
                used, model = heap[0]
                copy = self.copies.get(model)
                if copy is None or copy.used != used:
                    heapq.heappop(heap)  # it left, or came again, or was looked at since
                    continue
                if copy.seen < now:
                    last = demand.last_between(model, copy.seen, now, copy.share)
                    copy.seen = now
                    if last is not None:
                        copy.used = last
                        heapq.heapreplace(heap, (last, model))
                        continue
                taken.append(heapq.heappop(heap))
                wanted = copy.busy_until > now
                figures = archives[model]
                yield HeldModel(
                    figures.name, ModelState.LOADED, wanted, used, figures.memory, figures.disk
                )
        finally:
            for entry in taken:
                heapq.heappush(heap, entry)
