"""The page is whole, needs nothing else, and its pictures have the buckets of the worst columns."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from ensemble_tools.serving.features import ModelFeatures
from tests.unit.verification.drift.made_counts import make_ids, make_model, make_numbers
from verification.reports.drift_page import write_drift_page
from verification.reports.drift_report import measure_drift

SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


def write(*models: ModelFeatures) -> str:
    return write_drift_page(measure_drift(models))


def pictures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in SVG.findall(page)]


def bars(picture: ElementTree.Element) -> list[float]:
    """Their heights, from left to right."""
    found = []
    for path in picture.iter("path"):
        if path.attrib["class"] == "bar first":
            bottom, top, _ = re.findall(r"(?:V| )([0-9.]+)(?= H|\"| V|$)", path.attrib["d"])
            found.append(float(bottom) - float(top))
    return found


def test_a_picture_of_each_vocabulary() -> None:
    """A bar for each bucket that has any, as high as its share; and a line of what was fitted."""
    page = write(make_model(make_ids(came=(100, 300), fitted=(300, 100)), make_numbers()))
    (picture,) = pictures(page)
    first, second = bars(picture)
    assert second / first == pytest.approx(3, rel=0.01)
    (line,) = (it for it in picture.iter("path") if it.attrib["class"] == "second")
    assert line.attrib["d"].count("V") == 2
    assert "1: 25.00 % came, 75.00 % fitted" in "".join(picture.itertext())
    assert "user_id: PSI 1.0" in page


def test_of_several_models_those_that_drift_are_drawn() -> None:
    stable = make_model(make_ids(came=(300, 100), fitted=(300, 100)), name="a", target="a")
    many = make_model(*(make_ids(f"c{n}", (100, 300), (300, 100)) for n in range(9)))
    page = write(stable, many)
    assert len(pictures(page)) == 6
    assert len(pictures(write(*[many] * 12))) == 60
    assert "drift in 1 of 2 models" in page
    assert 'class="bad"' in page
    assert 'class="good"' in write(stable)
    assert len(pictures(write(stable))) == 1


def test_names_are_escaped() -> None:
    """Names come from archives; and no other file is asked for."""
    page = write(make_model(make_ids("<script>", (100, 300), (300, 100)), target="a & b"))
    assert "<script>" not in page
    assert "a &amp; b" in page
    assert "http" not in page


def test_nothing_came() -> None:
    """No column has a picture; a model without counts says why."""
    page = write(
        make_model(make_ids(came=()), make_ids("one", came=(5,), fitted=(7,))),
        ModelFeatures("b", why_none="no workflow"),
    )
    assert pictures(page) == []
    assert "no counts: no workflow" in page
    assert "drift in 0 of 2 models; nothing is measured of 1" in page
    assert 'class="good"' not in page
