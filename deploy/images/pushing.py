"""An image brought to ECR, or to a registry that stands for it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from deploy.aws.account import Account, Say
from deploy.errors import Refused
from deploy.images.borrowed_name import borrowed_name
from deploy.images.engine import Engine
from deploy.images.local_image import LocalImage, check_image, doubts_of
from deploy.images.push_faults import fault_of
from deploy.images.push_lines import PushStopped, PushTally, format_bytes
from deploy.images.references import Destination, choose_name
from deploy.images.repository import Login, get_login, have_repository
from deploy.telling import Progress


@dataclass(frozen=True)
class Wish:
    """image: a name or id on this machine; the others: see `push`. None: the image's own."""

    image: str
    repository: str | None = None
    tag: str | None = None
    registry: str | None = None


def push(account: Account, engine: Engine, wish: Wish, say: Say, progress: Progress) -> str | None:
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
