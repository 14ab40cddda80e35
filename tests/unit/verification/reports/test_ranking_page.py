"""The page is whole, needs nothing else, and its pictures have the numbers of the report."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from ensemble_tools.answers.exchange import Refusal, TensorAnswer
from tests.unit.verification.answers import answer
from tests.unit.verification.reports.test_ranking_report import FALLING, TURNED, report, scores
from verification.reports.ranking_page import write_ranking_page
from verification.reports.ranking_report import ArchiveSide, RankingReport
from verification.reports.report import Cost, Timing
from verification.serving.memory import Memory

SVG = re.compile(r"<svg.*?</svg>", re.DOTALL)


def pictures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in SVG.findall(page)]


def points(picture: ElementTree.Element, style: str) -> list[tuple[float, float]]:
    """Where its points are."""
    return [
        (float(it.attrib["cx"]), float(it.attrib["cy"]))
        for it in picture.iter("circle")
        if it.attrib["class"] == style
    ]


def write(*replies: tuple[TensorAnswer, TensorAnswer], again: TensorAnswer | None = None) -> str:
    return write_ranking_page(report(*replies, again=again))


def test_pictures() -> None:
    """An overlap for each k that lists can differ in, and a point for each item."""
    overlaps, scatter = pictures(write((FALLING, TURNED)))
    # Lists of three candidates cannot differ in three places.
    assert len(points(overlaps, "first")) == 2
    assert "NEW: overlap@2 0.5000, lists: 1" in "".join(overlaps.itertext())
    left_to_right = sorted(points(scatter, "first"))
    assert len(left_to_right) == 3
    heights = [height for _, height in left_to_right]
    assert heights == sorted(heights)  # SVG counts downwards: the lower the score, the deeper


def test_chance() -> None:
    """The curve of OLD's own two answers stands beside NEW's."""
    overlaps, _ = pictures(write((FALLING, FALLING), again=TURNED))
    assert len(points(overlaps, "second")) == 2


def test_many_items() -> None:
    """Of more than 2,000 some are drawn, and the page says so."""
    many = answer(p=np.arange(5000, dtype=np.float32))
    page = write((many, many))
    assert "Scores of 2000 items, by lot, of 5000" in page
    assert len(points(pictures(page)[1], "first")) == 2000


@pytest.mark.parametrize("values", [(0.0, 0.0), (7.0, 7.0), (1e-30, 3e-30), (-1e30, 1e30)])
def test_scores_of_any_size(values: tuple[float, float]) -> None:
    """Also where all are the same: every place is a number, within the picture."""
    _, scatter = pictures(write((scores(*values), scores(*reversed(values)))))
    assert all(0 <= place <= 400 for point in points(scatter, "first") for place in point)
    titles = {"OLD's score", "NEW's score"}
    ticks = [label.text for label in scatter.iter("text") if label.text not in titles]
    assert len({*ticks}) > 1


def test_nothing_to_draw() -> None:
    """A list of one candidate has no overlap; where nobody answers there is no picture."""
    (scatter,) = pictures(write((scores(1), scores(2))))
    assert len(points(scatter, "first")) == 1
    assert pictures(write_ranking_page(report((Refusal("no"), Refusal("no"))))) == []


def test_words() -> None:
    """Names and refusals come from archives, and are escaped; the figures are those of the text."""
    refusal = Refusal("<script>alert(1)</script>")
    made: RankingReport = replace(
        report((FALLING, refusal), (FALLING, TURNED), bounds=("kendall=0",)),
        old=ArchiveSide("OLD", "a & b", "pure ensemble"),
        costs=(Cost("OLD", 1.0, Memory(2, 1 << 20, None), Timing(100, 0.001, 0.002)),),
    )
    page = write_ranking_page(made)
    assert "<script>" not in page
    assert "a &amp; b" in page
    assert "<td>kendall</td><td>-1.0000</td>" in page
    assert "<td>1.00 ms</td>" in page
    assert 'class="bad"' in page
    assert "http" not in page
