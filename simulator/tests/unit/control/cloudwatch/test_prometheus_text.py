"""A container's page as it is published."""

from __future__ import annotations

import pytest

from merlin_simulator.control.cloudwatch.published import Deltas, samples_of

PAGE = """# HELP serve_invocations_total Invocations.
# TYPE serve_invocations_total counter
serve_invocations_total{code="200",step=""} %d
# TYPE serve_models_loaded gauge
serve_models_loaded 3
# TYPE serve_load_seconds histogram
serve_load_seconds_bucket{le="1"} 1
serve_load_seconds_bucket{le="+Inf"} 2
serve_load_seconds_sum %s
serve_load_seconds_count 2
serve_load_seconds_created 1.7e9
# TYPE rate gauge
rate NaN
untyped_things 7
"""


def read(page: str, deltas: Deltas) -> dict[str, float]:
    return {sample.name: sample.value for sample in deltas.of(samples_of(page))}


def test_totals_are_published_as_what_came_since() -> None:
    deltas = Deltas()
    assert read(PAGE % (5, "1.5"), deltas) == {"serve_models_loaded": 3, "untyped_things": 7}
    assert read(PAGE % (9, "2.0"), deltas) == {
        "serve_invocations_total": 4,
        "serve_models_loaded": 3,
        "serve_load_seconds_sum": 0.5,
        "serve_load_seconds_count": 0,
        "untyped_things": 7,
    }


def test_a_total_that_comes_later_was_nothing_before() -> None:
    """A model's, as soon as it is asked."""
    deltas = Deltas()
    read("# TYPE a counter\na_total 5\n", deltas)
    page = "# TYPE a counter\na_total 6\n# TYPE b counter\nb_total 3\n"
    assert read(page, deltas) == {"a_total": 1, "b_total": 3}


def test_a_total_that_began_again_is_what_it_is() -> None:
    deltas = Deltas()
    read(PAGE % (100, "9.0"), deltas)
    assert read(PAGE % (2, "0.5"), deltas)["serve_invocations_total"] == 2


def test_labels_without_a_value_are_no_dimensions() -> None:
    (sample,) = [one for one in samples_of(PAGE % (1, "1")) if one.name.endswith("ns_total")]
    assert sample.labels == {("code", "200")}


def test_what_is_no_page_is_an_error() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        samples_of("<html>no metrics</html> {")


@pytest.mark.parametrize("line", ['a{b="c", ="e"} 1', '{"x.y,z}"q"} 3', "a{b", "{", "a{b} 1"])
def test_what_no_parser_expects_is_no_page(line: str) -> None:
    """One container's nonsense is an error of the one kind that its reader awaits."""
    with pytest.raises(ValueError, match="no Prometheus text"):
        samples_of(f"{line}\n")
