"""Figures of archives, from what others have measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from merlin_simulator.plans.calibration.from_metrics import make_figures_of_metrics
from merlin_simulator.plans.calibration.from_verify import make_figures_of_verify
from merlin_simulator.plans.errors import Impossible, UnusableFile
from merlin_simulator.plans.instance_types.table import find_instance_type
from merlin_simulator.rules import GIB

COST = {
    "form": "ensemble",
    "load_s": 1.5,
    "p50_s": 0.01,
    "p95_s": 0.02,
    "resident_bytes": 200,
    "proportional_bytes": 100,
}
METRICS = """\
# TYPE serve_model_memory_bytes gauge
serve_model_memory_bytes{model_name="x",target_model="a"} 1000
serve_model_memory_bytes{model_name="y",target_model="b"} 3000
# TYPE serve_load_seconds histogram
serve_load_seconds_bucket{le="0.5",stage="total"} 0
serve_load_seconds_bucket{le="1.0",stage="total"} 4
serve_load_seconds_bucket{le="+Inf",stage="total"} 4
serve_load_seconds_bucket{le="0.5",stage="publish"} 4
serve_load_seconds_bucket{le="+Inf",stage="publish"} 4
# TYPE serve_invocation_seconds histogram
serve_invocation_seconds_bucket{le="0.01",part="total",target_model="a"} 50
serve_invocation_seconds_bucket{le="0.02",part="total",target_model="a"} 50
serve_invocation_seconds_bucket{le="+Inf",part="total",target_model="a"} 50
serve_invocation_seconds_bucket{le="0.01",part="total",target_model="b"} 0
serve_invocation_seconds_bucket{le="0.02",part="total",target_model="b"} 50
serve_invocation_seconds_bucket{le="+Inf",part="total",target_model="b"} 50
"""


def test_what_verify_has_measured(tmp_path: Path) -> None:
    """Of the form that is served; p50 and p95 are where they were."""
    path = tmp_path / "verify.json"
    other = {**COST, "form": "executor", "load_s": 9.0}
    path.write_text(json.dumps({"archive": "a", "served_as": "ensemble", "costs": [other, COST]}))
    figures = make_figures_of_verify(path)
    assert (figures.memory, figures.loads) == (100, (1.5,))
    assert (figures.services[10], figures.services[19]) == pytest.approx((0.01, 0.02))
    assert list(figures.services) == sorted(figures.services)


def test_a_compiled_form_is_the_served_one(tmp_path: Path) -> None:
    """A container compiles workflows where it can, so that is what its instances will hold."""
    path = tmp_path / "verify.json"
    compiled = {**COST, "form": "ensemble, compiled", "load_s": 0.5, "proportional_bytes": 40}
    forms = [{**COST, "form": "executor"}, COST, compiled]
    path.write_text(json.dumps({"archive": "a", "served_as": "ensemble", "costs": forms}))
    figures = make_figures_of_verify(path)
    assert (figures.memory, figures.loads) == (40, (0.5,))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"costs": [', ":1:12: found no JSON"),
        ("[]", "found another JSON"),
        (json.dumps({"served_as": "x", "costs": []}), "found no timed requests"),
        (json.dumps({"served_as": "x", "costs": [COST]}), "found no timed requests"),
    ],
)
def test_what_verify_has_not_measured(tmp_path: Path, text: str, said: str) -> None:
    """One sentence."""
    path = tmp_path / "verify.json"
    path.write_text(text)
    with pytest.raises(UnusableFile) as refused:
        make_figures_of_verify(path)
    assert said in str(refused.value)


def test_what_a_container_publishes(tmp_path: Path) -> None:
    """Quantiles of its histograms, over all its models."""
    path = tmp_path / "metrics.txt"
    path.write_text(METRICS)
    figures = make_figures_of_metrics(str(path))
    assert figures.memory == 2000
    assert (figures.loads[0], figures.loads[10], figures.loads[20]) == (0.5, 0.75, 1.0)
    assert (figures.services[5], figures.services[10]) == pytest.approx((0.005, 0.01))
    assert figures.services[20] == 0.02


@pytest.mark.parametrize(
    ("text", "said"), [("{", "found no Prometheus text"), ("", "found no loads, memory")]
)
def test_what_is_no_page_of_metrics(tmp_path: Path, text: str, said: str) -> None:
    """One sentence."""
    path = tmp_path / "metrics.txt"
    path.write_text(text)
    with pytest.raises(UnusableFile) as refused:
        make_figures_of_metrics(str(path))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("name", "cores", "memory", "gpu"),
    [
        ("ml.g4dn.xlarge", 4, 16, 16),
        ("ml.g5.12xlarge", 48, 192, 24),
        ("ml.m5.large", 2, 8, None),
        ("ml.c5.9xlarge", 36, 72, None),
        ("ml.p3.2xlarge", 8, 61, 16),
        ("ml.g6e.xlarge", 4, 32, 48),
        ("ml.t2.medium", 2, 4, None),
    ],
)
def test_instance_types(name: str, cores: int, memory: int, gpu: int | None) -> None:
    """vCPUs, memory and the memory of one GPU, by AWS's tables."""
    found = find_instance_type(name)
    assert (found.cores, found.memory) == (cores, memory * GIB)
    assert found.gpu_memory == (None if gpu is None else gpu * GIB)


def test_types_that_are_not_known() -> None:
    """With families that are like it."""
    with pytest.raises(Impossible, match=r"'ml\.g7dn\.xlarge'.*g4dn"):
        find_instance_type("ml.g7dn.xlarge")
    with pytest.raises(Impossible, match=r"'m5\.xlarge'.*: ml\.m5\.xlarge$"):
        find_instance_type("m5.xlarge")
