"""What SageMaker requires of an image, and the repository and tag that it gets in ECR. No I/O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from merlin_deploy.errors import Refused

#: SageMaker's guide, "Create your own container for multi-model endpoints".
LABEL = "com.amazonaws.sagemaker.capabilities.multi-models"
_PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class LocalImage:
    """id: sha256:…; names: the engine's, with tags; size: of its layers in bytes.

    media_type: of its manifest, if the engine knows it before a push.
    """

    id: str
    names: tuple[str, ...]
    labels: dict[str, str]
    platform: str
    size: int
    media_type: str | None = None


def check_image(name: str, image: LocalImage) -> None:
    """Raises Refused if no multi-model endpoint could run the image."""
    if image.platform != _PLATFORM:
        raise Refused(
            f"{name} is for {image.platform}, SageMaker's instances are {_PLATFORM}: build it with "
            f"docker build --platform {_PLATFORM}"
        )
    label = image.labels.get(LABEL)
    if label != "true":
        seen = "has no label" if label is None else f'has "{label}" as its label'
        raise Refused(
            f"{name} {seen} {LABEL}, which multi-model endpoints ask for with the value true: "
            "build it with this project's Dockerfile, or with that LABEL in your own"
        )


def list_doubts(name: str, image: LocalImage) -> Iterator[str]:
    """Reasons why CreateModel may refuse the image.

    aws/amazon-sagemaker-feedback#180: CreateModel refused OCI's media types.
    """
    if image.media_type is not None and "vnd.oci." in image.media_type:
        yield (
            f"{name} has OCI's manifest ({image.media_type}), which CreateModel has refused "
            '("Unsupported manifest media type"): if it does, build it with docker buildx build '
            "--provenance=false --output type=docker, and push it again"
        )


#: Of CreateRepository's repositoryName.
_REPOSITORY = re.compile(r"(?=.{2,256}\Z)([a-z0-9]+([._-][a-z0-9]+)*/)*[a-z0-9]+([._-][a-z0-9]+)*")
#: Docker's, distribution's reference.go.
_TAG = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}")
_DEFAULT_TAG = "latest"


@dataclass(frozen=True)
class Destination:
    """repository_uri: as ECR calls it. registry: HOST:PORT that stands for ECR's host, or None."""

    repository_uri: str
    tag: str
    registry: str | None = None

    @property
    def host(self) -> str:
        """The registry's."""
        return self.registry or self.repository_uri.partition("/")[0]

    @property
    def place(self) -> str:
        """The reference without its tag."""
        return f"{self.host}/{self.repository_uri.partition('/')[2]}"

    @property
    def reference(self) -> str:
        """What the engine pushes: HOST/REPOSITORY:TAG."""
        return f"{self.place}:{self.tag}"


def choose_name(
    image: str, image_id: str, repository: str | None, tag: str | None
) -> tuple[str, str]:
    """Repository and tag: those given, or the image's own. Raises Refused.

    image_id: sha256:…, since `image` may be an id, too.
    """
    own_repository, own_tag = _split(image, image_id)
    repository, tag = repository or own_repository, tag or own_tag
    if repository is None or tag is None:
        raise Refused(
            f"{image} is no name and tag of an image: say --repository NAME and --tag TAG, as they "
            "are to be in ECR"
        )
    if not _REPOSITORY.fullmatch(repository):
        raise Refused(
            f"found the repository {repository}, expected 2 to 256 lower-case letters, digits and "
            "single . _ - / between them: say another with --repository"
        )
    if not _TAG.fullmatch(tag):
        raise Refused(
            f"found the tag {tag}, expected up to 128 letters, digits and . _ -: say another with "
            "--tag"
        )
    return repository, tag


def _split(image: str, image_id: str) -> tuple[str | None, str | None]:
    """The image's own repository and tag, without a registry's host; None if it has none."""
    if image_id.removeprefix("sha256:").startswith(image.removeprefix("sha256:")):
        return None, None
    name, _, digest = image.partition("@")
    host, slash, rest = name.partition("/")
    if slash and (host == "localhost" or "." in host or ":" in host):
        name = rest
    repository, _, tag = name.partition(":")
    return repository, tag or (None if digest else _DEFAULT_TAG)
