"""What compiled workflows count, on the container's routes: the processes are played here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ensemble_tools.workflows.runtime.feature_counts import ColumnCounts, FittedColumn, read_began
from tests.support import models
from tests.support.counter_files import write_counts
from tests.support.metrics_page import sample, scrape
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake
from verification.drift.documents import read_document, read_models

EXPORT = Path("examples/merlin/dense/repository")
AGE = ColumnCounts("age", 5, 5, 5, 2, finite=3, sum=9.5, sum_of_squares=float("inf"))
ITEM = ColumnCounts(
    "item", 5, 5, 5, unseen=1, buckets=(4, *[0] * 31), fitted=FittedColumn(buckets=(9, *[1] * 31))
)


def load_export(endpoint: ContainerOnFake) -> Path:
    """The directory in which the export's workflow counts."""
    directory = endpoint.model_root / "shop/model"
    shutil.copytree(EXPORT, directory)
    target = {"X-Amzn-SageMaker-Target-Model": "shop.tar.gz"}
    assert endpoint.load("shop", directory, **target).status_code == 200
    (counts,) = endpoint.serving.rglob("feature_counts")
    return counts


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerOnFake]:
    with container_on_fake(
        tmp_path_factory.mktemp("counting"), SERVE_FEATURE_METRICS="columns"
    ) as found:
        yield found


@pytest.mark.slow
def test_counts_of_a_model(endpoint: ContainerOnFake) -> None:
    """As JSON and on the page while the model is loaded; the command reads the route."""
    directory = load_export(endpoint)
    path = "/models/shop/features"
    (before,) = read_document("before", endpoint.http.get(path).content)
    assert before.why_none == "none of its processes has counted anything yet"
    held = write_counts(directory, AGE, ITEM)
    answer = endpoint.http.get(path)
    assert answer.headers["content-type"] == "application/json"
    (model,) = read_document("after", answer.content)
    assert (model.model_name, model.target_model, model.why_none) == ("shop", "shop.tar.gz", "")
    assert (before.began, model.began) == ((0,), (read_began(directory),))
    ((age, item),) = model.workflows.values()
    assert item == ITEM
    assert (age.values, age.nulls, age.finite, age.sum) == (5, 2, 0, 0.0)
    assert read_models(f"http://127.0.0.1:{endpoint.port}", "shop.tar.gz") == [model]
    page = scrape(endpoint)
    labels = {"target_model": "shop.tar.gz", "model_name": "shop"}
    assert sample(page, "serve_feature_null_total", **labels, column="age") == 2
    assert sample(page, "serve_feature_unseen_total", **labels, column="item") == 1
    assert endpoint.unload("shop").status_code == 200
    gone = endpoint.http.get(path)
    assert (gone.status_code, "shop" in gone.json()["error"]) == (404, True)
    assert "serve_feature_values_total{" not in endpoint.http.get("/metrics").text
    with endpoint.loaded("shop", endpoint.model_root / "shop/model"):
        (again,) = read_document("again", endpoint.http.get(path).content)
        assert (again.workflows, again.began) == (model.workflows, model.began)
        page = scrape(endpoint)
    labels["target_model"] = "shop.tar.gz"
    assert sample(page, "serve_feature_null_total", **labels, column="age") == 2
    del held


def test_a_model_without_a_workflow(endpoint: ContainerOnFake) -> None:
    """The route says why there are no counts, and the page has no series."""
    with endpoint.loaded("sums", models.sums(endpoint.model_root / "sums/model", [1])):
        (model,) = read_document("sums", endpoint.http.get("/models/sums/features").content)
        assert 'model_name="sums"' in (text := endpoint.http.get("/metrics").text)
    assert model.why_none == "the archive has no NVTabular workflow, whose columns could be counted"
    assert "serve_feature_values_total{" not in text


@pytest.mark.slow
def test_off(tmp_path: Path) -> None:
    """Nothing is counted, and the route says so."""
    with container_on_fake(tmp_path, SERVE_FEATURE_METRICS="off") as endpoint:
        directory = endpoint.model_root / "shop/model"
        shutil.copytree(EXPORT, directory)
        assert endpoint.load("shop", directory).status_code == 200
        assert not [*endpoint.serving.rglob("feature_counts")]
        (model,) = read_document("off", endpoint.http.get("/models/shop/features").content)
    assert model.why_none == "nothing is counted while SERVE_FEATURE_METRICS is off"
