"""SERVE_CANDIDATE_PERCENT in a container: who sees a candidate, what is counted, what drops it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import models
from tests.support.container import until
from tests.support.metrics_page import Samples, sample, scrape
from tests.support.protocol import infer, values
from tests.unit.container.assembled.conftest import Archive
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake

#: What the fake tritonserver makes of candidates, by their models' names.
KNOBS = {
    "load": {"unwilling=candidate": {"message": "no weights"}},
    "infer": {
        "failing=candidate": {"status": 500, "message": "these values are not welcome"},
        "dead=candidate": {
            "status": 500,
            "message": "Stub process 'dead=candidate' is not healthy.",
        },
    },
}
DROPPED = "the model's candidate is dropped: "


@pytest.fixture(scope="module")
def comparing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerOnFake]:
    """Asks candidates all that their models are asked."""
    directory = tmp_path_factory.mktemp("candidates")
    with container_on_fake(directory, KNOBS, SERVE_CANDIDATE_PERCENT="100") as found:
        yield found


def write(endpoint: ContainerOnFake, name: str, candidate: models.Writable | None = None) -> Path:
    """An archive whose model adds 1, and its candidate."""
    archive = models.write_archive(endpoint.model_root / name / "model", {"m": models.adder(1)})
    models.write_archive(archive / "candidate", {"m": candidate or models.adder(2)})
    return archive


def number(page: Samples, metric: str, name: str, **labels: str) -> float:
    """One value of a model's candidate; 0 for none."""
    named = {"target_model": name, "model_name": name, **labels}
    return sample(page, f"serve_candidate_{metric}", **named)


def ask_until(
    endpoint: ContainerOnFake, name: str, count: float, metric: str, **labels: str
) -> None:
    """Ask the model until its candidate has counted so much."""

    def ask() -> bool:
        assert values(endpoint.invoke(name, infer([3, 1, 2]))) == [4.0, 2.0, 3.0]
        return number(scrape(endpoint), metric, name, **labels) >= count

    until(ask, f"{metric} is {count}")


def test_beside_its_model(comparing: ContainerOnFake) -> None:
    """Its own answers are measured and nobody gets them; it is not listed, has no call, and ends
    with its model."""
    endpoint = comparing
    archive = write(endpoint, "shop.a")
    entry = "shop=_a=candidate"
    with endpoint.loaded("shop.a", archive):
        ask_until(endpoint, "shop.a", 2, "overlap_count", k="1")
        page = scrape(endpoint)  # one: the last request may be compared only now
        lists = number(page, "overlap_count", "shop.a", k="1")
        assert number(page, "overlap_sum", "shop.a", k="1") == lists
        assert number(page, "overlap_count", "shop.a", k="10") == 0.0
        assert number(page, "errors_total", "shop.a") == 0.0
        for side in ("model", "candidate"):
            assert number(page, "seconds_count", "shop.a", of=side) == lists
        assert list(endpoint.models()) == ["shop.a"]
        for name in ("shop.a=candidate", entry):
            assert endpoint.invoke(name, infer([1])).status_code == 404
            assert endpoint.http.get(f"/models/{name}").status_code == 404
            assert endpoint.load(name, archive).status_code == 400
        assert "serve_models_loaded 1.0" in endpoint.http.get("/metrics").text
    until(lambda: not endpoint.published(), "it is gone")  # the unload waits some seconds at most
    series = (it for it in scrape(endpoint) if it[0].startswith("serve_candidate_"))
    assert not [it for it in series if ("model_name", "shop.a") in it[1]]


@pytest.mark.parametrize(
    ("name", "requests", "why"),
    [
        ("unwilling", 0, "it cannot be loaded: "),
        (
            "failing",
            5,
            "it failed at 5 requests one after the other; at the last one: these values",
        ),
        ("dead", 1, "its process died: Stub process"),
    ],
)
def test_what_drops_it(
    comparing: ContainerOnFake,
    caplog: pytest.LogCaptureFixture,
    name: str,
    requests: int,
    why: str,
) -> None:
    """One line says why; the model answers on, and nothing of the candidate is left."""
    endpoint = comparing
    with endpoint.loaded(name, write(endpoint, name)):
        ask_until(endpoint, name, 1, "drops_total")
        until(lambda: endpoint.published() == frozenset({name}), "it is gone")
        assert values(endpoint.invoke(name, infer([1]))) == [2.0]
        assert number(scrape(endpoint), "errors_total", name) == requests
    (line,) = [it.getMessage() for it in caplog.records if DROPPED in it.getMessage()]
    assert line.startswith(DROPPED + why)


def test_another_models(comparing: ContainerOnFake, caplog: pytest.LogCaptureFixture) -> None:
    """It is not even given to tritonserver."""
    endpoint = comparing
    other = models.PythonModel(
        models.IDENTITY, tensors=models.adder(1).tensors.replace('"IN"', '"X"')
    )
    with endpoint.loaded("other", write(endpoint, "other", other)):
        until(lambda: any(DROPPED in it.getMessage() for it in caplog.records), "it is dropped")
        assert endpoint.published() == frozenset({"other"})
    (line,) = [it.getMessage() for it in caplog.records if DROPPED in it.getMessage()]
    assert "candidate: it has no input IN, which the model has; expected a candidate" in line
    assert not [it for it in endpoint.asked("load") if it["model"] == "other=candidate"]


@pytest.mark.parametrize("omitted", [None, "IN,OUT"])
def test_what_differs_is_captured(tmp_path: Path, omitted: str | None) -> None:
    """With both answers, in a folder of its own; hidden columns are in neither. What is equal is
    not captured."""
    captured, target = tmp_path / "captured", {"X-Amzn-SageMaker-Target-Model": "a.tar.gz"}
    settings = {"SERVE_CAPTURE": str(captured), "SERVE_CAPTURE_PERCENT": "0.0001"}
    settings |= {"SERVE_CAPTURE_OMIT": omitted} if omitted else {}
    with container_on_fake(
        tmp_path / "plain", **settings, SERVE_CANDIDATE_PERCENT="100"
    ) as endpoint:
        for name, addend in (("same", 2), ("other", 1e9)):  # at 1e9 FP32 tells none from another
            assert endpoint.load(name, write(endpoint, name, models.adder(addend))).is_success

            def is_compared(name: str = name) -> bool:
                assert endpoint.invoke(name, infer([1, 3, 2]), **target).is_success
                count = {"target_model": "a.tar.gz", "model_name": name, "k": "1"}
                return sample(scrape(endpoint), "serve_candidate_overlap_count", **count) > 0

            until(is_compared, "both answers are compared")
    files = [*captured.rglob("*.jsonl")]
    assert {file.relative_to(captured).parts[:3] for file in files} == {
        ("endpoint", "AllTraffic=candidate", "a.tar.gz")
    }
    for line in files[0].read_text().splitlines():
        data = json.loads(line)["captureData"]
        given, own, other = (
            json.loads(data[side]["data"])
            for side in ("endpointInput", "endpointOutput", "candidateOutput")
        )
        hidden = [0.0, 0.0, 0.0] if omitted else None
        assert given["inputs"][0]["data"] == (hidden or [1, 3, 2])
        assert own["outputs"][0]["data"] == (hidden or [2, 4, 3])
        assert other["outputs"][0]["data"] == (hidden or [1e9 + 1, 1e9 + 3, 1e9 + 2])


def test_off(
    container: ContainerOnFake, archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    """By default it is not loaded, and a line says so."""
    caplog.set_level(logging.INFO)
    directory = archive(m=models.adder(1))
    models.write_archive(directory / "candidate", {"m": models.adder(2)})
    with container.loaded("shop", directory):
        assert values(container.invoke("shop", infer([1]))) == [2.0]
        assert {name.partition("=")[2] for name in container.published()} == {""}
    assert "candidate/ is not loaded: candidates are off" in caplog.messages
