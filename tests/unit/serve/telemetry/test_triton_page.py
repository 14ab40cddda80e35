"""tritonserver's page with model names taken apart."""

from __future__ import annotations

import pytest

from serve.telemetry.triton_page import rename_models

PAGE = """# HELP nv_inference_count Number of inferences performed
# TYPE nv_inference_count counter
nv_inference_count{model="shop",namespace="/tmp/serve-x/serving",version="1"} 3
nv_inference_count{model="a~.b.1_predict",version="1"} 4
nv_pinned_memory_pool_total_bytes 268435456
nv_energy_consumption{gpu_uuid="GPU-1"} 1.5
nv_x{kind="gpu",model="shop.step.with.dots",submodel="shop"} 1
"""


def renamed(page: str) -> str:
    targets = {name: f'{name}.tar.gz"' for name in ("shop", "a.b")}
    return b"".join(rename_models(page, targets)).decode()


def test_models_become_target_name_and_step() -> None:
    lines = renamed(PAGE).splitlines()
    first = r'target_model="shop.tar.gz\"",model_name="shop",step="",version="1"'
    assert lines[2] == f"nv_inference_count{{{first}}} 3"
    second = r'target_model="a.b.tar.gz\"",model_name="a.b",step="1_predict",version="1"'
    assert lines[3] == f"nv_inference_count{{{second}}} 4"
    assert 'step="step.with.dots",submodel="shop"' in lines[6]


def test_what_names_no_model_stays() -> None:
    before, after = PAGE.splitlines(), renamed(PAGE).splitlines()
    assert [after[i] for i in (0, 1, 4, 5)] == [before[i] for i in (0, 1, 4, 5)]


def test_a_long_page_comes_in_pieces() -> None:
    line = 'nv_inference_count{model="shop",version="1"} 3\n'
    pieces = list(rename_models(line * 2000, {"shop": "shop"}))
    assert len(pieces) == 14
    assert b"".join(pieces).count(b'model_name="shop"') == 2000


def test_models_that_are_not_shown_have_no_lines() -> None:
    """tritonserver has their numbers for a moment longer than the models."""
    left = 'nv_inference_count{model="gone.step",version="1"} 3\n'
    assert renamed(PAGE + left) == renamed(PAGE)


@pytest.mark.parametrize("name", ['a\\"b', "a\\nb", "a\\\\", 'shop.x\\",version=\\"1'])
def test_a_name_that_needs_escapes_breaks_no_page(name: str) -> None:
    """An archive's step may be called anything: Prometheus would refuse the page of all."""
    odd = f'nv_inference_count{{model="shop.{name}",version="1"}} 3\n'
    assert renamed(PAGE + odd) == renamed(PAGE)
