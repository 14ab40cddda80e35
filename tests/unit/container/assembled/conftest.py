"""One endpoint on a fake tritonserver, for all tests of a module that leave it as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import models
from tests.support.protocol import infer, values
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake

#: The model that is always there, to see that the others' troubles are not its own.
WITNESS = "witness"

Archive = Callable[..., Path]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerOnFake]:
    """With the witness loaded in it."""
    with container_on_fake(tmp_path_factory.mktemp("endpoint")) as found:
        witness = models.sums(found.model_root / "witness/model", [1, 2])
        with found.loaded(WITNESS, witness):
            yield found


@pytest.fixture
def container(endpoint: ContainerOnFake) -> Iterator[ContainerOnFake]:
    """That endpoint; a test must leave it as it was, and the witness answering."""
    before = endpoint.snapshot()
    yield endpoint
    assert endpoint.snapshot() == before
    assert values(endpoint.invoke(WITNESS, infer([1]))) == [4.0]


@pytest.fixture
def archive(endpoint: ContainerOnFake, tmp_path: Path) -> Archive:
    """Writes an archive where the platform would extract it: <root>/<hash>/model."""

    def write(name: str = "archive", /, **written: models.Writable) -> Path:
        directory = endpoint.model_root / tmp_path.name / name / "model"
        return models.write_archive(directory, written)

    return write
