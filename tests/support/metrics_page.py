"""The container's page of metrics, read."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.support.container import Endpoint

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(endpoint: Endpoint) -> Samples:
    """Every sample of the page; a series that stands twice fails."""
    answer = endpoint.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def sample(found: Samples, name: str, **labels: str) -> float:
    """Its value; 0 where it is not there."""
    return found.get((name, frozenset(labels.items())), 0.0)
