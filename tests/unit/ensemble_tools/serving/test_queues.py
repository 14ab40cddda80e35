"""No step of an ensemble has a queue that is ever full; as many requests wait in front of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools import Form, ServingPlan, count_requests_at_once
from ensemble_tools.archive.model_config import drop_queue_bound, find_queue_bound
from ensemble_tools.serving.plan import PublishedModel
from ensemble_tools.serving.queues import describe_queue, open_queues
from ensemble_tools.serving.serving_plan import QueueBound

ENSEMBLE = 'platform: "ensemble" ensemble_scheduling { %s }'
STEP = 'step { model_name: "m.%s" }'
BOUND = 'backend: "python" dynamic_batching { default_queue_policy { max_queue_size: %d } }'


def planned(**configs: str) -> ServingPlan:
    """Of the models m.a, m.b, …, the entry model m among them."""
    names = {name: "m" if name == "m" else f"m.{name}" for name in configs}
    models = (PublishedModel(names[name], name, text) for name, text in configs.items())
    return ServingPlan("m", Form.AS_DELIVERED, "m", tuple(models))


def with_open_queues(plan: ServingPlan) -> ServingPlan:
    models, queue = open_queues(plan.models)
    return replace(plan, models=models, queue=queue)


@pytest.mark.parametrize(
    ("written", "most"),
    [
        ("default_queue_policy { max_queue_size: 3 }", 3),
        ("default_queue_policy: <max_queue_size:3;timeout_action: DELAY>", 3),
        ("default_queue_policy{timeout_action:REJECT max_queue_size : 0x1F # 7\n}", 31),
        ("default_queue_policy { max_queue_size: 0 }", 0),
        ("priority_levels: 2 priority_queue_policy { key: 2 value { max_queue_size: 5 } }", 5),
        (
            "default_queue_policy { max_queue_size: 9 } priority_queue_policy: [ { key: 1 "
            "value: { max_queue_size: 8 } }, { key: 2 value < max_queue_size: 7 > } ]",
            7,
        ),
        ("max_queue_delay_microseconds: 3 preferred_batch_size: [ 2, 4 ]", 0),
    ],
)
def test_how_it_is_written(written: str, most: int) -> None:
    """Every bound goes, and nothing else of the config, whatever it looks like."""
    parameter = 'parameters { key: "max_queue_size" value { string_value: "6" } }'
    text = f'name: "max_queue_size: 4" {parameter} '
    text += f"dynamic_batching {{ {written} }}"
    message = text_format.Parse(text, pb.ModelConfig())
    assert find_queue_bound(message) == most
    message.dynamic_batching.default_queue_policy.max_queue_size = 0
    for policy in message.dynamic_batching.priority_queue_policy.values():
        policy.max_queue_size = 0
    opened = text_format.Parse(drop_queue_bound(text), pb.ModelConfig())
    for it in (message, opened):  # one that is empty is as none
        it.dynamic_batching.default_queue_policy.SetInParent()
    assert opened == message


def test_steps() -> None:
    """Of ensembles, inner ones too: the least bound is the model's. Others keep their own."""
    inner = ENSEMBLE % (STEP % "a")
    outer = ENSEMBLE % (STEP % "i" + STEP % "b")
    plan = planned(a=BOUND % 5, b=BOUND % 3, called=BOUND % 2, i=inner, m=outer)
    opened = with_open_queues(plan)
    texts = {model.source_name: model.config_text or "" for model in opened.models}
    assert opened.queue == QueueBound(3, "b")
    assert "max_queue_size: 0" in texts["a"]
    assert "max_queue_size: 0" in texts["b"]
    assert texts["called"] == BOUND % 2
    assert "b lets 3 requests wait (max_queue_size)" in describe_queue(opened.queue)[0]


@pytest.mark.parametrize(
    "configs", [{"m": BOUND % 2}, {"a": 'backend: "python"', "m": ENSEMBLE % (STEP % "a")}]
)
def test_no_step_has_a_bound(configs: dict[str, str]) -> None:
    """The models are those that they were; a model alone is refused by its own queue."""
    models = planned(**configs).models
    assert open_queues(models) == (models, None)
    assert describe_queue(None) == ()


def test_who_waits_where() -> None:
    """tritonserver is given what fills a batch, and the rest waits where it can leave."""
    batches = "max_batch_size: 4 " + BOUND % 3
    plan = planned(a=batches, m=ENSEMBLE % (STEP % "a"))
    assert count_requests_at_once(plan) is None
    assert count_requests_at_once(with_open_queues(plan)) == 5


def test_queue_with_priorities() -> None:
    """tritonserver orders as many as may wait, and its queue has an end all the same."""
    policies = "priority_queue_policy { key: 1 value { max_queue_size: 3 } }"
    batching = f"dynamic_batching {{ priority_levels: 2 {policies} }}"
    plan = planned(a=f'backend: "python" max_batch_size: 4 {batching}', m=ENSEMBLE % (STEP % "a"))
    assert count_requests_at_once(with_open_queues(plan)) == 8
