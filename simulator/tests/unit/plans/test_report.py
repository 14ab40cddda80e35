"""A plan's report: one page, its plots, and the trade-off as a picture of its own."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from merlin_simulator.plans.candidates.answers import Plan
from merlin_simulator.plans.candidates.trying import try_all
from merlin_simulator.plans.errors import UnusableFile
from merlin_simulator.plans.report.figures import draw_cold_shares, draw_day, draw_trade_off
from merlin_simulator.plans.report.page import find_shown, write_plan_page
from merlin_simulator.plans.run import plan as run_plan
from merlin_simulator.plans.run import write_report
from merlin_simulator.plans.settings.settings import Autoscaling, Goals, PlanSettings
from merlin_simulator.plans.traffic.making import make_traffic
from simulator.tests.support.tags import Tags
from simulator.tests.unit.plans.test_plan import LARGE, SETTINGS


def planned(settings: PlanSettings) -> Plan:
    return try_all(settings, make_traffic(settings), lambda what, share: None)


@pytest.fixture(scope="module")
def found() -> Plan:
    return planned(SETTINGS)


@pytest.fixture(scope="module")
def text(found: Plan) -> str:
    return write_plan_page(found)


def test_the_page_needs_nothing_else(text: str) -> None:
    """One well-formed file: no script, no address, no other file; ids are unique."""
    tags = Tags(text)
    assert not tags.open
    assert not {name for name, _ in tags.found} & {"script", "link", "img", "iframe"}
    links = [attributes.get("xlink:href") or attributes.get("href") for _, attributes in tags.found]
    assert all(link.startswith("#") for link in links if link)
    ids = [attributes["id"] for _, attributes in tags.found if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_page_says_what_was_found(found: Plan, text: str) -> None:
    """The answer, each candidate with what it is refused for, sources, and how sure it is."""
    best = find_shown(found)
    assert f"The cheapest that meets the goals: {best.candidate.words}" in text
    assert "What breaks first" in text
    for answer in found.answers:
        assert f'<th scope="row">{answer.candidate.words}</th>' in text
    assert text.count("refused: ") == sum(not answer.good for answer in found.answers) > 0
    assert text.count(">chosen<") == 1
    for words in (
        "22 models fit on an instance",
        "Figures from given by hand.",
        "Zipf, exponent 0.8",
        f"read on {found.types_read}",
        "ml.small",
        "Cold: the model had to be loaded, or was being loaded",
        "How sure",
        f"<dd>{best.cost:,.2f}</dd>",
    ):
        assert words in text, words


def test_foreign_words_are_escaped(found: Plan) -> None:
    """A trace's name, a source and a pattern are a user's."""
    kind = {**found.settings["kinds"][0], "source": "<b>", "match": "<i>"}
    text = write_plan_page(
        replace(found, traffic="<u>", settings={**found.settings, "kinds": [kind]})
    )
    assert not re.search(r"<[biu]>", text)
    for words in ("&lt;b&gt;", "&lt;i&gt;", "&lt;u&gt;"):
        assert words in text


def test_each_candidate_is_a_point_with_its_name(found: Plan) -> None:
    """Types are colours, counts stand beside the points, goals are lines; words for the blind."""
    for drawn, goal in ((draw_trade_off(found), "1.5 s"), (draw_cold_shares(found), "5 %")):
        root = ElementTree.fromstring(drawn.svg)
        assert root.get("aria-label") == drawn.title
        words = ["".join(one.itertext()).strip() for one in root.iter() if one.tag.endswith("text")]
        assert (words.count("small"), words.count("large")) == (1, 1)
        assert f"goal: {goal}" in words
        assert drawn.title.startswith("Cost of the whole time against")


def test_a_day_has_its_plots(found: Plan) -> None:
    """Of the best; and of one that scales, and evicts."""
    small = next(answer for answer in found.answers if not answer.good)
    titles = [drawn.title for drawn in draw_day(small)]
    assert titles == [
        "Requests a second",
        "Instances in service",
        "Hit ratio over time",
        "Cores in use",
        "Models that come and go",
        "How many are faster than …",
    ]


def test_nobody_meets_the_goals() -> None:
    """The page says so, and shows what is nearest to them."""
    goals = Goals(cold_share=0.0)
    scaling = Autoscaling(target=100.0, bounds=[(1, 2)])
    plan = planned(replace(SETTINGS, goals=goals, prices=None, types=[LARGE], autoscaling=scaling))
    text = write_plan_page(plan)
    assert "No candidate meets the goals" in text
    assert "Instances on average against" in text
    assert "1-2 x ml.large over the time" in text
    assert "100 invocations of an instance a minute" in text
    assert "instances on average" in text


def test_what_is_written(found: Plan, tmp_path: Path) -> None:
    """The page, the whole tree, and a picture that opens by itself."""
    write_report(tmp_path, found)
    tree = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert tree["answers"][0]["latency"]["quantiles"][50] == tree["answers"][0]["latency"]["p50"]
    assert tree["settings"]["demand"]["models"] == 60
    picture = ElementTree.parse(tmp_path / "trade-off.svg").getroot()
    assert float(picture.get("width") or 0) > 400
    assert "--s1" in (tmp_path / "trade-off.svg").read_text("utf-8")
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_folder_that_cannot_be_written_is_said_first(tmp_path: Path) -> None:
    """Before the plan is made."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UnusableFile, match="no files can be written there"):
        run_plan(SETTINGS, None, tmp_path / "file")
