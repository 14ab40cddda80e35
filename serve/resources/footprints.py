"""What a load will take, told by what loads took. No I/O; in memory only, bounded in size.

An archive is known by its identity (ensemble_tools/serving/demand.py): copies of it count as one.
One that was never seen is expected to take what others of its kinds took, an instance at a time,
and the size of its files; a machine that has seen none of a kind goes by figures that were measured
elsewhere. Of a kind the upper quartile of its last archives counts, so that one archive that takes
much does not stand for all.

One that the kernel killed for want of memory takes more than was free then. That counts until it
has been loaded: each try would take that memory from all others until it is killed again.

A figure rises at once, and falls by half the difference at each load: a forecast that was far too
high is right again after a few loads.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ensemble_tools import Demand, ModelDemand
from ensemble_tools.serving.demand import (
    COMPILED,
    ENSEMBLE,
    EXECUTOR,
    GENERATED,
    IN_PANDAS,
    PYTHON,
    PYTHON_KINDS,
    WORKFLOW,
)
from serve.resources.census import Usage
from serve.resources.free import (
    DESCRIPTORS,
    MEMORY,
    OWN_DESCRIPTORS,
    SHARED_MEMORY,
    TASKS,
    Amounts,
    Resource,
    gpu_memory,
)

_T = TypeVar("_T")
_MIB = 1024 * 1024
#: Archives, and kinds, that are remembered; the ones that were not asked for longest go first.
_ARCHIVES, _KINDS = 1000, 100
#: Of each kind so many of the last archives count.
_SAMPLES = 32
#: Anonymous memory of one instance beside its weights, measured with Merlin 23.08, torch 2 and
#: TensorFlow 2 on 2.51 (MiB); the first one decides until a load has told better.
_FIRST = {
    ENSEMBLE: 0,
    GENERATED: 24,
    COMPILED: 24,
    PYTHON: 32,
    IN_PANDAS: 60,
    WORKFLOW: 280,
    EXECUTOR: 280,
    "pytorch": 160,
    "tensorflow": 400,
    "fil": 100,
}
_UNKNOWN_BACKEND = 64
#: Backends that may be stand-ins of ours, and so Python programs; a load tells.
_STAND_INS = {"pytorch", "tensorflow", "fil"}
#: Of one process on a GPU beside its weights: CUDA's context and libraries (414 MiB when cudf is
#: imported, rapidsai/cudf#13563). Models in tritonserver share the context that it has already.
_CONTEXT = 414 * _MIB
#: Of one stub, seen with 50 of them on 2.51: what tritonserver and the kernel have for it beside
#: (bytes), tritonserver's descriptors, and its threads beside those for calls to other models.
_BESIDE, _DESCRIPTORS, _THREADS = 2 * _MIB, 4, 4
#: A Python model may do anything: so many times the guess is nothing unusual for one of a kind that
#: was never loaded here, or of one that was.
_DOUBT, _DOUBT_OF_OTHERS = 8, 2
#: Why so much is expected where nothing is known.
_A_GUESS = "by its form and its files' sizes"
#: What one load takes of our own descriptors while it runs: files that are read, a connection.
_OWN = 8


@dataclass(frozen=True)
class StubSettings:
    """tritonserver's options for each stub. region: bytes in /dev/shm; threads: for calls."""

    region: int = 16 * _MIB
    threads: int = 8


@dataclass(frozen=True)
class Forecast:
    """The amounts that a load will take, and why."""

    amounts: Amounts
    why: str  # the end of a sentence
    doubt: int = 1  # how many times as much memory it may well turn out to be
    on_gpus: str = ""  # why, of GPUs

    def why_of(self, resource: Resource) -> str:
        """Why so much of this resource is expected."""
        return self.on_gpus or self.why if resource.gpu is not None else self.why


@dataclass(frozen=True)
class MeasuredLoad:
    """Amounts that a load was seen to take."""

    held: Mapping[str, Usage]  # by the Triton model; models in tritonserver have nothing
    in_server: int | None = None  # bytes that tritonserver grew by; None beside other loads
    gpus: Mapping[int, int] | None = None  # bytes of each GPU; None beside other loads


@dataclass(frozen=True)
class _Footprint:
    """Amounts that an archive's loads took."""

    load: Usage  # the most that stubs held at its last loads
    service: int  # the most later
    in_server: int
    gpus: Mapping[int, int] | None  # None while other loads ran beside each of its own


class Footprints:
    """Learns from loads how much the next ones will take."""

    def __init__(self, stubs: StubSettings) -> None:
        self._stubs = stubs
        self._archives: OrderedDict[str, _Footprint] = OrderedDict()
        self._kinds: OrderedDict[str, deque[tuple[str, Usage]]] = OrderedDict()
        self._killed: OrderedDict[str, int] = OrderedDict()

    def forecast(self, demand: Demand, gpus: Collection[int] = ()) -> Forecast:
        """The amounts that a load of this will take. gpus: those that the machine has.

        Of each GPU that models in tritonserver may use it has an amount, if only 0.
        """
        expected = self._expected(demand, gpus)
        needed = self._killed.get(demand.identity, 0)
        if expected.amounts[MEMORY] >= needed:
            return expected
        amounts = {**expected.amounts, MEMORY: needed}
        why = "as its last load was killed when it had taken that"
        return Forecast(amounts, why, on_gpus=expected.on_gpus or expected.why)

    def _expected(self, demand: Demand, gpus: Collection[int]) -> Forecast:
        known = self._archives.get(demand.identity)
        if known is None:
            kinds = {model.kind for model in demand.models} - {ENSEMBLE}
            learned = kinds <= self._kinds.keys()
            held = _sum(self._guess(model) for model in demand.models)
            why = "as others of its form did" if learned else _A_GUESS
            memory = held.memory + _tables(demand)
            amounts = self._amounts(held, memory, self._guess_on_gpus(demand, gpus))
            return Forecast(amounts, why, _DOUBT_OF_OTHERS if learned else _DOUBT, _A_GUESS)
        self._archives.move_to_end(demand.identity)
        memory = max(known.load.peak, known.service, _tables(demand)) + known.in_server
        guess = self._guess_on_gpus(demand, gpus)
        # On these what it takes may have been there already.
        unseen = guess if self.in_server(demand) else ()
        asked = guess if known.gpus is None else {**dict.fromkeys(unseen, 0), **known.gpus}
        amounts = self._amounts(known.load, memory, asked)
        on_gpus = _A_GUESS if known.gpus is None else ""
        return Forecast(amounts, "as it took at its last load", on_gpus=on_gpus)

    def in_server(self, demand: Demand) -> bool:
        """Whether its models that may use a GPU live in tritonserver itself, as far as is known."""
        on_gpu = (model for model in demand.models if model.on_gpus)
        return not any(self._of_kind(model.kind).processes for model in on_gpu)

    def held(self, held: Usage) -> Amounts:
        """The usage as amounts, to be held against a forecast."""
        return self._amounts(held, held.memory, {}, own=0)

    def growth(self, demand: Demand, held: Usage) -> int:
        """Bytes that a loaded model is expected to grow by, since it did so before."""
        known = self._archives.get(demand.identity)
        return max(0, known.service - held.memory) if known is not None else 0

    def learn(self, demand: Demand, taken: MeasuredLoad) -> None:
        """A load has ended well and took this."""
        self._killed.pop(demand.identity, None)
        before = self._archives.get(demand.identity)
        held = _sum(taken.held.values())
        estimate = self._guess_in_server(demand, taken)
        if taken.in_server is not None:
            in_server = max(0, taken.in_server) if estimate else 0
        else:
            in_server = before.in_server if before is not None else estimate
        service = held.memory + _tables(demand, later=True)
        now = _Footprint(held, service, in_server, taken.gpus)
        if before is not None:
            now = _Footprint(
                _settled(before.load, held),
                _decay(before.service, service),
                _decay(before.in_server, in_server),
                before.gpus if taken.gpus is None else _decay_all(before.gpus, taken.gpus),
            )
        _put(self._archives, demand.identity, now, _ARCHIVES)
        for model in demand.models:
            self._learn_kind(demand, model, taken)

    def killed(self, demand: Demand, free: int) -> None:
        """The kernel killed a process while this was loaded, alone, into so many free bytes."""
        _put(self._killed, demand.identity, free, _ARCHIVES)

    def observe(self, demand: Demand, held: Usage) -> None:
        """A loaded model holds this now; it may have grown since its load."""
        known = self._archives.get(demand.identity)
        if known is not None and held.memory > known.service:
            self._archives[demand.identity] = replace(known, service=held.memory)

    def __len__(self) -> int:
        return len(self._archives)

    @property
    def kinds(self) -> int:
        """Of how many kinds of models something is known."""
        return len(self._kinds)

    def _learn_kind(self, demand: Demand, model: ModelDemand, taken: MeasuredLoad) -> None:
        held = taken.held.get(model.triton_name)
        if model.kind == ENSEMBLE or (held is None and taken.in_server is None):
            return
        if held is None:  # it lives in tritonserver; with others there, who took what is not known
            alone = [it for it in demand.models if it.triton_name not in taken.held]
            if any(it.kind not in (ENSEMBLE, model.kind) for it in alone):
                return
            count = sum(it.instances for it in alone if it.kind == model.kind)
            held = Usage(peak=max(0, taken.in_server or 0) // max(1, count))
        else:
            held = _divide(held, max(1, held.processes))
        payload = model.payload_bytes + held.region
        beside = replace(held, memory=0, peak=max(0, held.peak - payload))
        samples = self._kinds.get(model.kind) or deque(maxlen=_SAMPLES)
        others = [sample for sample in samples if sample[0] != demand.identity]
        _put(self._kinds, model.kind, deque([*others, (demand.identity, beside)], _SAMPLES), _KINDS)

    def _guess(self, model: ModelDemand) -> Usage:
        each = self._of_kind(model.kind)
        memory = each.peak + model.payload_bytes + each.region
        return _multiply(replace(each, memory=memory, peak=memory), model.instances)

    def _of_kind(self, kind: str) -> Usage:
        """One instance of it, without its weights and its region."""
        samples = [held for _, held in self._kinds.get(kind, ())]
        if samples:
            return sorted(samples, key=lambda held: held.peak)[len(samples) * 3 // 4]
        memory = _FIRST.get(kind, _UNKNOWN_BACKEND) * _MIB
        if kind in PYTHON_KINDS or kind in _STAND_INS:
            tasks = _THREADS + (os.cpu_count() or 1)
            return Usage(peak=memory, region=self._stubs.region, processes=1, tasks=tasks)
        return Usage(peak=memory)

    def _guess_on_gpus(self, demand: Demand, gpus: Collection[int]) -> dict[int, int]:
        """Its files' sizes and a context for each process, on each GPU that its models may use."""
        total: dict[int, int] = {}
        for model in demand.models:
            context = _CONTEXT if self._of_kind(model.kind).processes else 0
            for gpu, instances in model.on_gpus.items():
                if gpu in gpus:
                    taken = instances * (model.payload_bytes + context)
                    total[gpu] = total.get(gpu, 0) + taken
        return total

    def _guess_in_server(self, demand: Demand, taken: MeasuredLoad) -> int:
        """A guess of what those models take that have no stubs."""
        inside = (model for model in demand.models if model.triton_name not in taken.held)
        return sum(self._guess(model).memory for model in inside if model.kind != ENSEMBLE)

    def _amounts(
        self, held: Usage, memory: int, gpus: Mapping[int, int], own: int = _OWN
    ) -> dict[Resource, int]:
        stubs = held.processes
        return {
            MEMORY: memory + stubs * _BESIDE,
            SHARED_MEMORY: held.region,
            TASKS: held.tasks + stubs * (self._stubs.threads + _THREADS),
            DESCRIPTORS: stubs * _DESCRIPTORS,
            OWN_DESCRIPTORS: own,
            **{gpu_memory(gpu): amount for gpu, amount in gpus.items()},
        }


def _tables(demand: Demand, later: bool = False) -> int:
    """Bytes of category files' rows; later: of those that are read at the first request alone.

    One process writes a compiled workflow's tables, before its instances begin, and then ends.
    """
    return sum(
        model.table_bytes * (model.instances if model.kind != COMPILED else not later)
        for model in demand.models
    )


def _put(table: OrderedDict[str, _T], key: str, value: _T, most: int) -> None:
    table[key] = value
    table.move_to_end(key)
    while len(table) > most:
        table.popitem(last=False)


def _decay(before: int, now: int) -> int:
    return max(now, (before + now) // 2)


def _decay_all(before: Mapping[int, int] | None, now: Mapping[int, int]) -> dict[int, int]:
    before = before or {}
    return {gpu: _decay(before.get(gpu, 0), now.get(gpu, 0)) for gpu in {*before, *now}}


def _settled(before: Usage, now: Usage) -> Usage:
    return replace(now, peak=_decay(before.peak, now.peak))


def _sum(held: Iterable[Usage]) -> Usage:
    return sum(held, Usage())


def _divide(held: Usage, count: int) -> Usage:
    return Usage(*(value // count for value in vars(held).values()))


def _multiply(held: Usage, count: int) -> Usage:
    return Usage(*(value * count for value in vars(held).values()))
