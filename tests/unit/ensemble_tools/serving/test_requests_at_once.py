"""How many requests of a plan Triton is to have at once."""

from __future__ import annotations

import pytest

from ensemble_tools import Form, ServingPlan, count_requests_at_once, limit_requests_at_once
from ensemble_tools.serving.plan import PublishedModel

ENSEMBLE = 'platform: "ensemble"\nensemble_scheduling { step { model_name: "m" } }\n'
PYTHON = 'backend: "python"\n'
BATCHES = "max_batch_size: 8\n"
QUEUE = "default_queue_policy { max_queue_size: 3 }"


def planned(*configs: str | None) -> ServingPlan:
    """A plan of one model for each config."""
    models = (PublishedModel(f"m{n}", f"m{n}", text) for n, text in enumerate(configs))
    return ServingPlan("m", Form.AS_DELIVERED, "m0", tuple(models))


@pytest.mark.parametrize(
    ("config", "gpus", "number"),
    [
        (PYTHON, 0, 2),
        (PYTHON + BATCHES, 0, 2),
        (PYTHON + "instance_group { kind: KIND_CPU count: 7 }", 2, 8),
        (PYTHON + "instance_group { count: 7 }", 2, 15),
        (PYTHON + "instance_group { kind: KIND_GPU gpus: [0, 1, 2] count: 2 }", 8, 7),
        (PYTHON + "instance_group { kind: KIND_MODEL count: 5 }", 8, 6),
        (PYTHON + "instance_group [{ count: 3 }, { count: 2 }, { count: 9 passive: true }]", 0, 6),
        (PYTHON, 6, 7),
        (PYTHON + BATCHES + "dynamic_batching {}", 0, 17),
        (PYTHON + BATCHES + "dynamic_batching {}\ninstance_group { count: 4 }", 0, 65),
        (PYTHON + "dynamic_batching {}", 0, 3),
        ('platform: "onnxruntime_onnx"\nmax_batch_size: 4\ndynamic_batching {}', 0, 17),
        (None, 0, 17),
        (PYTHON + "model_transaction_policy { decoupled: true }", 0, None),
        (PYTHON + "sequence_batching {}", 0, None),
        (PYTHON + BATCHES + f"dynamic_batching {{ {QUEUE} }}", 0, None),
        (PYTHON + BATCHES + "dynamic_batching { priority_levels: 2 }", 0, None),
    ],
)
def test_one_model(config: str | None, gpus: int, number: int | None) -> None:
    """What its instances work on, double where batches fill, and the next one.

    None where Triton's queue rules.
    """
    assert count_requests_at_once(planned(config), gpus) == number


def test_an_ensemble() -> None:
    """The sum of what its steps do; none where one of them has none."""
    steps = (PYTHON + "instance_group { count: 3 }", PYTHON + BATCHES + "dynamic_batching {}")
    assert count_requests_at_once(planned(*steps, ENSEMBLE)) == 3 + 16 + 1
    assert (
        count_requests_at_once(planned(*steps, PYTHON + "sequence_batching {}", ENSEMBLE)) is None
    )


@pytest.mark.parametrize(
    ("configs", "most"),
    [
        ((PYTHON, ENSEMBLE), None),
        ((PYTHON, ENSEMBLE.replace("{ step", "{ max_inflight_requests: 5 step")), 5),
        ((PYTHON, ENSEMBLE.replace("{ step", "{ max_inflight_requests: 0 step")), None),
        (("# max_inflight_requests: 3\n" + PYTHON, ENSEMBLE), None),
        (
            (
                "ensemble_scheduling { max_inflight_requests: 9 }",
                "ensemble_scheduling { max_inflight_requests: 7\n"
                'step { model_name: "m0" } step { model_name: "m0" } }',
            ),
            4,
        ),
    ],
)
def test_in_flight(configs: tuple[str, ...], most: int | None) -> None:
    """No ensemble gets more than it takes; an inner one is asked once for each step that it is."""
    assert limit_requests_at_once(planned(*configs)) == most
