"""Which loads are under way and which models are there, and what they will still take. No I/O.

A load is expected to take its forecast. What its processes hold by now is no longer free, so what
it will still take is the rest of it; the same holds for models that tritonserver lost and that will
be loaded again. A loaded model may grow to what it once held: less likely the longer it has not.
A forecast for an archive that was never seen is a guess: while such loads are under way and memory
is short, it is better to wait for what they turn out to take than to guess on.
Nothing here is ever negative, so that no model's surplus is another one's room.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ensemble_tools import Demand
from serve.resources.census import Census, Usage
from serve.resources.footprints import Footprints, Forecast
from serve.resources.free import MEMORY, Amounts, Resource

#: Seconds in which half of the growth that is expected of a loaded model is given up.
_HALF_LIFE_S = 300.0


@dataclass
class LedgerEntry:
    """A model that is being loaded, or was."""

    name: str
    demand: Demand
    forecast: Forecast
    alone: bool = True  # no other load ran beside its own
    loaded_at: float | None = None  # by a clock that only goes forward; None: it is being loaded
    stubs: int = 0  # how many it had then
    server: int | None = None  # tritonserver's process then
    generation: int = 0  # which of the model's loads it was
    lost: bool = False  # it is to be loaded again
    told: bool = False  # what its load took is known, or will not be

    def held(self, census: Census) -> Usage:
        """Memory that its stubs hold."""
        models = (census.models.get(model.triton_name) for model in self.demand.models)
        return sum((held for held in models if held is not None), Usage())

    def is_there(self, census: Census) -> bool:
        """Whether it was loaded and has not been lost."""
        if self.loaded_at is None or self.lost:
            return False
        return self.held(census).processes >= self.stubs


@dataclass(frozen=True)
class Lack:
    """A resource of which a load would have too little."""

    resource: Resource
    free: int
    kept: int
    coming: int
    needed: int

    @property
    def missing(self) -> int:
        """How much more would have to be free."""
        return max(self.kept, self.kept + self.coming + self.needed) - self.free


class Ledger:
    """The entries by model name; the one writer of them."""

    def __init__(self, footprints: Footprints) -> None:
        self.footprints = footprints
        self._entries: dict[str, LedgerEntry] = {}

    @property
    def entries(self) -> Collection[LedgerEntry]:
        """All of them."""
        return self._entries.values()

    @property
    def loading(self) -> list[LedgerEntry]:
        """Those whose loads are under way."""
        return [entry for entry in self._entries.values() if entry.loaded_at is None]

    def get(self, name: str) -> LedgerEntry | None:
        """The model's entry."""
        return self._entries.get(name)

    def begin(self, name: str, demand: Demand, forecast: Forecast) -> LedgerEntry:
        """A load has been admitted."""
        entry = self._entries[name] = LedgerEntry(name, demand, forecast)
        if len(loading := self.loading) > 1:
            for other in loading:
                other.alone = False
        return entry

    def finish(self, entry: LedgerEntry, now: float) -> None:
        """Its load has ended well."""
        entry.loaded_at = now

    def end(self, entry: LedgerEntry) -> None:
        """Its load failed, or it was unloaded; an entry that came after it stays."""
        if self._entries.get(entry.name) is entry:
            del self._entries[entry.name]

    def coming(self, census: Census, now: float) -> dict[Resource, int]:
        """Amounts that the models that are here, or on their way, will still take."""
        total: dict[Resource, int] = {}
        for entry in self._entries.values():
            for resource, amount in self._measure_rest(entry, census, now).items():
                total[resource] = total.get(resource, 0) + amount
        return total

    def lacking(
        self, forecast: Forecast, free: Amounts, kept_free: Amounts, coming: Amounts
    ) -> Lack | None:
        """The resource of which there is too little for this load; None for none.

        free, kept (for others than models) and coming: what is not in free is not known and never
        lacking. The first model is only held to what is kept, since nobody is there to be hurt and
        a forecast may be wrong; of a GPU not even to that, since frameworks keep what they had.
        """
        for resource, needed in forecast.amounts.items():
            if resource not in free or (resource.gpu is not None and not self._entries):
                continue
            there, reserve = free[resource], kept_free.get(resource, 0)
            others = coming.get(resource, 0)
            if there < reserve or (self._entries and there - reserve - others < needed):
                return Lack(resource, there, reserve, others, needed)
        return None

    def is_better_known_soon(
        self, forecast: Forecast, census: Census, spare: int, coming: Amounts
    ) -> bool:
        """Whether a load should wait, since loads under way may take more than their forecasts.

        spare: bytes of memory that are free and not kept.
        """
        guesses = [it for it in self._entries.values() if not it.told and it.forecast.doubt > 1]
        more = sum(_measure_more(entry, census) for entry in guesses)
        needed = forecast.amounts.get(MEMORY, 0) * forecast.doubt
        return bool(guesses) and spare - coming.get(MEMORY, 0) - more < needed

    def _measure_rest(
        self, entry: LedgerEntry, census: Census, now: float
    ) -> Mapping[Resource, int]:
        held = entry.held(census)
        if entry.is_there(census):
            age = now - (entry.loaded_at or now)
            growth = self.footprints.growth(entry.demand, held) * 0.5 ** (age / _HALF_LIFE_S)
            return {MEMORY: int(growth)}
        there = self.footprints.held(held)
        return {
            resource: max(0, amount - there.get(resource, 0))
            for resource, amount in entry.forecast.amounts.items()
        }


def _measure_more(entry: LedgerEntry, census: Census) -> int:
    """Bytes that it may take beside what is left of its forecast."""
    forecast, held = entry.forecast.amounts.get(MEMORY, 0), entry.held(census).memory
    return max(0, forecast * entry.forecast.doubt - held) - max(0, forecast - held)
