"""Where the seconds go while a model comes."""

from __future__ import annotations

import pytest

from merlin_simulator.instance.decisions import Course, Stage
from merlin_simulator.watch.events import COLD_PARTS


@pytest.fixture
def course() -> Course:
    """A turn from 10, a download from 11, a turn again from 14, a load from 15 on."""
    times = iter((10.0, 11.0, 14.0))
    course = Course(lambda: next(times))
    course.enter(Stage.DOWNLOAD)
    course.enter(Stage.TURN)
    course.enter(Stage.LOAD, at=15.0)
    return course


def test_who_waits_from_the_beginning_waits_for_all_of_it(course: Course) -> None:
    """Stages that come again are added up; the last one lasts until the caller's end."""
    found = course.between(10.0, 17.0)
    assert found == {Stage.TURN: 2.0, Stage.DOWNLOAD: 3.0, Stage.LOAD: 2.0}


def test_who_comes_later_waits_for_what_is_left(course: Course) -> None:
    """Of a stage that goes on a caller has its own share; the sum is what it waited."""
    assert course.between(12.0, 14.5) == {Stage.DOWNLOAD: 2.0, Stage.TURN: 0.5}
    assert course.between(15.5, 16.0) == {Stage.LOAD: 0.5}


def test_who_leaves_before_the_end_has_nothing_of_later_stages(course: Course) -> None:
    """A caller whose patience ends during the download did not wait for the load."""
    assert course.between(10.5, 12.0) == {Stage.TURN: 0.5, Stage.DOWNLOAD: 1.0}


def test_the_stages_are_the_parts_that_events_have() -> None:
    """Every stage is a part of a cold request, whose last part is the answer."""
    assert {stage.value for stage in Stage} == set(COLD_PARTS) - {"answer"}
