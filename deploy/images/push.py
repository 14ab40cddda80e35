"""Push an image to ECR, or to a registry that stands for it; progress and errors of the push."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deploy.aws.account import Account
from deploy.errors import DeployError, MissingRight, QuotaReached, Refused, Unreachable
from deploy.images.engine import Engine, borrowed_name
from deploy.images.image import Destination, LocalImage, check_image, choose_name, doubts_of
from deploy.images.repository import Login, get_login, have_repository
from deploy.terminal import Progress, Say


class PushStopped(Exception):
    """The engine gave it up; the message has its words, without a full stop."""


@dataclass
class Layer:
    """sent of total: bytes as the layer is on this machine; 0 of 0 where nothing was sent."""

    sent: int = 0
    total: int = 0
    done: bool = False
    was_there: bool = False


@dataclass
class PushTally:
    """One push so far. waiting: the engine's words while it waits to try a layer again."""

    layers: dict[str, Layer] = field(default_factory=dict)
    digest: str | None = None
    waiting: str | None = None

    def hear(self, line: Mapping[str, Any]) -> None:
        """One line of the engine. Raises PushStopped."""
        if "error" in line:
            raise PushStopped(" ".join(str(line["error"]).split()).rstrip("."))
        if digest := (line.get("aux") or {}).get("Digest"):
            self.digest = str(digest)
        if name := line.get("id"):
            self._hear_layer(str(name), str(line.get("status", "")), line)

    def _hear_layer(self, name: str, status: str, line: Mapping[str, Any]) -> None:
        words = status.lower()
        self.waiting = status if words.startswith("retrying") else None
        if words == "pushing":
            layer, detail = self._layer(name), line.get("progressDetail") or {}
            layer.sent = int(detail.get("current", layer.sent))
            layer.total = max(int(detail.get("total", layer.total)), layer.sent)
        elif words == "pushed":
            layer = self._layer(name)
            layer.done, layer.sent = True, layer.total
        elif words.endswith("already exists") or words.startswith("mounted"):
            layer = self._layer(name)
            layer.done = layer.was_there = True
        elif words in ("preparing", "waiting"):
            self._layer(name)

    def _layer(self, name: str) -> Layer:
        return self.layers.setdefault(name, Layer())

    @property
    def done(self) -> int:
        """How many layers the registry has."""
        return sum(layer.done for layer in self.layers.values())

    @property
    def were_there(self) -> int:
        """How many of them it had before."""
        return sum(layer.was_there for layer in self.layers.values())

    @property
    def sent(self) -> int:
        """Bytes of all layers."""
        return sum(layer.sent for layer in self.layers.values())

    @property
    def total(self) -> int:
        """Bytes of those layers that are sent, as far as the engine has told."""
        return sum(layer.total for layer in self.layers.values())

    @property
    def share(self) -> float:
        """Of the layers that are there; those on their way count by their bytes."""
        parts = [
            1.0 if layer.done else layer.sent / layer.total if layer.total else 0.0
            for layer in self.layers.values()
        ]
        return sum(parts) / len(parts) if parts else 0.0

    def in_words(self) -> str:
        """Layers and bytes, and what it waits for."""
        words = f"{self.done} of {len(self.layers)} layers, {format_bytes(self.sent)}"
        if self.sent < self.total:
            words += f" of {format_bytes(self.total)}"
        return f"{words} ({self.waiting})" if self.waiting else words


def format_bytes(count: int) -> str:
    """In powers of ten, as registries count."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


_ACTION = re.compile(r"not authorized to perform: (?P<action>ecr:\w+)")
_EXPIRED = re.compile(r"(authorization )?token (has|is) expired")
_NO_RIGHT = re.compile(r"\b(denied|unauthorized|forbidden|no basic auth credentials)\b")
_GONE = re.compile(r"name unknown|repository with name '\S+' does not exist")
_IMMUTABLE = re.compile(r"\bimmutable\b")
_QUOTA = re.compile(r"limit ?exceeded|toomanyrequests|quota|rate exceeded")
_NO_TLS = re.compile(r"server gave http response to https client")
_KEPT = "layers that are there stay: the same command sends the rest"


def fault_of(destination: Destination, words: str) -> DeployError:
    """words: the engine's. What is not known is the registry's, or the network's."""
    place, lower = destination.reference, words.lower()
    if _EXPIRED.search(lower):
        return Unreachable(
            f"{place}: the login ended in the middle of the push ({words}); {_KEPT}, with a new "
            "login"
        )
    if _IMMUTABLE.search(lower):
        return Refused(
            f"{place}: the repository has another image under the tag {destination.tag}, and its "
            "tags are immutable: say another with --tag"
        )
    if _GONE.search(lower):
        return Refused(
            f"{place}: the repository is gone ({words}): the same command makes it again"
        )
    if _QUOTA.search(lower):
        return QuotaReached(
            f"{place}: a quota of the registry is reached ({words}): ask for more in Service "
            f"Quotas, or wait; {_KEPT}"
        )
    if (found := _ACTION.search(words)) or _NO_RIGHT.search(lower):
        return MissingRight(
            f"{found['action'] if found else 'the push'} to {place} is not allowed: {words}; "
            + _remedy(destination)
        )
    if _NO_TLS.search(lower):
        return Unreachable(
            f"{place}: the registry speaks HTTP, and the engine wants TLS ({words}): name it by "
            "127.0.0.1, or add it to the engine's insecure-registries"
        )
    return Unreachable(f"{place}: the push stopped ({words}); {_KEPT}")


def _remedy(destination: Destination) -> str:
    if destination.registry is not None:
        return f"docker login {destination.registry} is what the engine is asked with"
    return "`python -m deploy policy` prints the rights that are needed"


@dataclass(frozen=True)
class Wish:
    """image: a name or id on this machine; the others: see `push`. None: the image's own."""

    image: str
    repository: str | None = None
    tag: str | None = None
    registry: str | None = None


def push_image(
    account: Account, engine: Engine, wish: Wish, say: Say, progress: Progress
) -> str | None:
    """The image by its digest, as CONFIG.toml names it; None with dry_run.

    What the registry has is not sent again. progress: shows how far it is. Raises DeployError.
    """
    image = engine.find(wish.image)
    if image is None:
        raise Refused(
            f"the Docker engine has no image {wish.image}: build it (README has the commands), or "
            "look at `docker images`"
        )
    check_image(wish.image, image)
    for doubt in doubts_of(wish.image, image):
        say(doubt)
    repository, tag = choose_name(wish.image, image.id, wish.repository, wish.tag)
    destination = Destination(have_repository(account, repository, say), tag, wish.registry)
    if account.dry_run:
        for line in _command_lines(account, wish, destination):
            say(line)
        return None
    login = get_login(account)
    say(f"{wish.image} ({format_bytes(image.size)}) goes to {destination.reference}")
    # A login of ECR's is for no other host.
    tally = _send(engine, image, destination, None if wish.registry else login, say, progress)
    say(f"pushed: {tally.in_words()}; {tally.were_there} were there before")
    return f"{destination.repository_uri}@{tally.digest}"


def _send(
    engine: Engine,
    image: LocalImage,
    destination: Destination,
    login: Login | None,
    say: Say,
    progress: Progress,
) -> PushTally:
    tally = PushTally()
    with borrowed_name(engine, image, destination, say), progress() as tell:
        try:
            for line in engine.push(destination, login):
                tally.hear(line)
                tell(tally)
        except PushStopped as stopped:
            raise fault_of(destination, str(stopped)) from stopped
    if tally.digest is None:
        raise fault_of(destination, "the engine ended without a digest")
    return tally


def _command_lines(account: Account, wish: Wish, destination: Destination) -> tuple[str, ...]:
    """What the engine would be told, as lines of the docker command."""
    reference = shlex.quote(destination.reference)
    login = (
        f"aws ecr get-login-password --region {account.region} | docker login --username AWS "
        f"--password-stdin {destination.host}"
    )
    return (
        *(() if wish.registry else (login,)),
        f"docker tag {shlex.quote(wish.image)} {reference}",
        f"docker push {reference}",
    )
