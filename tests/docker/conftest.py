"""An engine, and the images built in it: once for all tests of this folder.

Run them in one process (make test-docker): each process of pytest-xdist would start its own engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import docker
import pytest

from tests.docker.engine import NoEngine, running_engine
from tests.docker.images import Built, build_images
from tests.docker.rehearsing import Rehearsal, rehearsing

#: A build from nothing is 3 min, and the first test that wants an image waits for it.
BUILD_AND_TEST_S = 1800


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The limit of a test holds its fixtures, too: whichever comes first builds the images."""
    for item in items:
        if "tests/docker" in item.path.as_posix():
            item.add_marker(pytest.mark.timeout(BUILD_AND_TEST_S))


@pytest.fixture(scope="session")
def host() -> Iterator[str]:
    """The engine's address. Without an engine the tests fail: they are the check of the images."""
    try:
        with running_engine() as address:
            yield address
    except NoEngine as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture(scope="session")
def engine(host: str) -> Iterator[docker.DockerClient]:
    """The engine, by its SDK."""
    client = docker.DockerClient(base_url=host, timeout=120)
    yield client
    client.close()


@pytest.fixture(scope="session")
def images(host: str) -> Built:
    """All images, built by the Dockerfile."""
    try:
        return build_images(host)
    except NoEngine as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture(scope="session")
def rehearsal(
    host: str, engine: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Rehearsal]:
    """What stands for AWS."""
    with rehearsing(host, engine, tmp_path_factory.mktemp("rehearsal")) as started:
        yield started


@pytest.fixture(scope="session")
def served_image(rehearsal: Rehearsal, images: Built) -> Iterator[Future[str]]:
    """The image that serves, as ECR names it, once `push` has brought it there."""
    with ThreadPoolExecutor(1) as thread:
        yield thread.submit(rehearsal.push, images.cpu, "shop", "1")


@pytest.fixture(scope="session", autouse=True)
def pushed_early(request: pytest.FixtureRequest) -> None:
    """The push is packed by one core for a minute: beside all tests, where one of them needs it."""
    if any("served_image" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("served_image")
