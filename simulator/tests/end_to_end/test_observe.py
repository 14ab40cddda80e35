"""examples/observe: a real Prometheus beside real containers, and the three counts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from examples.observe.counts import agree, count_report, count_series, write_table
from examples.observe.prometheus import find_prometheus
from examples.observe.relay import Pages
from tests.support.container import ROOT

#: Two containers, a Prometheus and their ends, on a machine that others use too.
EXAMPLE_S = 200.0


@pytest.mark.tritonserver
def test_prometheus_counts_what_was_asked(tmp_path: Path) -> None:
    """To the request, of models that were evicted, too; nothing of it stays."""
    # However slow the machine is, models leave. A container takes 61 MB and 21 more for each model:
    # the fourth has no room below 90 %. Loads that go on one by one wait for room one by one, too,
    # when it is known what a model takes. Of 13 models one container is asked for seven at least.
    traffic = ("--models", "16", "--seconds", "6", "--rps", "5")
    rules = ("--memory", "150MB", "--loads-at-once", "1", "--scrape-every", "3")
    ended = subprocess.run(
        [sys.executable, "-m", "examples.observe.observe", *traffic, *rules],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=EXAMPLE_S,
    )
    assert ended.returncode == 0, ended.stdout
    assert "The three counts agree." in ended.stdout
    assert int(re.findall(r"(\d+) evictions; \d+ pages", ended.stdout)[0]) > 0, ended.stdout
    assert re.search(r"^model-01\.tar\.gz +400 +2 +2 +2$", ended.stdout, re.MULTILINE)
    assert "asked no container: 2" in ended.stdout
    assert list(tmp_path.iterdir()) == []


def test_one_request_more_or_less_is_seen() -> None:
    """In each of the three; and nothing at all is no agreement."""
    whole = Counter({("a", "200"): 3, ("a", "500"): 1})
    less = Counter({("a", "200"): 2, ("a", "500"): 1})
    moved = Counter({("a", "200"): 3, ("a", "503"): 1})
    assert agree(whole, whole, whole)
    for other in (less, moved, Counter[tuple[str, str]]()):
        assert not agree(other, whole, whole)
        assert not agree(whole, other, whole)
        assert not agree(whole, whole, other)
    assert not agree(Counter(), Counter(), Counter())
    assert write_table(whole, less, whole).count("≠") == 1


def test_what_is_counted_of_each() -> None:
    """A page's last word on each model of each container, Prometheus' sums, the report's models."""
    pages = Pages()
    line = 'serve_invocations_total{{target_model="a",model_name="m",code="200"}} {}\n'
    for container, count in (("one", 2), ("one", 3), ("two", 4)):
        pages.take(container, "# TYPE serve_invocations_total counter\n" + line.format(count))
    pages.take("one", "serve_models_loaded 0\n")  # it has left
    assert pages.counts() == {("a", "200"): 7}
    series = [{"metric": {"target_model": "a", "code": "200"}, "value": [1.0, "7"]}]
    assert count_series(series) == {("a", "200"): 7}
    statuses = {"200": 6, "0": 1, "none": 2}
    report = {"models": [{"target_model": "a", "container_statuses": statuses}]}
    assert count_report(report) == ({("a", "200"): 6, ("a", "499"): 1}, 2)


def test_without_prometheus_it_ends_and_says_so() -> None:
    with pytest.raises(SystemExit, match="apt-get install prometheus"):
        find_prometheus(path="/nowhere")
