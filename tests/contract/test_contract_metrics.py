"""GET /metrics on the SageMaker port: what was asked is what is counted, model by model."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from container import __version__
from tests.contract.conftest import Archive
from tests.support import models
from tests.support.container import Container, running, until
from tests.support.metrics_page import Samples, sample, scrape
from tests.support.protocol import infer, values
from tests.support.triton_metrics import TRITON_METRICS
from tests.support.tritons import BOTH

TARGET = "X-Amzn-SageMaker-Target-Model"


def names_a_model(found: Samples, model_name: str) -> bool:
    return any(("model_name", model_name) in labels for _, labels in found)


@BOTH
def test_tritons_own_numbers_bear_the_same_labels(container: Container, archive: Archive) -> None:
    written: dict[str, models.Writable] = {
        "entry": models.Chain(("one", "two")),
        "one": models.adder(1),
        "two": models.adder(2),
    }
    container.load("chain", archive(**written), **{TARGET: "chain.tar.gz"})
    try:
        assert values(container.invoke("chain", infer([1]))) == [4.0]
        found = scrape(container)
        counts = {
            dict(labels)["step"]: value
            for (name, labels), value in found.items()
            if name == "nv_inference_count_total" and ("model_name", "chain") in labels
        }
        assert counts == {"": 1, "one": 1, "two": 1}
        assert not any("model" in dict(labels) for _, labels in found)
    finally:
        container.unload("chain")


@BOTH
def test_triton_has_the_metrics_that_are_written_about(container: Container) -> None:
    """Of the dashboard in examples/observe, and of the pages."""
    names = {line.partition("{")[0] for line in container.http.get("/metrics").text.splitlines()}
    assert names >= TRITON_METRICS


def test_a_model_that_leaves_takes_its_series_along(container: Container, archive: Archive) -> None:
    """The next page shows what it did until its end; soon there is nothing of it."""
    directory = archive(m=models.identity)
    with container.loaded("leaving", directory):
        container.invoke("leaving", infer([1]))
        until(
            lambda: (
                sample(
                    scrape(container),
                    "serve_model_memory_bytes",
                    target_model="leaving",
                    model_name="leaving",
                )
                > 1_000_000
            ),
            "the memory of its processes is shown",
        )
        container.invoke("leaving", infer([1]))
    last = scrape(container)
    labels = {"target_model": "leaving", "model_name": "leaving"}
    assert sample(last, "serve_invocations_total", **labels, code="200") == 2
    until(lambda: not names_a_model(scrape(container), "leaving"), "its series have ended")
    with container.loaded("leaving", directory):
        assert sample(scrape(container), "serve_invocations_total", **labels, code="200") == 2


def test_versions_are_told(container: Container) -> None:
    """Of the container, of tritonserver and of what runs Python models."""
    (told,) = [dict(labels) for name, labels in scrape(container) if name == "serve_build_info"]
    assert told["version"] == __version__
    assert told["python"].count(".") == 2
    assert re.fullmatch(r"2\.\d+\.\d+", told["tritonserver"])
    assert told["nvtabular"].startswith("23.")


def test_loads_by_result_and_stage(container: Container, archive: Archive) -> None:
    before = scrape(container)
    with container.loaded("good", archive(m=models.identity)):
        during = scrape(container)
    broken = archive("broken", m=models.unwilling)
    assert container.load("bad", broken).status_code == 400
    after = scrape(container)

    def grown(name: str, **labels: str) -> float:
        return sample(after, name, **labels) - sample(before, name, **labels)

    assert sample(during, "serve_models_loaded") == sample(before, "serve_models_loaded") + 1
    assert grown("serve_loads_total", result="loaded") == 1
    assert grown("serve_loads_total", result="refused") == 1
    assert grown("serve_loads_total", result="failed") == 0
    assert grown("serve_unloads_total", result="unloaded") == 1
    assert grown("serve_refusals_total", cause="archive") == 1
    for stage in ("total", "read", "tritonserver"):
        assert grown("serve_load_seconds_count", stage=stage) == 2
    assert grown("serve_load_seconds_sum", stage="total") > grown(
        "serve_load_seconds_sum", stage="tritonserver"
    )


@BOTH
def test_a_dead_stub_is_a_revival(mortal: Container, archive: Archive) -> None:
    """The caller gets his answer; the page says what it took."""
    labels = {"cause": "stub", "result": "revived"}
    with mortal.loaded("dying", archive(m=models.identity)):
        before = scrape(mortal)
        (stub,) = mortal.stubs("dying")
        os.kill(stub, signal.SIGKILL)
        until(lambda: stub not in mortal.stubs("dying"), "the stub is gone")
        assert values(mortal.invoke("dying", infer([1]))) == [1.0]
        after = scrape(mortal)
    name = "serve_revivals_total"
    assert sample(after, name, **labels) == sample(before, name, **labels) + 1
    asked = {"target_model": "dying", "model_name": "dying", "code": "200"}
    assert sample(after, "serve_invocations_total", **asked) == 1


def test_off(tmp_path: Path) -> None:
    """Switched off there is no page; tritonserver has none either."""
    with running(tmp_path, SERVE_METRICS="off") as container:
        assert container.http.get("/metrics").status_code == 404
        arguments = Path(f"/proc/{container.triton()}/cmdline").read_text().split("\0")
        assert "--allow-metrics=false" in arguments
