"""The models' numbers as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from serve.telemetry.exposition import FEATURES, MODELS, ModelNumbers, write_models
from serve.telemetry.invocation_record import InvocationRecord
from serve.telemetry.meters import BUCKETS_S, PARTS, Meters, ModelMeter, Reader

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def samples(pieces: Iterable[bytes]) -> Samples:
    """Each sample by name and labels; one that stands twice fails."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in text_string_to_metric_families(b"".join(pieces).decode()):
        for sample in family.samples:
            key = (sample.name, frozenset(sample.labels.items()))
            assert key not in found, key
            found[key] = sample.value
    return found


def of(found: Samples, name: str, **labels: str) -> float:
    return found[name, frozenset(labels.items())]


def meter(name: str, target: str = "", *records: InvocationRecord) -> ModelMeter:
    made = Meters().begin(name)
    made.name_target(target)
    for record in records:
        made.invoked(record)
    return made


def record(status: int = 200, **seconds: float) -> InvocationRecord:
    made = InvocationRecord("m", status=status, request_bytes=10, answer_bytes=100)
    for name, value in seconds.items():
        setattr(made, name, value)
    return made


def test_invocations_by_code_and_bytes() -> None:
    one = meter("m", "a.tar.gz", record(), record(), record(400))
    found = samples(write_models([one], ModelNumbers()))
    labels = {"target_model": "a.tar.gz", "model_name": "m"}
    assert of(found, "serve_invocations_total", **labels, code="200") == 2
    assert of(found, "serve_invocations_total", **labels, code="400") == 1
    assert of(found, "serve_request_bytes_total", **labels) == 30
    assert of(found, "serve_answer_bytes_total", **labels) == 300


def test_histogram_of_each_part() -> None:
    """Buckets are cumulated; a bound counts what is as long as it."""
    one = meter(
        "m",
        "a",
        record(seconds=0.0005, waiting_s=0.0, translating_s=0.002, triton_s=61.0),
        record(seconds=0.7, waiting_s=0.3, translating_s=0.0, triton_s=0.4),
    )
    found = samples(write_models([one], ModelNumbers()))

    def bucket(part: str, bound: str) -> float:
        name = "serve_invocation_seconds_bucket"
        return of(found, name, target_model="a", part=part, le=bound)

    assert [bucket("total", le) for le in ("0.0005", "0.5", "1.0", "+Inf")] == [1, 1, 2, 2]
    assert [bucket("waiting", le) for le in ("0.0005", "0.25", "0.5")] == [1, 1, 2]
    assert [bucket("tritonserver", le) for le in ("0.25", "60.0", "+Inf")] == [0, 1, 2]
    for part, sum_s in zip(PARTS, (0.7005, 0.3, 0.002, 61.4), strict=True):
        labels = {"target_model": "a", "part": part}
        assert of(found, "serve_invocation_seconds_sum", **labels) == pytest.approx(sum_s)
        assert of(found, "serve_invocation_seconds_count", **labels) == 2


def test_a_target_of_two_models_is_one_series() -> None:
    """A page on which a series stands twice is refused whole by Prometheus."""
    both = [meter("m", "a", record(seconds=1.0)), meter("n", "a", record(seconds=2.0))]
    found = samples(write_models(both, ModelNumbers()))
    assert of(found, "serve_invocation_seconds_sum", target_model="a", part="total") == 3
    for name in "mn":
        labels = {"target_model": "a", "model_name": name, "code": "200"}
        assert of(found, "serve_invocations_total", **labels) == 1


@pytest.mark.parametrize("target", ['a"b', "a\\", "a\nb", "100%d", "ü/ß.tar.gz", "{x}"])
def test_any_target_comes_back_as_it_was(target: str) -> None:
    found = samples(write_models([meter("m", target, record())], ModelNumbers({"m": 3})))
    labels = {"target_model": target, "model_name": "m"}
    assert of(found, "serve_invocations_in_flight", **labels) == 3
    assert of(found, "serve_invocation_seconds_count", target_model=target, part="total") == 1


def test_gauges_of_models_that_are_shown_only() -> None:
    numbers = ModelNumbers({"m": 1, "gone": 2}, {"m": 5}, {"m": 7})
    found = samples(write_models([meter("m")], numbers))
    labels = {"target_model": "m", "model_name": "m"}
    assert of(found, "serve_model_memory_bytes", **labels) == 5
    assert of(found, "serve_model_shared_memory_bytes", **labels) == 7
    assert not [key for key in found if ("model_name", "gone") in key[1]]


def test_features_of_a_model_and_of_its_columns() -> None:
    """The sums without `column`, or each column by its name; those of a model that is shown."""
    numbers = ModelNumbers(
        features={
            "m": {"": (260, 13, 7)},
            "n": {'a"b': (5, 1, 0), "c": (6, 0, 2)},
            "gone": {"": (1, 1, 1)},
        }
    )
    found = samples(write_models([meter("m", "shop"), meter("n")], numbers))
    counted = {key: value for key, value in found.items() if "serve_feature" in key[0]}
    assert len(counted) == 9
    shop = {"target_model": "shop", "model_name": "m"}
    assert of(found, "serve_feature_values_total", **shop) == 260
    assert of(found, "serve_feature_unseen_total", **shop) == 13
    assert of(found, "serve_feature_null_total", **shop) == 7
    other = {"target_model": "n", "model_name": "n"}
    assert of(found, "serve_feature_values_total", **other, column='a"b') == 5
    assert of(found, "serve_feature_null_total", **other, column="c") == 2


def test_thousands_of_columns_come_in_small_pieces() -> None:
    """Others get their turn between two of them."""
    columns = {f"column_{number}": (1, 2, 3) for number in range(5000)}
    pieces = list(write_models([meter("m")], ModelNumbers(features={"m": columns})))
    assert max(piece.count(b"\n") for piece in pieces) <= 500
    assert sum(piece.count(b'column="') for piece in pieces) == 3 * 5000


def test_every_family_says_what_it_is() -> None:
    page = b"".join(write_models([], ModelNumbers())).decode()
    for family in (*MODELS, *FEATURES.values()):
        assert f"# HELP {family.name} {family.meaning}\n# TYPE {family.name} {family.kind}" in page


@pytest.mark.slow
def test_pieces_are_whole_lines_and_small() -> None:
    """Others get their turn between two of them."""
    many = [meter(f"m{i}", "", record()) for i in range(100)]
    pieces = list(write_models(many, ModelNumbers()))
    assert all(piece.endswith(b"\n") or not piece for piece in pieces)
    assert max(len(piece) for piece in pieces) < 200_000
    count = sum(name.endswith("_bucket") for name, _ in samples(pieces))
    assert count == 100 * len(PARTS) * (len(BUCKETS_S) + 1)


def test_a_sum_of_an_archive_does_not_fall() -> None:
    """One of its two models leaves: a histogram that fell would count anew in Prometheus."""
    meters, clock = Meters(), iter((0.0, 60.0, 120.0)).__next__
    reader = Reader(meters, clock)
    for name in ("one", "other"):
        meters.begin(name).name_target("shop.tar.gz")
        meters.of(name).invoked(record())
    labels = {"target_model": "shop.tar.gz", "part": "total"}
    for loaded in ({"one", "other"}, {"one"}, {"one"}):
        shown = reader.read(loaded)
        timed = list(meters.of_targets({meter.target_model for meter in shown}))
        found = samples(write_models(shown, ModelNumbers(), timed))
        assert of(found, "serve_invocation_seconds_count", **labels) == 2
    assert len(shown) == 2  # of no model, and of the one that is left
