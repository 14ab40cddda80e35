"""A second name of a local image, for as long as it is pushed by it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from deploy.aws.account import Say
from deploy.errors import DeployError
from deploy.images.engine import Engine
from deploy.images.local_image import LocalImage
from deploy.images.references import Destination


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
