"""Push an image to ECR, or to a registry that stands for it."""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from merlin_deploy.account import Account
from merlin_deploy.config.catalog import regions
from merlin_deploy.engine import (
    Destination,
    Engine,
    LocalImage,
    Login,
    check_image,
    choose_name,
    list_doubts,
    temporary_name,
)
from merlin_deploy.errors import (
    CallRefused,
    DeployError,
    MissingRight,
    QuotaReached,
    Refused,
)
from merlin_deploy.refusals import Rule, find_rule
from merlin_deploy.terminal import Progress, Say, show_bytes

_REPOSITORY_EXISTS = "RepositoryAlreadyExistsException"
_KEPT = "layers that are there stay: the same command sends the rest"
_ACTION = re.compile(r"not authorized to perform: (ecr:\w+)")
#: Why a push stopped, by the engine's message in lower case.
_STOPS = (
    Rule(
        f"{{place}}: the login ended in the middle of the push ({{message}}); {_KEPT}, with a new "
        "login",
        message=r"(authorization )?token (has|is) expired",
    ),
    Rule(
        "{place}: the repository has another image under the tag {tag}, and its tags are "
        "immutable: say another with --tag",
        message=r"\bimmutable\b",
        refusal=Refused,
    ),
    Rule(
        "{place}: the repository is gone ({message}): the same command makes it again",
        message=r"name unknown|repository with name '\S+' does not exist",
        refusal=Refused,
    ),
    Rule(
        "{place}: a quota of the registry is reached ({message}): ask for more in Service Quotas, "
        f"or wait; {_KEPT}",
        message=r"limit ?exceeded|toomanyrequests|quota|rate exceeded",
        refusal=QuotaReached,
    ),
    Rule(
        "{action} to {place} is not allowed: {message}; {remedy}",
        message=r"not authorized to perform"
        r"|\b(denied|unauthorized|forbidden|no basic auth credentials)\b",
        refusal=MissingRight,
    ),
    Rule(
        "{place}: the registry speaks HTTP, and the engine wants TLS ({message}): name it by "
        "127.0.0.1, or add it to the engine's insecure-registries",
        message="server gave http response to https client",
    ),
)
_STOP = Rule(f"{{place}}: the push stopped ({{message}}); {_KEPT}")


class PushStopped(Exception):
    """The engine gave up; its message is without a full stop."""


@dataclass
class Layer:
    """Bytes as the layer is on this machine; 0 of 0 if nothing was sent."""

    sent: int = 0
    total: int = 0
    done: bool = False
    was_there: bool = False


@dataclass
class PushProgress:
    """How far a push has come."""

    layers: dict[str, Layer] = field(default_factory=dict)
    digest: str | None = None
    waiting: str | None = None  # the engine's message while it waits to try a layer again

    def read(self, line: Mapping[str, Any]) -> None:
        """Take in one line of the engine. Raises PushStopped."""
        if "error" in line:
            raise PushStopped(" ".join(str(line["error"]).split()).rstrip("."))
        if digest := (line.get("aux") or {}).get("Digest"):
            self.digest = str(digest)
        if name := line.get("id"):
            self._read_layer(str(name), str(line.get("status", "")), line)

    def _read_layer(self, name: str, status: str, line: Mapping[str, Any]) -> None:
        state = status.lower()
        self.waiting = status if state.startswith("retrying") else None
        is_known = state.endswith("already exists") or state.startswith("mounted")
        if not is_known and state not in ("preparing", "waiting", "pushing", "pushed"):
            return
        layer = self.layers.setdefault(name, Layer())
        if is_known:
            layer.done = layer.was_there = True
        elif state == "pushing":
            detail = line.get("progressDetail") or {}
            layer.sent = int(detail.get("current", layer.sent))
            layer.total = max(int(detail.get("total", layer.total)), layer.sent)
        elif state == "pushed":
            layer.done, layer.sent = True, layer.total

    @property
    def done(self) -> int:
        """How many layers the registry has."""
        return sum(layer.done for layer in self.layers.values())

    @property
    def were_there(self) -> int:
        """How many of them it had before."""
        return sum(layer.was_there for layer in self.layers.values())

    @property
    def share(self) -> float:
        """The share of layers that are done; those on their way count by their bytes."""
        parts = [
            1.0 if layer.done else layer.sent / layer.total if layer.total else 0.0
            for layer in self.layers.values()
        ]
        return sum(parts) / len(parts) if parts else 0.0

    def describe(self) -> str:
        """Layers and bytes, and what the engine waits for."""
        sent = sum(layer.sent for layer in self.layers.values())
        total = sum(layer.total for layer in self.layers.values())
        of_total = f" of {show_bytes(total)}" if sent < total else ""
        waiting = f" ({self.waiting})" if self.waiting else ""
        layers = f"{self.done} of {len(self.layers)} layers"
        return f"{layers}, {show_bytes(sent)}{of_total}{waiting}"


def push_image(
    account: Account,
    engine: Engine,
    name: str,
    say: Say,
    progress: Progress,
    *,
    repository: str | None,
    tag: str | None,
    registry: str | None,
) -> str | None:
    """The image by its digest, as CONFIG.toml names it; None with --dry-run. Raises DeployError.

    name: of the image on this machine, or its id. repository, tag: None takes the image's own.
    registry: HOST:PORT that stands for ECR's host. Layers that it has are not sent again.
    """
    image = engine.find(name)
    if image is None:
        raise Refused(
            f"the Docker engine has no image {name}: build it (README has the commands), "
            "or look at `docker images`"
        )
    check_image(name, image)
    for doubt in list_doubts(name, image):
        say(doubt)
    repository, tag = choose_name(name, image.id, repository, tag)
    destination = Destination(ensure_repository(account, repository, say), tag, registry)
    if account.dry_run:
        for line in _list_commands(account, name, destination):
            say(line)
        return None
    login = get_login(account)
    say(f"{name} ({show_bytes(image.size)}) goes to {destination.reference}")
    # ECR's login is for no other host.
    pushed = _push(engine, image, destination, None if registry else login, say, progress)
    say(f"pushed: {pushed.describe()}; {pushed.were_there} were there before")
    return f"{destination.repository_uri}@{pushed.digest}"


def ensure_repository(account: Account, name: str, say: Say) -> str:
    """The repository's URI; a new one scans what is pushed. Raises DeployError."""
    if (uri := _find_repository(account, name)) is not None:
        return uri
    try:
        answer = account.change(
            "ecr",
            "CreateRepository",
            repositoryName=name,
            imageScanningConfiguration={"scanOnPush": True},
        )
    except CallRefused as error:
        # Another call may have made it since.
        if error.code != _REPOSITORY_EXISTS or (uri := _find_repository(account, name)) is None:
            raise
        return uri
    if account.dry_run:
        number = account.ask("sts", "GetCallerIdentity")["Account"]
        domain = regions()[account.region].domain
        return f"{number}.dkr.ecr.{account.region}.{domain}/{name}"
    say(f"repository {name} created in {account.region}; it scans what is pushed")
    return str(answer["repository"]["repositoryUri"])


def get_login(account: Account) -> Login:
    """ECR's, for twelve hours. Raises DeployError, which does not show the password."""
    answer = account.ask("ecr", "GetAuthorizationToken")
    try:
        token = base64.b64decode(answer["authorizationData"][0]["authorizationToken"]).decode()
        username, colon, password = token.partition(":")
        if not colon:
            raise ValueError("it has no colon")
    except (LookupError, ValueError) as error:
        raise Refused(
            f"ecr:GetAuthorizationToken in {account.region} gave no user and password "
            f"({type(error).__name__}): ask again, or look at AWS_ENDPOINT_URL"
        ) from None
    return Login(username, password)


def explain_stop(destination: Destination, message: str) -> DeployError:
    """Why a push stopped. message: the engine's."""
    action = _ACTION.search(message)
    remedy = "`python -m deploy policy` prints the rights that are needed"
    if destination.registry is not None:
        remedy = f"docker login {destination.registry} is what the engine is asked with"
    rule = find_rule(_STOPS, PushStopped(message), message=message.lower()) or _STOP
    return rule.refusal(
        rule.sentence.format(
            place=destination.reference,
            tag=destination.tag,
            message=message,
            action=action[1] if action else "the push",
            remedy=remedy,
        )
    )


def _push(
    engine: Engine,
    image: LocalImage,
    destination: Destination,
    login: Login | None,
    say: Say,
    progress: Progress,
) -> PushProgress:
    pushed = PushProgress()
    with temporary_name(engine, image, destination, say), progress() as tell:
        try:
            for line in engine.push(destination, login):
                pushed.read(line)
                tell(pushed.describe(), pushed.share)
        except PushStopped as stopped:
            raise explain_stop(destination, str(stopped)) from stopped
    if pushed.digest is None:
        raise explain_stop(destination, "the engine ended without a digest")
    return pushed


def _find_repository(account: Account, name: str) -> str | None:
    answer = account.find("ecr", "DescribeRepositories", repositoryNames=[name])
    return str(answer["repositories"][0]["repositoryUri"]) if answer else None


def _list_commands(account: Account, name: str, destination: Destination) -> tuple[str, ...]:
    """Docker's command lines that do the same, for --dry-run."""
    reference = shlex.quote(destination.reference)
    login = (
        f"aws ecr get-login-password --region {account.region} | docker login --username AWS "
        f"--password-stdin {destination.host}"
    )
    return (
        *(() if destination.registry else (login,)),
        f"docker tag {shlex.quote(name)} {reference}",
        f"docker push {reference}",
    )
