"""Target models on one instance: the records that bringing, asking and unloading share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from merlin_simulator.instance.course import Course
from merlin_simulator.instance.eviction import HeldModel
from merlin_simulator.instance.target_model import make_model_name
from merlin_simulator.watch.view import ModelState, ModelView


@dataclass
class Resident:
    """state is None while nothing of it is here. Written by its instance's event loop only.

    A record is one model's for as long as somebody holds it: forgotten only when nobody does.
    """

    target_model: str
    model_name: str
    state: ModelState | None = None
    memory: int | None = None  # bytes, of its processes, while loaded
    needed: int | None = None  # bytes, the most it was seen to use
    disk: int = 0
    wanted: int = 0  # callers that wait for it or ask it
    waiting: int = 0  # those of them that wait for others to make room
    invocations: int = 0
    last_used: float = 0.0
    failed_at: float | None = None  # when bringing it last failed, by the monotonic clock
    loads: int = 0  # successful ones: tells one load from the next
    bringing: asyncio.Task[None] | None = field(default=None, repr=False)
    course: Course = field(default_factory=Course, repr=False)  # of the last bringing
    leaving: asyncio.Task[bool] | None = field(default=None, repr=False)

    @property
    def idle(self) -> bool:
        """Nobody wants it, and nobody brings it here or takes it away."""
        return not self.wanted and self.bringing is None and self.leaving is None

    def as_held_model(self) -> HeldModel | None:
        """What eviction decides on; None while nothing of it is here."""
        if self.state is None:
            return None
        wanted = self.wanted > self.waiting or self.bringing is not None
        return HeldModel(
            self.target_model, self.state, wanted, self.last_used, self.memory, self.disk
        )

    def as_view(self) -> ModelView | None:
        """What the page draws; None while nothing of it is here."""
        if self.state is None:
            return None
        return ModelView(
            self.target_model,
            self.model_name,
            self.state,
            self.memory,
            self.disk,
            self.wanted,
            self.invocations,
            self.last_used or None,
        )


class Residents:
    """The records of one instance, of models that are gone too."""

    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._records: dict[str, Resident] = {}

    def __iter__(self) -> Iterator[Resident]:
        return iter(self._records.values())

    def of(self, target_model: str) -> Resident:
        """The record of a target model; made when there is none."""
        resident = self._records.get(target_model)
        if resident is None:
            name = make_model_name(self._instance, target_model)
            resident = self._records[target_model] = Resident(target_model, name)
        return resident

    def find(self, target_model: str) -> Resident | None:
        """The record of a target model, if it was ever asked here."""
        return self._records.get(target_model)

    def forget(self, resident: Resident) -> None:
        """Nothing of it is here, and nobody holds its record."""
        self._records.pop(resident.target_model, None)

    def held_models(self) -> list[HeldModel]:
        """What is here, as eviction sees it."""
        models = (resident.as_held_model() for resident in self)
        return [model for model in models if model is not None]
