"""Loads a model on a simulated instance: download, room on the disk, room in memory, load.

The sequence is that of instance/holdings.py, by the same decisions; waits are simulated seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum

from merlin_simulator.instance.decisions import (
    Course,
    Delete,
    DiskTurn,
    FullDisk,
    Stage,
    Step,
    Unload,
    UnloadAll,
    decide_after_full_disk,
    decide_disk,
    decide_eviction,
    decide_memory,
)
from merlin_simulator.instance.memory import WISH_S
from merlin_simulator.simulation.event_clock import CpuWork, EventClock, Slots, Work
from merlin_simulator.simulation.instances import Counts, SimulatedInstance
from merlin_simulator.simulation.scenario import Sampler, Scenario

#: Seconds between two attempts while all models are in use: the first pause, and the longest.
_FIRST_PAUSE_S, _RETRY_S = 0.05, 1.0

#: Work that returns whether it succeeded.
Attempt = Generator["float | Slots | CpuWork", None, bool]


class LoadResult(Enum):
    """How a load ended."""

    LOADED = "it is loaded"
    NO_DISK = "the disk has no room for its archive"
    NO_MEMORY = "the container refused it"


class Loader:
    """Loads archives, which are named by their numbers.

    start_eviction: unloads a model and returns the seconds until it has left. on_change: called
    when an instance's memory or models change.
    """

    def __init__(
        self,
        clock: EventClock,
        scenario: Scenario,
        sampler: Sampler,
        counts: Counts,
        start_eviction: Callable[[SimulatedInstance, int], float],
        on_change: Callable[[SimulatedInstance], None],
    ) -> None:
        self._clock, self.archives = clock, scenario.archives
        self._rules, self._sampler = scenario.rules, sampler
        self._model_by_name = {
            figures.name: number for number, figures in enumerate(scenario.archives)
        }
        self._known_loads = [iter(loads) for loads in scenario.loads_in_order]
        self._counts, self._start_eviction, self._on_change = counts, start_eviction, on_change

    def load(
        self, model: int, instance: SimulatedInstance, course: Course
    ) -> Generator[float | Slots | CpuWork, None, LoadResult]:
        """Bring a model to an instance; course notes what it waits for."""
        clock = self._clock
        course.enter(Stage.TURN)
        if model in instance.on_disk:
            del instance.on_disk[model]
        elif not (yield from self._download(model, instance, course)):
            return LoadResult.NO_DISK
        course.enter(Stage.TURN)
        yield instance.upcoming_slots
        instance.pending[model] = self.archives[model].memory
        self._on_change(instance)
        course.enter(Stage.ROOM)
        yield from self._make_room(model, instance)
        instance.admitted.add(model)
        course.enter(Stage.TURN)
        yield instance.load_slots
        course.enter(Stage.LOAD)
        yield from self._run_load(model, instance)
        clock.release(instance.load_slots)
        refused = instance.lacks(self.archives[model]) and not (
            yield from self._load_after_507(model, instance)
        )
        clock.release(instance.upcoming_slots)
        del instance.pending[model]
        instance.admitted.remove(model)
        if refused:
            instance.on_disk[model] = clock.now
        return LoadResult.NO_MEMORY if refused else LoadResult.LOADED

    def _download(self, model: int, instance: SimulatedInstance, course: Course) -> Attempt:
        """Download an archive; if the disk has no room, remove it, wait and download it again."""
        figures, clock, disk = self.archives[model], self._clock, instance.instance_spec.disk
        deadline = clock.now + self._rules.load_timeout_s
        while True:
            instance.downloading += 1
            self._on_change(instance)
            course.enter(Stage.TURN)
            yield instance.download_slots
            course.enter(Stage.DOWNLOAD)
            yield self._sampler.draw(figures.download_s)
            clock.release(instance.download_slots)
            instance.downloading -= 1
            instance.used_disk += figures.disk
            if disk is None:
                return True
            course.enter(Stage.TURN)
            yield instance.disk_slot
            course.enter(Stage.ROOM)
            has_room = yield from self._make_disk_room(model, instance)
            clock.release(instance.disk_slot)
            if has_room:
                return True
            instance.used_disk -= figures.disk
            others, over = instance.has_others, clock.now > deadline
            turn = FullDisk(figures.disk, disk, others, others, over)
            if decide_after_full_disk(turn) is Step.GIVE_UP:
                return False
            yield _RETRY_S

    def _run_load(self, model: int, instance: SimulatedInstance) -> Work:
        figures = self.archives[model]
        instance.loading[model] = int(figures.memory * figures.loading_share)
        self._on_change(instance)
        yield CpuWork(instance.cores, self._load_seconds(model), figures.load_cores)
        del instance.loading[model]

    def _load_seconds(self, model: int) -> float:
        kinds = self._known_loads
        known = next(kinds[model % len(kinds)], None) if kinds else None
        return self._sampler.draw(self.archives[model].load_s) if known is None else known

    def _load_after_507(self, model: int, instance: SimulatedInstance) -> Attempt:
        """After the container refused the model: evict another one and try again, several times."""
        figures = self.archives[model]
        deadline = self._clock.now + self._rules.load_timeout_s
        for _ in range(self._rules.evictions_per_call):
            if not instance.could_hold(figures):
                return False
            yield instance.eviction_slot
            has_left = yield from self._evict_another(model, instance, deadline)
            self._clock.release(instance.eviction_slot)
            if not has_left:
                return False
            self._counts.evictions_507 += 1
            if not instance.lacks(figures):
                yield from self._run_load(model, instance)
                return True
        return False

    def _make_room(self, model: int, instance: SimulatedInstance) -> Work:
        """Unload others until memory suffices; if all are in use, the container may refuse."""
        deadline = self._clock.now + WISH_S
        for _ in range(self._rules.evictions_per_call):
            yield instance.eviction_slot
            turn = instance.memory_turn(model, self._clock.now)
            self._clock.release(instance.eviction_slot)
            step = Step.DONE if turn is None else decide_memory(turn)
            if isinstance(step, UnloadAll):
                seconds = [
                    self._start_eviction(instance, self._model_by_name[name])
                    for name in step.target_models
                ]
                yield max(seconds)
            elif step is Step.WAIT:
                yield instance.next_left(self._clock.now)
            elif step is Step.EVICT:
                yield instance.eviction_slot
                has_left = yield from self._evict_another(model, instance, deadline)
                self._clock.release(instance.eviction_slot)
                if not has_left:
                    return
            else:
                return

    def _make_disk_room(self, model: int, instance: SimulatedInstance) -> Attempt:
        """Delete other archives until the disk is within its budget."""
        figures, budget = self.archives[model], instance.instance_spec.disk
        deadline = self._clock.now + WISH_S
        while True:
            held = instance.oldest_on_disk()
            turn = DiskTurn(held, figures.name, figures.disk, instance.used_disk, budget)
            step = decide_disk(turn)
            if isinstance(step, Delete):
                deleted = self._model_by_name[step.target_model]
                del instance.on_disk[deleted]
                instance.used_disk -= self.archives[deleted].disk
            elif step is Step.EVICT:
                yield instance.eviction_slot
                has_left = yield from self._evict_another(model, instance, deadline)
                self._clock.release(instance.eviction_slot)
                if not has_left:
                    return False
            else:
                return step is Step.DONE

    def _evict_another(self, model: int, instance: SimulatedInstance, deadline: float) -> Attempt:
        """Evict one other model; wait until the deadline for one that is in use."""
        pause = _FIRST_PAUSE_S
        while True:
            now = self._clock.now
            turn = instance.eviction_turn(model, now, now >= deadline)
            step = decide_eviction(turn)
            if isinstance(step, Unload):
                yield self._start_eviction(instance, self._model_by_name[step.target_model])
                return True
            if step is not Step.WAIT:
                return False
            yield min(instance.next_idle(now) or pause, deadline - now)
            pause = min(_RETRY_S, 2 * pause)
