"""GET /metrics: what tritonserver and the models' Python say of themselves, as we pass it on."""

from __future__ import annotations

import re

from container import __version__
from tests.contract.conftest import Archive
from tests.support import models
from tests.support.container import Container, until
from tests.support.metrics_page import Samples, scrape
from tests.support.protocol import infer, values
from tests.support.triton_metrics import TRITON_METRICS
from tests.support.tritons import BOTH


def count_inferences(samples: Samples) -> dict[str, float]:
    """Those of each step of the chain."""
    return {
        dict(labels)["step"]: value
        for (name, labels), value in samples.items()
        if name == "nv_inference_count_total" and ("model_name", "chain") in labels
    }


def versions(samples: Samples) -> dict[str, str]:
    (told,) = [dict(labels) for name, labels in samples if name == "serve_build_info"]
    return told


@BOTH
def test_what_tritonserver_counts(container: Container, archive: Archive) -> None:
    """Its own numbers bear the labels of ours, step by step; it has those of the dashboard in
    examples/observe, and of the pages; versions are told, of models' Python as well."""
    steps = {"one": models.adder(1), "two": models.adder(2)}
    with container.loaded("chain", archive(**steps, entry=models.Chain(tuple(steps)))):
        assert values(container.invoke("chain", infer([1]))) == [4.0]
        counted = {"": 1, "one": 1, "two": 1}  # perhaps just after the answer
        pages: list[Samples] = []

        def is_counted() -> bool:
            pages.append(scrape(container))
            return count_inferences(pages[-1]) == counted and bool(
                versions(pages[-1])["tritonserver"]
            )

        until(is_counted, "it is counted", container)
        found = pages[-1]
    assert not any("model" in dict(labels) for _, labels in found)

    def has_all() -> bool:  # a tritonserver that is kept waiting is left out
        page = container.http.get("/metrics").text
        return {line.partition("{")[0] for line in page.splitlines()} >= TRITON_METRICS

    until(has_all, "all of its numbers are there", container)
    told = versions(found)
    assert told["version"] == __version__
    assert told["python"].count(".") == 2
    assert re.fullmatch(r"2\.\d+\.\d+", told["tritonserver"])
    assert told["nvtabular"].startswith("23.")
