"""Names of images: which repository and tag of ECR a local one is pushed to. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deploy.errors import Refused

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
        """Of the registry that gets it."""
        return self.registry or self.repository_uri.partition("/")[0]

    @property
    def place(self) -> str:
        """What the engine is told to push, without the tag."""
        return f"{self.host}/{self.repository_uri.partition('/')[2]}"

    @property
    def reference(self) -> str:
        """With the tag."""
        return f"{self.place}:{self.tag}"


def choose_name(
    image: str, image_id: str, repository: str | None, tag: str | None
) -> tuple[str, str]:
    """Repository and tag: those that are given, or the image's own.

    image_id: sha256:…, by which the image may be asked for, too. Raises Refused.
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
    """As the image calls itself, without a registry's host; None for what it does not say."""
    if image_id.removeprefix("sha256:").startswith(image.removeprefix("sha256:")):
        return None, None
    name, _, digest = image.partition("@")
    host, slash, rest = name.partition("/")
    if slash and (host == "localhost" or "." in host or ":" in host):
        name = rest
    repository, _, tag = name.partition(":")
    return repository, tag or (None if digest else _DEFAULT_TAG)
