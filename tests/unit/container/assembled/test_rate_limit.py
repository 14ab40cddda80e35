"""SERVE_RATE_LIMIT in a container: who is refused, and where that is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import models
from tests.support.protocol import infer, values
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake

#: One request in this time, which no test takes.
A_REQUEST_S = 1000


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerOnFake]:
    """With the models flooded and neighbour, each to be asked once."""
    with container_on_fake(
        tmp_path_factory.mktemp("rated"), SERVE_RATE_LIMIT=str(1 / A_REQUEST_S)
    ) as found:
        for name in ("flooded", "neighbour"):
            load(found, name)
        yield found


def load(endpoint: ContainerOnFake, name: str) -> None:
    folder: Path = endpoint.model_root / name / "model"
    written = folder if folder.exists() else models.write_archive(folder, {name: models.identity})
    assert endpoint.load(name, written).status_code == 200


def test_a_flood(endpoint: ContainerOnFake, caplog: pytest.LogCaptureFixture) -> None:
    """429 with when to come back; in the metrics; in the log now and then, and never each."""
    caplog.set_level(logging.INFO)
    assert values(endpoint.invoke("flooded", infer([1]))) == [1]
    for body in (infer([2]), b"no JSON", b"x" * 100_000):
        refused = endpoint.invoke("flooded", body)
        assert refused.status_code == 429
        assert A_REQUEST_S / 2 < int(refused.headers["retry-after"]) <= A_REQUEST_S
        assert refused.json()["error"].startswith(
            "the model 'flooded' is asked more than 0.001 times a second (SERVE_RATE_LIMIT); try"
        )
    assert len(endpoint.asked("infer")) == 1
    assert values(endpoint.invoke("neighbour", infer([3]))) == [3]
    page = endpoint.http.get("/metrics").text
    assert 'serve_refusals_total{cause="rate"} 3.0' in page
    assert 'model_name="flooded",code="429"} 3' in page
    assert 'serve_refusals_total{cause="crowd"} 0.0' in page
    ours = [line for line in caplog.records if line.name.startswith("serve.")]
    assert {line.getMessage().split(":")[0] for line in ours} == {"refused with 429"}


def test_loaded_anew(endpoint: ContainerOnFake) -> None:
    """A model that the platform unloads and loads may be asked as if for the first time."""
    endpoint.invoke("neighbour", infer([1]))
    assert endpoint.invoke("neighbour", infer([1])).status_code == 429
    assert endpoint.unload("neighbour").status_code == 200
    assert endpoint.invoke("neighbour", infer([1])).status_code == 404
    load(endpoint, "neighbour")
    assert values(endpoint.invoke("neighbour", infer([4]))) == [4]
