"""Which model leaves, and when: pure decisions over what an instance holds.

AWS ("How multi-model endpoints work"): when memory is used up and another model is needed, unused
models are unloaded; their archives stay on the disk until that is full. In which order it does not
say: here the least recently used goes first, and never one that somebody waits for or asks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from merlin_simulator.watch.view import ModelState


@dataclass(frozen=True)
class HeldModel:
    """A model that an instance holds. wanted: callers wait for it or ask it now. Bytes, seconds."""

    target_model: str
    state: ModelState
    wanted: bool
    last_used: float
    memory: int | None
    disk: int


def choose_unload(held: Iterable[HeldModel], keep: Collection[str] = ()) -> str | None:
    """The least recently used of the loaded models that nobody wants."""
    return _least_recent(
        model
        for model in held
        if model.state is ModelState.LOADED and not model.wanted and model.target_model not in keep
    )


def choose_unloads(held: Sequence[HeldModel], needed: int) -> tuple[str, ...]:
    """So many of the loaded models that nobody wants that they give back needed bytes, or all.

    The least recently used first; at least one if there is one.
    """
    idle = [model for model in held if model.state is ModelState.LOADED and not model.wanted]
    chosen: list[str] = []
    for model in sorted(idle, key=_age):
        chosen.append(model.target_model)
        needed -= expect_memory(model.memory, held)
        if needed <= 0:
            break
    return tuple(chosen)


def choose_delete(held: Iterable[HeldModel], keep: Collection[str] = ()) -> str | None:
    """The least recently used of the archives on disk that are not loaded and nobody wants."""
    return _least_recent(
        model
        for model in held
        if model.state is ModelState.ON_DISK and not model.wanted and model.target_model not in keep
    )


def may_become_free(held: Iterable[HeldModel], keep: Collection[str] = ()) -> bool:
    """Whether waiting can help: another model is asked, loading or leaving now."""
    moving = (ModelState.LOADED, ModelState.LOADING, ModelState.UNLOADING)
    return any(model.state in moving and model.target_model not in keep for model in held)


def expect_memory(known: int | None, held: Iterable[HeldModel]) -> int:
    """What a model will need: what it needed before, else the others' median, else nothing."""
    if known is not None:
        return known
    sizes = [model.memory for model in held if model.memory is not None]
    return int(median(sizes)) if sizes else 0


def _least_recent(models: Iterable[HeldModel]) -> str | None:
    oldest = min(models, key=_age, default=None)
    return oldest.target_model if oldest else None


def _age(model: HeldModel) -> tuple[float, str]:
    return model.last_used, model.target_model
