"""PURE. ServingPlan -> ServingPlan in which no step of an ensemble has a queue that is ever full.

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
    parse_leniently,
)
from ensemble_tools.serving.serving_plan import PublishedModel, QueueBound, ServingPlan

#: The word in a config's text.
_FIELD = "max_queue_size"


def open_queues(plan: ServingPlan) -> ServingPlan:
    """The plan, whose steps' queues have no bounds, and the least of those that they had."""
    if not any(_FIELD in (model.config_text or "") for model in plan.models):
        return plan
    steps = {step for model in plan.models for step in _list_steps(model)}
    models, bounds = [], []
    for model in plan.models:
        text = model.config_text or ""
        most = find_queue_bound(parse_leniently(text)) if model.triton_name in steps else 0
        if most:
            bounds.append(QueueBound(most, model.source_name))
            model = replace(model, config_text=drop_queue_bound(text))
        models.append(model)
    if not bounds:
        return plan
    least = min(bounds)
    note = (
        f"{least.step} lets {least.most} requests wait (max_queue_size): as many wait in front of "
        "the ensemble instead, since tritonserver before 26.02 never answers one whose step "
        "refuses a request"
    )
    return replace(plan, models=tuple(models), queue=least, notes=(*plan.notes, note))


def _list_steps(model: PublishedModel) -> list[str]:
    config = parse_leniently(model.config_text or "")
    return [step.model_name for step in config.ensemble_scheduling.step]
