"""What an instance decides: what is loaded, refused, evicted, and in which course."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from statistics import median
from typing import Literal

from merlin_simulator.rules import CacheSetting
from merlin_simulator.watch.state import ModelState


class Stage(Enum):
    """The stages of a load, which callers wait for; the values are those of
    watch.events.COLD_PARTS.
    """

    ROOM = "room"  # others leave the memory or the disk for it, or it leaves itself
    TURN = "turn"  # others are downloaded, loaded or given room before it
    DOWNLOAD = "download"
    EXTRACTION = "extraction"
    LOAD = "load"  # the container has it in its hands


class Course:
    """The stages of one load, each from its time to the next one's. Seconds of the clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: list[tuple[float, Stage]] = [(clock(), Stage.TURN)]

    def enter(self, stage: Stage, at: float | None = None) -> None:
        """From now on, or from at, it waits for this; in the order of time."""
        self._begun.append((self._clock() if at is None else at, stage))

    def between(self, start: float, end: float) -> Mapping[Stage, float]:
        """How long each stage went on between the two times; the last one has no end of its own."""
        results: dict[Stage, float] = {}
        ends = [*self._begun, (max(end, self._begun[-1][0]), Stage.LOAD)]
        for (begun, stage), (over, _) in pairwise(ends):
            seconds = min(over, end) - max(begun, start)
            if seconds > 0:
                results[stage] = results.get(stage, 0.0) + seconds
        return results


@dataclass(frozen=True)
class HeldModel:
    """A model that an instance holds; bytes and seconds."""

    target_model: str
    state: ModelState
    wanted: bool  # callers wait for it or ask it now
    last_used: float
    memory: int | None
    disk: int


def _choose_unload(held: Iterable[HeldModel], keep: Collection[str]) -> str | None:
    """The least recently used of the loaded models that nobody wants."""
    return _least_recent(
        model
        for model in held
        if model.state is ModelState.LOADED and not model.wanted and model.target_model not in keep
    )


def _choose_unloads(held: Sequence[HeldModel], needed: int) -> tuple[str, ...]:
    """So many of the loaded models that nobody wants that they give back needed bytes, or all.

    The least recently used first; at least one if there is one.
    """
    idle = [model for model in held if model.state is ModelState.LOADED and not model.wanted]
    chosen: list[str] = []
    for model in sorted(idle, key=_age):
        chosen.append(model.target_model)
        needed -= _expect_memory(model.memory, held)
        if needed <= 0:
            break
    return tuple(chosen)


def _choose_delete(held: Iterable[HeldModel], keep: Collection[str]) -> str | None:
    """The least recently used of the archives on disk that are not loaded and nobody wants."""
    return _least_recent(
        model
        for model in held
        if model.state is ModelState.ON_DISK and not model.wanted and model.target_model not in keep
    )


def _may_become_free(held: Iterable[HeldModel], keep: Collection[str]) -> bool:
    """Whether waiting can help: another model is asked, loading or leaving now."""
    moving = (ModelState.LOADED, ModelState.LOADING, ModelState.UNLOADING)
    return any(model.state in moving and model.target_model not in keep for model in held)


def _expect_memory(known: int | None, held: Iterable[HeldModel]) -> int:
    """Bytes that a model will need: as before, else the others' median, else 0."""
    if known is not None:
        return known
    sizes = [model.memory for model in held if model.memory is not None]
    return int(median(sizes)) if sizes else 0


def _least_recent(models: Iterable[HeldModel]) -> str | None:
    oldest = min(models, key=_age, default=None)
    return oldest.target_model if oldest else None


def _age(model: HeldModel) -> tuple[float, str]:
    return model.last_used, model.target_model


#: What a container answers to a load or an unload, by the contract.
LACKS_MEMORY = 507
NOT_FOUND = 404
ALREADY_LOADED = 409


class Step(Enum):
    """A next step that names no other model."""

    DONE = "there is room"
    WAIT = "another model moves, and there may be room then"
    EVICT = "another model must leave the memory first"
    RETRY = "try again at once"
    GIVE_UP = "there will be no room"


@dataclass(frozen=True)
class Unload:
    """This model leaves the memory."""

    target_model: str


@dataclass(frozen=True)
class Delete:
    """This archive leaves the disk."""

    target_model: str


@dataclass(frozen=True)
class EvictionTurn:
    """The models while one waits for another to leave the memory."""

    held: Sequence[HeldModel]
    spared: Collection[str]  # the model itself, and those that were asked to leave and did not
    has_left: bool  # another one has left since the model began to lack room
    over: bool  # the deadline is past


def decide_eviction(
    turn: EvictionTurn,
) -> Unload | Literal[Step.DONE, Step.WAIT, Step.GIVE_UP]:
    """Who leaves the memory for another model.

    1. One has left: whoever made it do so.
    2. One is loaded and nobody wants it: the least recently used is unloaded.
    3. All are in use, and the time for waiting is over.
    4. One is in use, loads or is being unloaded: it may be free later.
    5. There is no other.
    """
    # 1.
    if turn.has_left:
        return Step.DONE
    # 2.
    idle = _choose_unload(turn.held, turn.spared)
    if idle is not None:
        return Unload(idle)
    # 3.
    if turn.over:
        return Step.GIVE_UP
    # 4.
    if _may_become_free(turn.held, turn.spared):
        return Step.WAIT
    # 5.
    return Step.GIVE_UP


@dataclass(frozen=True)
class MemoryTurn:
    """The memory before a load, in bytes."""

    held: Sequence[HeldModel]
    needed: int | None  # None where nobody knows
    #: Needed by the models before it that are loaded now and not in used yet, or wait for room.
    loading: Sequence[int | None]
    used: int | None  # None where it cannot be seen
    limit: int
    threshold: float


@dataclass(frozen=True)
class UnloadAll:
    """These models leave the memory, at the same time."""

    target_models: tuple[str, ...]


def decide_memory(
    turn: MemoryTurn,
) -> UnloadAll | Literal[Step.DONE, Step.WAIT, Step.EVICT]:
    """Whether a model is loaded at once, or who leaves for it.

    1. The memory cannot be seen: the container has the last word.
    2. With what all that come are expected to need it stays below the threshold.
    3. It will, when those have left that are leaving.
    4. Some are loaded and nobody wants them: as many as are needed are unloaded at once, the least
       recently used first; if all are too few, all.
    5. None is idle, but some are leaving.
    6. None is.
    """
    # 1.
    if turn.used is None:
        return Step.DONE
    # 2.
    coming = sum(_expect_memory(needed, turn.held) for needed in (turn.needed, *turn.loading))
    lack = turn.used + coming - int(turn.limit * turn.threshold)
    if lack <= 0:
        return Step.DONE
    # 3.
    moving = [model for model in turn.held if model.state is ModelState.UNLOADING]
    lack -= sum(_expect_memory(model.memory, turn.held) for model in moving)
    if moving and lack <= 0:
        return Step.WAIT
    # 4.
    if chosen := _choose_unloads(turn.held, lack):
        return UnloadAll(chosen)
    # 5. and 6.
    return Step.WAIT if moving else Step.EVICT


@dataclass(frozen=True)
class DiskTurn:
    """The disk after an archive came onto it, in bytes."""

    held: Sequence[HeldModel]
    target_model: str
    needed: int
    used: int  # its own needed among them
    budget: int | None


def decide_disk(turn: DiskTurn) -> Delete | Literal[Step.DONE, Step.EVICT, Step.GIVE_UP]:
    """Choose what leaves the disk for an archive.

    1. The disk is within its budget, or has none.
    2. The archive is larger than the whole disk.
    3. Another one is not loaded and nobody wants it: the least recently used is deleted.
    4. All others are loaded or wanted: one must leave the memory before it can leave the disk.
    """
    # 1.
    if turn.budget is None or turn.used <= turn.budget:
        return Step.DONE
    # 2.
    if turn.needed > turn.budget:
        return Step.GIVE_UP
    # 3.
    idle = _choose_delete(turn.held, (turn.target_model,))
    if idle is not None:
        return Delete(idle)
    # 4.
    return Step.EVICT


@dataclass(frozen=True)
class FullDisk:
    """The disk after an archive did not fit and was taken away again, in bytes."""

    needed: int
    budget: int
    #: Whether other models were here before it was taken away, with those still brought.
    others_then: bool
    others_now: bool  # whether they are now
    over: bool  # the deadline is past


def decide_after_full_disk(turn: FullDisk) -> Literal[Step.WAIT, Step.RETRY, Step.GIVE_UP]:
    """Whether an archive that found no place is fetched once more.

    1. It is larger than the whole disk, or was alone on it, or the time for waiting is over.
    2. Others are here: not before one of them moves.
    3. They have left meanwhile.
    """
    # 1.
    if turn.needed > turn.budget or not turn.others_then or turn.over:
        return Step.GIVE_UP
    # 2.
    if turn.others_now:
        return Step.WAIT
    # 3.
    return Step.RETRY


class AfterUse(Enum):
    """The fate of a model that nobody asks for, loads or removes any more."""

    STAY = "it stays as it is"
    FORGET = "its record goes"
    UNLOAD = "it leaves the memory"
    DELETE = "it leaves the disk"


def decide_after_use(state: ModelState | None, cache: CacheSetting) -> AfterUse:
    """By its state; None: nothing of it is here.

    1. Nothing is here: callers may make up any number of names.
    2. Models are cached.
    3. They are not, and it is loaded; it is asked again when it is unloaded.
    4. They are not, and it is on the disk.
    """
    # 1.
    if state is None:
        return AfterUse.FORGET
    # 2.
    if cache is not CacheSetting.DISABLED:
        return AfterUse.STAY
    # 3.
    if state is ModelState.LOADED:
        return AfterUse.UNLOAD
    # 4.
    return AfterUse.DELETE


@dataclass(frozen=True)
class MemoryBefore:
    """Memory before a load, and the count of moves then: it says whether others moved too."""

    used: int | None
    moves: int


def find_added_memory(before: MemoryBefore, used: int | None, moves: int) -> int | None:
    """Bytes that a load has added, for a model without processes of its own; None: not known.

    1. The memory was not seen before.
    2. Others moved too: what was added may be theirs.
    3. Others gave back as much.
    4. It moved alone.
    """
    # 1.
    if before.used is None:
        return None
    # 2.
    if before.moves != moves:
        return None
    added = (used or 0) - before.used
    # 3.
    if added <= 0:
        return None
    # 4.
    return added
