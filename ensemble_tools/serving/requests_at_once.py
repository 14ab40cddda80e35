"""How many requests of a plan Triton is to have at once: enough that it never idles. No I/O.

What is sent beyond that does not come back sooner: it only stands in a queue of Triton's, where it
cannot be taken away again. So the number is what the models' instances work on, once more where
batches are to be filled while others are computed, and a few that come in between two.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from ensemble_tools.archive.instance_groups import find_instances
from ensemble_tools.archive.model_config import (
    find_queue_bound,
    parse_model_config,
)
from ensemble_tools.serving.serving_plan import PublishedModel, QueueBound, ServingPlan

#: How many more than what the models do at once.
_SPARE = 1
#: Where batches are filled: one that is computed, and one that is filled meanwhile.
_BATCHES = 2
#: What is assumed of a model whose config Triton completes: it may add dynamic batching, with
#: batches of 4 (--default-max-batch-size), and start two instances.
_COMPLETED = 2 * 2 * 4
#: The word in a config's text.
_IN_FLIGHT = "max_inflight_requests"


def count_requests_at_once(plan: ServingPlan, gpus: int = 0) -> int | None:
    """The number for all models of a plan; gpus: of the machine.

    None where Triton must have every request at once: a sequence can wait for the end of another,
    whose next request then may not stand behind it; a queue of Triton's with priorities or bounds
    of its own orders and refuses only what it has; and of a decoupled model nobody knows how many
    requests an instance works on. Where bounds were taken from queues with priorities
    (QueueBound), Triton has as many to order.
    """
    total = 0
    for model in plan.models:
        number = _count_for_model(model, gpus, plan.queue)
        if number is None:
            return None
        total += number
    return total + _SPARE


def limit_requests_at_once(plan: ServingPlan) -> int | None:
    """How many requests Triton may have at most, by `max_inflight_requests` of its ensembles.

    From 26.04 on one that is too many for a step waits in the thread that brought it (core
    a02b0c0): in one of the few that read HTTP, for all models. None for any number.
    """
    if not any(_IN_FLIGHT in (model.config_text or "") for model in plan.models):
        return None
    configs = {it.triton_name: it.config for it in plan.models}
    graphs = {name: config.ensemble_scheduling for name, config in configs.items()}
    uses = Counter(step.model_name for graph in graphs.values() for step in graph.step)
    return min(
        (
            max(1, graph.max_inflight_requests // max(1, uses[name]))
            for name, graph in graphs.items()
            if graph.max_inflight_requests
        ),
        default=None,
    )


def _count_for_model(model: PublishedModel, gpus: int, queue: QueueBound | None) -> int | None:
    if model.triton_config is None:
        return _COMPLETED
    config = parse_model_config(model.triton_config, Path(model.triton_name))
    if config.is_ensemble:
        return 0
    message = config.message
    if message.model_transaction_policy.decoupled or message.HasField("sequence_batching"):
        return None
    count = find_instances(message, gpus, with_passive=False).count
    if not message.HasField("dynamic_batching"):
        return count
    at_once = count * max(1, config.max_batch_size)
    has_priorities = message.dynamic_batching.priority_levels > 0
    if find_queue_bound(message) or (has_priorities and queue is None):
        return None
    if queue is None:
        return _BATCHES * at_once
    # No more are to wait in Triton than its author says.
    return at_once + queue.most if has_priorities else at_once
