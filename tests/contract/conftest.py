"""One container for each tritonserver, for all tests that leave it as they found it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import models
from tests.support.container import TRITON_2_36, Container, running
from tests.support.protocol import infer, values

#: Environment that chooses the tritonserver; the nearest to Merlin's own 2.35 is 2.36.
TRITONS: Mapping[str, Mapping[str, str]] = {
    "2.51": {},
    "2.36": {"SERVE_TRITON_SERVER": str(TRITON_2_36)},
}
#: The model that is always there, to see that the others' troubles are not its own.
WITNESS = "witness"

Archive = Callable[..., Path]


@pytest.fixture(scope="session", params=sorted(TRITONS, reverse=True))
def triton(request: pytest.FixtureRequest) -> Mapping[str, str]:
    """The environment for each tritonserver in turn."""
    return TRITONS[request.param]


@pytest.fixture(scope="session")
def shared(
    triton: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    """The container that all tests share, the witness loaded in it.

    It passes every header on to the models; the quotes are the shell's, which are to be respected.
    """
    environment = {
        **triton,
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS": '"--http-header-forward-pattern=.*"',
        "SERVE_MEMORY_RESERVE_MB": "0",
    }
    with running(tmp_path_factory.mktemp("container"), **environment) as container:
        witness = models.sums(container.model_root / "witness/model", [1, 2])
        with container.loaded(WITNESS, witness):
            yield container


@pytest.fixture
def container(shared: Container) -> Iterator[Container]:
    """The shared container; a test must leave it as it was, and the witness answering."""
    before = shared.snapshot()
    yield shared
    assert shared.snapshot() == before
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
