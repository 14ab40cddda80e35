"""What an image must be for SageMaker to run it with many models. No I/O."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from deploy.errors import Refused

#: SageMaker's guide, "Create your own container for multi-model endpoints".
LABEL = "com.amazonaws.sagemaker.capabilities.multi-models"
_PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class LocalImage:
    """id: sha256:…; names: by which the engine knows it, with tags; size: of its layers, bytes.

    media_type: of its manifest, where the engine knows it before a push.
    """

    id: str
    names: tuple[str, ...]
    labels: dict[str, str]
    platform: str
    size: int
    media_type: str | None = None


def check_image(name: str, image: LocalImage) -> None:
    """Raises Refused for one that no multi-model endpoint could run."""
    if image.platform != _PLATFORM:
        raise Refused(
            f"{name} is for {image.platform}, SageMaker's instances are {_PLATFORM}: build it with "
            f"docker build --platform {_PLATFORM}"
        )
    found = image.labels.get(LABEL)
    if found != "true":
        seen = "has no label" if found is None else f'has "{found}" as its label'
        raise Refused(
            f"{name} {seen} {LABEL}, which multi-model endpoints ask for with the value true: "
            "build it with this project's Dockerfile, or with that LABEL in your own"
        )


def doubts_of(name: str, image: LocalImage) -> Iterator[str]:
    """What may go wrong later and is no reason to refuse it now.

    aws/amazon-sagemaker-feedback#180: CreateModel did not take OCI's media types.
    """
    if image.media_type is not None and "vnd.oci." in image.media_type:
        yield (
            f"{name} has OCI's manifest ({image.media_type}), which CreateModel has refused "
            '("Unsupported manifest media type"): if it does, build it with docker buildx build '
            "--provenance=false --output type=docker, and push it again"
        )
