"""How a model comes to an instance of a plan: onto the disk, into its room, into the memory.

As holdings has it, and by the same decisions; what they wait for is seconds of the plan.
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
from merlin_simulator.planning.demand import Chance, Setting
from merlin_simulator.planning.instances import (
    Counts,
    Happening,
    Places,
    PlannedInstance,
    Toil,
    Work,
)

#: Between two looks whether a model in use is idle, of what cannot do without its place.
_AGAIN_S = 1.0
#: The first of them, which grow.
_LOOK_S = 0.05

#: Work with an answer: whether it came to what was wanted.
Answer = Generator["float | Places | Toil", None, bool]


class Ended(Enum):
    """How a model's coming has ended."""

    LOADED = "it is loaded"
    NO_DISK = "its archive found no place"
    NO_MEMORY = "the container refused it"


class Bringing:
    """Archives by number. evict: a model leaves an instance for another, which takes so many
    seconds. touch: the router sees another instance than before.
    """

    def __init__(
        self,
        happening: Happening,
        setting: Setting,
        chance: Chance,
        counts: Counts,
        evict: Callable[[PlannedInstance, int], float],
        touch: Callable[[PlannedInstance], None],
    ) -> None:
        self._happening, self.archives = happening, setting.archives
        self._rules, self._chance = setting.rules, chance
        self._numbers = {figures.name: number for number, figures in enumerate(setting.archives)}
        self._loads_in_order = [iter(loads) for loads in setting.loads_in_order]
        self._counts, self._evict, self._touch = counts, evict, touch

    def bring(
        self, model: int, instance: PlannedInstance, course: Course
    ) -> Generator[float | Places | Toil, None, Ended]:
        """Until it is loaded, or is not to be."""
        happening = self._happening
        course.enter(Stage.TURN)
        if model in instance.on_disk:
            del instance.on_disk[model]
        elif not (yield from self._arrived(model, instance, course)):
            return Ended.NO_DISK
        course.enter(Stage.TURN)
        yield instance.soon
        instance.coming[model] = self.archives[model].memory
        self._touch(instance)
        course.enter(Stage.ROOM)
        yield from self._made_room(model, instance)
        instance.admitted.add(model)
        course.enter(Stage.TURN)
        yield instance.loads
        course.enter(Stage.LOAD)
        yield from self._load(model, instance)
        happening.give_back(instance.loads)
        refused = instance.lacks(self.archives[model]) and not (
            yield from self._loaded_after_507(model, instance)
        )
        happening.give_back(instance.soon)
        del instance.coming[model]
        instance.admitted.remove(model)
        if refused:
            instance.on_disk[model] = happening.now
        return Ended.NO_MEMORY if refused else Ended.LOADED

    def _arrived(self, model: int, instance: PlannedInstance, course: Course) -> Answer:
        """Onto the disk; away again while others need its place there, and then once more."""
        figures, happening, disk = self.archives[model], self._happening, instance.machine.disk
        deadline = happening.now + self._rules.load_timeout_s
        while True:
            instance.fetching += 1
            self._touch(instance)
            course.enter(Stage.TURN)
            yield instance.downloads
            course.enter(Stage.DOWNLOAD)
            yield self._chance.draw(figures.download_s)
            happening.give_back(instance.downloads)
            instance.fetching -= 1
            instance.used_disk += figures.disk
            if disk is None:
                return True
            course.enter(Stage.TURN)
            yield instance.disk_turns
            course.enter(Stage.ROOM)
            has_room = yield from self._made_disk_room(model, instance)
            happening.give_back(instance.disk_turns)
            if has_room:
                return True
            instance.used_disk -= figures.disk
            others, over = instance.has_others, happening.now > deadline
            turn = FullDisk(figures.disk, disk, others, others, over)
            if decide_after_full_disk(turn) is Step.GIVE_UP:
                return False
            yield _AGAIN_S

    def _load(self, model: int, instance: PlannedInstance) -> Work:
        figures = self.archives[model]
        instance.loading[model] = int(figures.memory * figures.loading_share)
        self._touch(instance)
        yield Toil(instance.cores, self._load_seconds(model), figures.load_cores)
        del instance.loading[model]

    def _load_seconds(self, model: int) -> float:
        kinds = self._loads_in_order
        known = next(kinds[model % len(kinds)], None) if kinds else None
        return self._chance.draw(self.archives[model].load_s) if known is None else known

    def _loaded_after_507(self, model: int, instance: PlannedInstance) -> Answer:
        """Whether it is loaded after the container has refused it: one more leaves for each try."""
        figures = self.archives[model]
        deadline = self._happening.now + self._rules.load_timeout_s
        for _ in range(self._rules.evictions_per_call):
            if not instance.could_hold(figures):
                return False
            yield instance.room_turn
            left = yield from self._evicted_another(model, instance, deadline)
            self._happening.give_back(instance.room_turn)
            if not left:
                return False
            self._counts.evictions_507 += 1
            if not instance.lacks(figures):
                yield from self._load(model, instance)
                return True
        return False

    def _made_room(self, model: int, instance: PlannedInstance) -> Work:
        """As many leave as are needed; with all in use the container has the last word."""
        wish = self._happening.now + WISH_S
        for _ in range(self._rules.evictions_per_call):
            yield instance.room_turn
            turn = instance.memory_turn(model, self._happening.now)
            self._happening.give_back(instance.room_turn)
            step = Step.DONE if turn is None else decide_memory(turn)
            if isinstance(step, UnloadAll):
                leaving = [
                    self._evict(instance, self._numbers[name]) for name in step.target_models
                ]
                yield max(leaving)
            elif step is Step.WAIT:
                yield instance.next_left(self._happening.now)
            elif step is Step.EVICT:
                yield instance.room_turn
                left = yield from self._evicted_another(model, instance, wish)
                self._happening.give_back(instance.room_turn)
                if not left:
                    return
            else:
                return

    def _made_disk_room(self, model: int, instance: PlannedInstance) -> Answer:
        """Whether the archive has its place, after others lost theirs."""
        figures, budget = self.archives[model], instance.machine.disk
        wish = self._happening.now + WISH_S
        while True:
            held = instance.oldest_on_disk()
            turn = DiskTurn(held, figures.name, figures.disk, instance.used_disk, budget)
            step = decide_disk(turn)
            if isinstance(step, Delete):
                deleted = self._numbers[step.target_model]
                del instance.on_disk[deleted]
                instance.used_disk -= self.archives[deleted].disk
            elif step is Step.EVICT:
                yield instance.room_turn
                left = yield from self._evicted_another(model, instance, wish)
                self._happening.give_back(instance.room_turn)
                if not left:
                    return False
            else:
                return step is Step.DONE

    def _evicted_another(self, model: int, instance: PlannedInstance, deadline: float) -> Answer:
        """Whether another one has left for a model; one in use is waited for until then."""
        pause = _LOOK_S
        while True:
            now = self._happening.now
            turn = instance.eviction_turn(model, now, now >= deadline)
            step = decide_eviction(turn)
            if isinstance(step, Unload):
                yield self._evict(instance, self._numbers[step.target_model])
                return True
            if step is not Step.WAIT:
                return False
            yield min(instance.next_idle(now) or pause, deadline - now)
            pause = min(_AGAIN_S, 2 * pause)
