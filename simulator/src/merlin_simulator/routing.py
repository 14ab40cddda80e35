"""Which instance answers: a decision over what each of them holds.

AWS ("How multi-model endpoints work"): later requests for a model go to an instance that has it;
where that one is busy, another instance loads a copy; where an instance is gone, so do the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """An instance in service, seen from one target model.

    coming: the model is being brought there. memory is used/limit, None: not known.
    """

    name: str
    loaded: bool
    coming: bool
    model_in_flight: int
    in_flight: int
    models: int
    memory: float | None


@dataclass(frozen=True)
class Route:
    """The instance that answers, and the one that should load a copy meanwhile, if any."""

    name: str
    copy_to: str | None = None


def route(candidates: Sequence[Candidate], busy_at: int) -> Route | None:
    """Where a request goes; None without an instance in service."""
    loaded = [candidate for candidate in candidates if candidate.loaded]
    coming = [candidate for candidate in candidates if candidate.coming and not candidate.loaded]
    others = [
        candidate for candidate in candidates if not candidate.coming and not candidate.loaded
    ]
    if not loaded:
        # Those who wait for a model wait together.
        fitting = coming or others
        return Route(min(fitting, key=_emptiness).name) if fitting else None
    least_busy = min(loaded, key=lambda candidate: (candidate.model_in_flight, candidate.in_flight))
    if others and not coming and least_busy.model_in_flight >= busy_at:
        return Route(least_busy.name, copy_to=min(others, key=_emptiness).name)
    return Route(least_busy.name)


def route_alike(candidates: Sequence[Candidate]) -> Route | None:
    """Where a request goes at a single-model endpoint, whose instances have all the same.

    The least busy one, and any of those: AWS takes any by default ("RoutingStrategy").
    """
    if not candidates:
        return None
    least = min(candidate.in_flight for candidate in candidates)
    return Route(random.choice([one for one in candidates if one.in_flight == least]).name)


def _emptiness(candidate: Candidate) -> tuple[float, int, int, str]:
    """Most free memory first, then fewest models and requests; the name makes it a fixed choice."""
    return (candidate.memory or 0.0, candidate.models, candidate.in_flight, candidate.name)
