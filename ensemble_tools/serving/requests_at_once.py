"""PURE. How many requests of a plan Triton is to have at once: enough that it never idles.

What is sent beyond that does not come back sooner: it only stands in a queue of Triton's, where it
cannot be taken away again. So the number is what the models' instances work on, once more where
batches are to be filled while others are computed, and a few that come in between two.
"""

from __future__ import annotations

from pathlib import Path

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.model_config import most_queued, parse_model_config
from ensemble_tools.serving.serving_plan import PublishedModel, ServingPlan

#: However little the models do at once; and how many more than what they do.
_LEAST, _SPARE = 4, 2
#: What is assumed of a model whose config Triton completes: it may add dynamic batching, with
#: batches of 4 (--default-max-batch-size), and start two instances.
_COMPLETED = 2 * 2 * 4
#: Of these Triton starts two instances on a CPU unless it is told otherwise (triton core,
#: SetDefaultInstanceCount).
_TWO_ON_CPU = frozenset({"tensorflow", "onnxruntime"})


def count_requests_at_once(plan: ServingPlan, gpus: int = 0) -> int | None:
    """The number for all models of a plan; gpus: of the machine.

    None where Triton must have every request at once: a sequence can wait for the end of another,
    whose next request then may not stand behind it; a queue of Triton's with priorities or bounds
    of its own orders and refuses only what it has; and of a decoupled model nobody knows how many
    requests an instance works on.
    """
    total = 0
    for model in plan.models:
        number = _count_for_model(model, gpus)
        if number is None:
            return None
        total += number
    return max(_LEAST, total + _SPARE)


def _count_for_model(model: PublishedModel, gpus: int) -> int | None:
    if model.config_text is None:
        return _COMPLETED
    config = parse_model_config(model.config_text, Path(model.triton_name))
    if config.is_ensemble:
        return 0
    message = config.message
    if message.model_transaction_policy.decoupled or message.HasField("sequence_batching"):
        return None
    count = _count_instances(message, config.backend or config.platform.partition("_")[0], gpus)
    if not message.HasField("dynamic_batching"):
        return count
    if _orders_its_queue(message):
        return None
    return 2 * count * max(1, config.max_batch_size)


def _orders_its_queue(message: pb.ModelConfig) -> bool:
    return message.dynamic_batching.priority_levels > 0 or most_queued(message) > 0


def _count_instances(message: pb.ModelConfig, backend: str, gpus: int) -> int:
    if not message.instance_group:
        return gpus or (2 if backend in _TWO_ON_CPU else 1)
    return sum(
        max(1, group.count) * _count_devices(group, gpus)
        for group in message.instance_group
        if not group.passive
    )


def _count_devices(group: pb.ModelInstanceGroup, gpus: int) -> int:
    """On how many devices each of a group's instances stands."""
    if group.kind == pb.ModelInstanceGroup.KIND_CPU:
        return 1
    if group.gpus:
        return len(group.gpus)
    return 1 if group.kind == pb.ModelInstanceGroup.KIND_MODEL else max(1, gpus)
