"""One container for each tritonserver, for all tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import models
from tests.support.container import Container, running
from tests.support.protocol import infer, values
from tests.support.tritons import NEWEST, TRITONS

#: The model that is always there, to see that the others' troubles are not its own.
WITNESS = "witness"

Archive = Callable[..., Path]


@pytest.fixture(scope="session", params=[NEWEST])
def triton(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """The environment of the tritonserver; BOTH has a test run with each in turn."""
    return TRITONS[request.param]


@pytest.fixture(scope="session")
def start_shared(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[Mapping[str, str]], Container]]:
    """Starts the container with a tritonserver, or hands out the one that runs already."""
    started: dict[frozenset[tuple[str, str]], Container] = {}
    with ExitStack() as running_ones:

        def start(triton: Mapping[str, str]) -> Container:
            which = frozenset(triton.items())
            if which not in started:
                directory = tmp_path_factory.mktemp("container")
                started[which] = running_ones.enter_context(_with_witness(directory, triton))
            return started[which]

        yield start


@contextmanager
def _with_witness(directory: Path, triton: Mapping[str, str]) -> Iterator[Container]:
    """It passes every header on to the models; the quotes are the shell's and must be respected."""
    environment = {
        **triton,
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": '"--http-header-forward-pattern=.*"',
        "SERVE_MEMORY_RESERVE_MB": "0",
    }
    with running(directory, **environment) as container:
        witness = models.sums(container.model_root / "witness/model", [1, 2])
        with container.loaded(WITNESS, witness):
            yield container


@pytest.fixture(scope="session")
def shared(
    triton: Mapping[str, str], start_shared: Callable[[Mapping[str, str]], Container]
) -> Container:
    """The container that all tests share, the witness loaded in it."""
    return start_shared(triton)


@pytest.fixture
def container(shared: Container) -> Iterator[Container]:
    """The shared container; a test must leave it as it was, and the witness answering."""
    before = shared.snapshot()
    yield shared
    after = shared.snapshot()
    assert replace(after, regions=before.regions) == before
    assert after.regions <= before.regions  # what a dead stub of another test left may be gone
    assert values(shared.invoke(WITNESS, infer([1]))) == [4.0]


@pytest.fixture
def mortal(shared: Container) -> Iterator[Container]:
    """The shared container for tests that kill stubs: regions in /dev/shm may stay behind.

    tritonserver 2.51 never releases a request that met a dead stub, nor the regions of that model.
    """
    before = shared.snapshot()
    yield shared
    assert replace(shared.snapshot(), regions=before.regions) == before
    assert values(shared.invoke(WITNESS, infer([1]))) == [4.0]


@pytest.fixture
def archive(shared: Container, tmp_path: Path) -> Archive:
    """Writes an archive where the platform would extract it: <root>/<hash>/model."""

    def write(name: str = "archive", /, **written: models.Writable) -> Path:
        directory = shared.model_root / tmp_path.name / name / "model"
        return models.write_archive(directory, written)

    return write
