"""The report of a recorded run, and its plots."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from merlin_simulator.replay.figures import draw_figures
from merlin_simulator.replay.load import (
    WRONG_ANSWER,
    Arrival,
    ObservedState,
    Recording,
    SentRequest,
    zipf_shares,
)
from merlin_simulator.replay.page import format_shares, write_report_page
from merlin_simulator.replay.report import Machine
from merlin_simulator.replay.run import write_report
from merlin_simulator.replay.settings import Interrupted, Settings
from merlin_simulator.replay.summary import ReplayContext, is_good, summarise
from simulator.tests.support.tags import Tags

pytestmark = pytest.mark.slow

EVENTS = Path(__file__).with_name("recorded_events.jsonl")
TARGETS = ("model-1.tar.gz", "model-2.tar.gz")


def state(loaded: int, memory: int) -> dict[str, Any]:
    models = [{"target_model": TARGETS[n], "state": "loaded"} for n in range(loaded)]
    instance = {
        "name": "instance-1",
        "models": models,
        "memory_used": memory,
        "memory_limit": 4 * 2**30,
    }
    return {"sequence": 10, "endpoint_name": "replay", "instances": [instance]}


SAMPLES = (
    SentRequest(0, 0, 0.1, 0.1, 1.1, 200, request_id="r0"),
    SentRequest(1, 0, 1.9, 1.95, 2.0, 200, request_id="r1"),
    SentRequest(2, 1, 2.1, 2.1, 3.0, 424, "ModelError", "no config.pbtxt <here>", "r2"),
    SentRequest(3, 0, 3.2, 3.2, 3.4, 200, WRONG_ANSWER, "model-1.tar.gz: found 2", "r3"),
    SentRequest(4, 1, 3.3, 3.3, 3.5, 200, request_id="never told"),
)
RECORDING = Recording(
    started=1000.0,
    seconds=4.0,
    planned=6,
    samples=SAMPLES,
    not_sent=(Arrival(5, 3.4, 1),),
    events=[json.loads(line) for line in EVENTS.read_text("utf-8").splitlines()],
    looks=(ObservedState(0.0, state(0, 2**20)), ObservedState(1.0, state(1, 3 * 2**20))),
)
SETTING = ReplayContext(
    Settings(models=2, rps=1.5, duration_s=4.0, memory="4GB"),
    TARGETS,
    zipf_shares(2, 1.1),
    "the replay's own",
    Machine("A <CPU>", 2, 2**34, "Linux 6"),
    {"python": "3.11.7", "simulator_commit": None, "tritonserver": None},
)


@pytest.fixture(scope="module")
def summary() -> dict[str, Any]:
    return summarise(SETTING, RECORDING)


@pytest.fixture(scope="module")
def text(summary: dict[str, Any]) -> str:
    return write_report_page(summary, draw_figures(summary, RECORDING))


def test_the_numbers_are_the_recordings(summary: dict[str, Any]) -> None:
    """Counts, ratio and latencies as they follow from events and samples by hand."""
    counts = {"planned": 6, "sent": 5, "not_sent": 1, "right": 3, "wrong": 1, "failed": 1}
    assert summary["requests"] == {**counts, "unfinished": 0}
    assert (summary["hits"], summary["misses"], summary["hit_ratio"]) == (2, 2, 0.5)
    assert summary["latency_s"]["cold"]["max"] == pytest.approx(1.0)
    assert summary["latency_s"]["warm"]["p50"] == pytest.approx(0.1)
    assert summary["latency_s"]["all"]["count"] == 3
    assert summary["loading"]["evictions"] == 1
    assert summary["loading"]["loads_s"]["p50"] == 0.7
    assert summary["loading"]["model_memory_bytes"]["max"] == 5000
    assert summary["loading"]["most_loaded"] == 1
    assert summary["measuring"]["requests_without_event"] == 1
    assert summary["measuring"]["send_delay_s"]["max"] == pytest.approx(0.05)
    assert [kind["name"] for kind in summary["failures"]] == ["ModelError", WRONG_ANSWER]
    assert summary["troubles"][0]["example"] == "model-2.tar.gz: no config.pbtxt <here>"


def test_what_cold_requests_waited_for_is_told(summary: dict[str, Any], text: str) -> None:
    """Each part of the cold request that was answered, its share, and its place in time."""
    parts = summary["cold_parts_s"]
    assert list(parts) == ["room", "turn", "download", "extraction", "load", "answer"]
    assert {found["count"] for found in parts.values()} == {1}
    assert (parts["load"]["p50"], parts["load"]["p99"]) == (0.7, 0.7)
    assert parts["load"]["share"] == pytest.approx(0.7)
    assert sum(found["share"] for found in parts.values()) == pytest.approx(1)
    assert summary["over_time"]["cold_parts_s"]["load"] == [0, 0.7, 0, 0]
    assert format_shares(parts).startswith("load 70 %, ")
    assert "<h2>What cold requests waited for</h2>" in text


def test_an_endpoint_that_tells_no_parts_has_a_report_all_the_same() -> None:
    """One of an earlier version: neither the table nor the plot, and nothing fails."""
    events = [
        {name: value for name, value in event.items() if name.removesuffix("_seconds") != "answer"}
        for event in RECORDING.events
    ]
    recording = replace(RECORDING, events=events)
    summary = summarise(SETTING, recording)
    drawn = draw_figures(summary, recording)
    assert summary["cold_parts_s"]["load"] == {
        **dict.fromkeys(("p50", "p90", "p99", "max", "share")),
        "count": 0,
    }
    assert "What cold requests waited for" not in write_report_page(summary, drawn)


def test_time_series_are_of_the_whole_run(summary: dict[str, Any]) -> None:
    """What was planned but not sent is due as well; answers count when they came."""
    series = summary["over_time"]
    assert series["due"] == [1, 1, 1, 3]
    assert series["not_sent"] == [0, 0, 0, 1]
    assert series["right"] == [0, 1, 1, 1]
    assert series["failed"] == [0, 0, 0, 2]
    assert series["loads"] == [0, 1, 0, 0]
    assert series["evictions"] == [0, 0, 1, 0]
    assert (series["hits"], series["misses"]) == ([0, 0, 1, 1], [0, 1, 0, 1])
    assert series["loaded_models"]["instance-1"]["models"] == [0, 1, 0]
    assert series["memory"]["instance-1"]["bytes"] == [2**20, 3 * 2**20]


def test_each_model_has_its_row(summary: dict[str, Any]) -> None:
    """Requests, hits and failures by model, beside the share that Zipf's law gives it."""
    first, second = summary["models"]
    assert (first["requests"], first["hits"], first["failures"]) == (3, 2, 1)
    assert (second["requests"], second["not_sent"], second["failures"]) == (2, 1, 1)
    assert first["expected_share"] + second["expected_share"] == pytest.approx(1)


def test_good_is_everything_sent_and_everything_right() -> None:
    """A failure, a wrong answer, an unsent request, an interruption or no request: not good."""
    right = replace(RECORDING, samples=SAMPLES[:2], not_sent=())
    assert is_good(right)
    assert not is_good(replace(right, samples=SAMPLES[:3]))
    assert not is_good(replace(right, samples=SAMPLES[3:4]))
    assert not is_good(replace(right, not_sent=RECORDING.not_sent))
    assert not is_good(replace(right, interrupted=Interrupted.REASON))
    assert not is_good(replace(right, samples=()))


def test_the_page_needs_nothing_else(text: str) -> None:
    """One well-formed file: no script, no address, no other file; ids are unique."""
    tags = Tags(text)
    assert not tags.open
    names = {name for name, _ in tags.found}
    assert not names & {"script", "link", "img", "iframe"}
    links = [attributes.get("xlink:href") or attributes.get("href") for _, attributes in tags.found]
    assert all(link.startswith("#") for link in links if link)
    assert not re.search(r"url\((?!#)", text)
    ids = [attributes["id"] for _, attributes in tags.found if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_the_page_says_what_was_found(text: str) -> None:
    """Verdict, failures with their message, settings, machine; foreign text is escaped."""
    for words in (
        "1 failed; 1 wrong; 1 not sent",
        "no config.pbtxt &lt;here&gt;",
        "A &lt;CPU&gt;",
        "Zipf, exponent 1.1",
        "4GB",
        "50 %",
        "3.11.7",
    ):
        assert words in text, words
    assert "<here>" not in text
    assert "The caller itself was late" not in text


def test_a_late_caller_is_said(summary: dict[str, Any]) -> None:
    """Numbers that tell of a starved caller carry a warning."""
    late = {
        **summary["measuring"],
        "send_delay_s": {**summary["measuring"]["send_delay_s"], "p99": 2},
    }
    assert "The caller itself was late" in write_report_page({**summary, "measuring": late}, ())


def test_every_figure_is_there_and_takes_the_pages_colours(summary: dict[str, Any]) -> None:
    """Nine well-formed SVGs whose colours follow light and dark, each with words for the blind."""
    drawn = draw_figures(summary, RECORDING)
    assert [figure.title for figure in drawn] == [
        "Latency of each request",
        "How many are faster than …",
        "What cold requests waited for",
        "Requests a second",
        "Hit ratio",
        "Models coming and going",
        "Loaded models",
        "Memory",
        "Popularity and hits",
    ]
    for figure in drawn:
        root = ElementTree.fromstring(figure.svg)
        assert root.get("aria-label") == figure.title
        assert root.get("width") is None
        assert not re.search(r"(fill|stroke): #", figure.svg), figure.title


def test_nothing_measured_is_a_report_too(tmp_path: Path) -> None:
    """An interruption before the first answer leaves a report without numbers."""
    nothing = Recording(1000.0, 0.0, 0, (), (), (), RECORDING.looks[:1], interrupted="interrupted")
    write_report(tmp_path, SETTING, nothing)
    found = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert found["hit_ratio"] is None
    assert not found["good"]
    assert "ended early: interrupted" in (tmp_path / "report.html").read_text("utf-8")
