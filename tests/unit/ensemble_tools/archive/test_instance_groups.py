"""What tritonserver makes of instance groups, by core's rules."""

from __future__ import annotations

import pytest

from ensemble_tools.archive.instance_groups import find_instances
from ensemble_tools.archive.model_config import parse_leniently

PYTHON = 'backend: "python"\n'
NO_GPU: dict[int, int] = {}


@pytest.mark.parametrize(
    ("config", "gpus", "count", "on_gpus"),
    [
        # 1. An ensemble has no instances.
        ("ensemble_scheduling { step { } }", 2, 0, NO_GPU),
        ('platform: "ensemble" ensemble_scheduling { }', 0, 0, NO_GPU),
        # 2. Without groups it is the backend that decides.
        (PYTHON, 0, 1, NO_GPU),
        (PYTHON, 4, 4, {0: 1, 1: 1, 2: 1, 3: 1}),
        ('platform: "pytorch_libtorch"', 2, 2, {0: 1, 1: 1}),
        ('backend: "openvino"', 2, 1, NO_GPU),
        # 3. A group that names no kind is on every GPU, or on the CPU where there is none.
        ("instance_group { }", 0, 1, NO_GPU),
        ("instance_group { }", 2, 2, {0: 1, 1: 1}),
        ("instance_group { kind: KIND_AUTO count: 3 }", 2, 6, {0: 3, 1: 3}),
        ("instance_group { count: 2 gpus: [ 1 ] }", 2, 2, {1: 2}),
        ("instance_group { count: 2 gpus: [ ] }", 2, 4, {0: 2, 1: 2}),
        ('backend: "openvino" instance_group { }', 2, 2, {0: 1, 1: 1}),
        # 4. On the GPUs that it lists, or on every one.
        ("instance_group { kind: KIND_GPU }", 3, 3, {0: 1, 1: 1, 2: 1}),
        ("instance_group { kind: KIND_GPU count: 2 gpus: [ 2, 0 ] }", 3, 4, {0: 2, 2: 2}),
        ("instance_group { kind: KIND_GPU gpus: [ 0, 0 ] }", 1, 2, {0: 2}),
        ("instance_group { kind: KIND_GPU count: 5 }", 0, 5, NO_GPU),
        # 5. The model's own code chooses.
        ("instance_group { kind: KIND_MODEL count: 3 }", 2, 3, {0: 3, 1: 3}),
        ("instance_group { kind: KIND_MODEL }", 0, 1, NO_GPU),
        # 6. Without a count there is one, of these two backends two on the CPU.
        ('backend: "tensorflow"', 0, 2, NO_GPU),
        ('platform: "tensorflow_savedmodel" instance_group { }', 0, 2, NO_GPU),
        ('platform: "onnxruntime_onnx" instance_group { kind: KIND_CPU }', 2, 2, NO_GPU),
        ('backend: "onnxruntime" instance_group { count: 1 }', 0, 1, NO_GPU),
        ('backend: "onnxruntime"', 2, 2, {0: 1, 1: 1}),
        # Several groups add up.
        (
            "instance_group [ { count: 2 kind: KIND_CPU }, { kind: KIND_GPU gpus: 1 }, { } ]",
            2,
            5,
            {0: 1, 1: 2},
        ),
    ],
)
def test_instances(config: str, gpus: int, count: int, on_gpus: dict[int, int]) -> None:
    """Their number, and where they may be."""
    found = find_instances(parse_leniently(config), gpus)
    assert (found.count, found.on_gpus) == (count, on_gpus)


def test_passive_ones() -> None:
    """They are made, and given no requests."""
    config = parse_leniently(f"{PYTHON} instance_group [ {{ }}, {{ count: 4 passive: true }} ]")
    assert find_instances(config, 0).count == 5
    assert find_instances(config, 0, with_passive=False).count == 1
