"""tritonserver's page with model names taken apart."""

from __future__ import annotations

import pytest

from serve.telemetry.triton_page import pick_trusted_lines, rename_models

HEAD = """# HELP nv_inference_count Number of inferences performed
# TYPE nv_inference_count counter
"""
PAGE = """# HELP nv_inference_count Number of inferences performed
# TYPE nv_inference_count counter
nv_inference_count{model="shop",namespace="/tmp/serve-x/serving",version="1"} 3
nv_inference_count{model="a=_b.1_predict",version="1"} 4
# HELP nv_pinned_memory_pool_total_bytes Pinned memory pool total memory size, in bytes
# TYPE nv_pinned_memory_pool_total_bytes gauge
nv_pinned_memory_pool_total_bytes 268435456
# HELP nv_energy_consumption GPU energy consumption in joules
# TYPE nv_energy_consumption counter
nv_energy_consumption{gpu_uuid="GPU-1"} 1.5
# HELP nv_x x
# TYPE nv_x counter
nv_x{kind="gpu",model="shop.step.with.dots",submodel="shop"} 1
"""


def renamed(page: str) -> str:
    targets = {name: f'{name}.tar.gz"' for name in ("shop", "a.b")}
    return b"".join(rename_models(page, targets, {})).decode()


def test_models_become_target_name_and_step() -> None:
    lines = renamed(PAGE).splitlines()
    first = r'target_model="shop.tar.gz\"",model_name="shop",step="",version="1"'
    assert lines[2] == f"nv_inference_count{{{first}}} 3"
    second = r'target_model="a.b.tar.gz\"",model_name="a.b",step="1_predict",version="1"'
    assert lines[3] == f"nv_inference_count{{{second}}} 4"
    assert 'step="step.with.dots",submodel="shop"' in lines[-1]


def test_what_names_no_model_stays() -> None:
    before, after = PAGE.splitlines(), renamed(PAGE).splitlines()
    unnamed = [number for number, line in enumerate(before) if 'model="' not in line]
    assert len(unnamed) == len(before) - 3
    assert [after[number] for number in unnamed] == [before[number] for number in unnamed]


def test_a_long_page_comes_in_pieces() -> None:
    line = 'nv_inference_count{model="shop",version="1"} 3\n'
    pieces = list(rename_models(HEAD + line * 2000, {"shop": "shop"}, {}))
    assert len(pieces) == 14
    assert b"".join(pieces).count(b'model_name="shop"') == 2000


def test_the_newest_of_a_name() -> None:
    """Two in tritonserver are one series, the newest's; a name that nobody has now needs none."""
    page = HEAD + "".join(
        f'nv_inference_count{{model="{name}",version="1"}} {count}\n'
        for count, name in enumerate(["shop", "shop.s", "shop=-1", "shop=-1.s", "shop=-2", "a=_b"])
    )
    targets = {"shop": "shop", "a.b": "a.b"}

    def counts(entries: dict[str, str]) -> list[str]:
        lines = b"".join(rename_models(page, targets, entries)).decode().splitlines()[2:]
        return [line.rpartition(" ")[2] for line in lines]

    assert counts({"shop": "shop=-1"}) == ["2", "3", "5"]
    assert counts({"shop": "shop"}) == counts({}) == ["0", "1", "5"]
    assert counts({"shop": "shop=-2", "a.b": "a=_b=-1"}) == ["4"]


def test_models_that_are_not_shown_have_no_lines() -> None:
    """tritonserver has their numbers for a moment longer than the models."""
    left = 'nv_inference_count{model="gone.step",version="1"} 3\n'
    assert renamed(HEAD + left + PAGE[len(HEAD) :]) == renamed(PAGE)


@pytest.mark.parametrize("name", ['a\\"b', "a\\nb", "a\\\\", 'shop.x\\",version=\\"1'])
def test_a_name_that_needs_escapes_breaks_no_page(name: str) -> None:
    """An archive's step may be called anything: Prometheus would refuse the page of all."""
    odd = f'nv_inference_count{{model="shop.{name}",version="1"}} 3\n'
    assert renamed(HEAD + odd + PAGE[len(HEAD) :]) == renamed(PAGE)


def family(name: str, *lines: str, help_text: str = "a model's own", kind: str = "counter") -> str:
    """As tritonserver writes one that a model has made: the help text as it is."""
    return f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n" + "".join(f"{x}\n" for x in lines)


def test_what_a_model_adds_is_kept() -> None:
    """Of any kind; of labels only one that names a Triton model is taken apart."""
    added = family(
        "shop_rows",
        'shop_rows_bucket{kind="a",le="+Inf"} 3',
        "shop_rows_count 3",
        "shop_rows_sum 1.5e+06",
        'shop_rows{words="a \\"b\\" {c}"} NaN',
        kind="histogram",
    )
    assert renamed(PAGE + added) == renamed(PAGE) + added


@pytest.mark.parametrize(
    "added",
    [
        family("nv_inference_count", 'nv_inference_count{model="shop",version="1"} 99'),
        family("serve_invocations_total", 'serve_invocations_total{target_model="x"} 99'),
        family("serve_models_loaded", "serve_models_loaded 99", kind="gauge"),
    ],
    ids=["tritonserver's", "ours", "a gauge of ours"],
)
def test_nobody_speaks_in_the_name_of_others(added: str) -> None:
    assert renamed(PAGE + added) == renamed(PAGE)


@pytest.mark.parametrize(
    "line",
    [
        'shop_rows{user="u\u2028x"} 1 2 3',
        'shop_rows{user="u',
        "shop_rows{user=} 1",
        "shop_rows twelve",
        "shop_rows",
        'serve_invocations_total{target_model="x",code="500"} 1000000',
        'shop_rows{user="\x85\x0b"} 1',
        "",
    ],
)
def test_lines_that_would_make_the_page_unreadable_are_left_out(line: str) -> None:
    """Or that are of another family than the one that they stand under."""
    added = family("shop_rows", "shop_rows 1", line, help_text="rows\nnv_inference_count 5")
    assert renamed(PAGE + added) == renamed(PAGE) + (
        "# HELP shop_rows rows\n# TYPE shop_rows counter\nshop_rows 1\n"
    )


def test_models_lines_are_bounded() -> None:
    """Each of them is a series, and with CloudWatch a metric that is paid for."""
    added = family("shop_rows", *(f'shop_rows{{user="u{number}"}} 1' for number in range(20_000)))
    kept = list(pick_trusted_lines(added + PAGE))
    assert sum("shop_rows" in line for line in kept) < 1000
    assert sum(line.startswith("nv_inference_count") for line in kept) == 2


def test_characters_that_end_lines_elsewhere_do_not_here() -> None:
    line = 'shop_rows{user="u\u2028x"} 1'
    assert line in renamed(PAGE + family("shop_rows", line))
