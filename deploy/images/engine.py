"""The Docker engine of this machine. Its errors become ours here."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from urllib3.exceptions import HTTPError

from deploy.errors import DeployError, Refused, Unreachable
from deploy.images.image import Destination, LocalImage
from deploy.images.repository import Login
from deploy.terminal import Say

_ANSWER_S = 30
#: A registry that takes a large layer in says nothing meanwhile.
_SILENCE_S = 900
#: What the SDK raises; requests' errors are OSErrors, those of what is streamed are urllib3's.
_TROUBLE = (DockerException, OSError, HTTPError)


class Engine:
    """An engine that answers. All methods block and raise DeployError."""

    def __init__(self) -> None:
        self._client = _connect(_ANSWER_S)

    def find(self, name: str) -> LocalImage | None:
        """By a name or an id; None where there is none."""
        try:
            attributes = self._client.images.get(name).attrs
        except ImageNotFound:
            return None
        except _TROUBLE as error:
            raise _failed(error) from error
        return LocalImage(
            id=attributes["Id"],
            names=tuple(attributes.get("RepoTags") or ()),
            labels=dict((attributes.get("Config") or {}).get("Labels") or {}),
            platform=f"{attributes.get('Os', '?')}/{attributes.get('Architecture', '?')}",
            size=int(attributes.get("Size", 0)),
            media_type=(attributes.get("Descriptor") or {}).get("mediaType"),
        )

    def add_name(self, image_id: str, destination: Destination) -> None:
        """Call an image by the destination's reference, too."""
        try:
            self._client.api.tag(image_id, destination.place, destination.tag)
        except _TROUBLE as error:
            raise _failed(error) from error

    def remove_name(self, reference: str) -> None:
        """Of an image with other names, which stays; it may be gone."""
        try:
            self._client.api.remove_image(reference, noprune=True)
        except ImageNotFound:
            return
        except _TROUBLE as error:
            raise _failed(error) from error

    def push(self, destination: Destination, login: Login | None) -> Iterator[Mapping[str, Any]]:
        """The engine's lines while it pushes. It gives up when nobody listens any more.

        login: None for what `docker login` has kept.
        """
        # Of its own: the connection is closed when the listening ends, however it ends.
        client = _connect(_SILENCE_S)
        sent = {} if login is None else {"auth_config": _auth_config(login)}
        try:
            yield from client.api.push(
                destination.place, destination.tag, stream=True, decode=True, **sent
            )
        except _TROUBLE as error:
            raise _failed(error) from error
        finally:
            client.close()


def _auth_config(login: Login) -> dict[str, str]:
    return {"username": login.username, "password": login.password}


def _connect(timeout_s: int) -> Any:
    try:
        client = docker.from_env(timeout=timeout_s)
        client.ping()
    except _TROUBLE as error:
        place = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        raise Unreachable(
            f"no Docker engine answers at {place} ({_said(error)}): start Docker, or set "
            "DOCKER_HOST to its address, which `docker context inspect` shows"
        ) from error
    return client


def _failed(error: Exception) -> DeployError:
    if isinstance(error, APIError) and error.is_client_error():
        return Refused(f"the Docker engine refuses it: {_said(error)}")
    return Unreachable(
        f"the Docker engine went away in the middle ({_said(error)}): start it, and call again"
    )


def _said(error: BaseException) -> str:
    """The engine's own words, or the system's, without what HTTP and the SDK add to them."""
    words = getattr(error, "explanation", None)
    while words is None and error.__context__ is not None:
        error = error.__context__
    strerror = error.strerror if isinstance(error, OSError) else None
    return " ".join(str(words or strerror or error).split()).rstrip(".")


@contextmanager
def borrowed_name(
    engine: Engine, image: LocalImage, destination: Destination, say: Say
) -> Iterator[None]:
    """The engine knows the image by the destination's reference inside of it.

    Afterwards, after Ctrl-C too, the name is what it was: gone, or of the image that had it.
    Raises DeployError before it begins, never for what cannot be cleared away.
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
    elif image.names:  # without another name the image would go with this one
        engine.remove_name(destination.reference)
