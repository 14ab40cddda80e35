"""The Docker engine of this machine. Its errors become ours here."""

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

from merlin_deploy.errors import DeployError, Refused, Unreachable
from merlin_deploy.images.image import Destination, LocalImage
from merlin_deploy.terminal import Say

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
            self._client.api.tag(image_id, destination.place, destination.tag)
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
                destination.place, destination.tag, stream=True, decode=True, **sent
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
        place = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        raise Unreachable(
            f"no Docker engine answers at {place} ({_words_of(error)}): start Docker, or set "
            "DOCKER_HOST to its address, which `docker context inspect` shows"
        ) from error
    return client


def _translate(error: Exception) -> DeployError:
    if isinstance(error, APIError) and error.is_client_error():
        return Refused(f"the Docker engine refuses it: {_words_of(error)}")
    return Unreachable(
        f"the Docker engine went away in the middle ({_words_of(error)}): start it, and call again"
    )


def _words_of(error: BaseException) -> str:
    """The engine's words, or the system's, without those that HTTP and the SDK add."""
    words = getattr(error, "explanation", None)
    while words is None and error.__context__ is not None:
        error = error.__context__
    strerror = error.strerror if isinstance(error, OSError) else None
    return " ".join(str(words or strerror or error).split()).rstrip(".")


@contextmanager
def temporary_name(
    engine: Engine, image: LocalImage, destination: Destination, say: Say
) -> Iterator[None]:
    """In the block the image has the destination's reference as a name.

    Afterwards, also after Ctrl-C, the name is what it was: gone, or another image's. If that fails,
    say is told. Raises DeployError only before the block.
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
