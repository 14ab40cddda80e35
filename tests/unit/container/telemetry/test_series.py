"""One form for all numbers: the meters', the registries', tritonserver's page."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Info
from prometheus_client import Counter as PrometheusCounter
from prometheus_client import Histogram as PrometheusHistogram

from container.telemetry.deltas import subtract
from container.telemetry.series import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    Distribution,
    MeterKey,
    Series,
    read_families,
    read_meter,
    read_meters,
    read_triton_page,
)
from serve.telemetry.exposition import MODELS, ModelNumbers
from serve.telemetry.invocation_record import InvocationRecord
from serve.telemetry.meters import BUCKETS_S, Meters

PAGE = """\
# HELP nv_inference_count Number of inferences
# TYPE nv_inference_count counter
nv_inference_count{namespace="/tmp/x",model="shop-a.step",version="1"} 3
nv_inference_count{model="shop-a",version="1"} 4
# TYPE nv_own_total counter
nv_own_total 2
# TYPE nv_energy_consumption counter
nv_energy_consumption{gpu_uuid="G"} 1.5e+07
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization NaN
# TYPE nv_inference_request_summary_us summary
nv_inference_request_summary_us{model="shop-a",quantile="0.5"} 17
nv_inference_request_summary_us_count{model="shop-a"} 3
nv_inference_request_summary_us_sum{model="shop-a"} 90
# TYPE nv_first_response_ms histogram
nv_first_response_ms_count{model="shop-a"} 6
nv_first_response_ms_sum{model="shop-a"} 700
nv_first_response_ms_bucket{model="shop-a",le="100"} 1
nv_first_response_ms_bucket{model="shop-a",le="500"} 5
nv_first_response_ms_bucket{model="shop-a",le="+Inf"} 6
"""


def test_tritonservers_page_is_taken_apart() -> None:
    """Its models by archive, model and step; its counters under their own names."""
    found = list(read_triton_page(PAGE, lambda name: f"{name}.tar.gz", {}))
    shop = {"target_model": "shop-a.tar.gz", "model_name": "shop-a"}
    entry = {**shop, "step": ""}
    by_name = [(each.name, each.kind, each.labels, each.value) for each in found]
    assert by_name[:4] == [
        ("nv_inference_count", COUNTER, {**shop, "step": "step", "version": "1"}, 3),
        ("nv_inference_count", COUNTER, {**entry, "version": "1"}, 4),
        ("nv_own_total", COUNTER, {}, 2),
        ("nv_energy_consumption", COUNTER, {"gpu_uuid": "G"}, 1.5e7),
    ]
    assert by_name[5:] == [
        ("nv_inference_request_summary_us", GAUGE, {**entry, "quantile": "0.5"}, 17),
        ("nv_inference_request_summary_us_count", COUNTER, entry, 3),
        ("nv_inference_request_summary_us_sum", COUNTER, entry, 90),
        ("nv_first_response_ms", HISTOGRAM, entry, Distribution((100.0, 500.0), (1, 4, 1), 700)),
    ]


def test_the_newest_of_a_name_is_read() -> None:
    """One that leaves, of which nobody asks any more, is no second series of the same labels."""
    page = PAGE.replace('"shop-a"', '"shop-a=-1"') + PAGE.replace("nv_", "nv_old_")
    newest = read_triton_page(page, str, {"shop-a": "shop-a=-1"})
    named = {each.name for each in newest if each.labels.get("model_name") == "shop-a"}
    assert named == {
        "nv_inference_count",
        "nv_inference_request_summary_us",
        "nv_inference_request_summary_us_count",
        "nv_inference_request_summary_us_sum",
        "nv_first_response_ms",
    }


def test_a_page_of_many_models_is_read_whole() -> None:
    """It is read in parts, between which others get their turn; what belongs together stays so."""
    kinds = {"nv_a": "counter", "nv_b_total": "counter", "nv_c": "gauge"}
    rows = {name: [f'{name}{{model="m{n}"}} {n}\n' for n in range(1000)] for name in kinds}
    buckets = [f'nv_h_bucket{{le="{n}.0"}} {n}\n' for n in range(400)]
    page = "".join(
        f"# HELP {name} x\n# TYPE {name} {kind}\n" + "".join(rows[name])
        for name, kind in kinds.items()
    )
    page += "# TYPE nv_h histogram\n" + "".join(buckets)
    page += 'nv_h_bucket{le="+Inf"} 400\nnv_h_sum 7\n'
    found = list(read_triton_page(page, lambda name: name, {}))
    read = [(each.name, each.labels["model_name"], each.value) for each in found[:-1]]
    assert read == [(name, f"m{n}", n) for name in kinds for n in range(1000)]
    histogram = found[-1].value
    assert isinstance(histogram, Distribution)
    assert (len(histogram.bounds), histogram.count) == (400, 400)


def test_a_series_goes_on_when_its_archive_is_named() -> None:
    """Its key is tritonserver's own."""
    before = [each.key for each in read_triton_page(PAGE, lambda name: name, {})]
    after = [each.key for each in read_triton_page(PAGE, lambda name: f"{name}.tar.gz", {})]
    assert before == after
    assert len(set(after)) == len(after)


def test_a_registry_is_read_as_its_page_shows_it() -> None:
    """Counters under `_total`, histograms by their buckets, infos as gauges."""
    registry = CollectorRegistry()
    PrometheusCounter("loads", "x", ["result"], registry=registry).labels("loaded").inc(2)
    histogram = PrometheusHistogram("s", "x", ["stage"], buckets=(1.0, 2.0), registry=registry)
    for seconds in (0.5, 1.5, 1.75, 9.0):
        histogram.labels("total").observe(seconds)
    Info("build", "x", registry=registry).info({"python": "3"})
    found = {each.name: each for each in read_families(registry.collect())}
    assert set(found) == {"loads_total", "s", "build_info"}
    assert (found["loads_total"].kind, found["loads_total"].value) == (COUNTER, 2)
    assert found["s"].value == Distribution((1.0, 2.0), (1, 2, 1), 12.75)
    assert found["s"].labels == {"stage": "total"}
    assert (found["build_info"].kind, found["build_info"].labels) == (GAUGE, {"python": "3"})


def test_a_meter_has_all_families_of_the_page() -> None:
    """With their names and labels."""
    meters = Meters()
    meter = meters.begin("3fb1")
    meter.name_target("shop.tar.gz")
    meter.invoked(InvocationRecord("3fb1", status=200, seconds=0.7, request_bytes=5))
    numbers = ModelNumbers({"3fb1": 1}, {"3fb1": 2}, {"3fb1": 3})
    found = list(read_meters([read_meter(meter)], numbers))
    families = {family.name: family for family in MODELS}
    assert {each.name for each in found} == set(families)
    assert len({each.key for each in found}) == len(found)
    for each in found:
        assert (each.kind, tuple(each.labels)) == (
            families[each.name].kind,
            families[each.name].labels,
        )
        assert each.labels["target_model"] == "shop.tar.gz"
    total = next(each.value for each in found if each.labels.get("part") == "total")
    assert isinstance(total, Distribution)
    assert (total.bounds, total.count, total.sum) == (BUCKETS_S, 1, 0.7)


def test_features_of_each_column() -> None:
    """With the names and labels of the page; a model that comes back goes on under their keys."""
    meters = Meters()
    meter = meters.begin("3fb1")
    meter.name_target("shop.tar.gz")

    def read(**columns: tuple[int, ...]) -> list[Series]:
        numbers = ModelNumbers(features={"3fb1": columns})
        series = read_meters([read_meter(meter)], numbers)
        return [each for each in series if each.name.startswith("serve_feature")]

    both = read(age=(260, 13, 7), item=(5, 0, 0))
    model = {"target_model": "shop.tar.gz", "model_name": "3fb1"}
    assert [(it.name, it.kind, it.labels, it.value) for it in both][1:4] == [
        ("serve_feature_unseen_total", COUNTER, {**model, "column": "age"}, 13),
        ("serve_feature_null_total", COUNTER, {**model, "column": "age"}, 7),
        ("serve_feature_values_total", COUNTER, {**model, "column": "item"}, 5),
    ]
    assert len({it.key for it in both}) == 6
    known = subtract({}, both).known
    keeps = subtract(known, [], lambda key: isinstance(key, MeterKey) and meters.holds(key.meter))
    meters.begin("3fb1")
    more = subtract(keeps.known, read(age=(262, 13, 7), item=(5, 0, 0))).changed
    assert [(it.name, it.value) for it in more] == [("serve_feature_values_total", 2)]
    (*_, sums) = read_meters([read_meter(meter)], ModelNumbers(features={"3fb1": {"": (2, 1, 7)}}))
    assert (sums.name, sums.labels, sums.value) == ("serve_feature_null_total", model, 7)


def test_a_reading_does_not_go_on_counting() -> None:
    """The meter does, while another thread looks at what was read."""
    meter = Meters().begin("a")
    reading = read_meter(meter)
    meter.invoked(InvocationRecord("a", status=200, seconds=1.0))
    assert (dict(reading.codes), reading.parts[0].count) == ({}, 0)


def test_a_histogram_without_numbers_is_left_out() -> None:
    """A model may write what it likes; the rest of the page is not lost for it."""
    rows = ['h_bucket{le="1"} 1\n', 'h_bucket{le="+Inf"} NaN\n', "h_sum 1\n", "h_count NaN\n"]
    odd = "# TYPE h histogram\n" + "".join(rows)
    assert len(list(read_triton_page(PAGE + odd, str, {}))) == len(
        list(read_triton_page(PAGE, str, {}))
    )
