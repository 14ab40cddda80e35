"""PURE. Which host's image an instance starts with: it chooses the NVIDIA driver.

AWS starts some types with driver 470 (CUDA 11.4) unless the variant names an InferenceAmiVersion:
SageMaker Developer Guide, "Best practices to minimize interruptions during GPU driver upgrades".
Every base of an image has a newer CUDA (docs/images.md). A driver runs older CUDAs, too, so the
newest one fits all of them.
"""

from __future__ import annotations

AMIS = (
    "al2-ami-sagemaker-inference-gpu-2",
    "al2-ami-sagemaker-inference-gpu-2-1",
    "al2-ami-sagemaker-inference-gpu-3-1",
    "al2023-ami-sagemaker-inference-gpu-4-1",
)
#: Of `instances.ami`: no InferenceAmiVersion.
LEFT_TO_AWS = "aws"
_WITH_AN_OLD_DRIVER = ("ml.g4dn.", "ml.g5.", "ml.p4d.", "ml.p4de.")
_NEWEST = AMIS[-1]


def choose_ami(instance_type: str, ami: str | None) -> str | None:
    """InferenceAmiVersion of a variant; None leaves it to AWS. ami: as it is configured."""
    if ami is not None:
        return None if ami == LEFT_TO_AWS else ami
    return _NEWEST if instance_type.startswith(_WITH_AN_OLD_DRIVER) else None


def describe_ami(instance_type: str, ami: str | None) -> str:
    """What is chosen where nothing is configured, and why, in a sentence; empty elsewhere."""
    if ami is not None or choose_ami(instance_type, ami) is None:
        return ""
    return (
        f"instances.ami is unset, so {_NEWEST} is taken (driver 580): AWS starts {instance_type} "
        "with driver 470, which is older than the CUDA of every base of an image; "
        f'ami = "{LEFT_TO_AWS}" leaves it to AWS'
    )
