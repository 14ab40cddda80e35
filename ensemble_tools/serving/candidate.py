"""Whether an archive's candidate can be asked what its model is asked. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.model_config import name_data_type
from ensemble_tools.errors import CandidateUnlike
from ensemble_tools.serving.serving_plan import ServingPlan


def check_candidate(plan: ServingPlan, candidate: ServingPlan, path: Path) -> None:
    """Raise CandidateUnlike for another model's; path: the candidate's.

    It may have further outputs, and further inputs that a request need not have. Where Triton
    completes a config, nothing is known of it here.
    """
    ours, theirs = plan.entry_model.config, candidate.entry_model.config
    if ours.input and theirs.input:
        for difference in _find_differences(ours, theirs):
            raise CandidateUnlike(path, difference)


def _find_differences(ours: pb.ModelConfig, theirs: pb.ModelConfig) -> Iterator[str]:
    for kind, own, others in (
        ("input", ours.input, theirs.input),
        ("output", ours.output, theirs.output),
    ):
        tensors = {tensor.name: tensor for tensor in others}
        for tensor in own:
            other = tensors.get(tensor.name)
            if other is None:
                yield f"it has no {kind} {tensor.name}, which the model has"
            elif (found := _describe(theirs, other)) != (expected := _describe(ours, tensor)):
                yield f"its {kind} {tensor.name} is {found}, and the model's {expected}"
    known = {tensor.name for tensor in ours.input}
    for tensor in theirs.input:
        if tensor.name not in known and not tensor.optional:
            yield f"it needs an input {tensor.name}, which the model does not have"


def _describe(config: pb.ModelConfig, tensor: pb.ModelInput | pb.ModelOutput) -> str:
    dimensions = len(tensor.dims) + (config.max_batch_size > 0)
    data_type = name_data_type(tensor.data_type).removeprefix("TYPE_")
    return f"{data_type} of {dimensions} dimensions"
