"""How many instances tritonserver makes of a config, and on which GPUs. No I/O.

core's rules, the same from r23.06 to main of 2026 (NormalizeInstanceGroup, SetDefaultInstanceCount,
TritonModel::PrepareInstances):

1. An ensemble has no instances.
2. A config without groups has one: KIND_CPU where its backend prefers that (OpenVINO), else as 3.
3. KIND_AUTO, and a group that names no kind, is KIND_GPU where the machine has a GPU, for Python
   models as well; KIND_CPU where it has none. One that lists a GPU which is not there is refused.
4. KIND_GPU: `count` instances on each GPU that the group lists, or on every GPU.
5. KIND_MODEL: `count` instances; the model's own code chooses among all GPUs.
6. Without a count there is one, but of TensorFlow and ONNX Runtime there are two on the CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.backend_names import name_backend

_GROUP = pb.ModelInstanceGroup
_PREFERS_CPU = frozenset({"openvino"})
_TWO_ON_CPU = frozenset({"tensorflow", "onnxruntime"})


@dataclass(frozen=True)
class Instances:
    """The instances of one version of a model."""

    count: int
    #: How many of them may be on each GPU, by the GPU's number.
    on_gpus: Mapping[int, int]


def find_instances(message: pb.ModelConfig, gpus: int, *, with_passive: bool = True) -> Instances:
    """The instances that tritonserver makes of the config on a machine with so many GPUs.

    with_passive: count instances that are made, but given no requests.
    """
    count, on_gpus = 0, Counter[int]()
    backend = name_backend(message)
    for group in _read_groups(message, backend):
        if group.passive and not with_passive:
            continue
        if group.kind == _GROUP.KIND_GPU or (
            group.kind == _GROUP.KIND_AUTO and (gpus or group.gpus)
        ):
            group_count = max(1, group.count)
            devices = [*group.gpus] or [*range(gpus)]
            count += group_count * max(
                1, len(devices)
            )  # without any tritonserver refuses the model
        elif group.kind == _GROUP.KIND_MODEL:
            group_count = max(1, group.count)
            devices = [*range(gpus)]
            count += group_count
        else:
            group_count, devices = 0, []
            count += group.count if group.count > 0 else 1 + (backend in _TWO_ON_CPU)
        for gpu in devices:
            on_gpus[gpu] += group_count
    return Instances(count, dict(on_gpus))


def _read_groups(message: pb.ModelConfig, backend: str) -> list[pb.ModelInstanceGroup]:
    if message.HasField("ensemble_scheduling"):
        return []
    kind = _GROUP.KIND_CPU if backend in _PREFERS_CPU else _GROUP.KIND_AUTO
    return [*message.instance_group] or [_GROUP(kind=kind)]
