"""What happens to a planned endpoint, counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from merlin_simulator.instance.decisions import Stage
from merlin_simulator.watch.events import COLD_PARTS

#: Cold requests whose latencies are kept one by one, and those whose parts are.
_MOST_LATENCIES, _MOST_PARTS = 2_000_000, 200_000


@dataclass
class Counts:
    """What happened until now. latencies: seconds of cold requests that were answered in time, and
    parts: what they were spent on, by the names that events have for it.

    not_ready: callers who gave up before it was there; no_memory: those whose model the container
    refused in the end; no_disk: those whose archive found no place, which happened disk_gave_up
    times. evictions_507: those of evictions that the container's refusals made.
    """

    cold: int = 0
    loads: int = 0
    evictions: int = 0
    evictions_507: int = 0
    not_ready: int = 0
    no_memory: int = 0
    without_instance: int = 0
    copies: int = 0
    disk_gave_up: int = 0
    no_disk: int = 0
    latencies: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=lambda: {part: [] for part in COLD_PARTS})

    @property
    def failed(self) -> int:
        """Requests that were told of a failure instead of an answer."""
        return self.not_ready + self.no_memory + self.no_disk + self.without_instance

    def note(self, wait: float, answer: float, spent: Mapping[Stage, float]) -> None:
        """A cold request was answered. Seconds."""
        self.cold += 1
        if len(self.latencies) < _MOST_LATENCIES:
            self.latencies.append(wait + answer)
        if len(self.parts["answer"]) < _MOST_PARTS:
            for stage in Stage:
                self.parts[stage.value].append(spent.get(stage, 0.0))
            self.parts["answer"].append(answer)
