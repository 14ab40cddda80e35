"""An image of this machine's Docker engine: what SageMaker asks of it, its name in ECR, its push.

The engine's errors become ours here.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from urllib3.exceptions import HTTPError

from merlin_deploy.config.catalog import REPOSITORY, TAG
from merlin_deploy.errors import DeployError, Refused, Unreachable
from merlin_deploy.terminal import Say

#: SageMaker's guide, "Create your own container for multi-model endpoints".
LABEL = "com.amazonaws.sagemaker.capabilities.multi-models"
_PLATFORM = "linux/amd64"


@dataclass(frozen=True)
class LocalImage:
    """An image that the engine has."""

    id: str  # sha256:…
    names: tuple[str, ...]  # the engine's, with tags
    labels: dict[str, str]
    platform: str
    size: int  # of its layers, in bytes
    media_type: str | None = None  # of its manifest, if the engine knows it before a push


def check_image(name: str, image: LocalImage) -> None:
    """Raises Refused if no multi-model endpoint could run the image."""
    if image.platform != _PLATFORM:
        raise Refused(
            f"{name} is for {image.platform}, SageMaker's instances are {_PLATFORM}: build it with "
            f"docker build --platform {_PLATFORM}"
        )
    label = image.labels.get(LABEL)
    if label != "true":
        difference = "has no label" if label is None else f'has "{label}" as its label'
        raise Refused(
            f"{name} {difference} {LABEL}, which multi-model endpoints ask for with the value "
            "true: build it with this project's Dockerfile, or with that LABEL in your own"
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


_DEFAULT_TAG = "latest"


@dataclass(frozen=True)
class Destination:
    """Where an image is pushed to."""

    repository_uri: str  # as ECR calls it
    tag: str
    registry: str | None = None  # HOST:PORT that stands for ECR's host

    @property
    def host(self) -> str:
        """The registry's host, which stands in front of the repository's name."""
        return self.registry or self.repository_uri.partition("/")[0]

    @property
    def repository(self) -> str:
        """The reference without its tag."""
        return f"{self.host}/{self.repository_uri.partition('/')[2]}"

    @property
    def reference(self) -> str:
        """The reference to push: HOST/REPOSITORY:TAG."""
        return f"{self.repository}:{self.tag}"


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
    if not REPOSITORY.fullmatch(repository):
        raise Refused(
            f"found the repository {repository}, expected 2 to 256 lower-case letters, digits and "
            ". _ __ - / between them: say another with --repository"
        )
    if not TAG.fullmatch(tag):
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


_ANSWER_S = 30
#: A registry says nothing while it takes in a large layer.
_SILENCE_S = 900
#: What the SDK raises. Errors of requests are OSErrors, those of streams are urllib3's.
_ENGINE_ERRORS = (DockerException, OSError, HTTPError)


@dataclass(frozen=True)
class Login:
    """It goes to the engine with one push, and is kept nowhere."""

    username: str
    password: str = field(repr=False)


class Engine:
    """An engine that answers. All methods block and raise DeployError."""

    def __init__(self) -> None:
        self._client = _connect(_ANSWER_S)

    def find(self, name: str) -> LocalImage | None:
        """An image by a name or an id; None if there is none."""
        try:
            attributes = self._client.images.get(name).attrs
        except ImageNotFound:
            return None
        except _ENGINE_ERRORS as error:
            raise _translate(error) from error
        return LocalImage(
            id=attributes["Id"],
            names=tuple(attributes.get("RepoTags") or ()),
            labels=dict((attributes.get("Config") or {}).get("Labels") or {}),
            platform=f"{attributes.get('Os', '?')}/{attributes.get('Architecture', '?')}",
            size=int(attributes.get("Size", 0)),
            media_type=(attributes.get("Descriptor") or {}).get("mediaType"),
        )

    def add_name(self, image_id: str, destination: Destination) -> None:
        """Give an image the destination's reference as another name."""
        try:
            self._client.api.tag(image_id, destination.repository, destination.tag)
        except _ENGINE_ERRORS as error:
            raise _translate(error) from error

    def remove_name(self, reference: str) -> None:
        """Take a name from an image that has others, and stays. The name may be gone already."""
        try:
            self._client.api.remove_image(reference, noprune=True)
        except ImageNotFound:
            return
        except _ENGINE_ERRORS as error:
            raise _translate(error) from error

    def push(self, destination: Destination, login: Login | None) -> Iterator[Mapping[str, Any]]:
        """The engine's lines while it pushes; it gives up when nobody reads them any more.

        login: None takes what `docker login` has kept.
        """
        # A client of its own: its connection is closed when the reading ends, however it ends.
        client = _connect(_SILENCE_S)
        sent = {} if login is None else {"auth_config": asdict(login)}
        try:
            yield from client.api.push(
                destination.repository, destination.tag, stream=True, decode=True, **sent
            )
        except _ENGINE_ERRORS as error:
            raise _translate(error) from error
        finally:
            client.close()


def _connect(timeout_s: int) -> Any:
    try:
        client = docker.from_env(timeout=timeout_s)
        client.ping()
    except _ENGINE_ERRORS as error:
        address = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        raise Unreachable(
            f"no Docker engine answers at {address} ({_find_reason(error)}): start Docker, or set "
            "DOCKER_HOST to its address, which `docker context inspect` shows"
        ) from error
    return client


def _translate(error: Exception) -> DeployError:
    if isinstance(error, APIError) and error.is_client_error():
        return Refused(f"the Docker engine refuses it: {_find_reason(error)}")
    return Unreachable(
        f"the Docker engine went away in the middle ({_find_reason(error)}): start it, and call "
        "again"
    )


def _find_reason(error: BaseException) -> str:
    """The engine's message, or the system's, without the text that HTTP and the SDK add."""
    reason = getattr(error, "explanation", None)
    while reason is None and error.__context__ is not None:
        error = error.__context__
    strerror = error.strerror if isinstance(error, OSError) else None
    return " ".join(str(reason or strerror or error).split()).rstrip(".")


@contextmanager
def temporary_name(
    engine: Engine, image: LocalImage, destination: Destination, say: Say
) -> Iterator[None]:
    """Give the image the destination's reference as a name while the block runs.

    Afterwards, also after Ctrl-C, the name is gone, or names the image that had it before. `say`
    tells if that fails. Raises DeployError only before the block.
    """
    before = engine.find(destination.reference)
    if before is not None and before.id == image.id:
        yield
        return
    try:
        engine.add_name(image.id, destination)
        yield
    finally:
        interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            _give_back(engine, image, destination, before)
        except DeployError as error:
            say(f"this machine still has the name {destination.reference}: {error}")
        finally:
            signal.signal(signal.SIGINT, interrupted)


def _give_back(
    engine: Engine, image: LocalImage, destination: Destination, before: LocalImage | None
) -> None:
    if before is not None:
        engine.add_name(before.id, destination)
    elif image.names:  # an image goes with its last name
        engine.remove_name(destination.reference)
