"""Callers and models that are in each other's way: nobody waits for ever, and nothing is lost."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from simulator.tests.support.simulator import (
    Simulator,
    fake_model,
    make_room_for,
    read_answers,
    simulator,
)
from tests.support.container import until


@contextmanager
def _hammering(played: Simulator, name: str, callers: int) -> Iterator[list[httpx.Response]]:
    """Some callers that ask one model without a pause; their answers."""
    over, answers = threading.Event(), list[httpx.Response]()

    def caller() -> None:
        while not over.is_set():
            answers.append(played.invoke(name))

    threads = [threading.Thread(target=caller) for _ in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        over.set()
        for thread in threads:
            thread.join()


# -- memory


def test_two_models_without_room_beside_each_other_are_both_answered(
    models: Path, tmp_path: Path
) -> None:
    """Both loaded, both asked, both 507: one leaves for the other and comes back, no stall."""
    for name in "ab":
        fake_model(models, name, needs_alone=True, invoke_seconds=0.2)
    with simulator(models, tmp_path / "log") as played:
        for _ in range(3):
            assert read_answers(played.invoke_all("a", "b")) == ["a", "b"]
        assert played.fake()["faults"] == []


def test_two_callers_of_a_model_that_needs_room_are_both_answered(
    models: Path, tmp_path: Path
) -> None:
    """One unloads the neighbour; the other finds that there is room now."""
    fake_model(models, "neighbour")
    fake_model(models, "a", needs_alone=True)
    with simulator(models, tmp_path / "log") as played:
        played.invoke_all("neighbour")
        assert read_answers(played.invoke_all("a", "a", "a")) == ["a"] * 3


def test_loads_that_are_refused_at_the_same_time_are_told_at_once(
    models: Path, tmp_path: Path
) -> None:
    """Two cold models, both 507 after a while, nothing to unload: the container's 507 for both."""
    for name in "ab":
        fake_model(models, name, load_seconds=0.3, late_507=True)
    with simulator(models, tmp_path / "log", container=make_room_for(0)) as played:
        refused = played.invoke_all("a", "b")
        assert [answer.json()["OriginalStatusCode"] for answer in refused] == [507, 507]


def test_a_model_that_does_not_unload_is_asked_to_once_for_each_caller(
    models: Path, tmp_path: Path
) -> None:
    """The unload fails: the next in line is tried, then the caller is told; no endless trying."""
    fake_model(models, "stuck", unload_status=500)
    fake_model(models, "b")
    with simulator(models, tmp_path / "log", container=make_room_for(1)) as played:
        played.invoke_all("stuck")
        (refused,) = played.invoke_all("b")
        assert refused.json()["OriginalStatusCode"] == 507
        assert len(played.kinds("unload_failed")) == 1
        assert read_answers(played.invoke_all("stuck")) == ["stuck"]


def test_a_hot_model_does_not_keep_cold_ones_out(models: Path, tmp_path: Path) -> None:
    """Above the threshold with nothing idle the load is tried all the same."""
    fake_model(models, "hot", mebibytes=100, invoke_seconds=0.05)
    fake_model(models, "cold")
    options = ("--memory", "100MB")
    with simulator(models, tmp_path / "log", *options) as played:
        played.invoke_all("hot")
        with _hammering(played, "hot", callers=3) as answers:
            assert read_answers(played.invoke_all("cold")) == ["cold"]
        read_answers(answers)


def test_a_reading_from_before_an_unload_does_not_weigh_the_next_model(
    models: Path, tmp_path: Path
) -> None:
    """After 200 MiB have left, a model of 60 weighs about that, not less."""
    fake_model(models, "large", mebibytes=200)
    fake_model(models, "small", mebibytes=60)
    with simulator(models, tmp_path / "log", container=make_room_for(1)) as played:
        played.invoke_all("large")
        played.invoke_all("small")
        weight = played.kinds("loaded")[-1]["memory"]
        assert 50 * 2**20 < weight < 80 * 2**20


# -- the cache


def test_without_the_cache_two_models_share_one_place(models: Path, tmp_path: Path) -> None:
    """Room for one: the other's leaving is the room that the second load waits for."""
    for name in "ab":
        fake_model(models, name, invoke_seconds=0.2, unload_seconds=0.2)
    options = ("--cache", "Disabled")
    with simulator(models, tmp_path / "log", *options, container=make_room_for(1)) as played:
        for _ in range(3):
            assert read_answers(played.invoke_all("a", "b", "a")) == ["a", "b", "a"]
        until(lambda: played.states() == {}, "all have left")
        assert played.fake()["faults"] == []


def test_without_the_cache_a_model_that_fails_leaves_too(models: Path, tmp_path: Path) -> None:
    """After the container's error, and after its callers stopped waiting."""
    fake_model(models, "fails", invoke_status=500)
    fake_model(models, "slow")
    options = ("--cache", "Disabled", "--cold-wait", "0.2")
    with simulator(models, tmp_path / "log", *options) as played:
        # On a busy machine its load may take longer than callers wait.
        until(lambda: played.invoke("fails").status_code == 424, "it has failed")
        with played.halted():
            assert played.invoke("slow").status_code == 429

        def left() -> set[str]:
            return {event["target_model"] for event in played.kinds("deleted")}

        until(lambda: left() == {"fails", "slow"}, "both have left")
        until(lambda: played.states() == {}, "and none has come again")


# -- the disk


def test_a_disk_for_one_serves_two(models: Path, tmp_path: Path) -> None:
    """Asked at once: the second waits until the first may leave, and neither is refused."""
    for name in "ab":
        fake_model(models, name, padding="x" * 100_000, invoke_seconds=0.2)
    with simulator(models, tmp_path / "log", "--disk", "150KB") as played:
        for _ in range(3):
            assert read_answers(played.invoke_all("a", "b")) == ["a", "b"]
        assert played.instance()["disk_used"] <= 150 * 1024


def test_a_full_disk_with_a_model_that_does_not_unload_is_told(
    models: Path, tmp_path: Path
) -> None:
    """No endless deleting: InternalFailure, and a bounded number of tries."""
    fake_model(models, "stuck", padding="x" * 100_000, unload_status=500)
    fake_model(models, "b", padding="x" * 100_000)
    options = ("--disk", "150KB", "--load-timeout", "3")
    with simulator(models, tmp_path / "log", *options) as played:
        # On a busy machine its load may take longer than a load may.
        until(lambda: played.invoke("stuck").status_code == 200, "it is loaded")
        (refused,) = played.invoke_all("b")
        assert refused.status_code == 500
        assert "disk" in refused.text
        assert len(played.kinds("unload_failed")) < 20


# -- instances


def test_a_copy_that_is_slow_to_come_makes_nobody_wait(models: Path, tmp_path: Path) -> None:
    """Warm callers are answered by the instance that has the model until the copy is there."""
    fake_model(models, "a", load_seconds=1.0, invoke_seconds=0.1)
    with simulator(models, tmp_path / "log", "--busy-at", "1", instances=2) as played:
        played.invoke_all("a")
        read_answers(played.invoke_all(*["a"] * 6))
        assert [event["cold"] for event in played.kinds("invoked")] == [True] + [False] * 6


def test_an_archive_that_kills_its_container_kills_one(models: Path, tmp_path: Path) -> None:
    """The load is not handed on to the next instance; the caller has ModelError."""
    fake_model(models, "deadly", dies_on_load=True)
    fake_model(models, "a")
    with simulator(models, tmp_path / "log", instances=2) as played:
        (refused,) = played.invoke_all("deadly")
        assert (refused.status_code, refused.json()["OriginalStatusCode"]) == (424, 500)
        assert read_answers(played.invoke_all("a")) == ["a"]
        assert Counter(event["kind"] for event in played.events())["instance_ended"] == 1
