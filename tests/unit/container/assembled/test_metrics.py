"""The container's own numbers on its page: what each call adds."""

from __future__ import annotations

from pathlib import Path

from tests.support import models
from tests.support.metrics_page import sample, scrape
from tests.support.protocol import infer, values
from tests.unit.container.assembled.conftest import Archive
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake

TARGET = "X-Amzn-SageMaker-Target-Model"


def test_invocations_by_target_model_and_code(container: ContainerOnFake, archive: Archive) -> None:
    """The archive's name comes with the load; another model's numbers do not move."""
    container.load("counted", archive(m=models.identity), **{TARGET: "shop/a b.tar.gz"})
    try:
        before = scrape(container)
        for number in range(5):
            assert values(container.invoke("counted", infer([number]))) == [number]
        for _ in range(2):
            assert container.invoke("counted", b"{").status_code == 400
        after = scrape(container)
    finally:
        container.unload("counted")
    labels = {"target_model": "shop/a b.tar.gz", "model_name": "counted"}
    grown = {key: after[key] - before.get(key, 0.0) for key in after}
    assert sample(grown, "serve_invocations_total", **labels, code="200") == 5
    assert sample(grown, "serve_invocations_total", **labels, code="400") == 2
    assert (
        sum(value for (name, _), value in grown.items() if name == "serve_invocations_total") == 7
    )
    for part in ("total", "waiting", "translating", "tritonserver"):
        seconds = {"target_model": "shop/a b.tar.gz", "part": part}
        assert sample(grown, "serve_invocation_seconds_count", **seconds) == 7
    assert sample(grown, "serve_request_bytes_total", **labels) > 5 * 50
    assert sample(grown, "serve_refusals_total", cause="caller") == 2


def test_a_target_that_comes_with_an_invocation(
    container: ContainerOnFake, archive: Archive
) -> None:
    """Until then the model's own name stands there; afterwards its numbers have moved along."""
    with container.loaded("late", archive(m=models.identity)):
        container.invoke("late", infer([1]))
        first = scrape(container)
        container.invoke("late", infer([1]), **{TARGET: "late.tar.gz"})
        second = scrape(container)
    named = {"model_name": "late", "code": "200"}
    assert sample(first, "serve_invocations_total", target_model="late", **named) == 1
    assert sample(second, "serve_invocations_total", target_model="late.tar.gz", **named) == 2
    assert sample(second, "serve_invocations_total", target_model="late", **named) == 0


def test_unknown_models_make_no_series(container: ContainerOnFake) -> None:
    before = scrape(container)
    for number in range(20):
        assert container.invoke(f"unknown-{number}", infer([1])).status_code == 404
    after = scrape(container)
    assert set(after) - set(before) <= {
        key for key in after if ("model_name", "") in key[1] or ("target_model", "") in key[1]
    }
    labels = {"target_model": "", "model_name": "", "code": "404"}
    grown = sample(after, "serve_invocations_total", **labels) - sample(
        before, "serve_invocations_total", **labels
    )
    assert grown == 20


def test_loads_by_result_and_stage(tmp_path: Path) -> None:
    unwilling = "load failed for model 'bad': version 1 is at UNAVAILABLE state: Internal: E: no;"
    with container_on_fake(tmp_path, {"load": {"bad": {"message": unwilling}}}) as endpoint:
        directory = models.sums(endpoint.model_root / "a/model", [1])
        with endpoint.loaded("good", directory):
            during = scrape(endpoint)
        assert endpoint.load("bad", directory).status_code == 400
        after = scrape(endpoint)
    assert sample(during, "serve_models_loaded") == 1
    assert sample(after, "serve_models_loaded") == 0
    assert sample(after, "serve_loads_total", result="loaded") == 1
    assert sample(after, "serve_loads_total", result="refused") == 1
    assert sample(after, "serve_loads_total", result="failed") == 0
    assert sample(after, "serve_unloads_total", result="unloaded") == 1
    assert sample(after, "serve_refusals_total", cause="archive") == 1
    for stage in ("total", "read", "tritonserver"):
        assert sample(after, "serve_load_seconds_count", stage=stage) == 2
    took = {
        stage: sample(after, "serve_load_seconds_sum", stage=stage)
        for stage in ("total", "tritonserver")
    }
    assert took["total"] > took["tritonserver"]


def test_a_dead_stub_is_a_revival(tmp_path: Path) -> None:
    """The caller gets his answer; the page says what it took."""
    dead = {"status": 500, "message": "Stub process 'dying_0_0' is not healthy.", "times": 1}
    with container_on_fake(tmp_path, {"infer": {"dying": dead}}) as endpoint:
        directory = models.sums(endpoint.model_root / "a/model", [1])
        with endpoint.loaded("dying", directory):
            assert values(endpoint.invoke("dying", infer([1]))) == [2.0]
            found = scrape(endpoint)
    assert sample(found, "serve_revivals_total", cause="stub", result="revived") == 1
    labels = {"target_model": "dying", "model_name": "dying", "code": "200"}
    assert sample(found, "serve_invocations_total", **labels) == 1


def test_off(tmp_path: Path) -> None:
    """Switched off there is no page."""
    with container_on_fake(tmp_path, SERVE_METRICS="off") as endpoint:
        assert endpoint.http.get("/metrics").status_code == 404
