"""Models -> models of which no step of an ensemble has a queue that is ever full. No I/O.

Before 26.02 tritonserver never answers an ensemble's request of which one step is refused by its
queue while another step runs, nor unloads that ensemble again (core 5280db8; seen with 2.36 and
2.51). So `max_queue_size` of a step goes, and as many requests wait in front of the ensemble: who
comes then is refused by the container, as tritonserver would have done it.
"""

from __future__ import annotations

from dataclasses import replace

from ensemble_tools.archive.model_config import (
    drop_queue_bound,
    find_queue_bound,
)
from ensemble_tools.serving.serving_plan import PublishedModel, QueueBound

#: The word in a config's text.
_FIELD = "max_queue_size"


def open_queues(
    models: tuple[PublishedModel, ...],
) -> tuple[tuple[PublishedModel, ...], QueueBound | None]:
    """The models, whose steps' queues have no bounds, and the least of those that they had."""
    if not any(_FIELD in (model.config_text or "") for model in models):
        return models, None
    steps = {step for model in models for step in _list_steps(model)}
    opened, bounds = [], []
    for model in models:
        text = model.config_text or ""
        most = find_queue_bound(model.config) if model.triton_name in steps else 0
        if most:
            bounds.append(QueueBound(most, model.source_name))
            model = replace(model, config_text=drop_queue_bound(text))
        opened.append(model)
    return tuple(opened), min(bounds, default=None)


def describe_queue(queue: QueueBound | None) -> tuple[str, ...]:
    """A sentence about the bound, if there is one."""
    if queue is None:
        return ()
    return (
        f"{queue.step} lets {queue.most} requests wait (max_queue_size): as many wait in front of "
        "the ensemble instead, since tritonserver before 26.02 never answers one whose step "
        "refuses a request",
    )


def _list_steps(model: PublishedModel) -> list[str]:
    return [step.model_name for step in model.config.ensemble_scheduling.step]
