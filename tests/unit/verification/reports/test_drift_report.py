"""The drift of models as text and as JSON: the worst first, and every figure in its place."""

from __future__ import annotations

import json

from ensemble_tools.serving.features import ModelFeatures
from ensemble_tools.workflows.runtime.feature_counts import ColumnCounts
from tests.unit.verification.drift.made_counts import make_ids, make_model, make_numbers
from verification.drift.documents import read_document
from verification.reports.drift_report import (
    build_drift_json,
    measure_drift,
    write_drift_lines,
)

#: One column of each severity.
STABLE = make_ids("country", came=(300, 100), fitted=(300, 100))
MODERATE = make_ids("item_id", came=(970,), fitted=(1000,), unseen=30)
LARGE = make_numbers("age", times=100)
SHOP = make_model(STABLE, MODERATE, LARGE)
QUIET = make_model(STABLE, name="77aa", target="77aa")
NONE = ModelFeatures("00bb", "none.tar.gz", why_none="the archive has no NVTabular workflow")


def printed(*models: ModelFeatures) -> list[str]:
    return list(write_drift_lines(measure_drift(models)))


def test_one_model() -> None:
    """All its columns, the worst first."""
    title, head, _, *rows = printed(SHOP)
    assert title == "shop (3fb1): 1000 rows came; columns: 3, of which drift 2, 1 of them much"
    assert head.split("  ")[0] == "column"
    assert [row.split() for row in rows] == [
        ["age", "400", "-", "0.00", "0.00", "-", "+0.50", "0.50", "large"],
        ["item_id", "1000", "3.00", "0.00", "-", "0.000", "-", "-", "moderate"],
        ["country", "400", "0.00", "0.00", "-", "0.000", "-", "-", "stable"],
    ]


def test_large_figures_have_exponents() -> None:
    """A sentinel such as the largest float moves a mean by some 10³⁷ standard deviations."""
    row = printed(make_model(make_numbers("age", numbers=(0.0, 3e38))))[-1]
    assert row.split()[-3:] == ["+3.8e+37", "3.8e+37", "large"]


def test_several_models() -> None:
    """Each with its worst column in one table, then the columns that drift; the worst first."""
    lines = printed(NONE, QUIET, SHOP)
    overview = [line.split()[:2] for line in lines[2:5]]
    assert overview == [["shop", "(3fb1)"], ["77aa", "country"], ["none.tar.gz", "(00bb)"]]
    text = "\n".join(lines)
    assert "none.tar.gz (00bb): no counts: the archive has no NVTabular workflow" in text
    assert "77aa: 400 rows came; columns: 1, of which drift 0, 0 of them much" in text
    assert text.count("country") == 1


def test_what_nothing_is_known_of_is_not_stable() -> None:
    """A column without values, as before the first request; one without any measure."""
    title, _, _, row = printed(make_model(make_ids(came=())))
    assert title == "shop (3fb1): 0 rows came, and no values to measure; columns: 1"
    assert row.split() == ["user_id", "0", *"------", "no", "values"]
    silent = ColumnCounts("visits", 4, 4, 4, has_keys=False)
    row = printed(make_model(silent))[-1]
    assert row.split() == ["visits", "4", "-", "0.00", *"-----"]
    drift = json.loads(build_drift_json(measure_drift([make_model(silent)])))["models"][0]["drift"]
    assert drift[0]["severity"] is None


def test_no_models() -> None:
    assert printed() == ["no model is loaded"]


def test_what_chance_may_have_made_is_marked() -> None:
    """A shift of .5 of four values."""
    row = printed(make_model(make_numbers()))[-1]
    assert row.split()[5:] == ["-", "+0.50", "?", "0.50", "stable"]


def test_columns_of_several_workflows_bear_their_names() -> None:
    """Two workflows may both have a column user_id."""
    two = ModelFeatures("a", "", {"retrieval": (STABLE,), "ranking": (STABLE,)})
    names = [row.split("  ")[0] for row in printed(two)[3:]]
    assert sorted(names) == ["ranking: country", "retrieval: country"]


def test_a_sample_says_so() -> None:
    row = printed(make_model(make_numbers(times=100, counted=100)))[-1]
    assert "400 (25 % looked at)" in row


def test_names_of_archives_do_nothing_to_a_terminal() -> None:
    lines = printed(make_model(make_ids("a\x1b[2Jb"), target="c\x1b]0;d"))
    assert not any("\x1b" in line for line in lines)


def test_json_has_the_measures_and_is_read_again() -> None:
    """In the order of the table; what is not measured is null."""
    content = build_drift_json(measure_drift([QUIET, SHOP, NONE]))
    assert read_document("counts.json", content) == [SHOP, QUIET, NONE]
    shop = json.loads(content)["models"][0]
    age, item, _ = shop["drift"]
    assert age == {
        "workflow": "0_transformworkflowtriton",
        "column": "age",
        "unseen": None,
        "nulls": 0.0,
        "outside": 0.0,
        "psi": None,
        "psi_by_chance": None,
        "shift": 0.5,
        "shift_by_chance": 1.96 / 20,
        "spread": 0.5,
        "severity": "large",
    }
    assert (item["column"], item["unseen"], item["severity"]) == ("item_id", 0.03, "moderate")
