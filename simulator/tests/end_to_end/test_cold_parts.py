"""What cold requests waited for, as their events tell it; against a container with knobs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from merlin_simulator.watch.events import COLD_PARTS
from simulator.tests.support.simulator import FAKE_CONTAINER, Simulator, fake_model, simulator


def _asked_together(running: Simulator, *targets: str) -> None:
    with ThreadPoolExecutor(len(targets)) as pool:
        list(pool.map(running.invoke, targets))


def _parts(event: dict[str, Any]) -> dict[str, float]:
    return {part: event[f"{part}_seconds"] for part in COLD_PARTS}


def test_the_parts_of_a_cold_request_are_its_seconds(tmp_path: Path) -> None:
    """A load and an answer that take their time are told as such; a warm request has no parts."""
    fake_model(tmp_path / "archives", "a.tar.gz", load_seconds=0.4, invoke_seconds=0.3)
    with simulator(tmp_path / "archives", tmp_path / "log") as running:
        running.invoke("a.tar.gz")
        running.invoke("a.tar.gz")
        cold, warm = running.kinds("invoked")
    parts = _parts(cold)
    assert sum(parts.values()) == pytest.approx(cold["seconds"], abs=1e-6)
    assert parts["load"] > 0.35
    assert parts["answer"] > 0.25
    assert parts["download"] > 0
    assert parts["extraction"] > 0
    assert parts["room"] < 0.2
    assert not [name for name in warm if name.removesuffix("_seconds") in COLD_PARTS]


def test_who_waits_for_another_load_waits_for_a_turn(tmp_path: Path) -> None:
    """Of two models that are loaded one after the other the second waited for its turn."""
    for name in ("a.tar.gz", "b.tar.gz"):
        fake_model(tmp_path / "archives", name, load_seconds=0.6)
    options = ("--loads-at-once", "1")
    with simulator(tmp_path / "archives", tmp_path / "log", *options) as running:
        _asked_together(running, "a.tar.gz", "b.tar.gz")
        first, second = (_parts(event) for event in running.kinds("invoked"))
    assert first["turn"] < 0.4
    assert second["turn"] > 0.4
    assert second["load"] > 0.5


def test_who_waits_until_another_has_left_waits_for_room(tmp_path: Path) -> None:
    """A container that is full: the seconds of the other model's unload are those of the room."""
    fake_model(tmp_path / "archives", "a.tar.gz", unload_seconds=0.6)
    fake_model(tmp_path / "archives", "b.tar.gz")
    container = f"{FAKE_CONTAINER} --capacity 1"
    with simulator(tmp_path / "archives", tmp_path / "log", container=container) as running:
        running.invoke("a.tar.gz")
        running.invoke("b.tar.gz")
        parts = _parts(running.kinds("invoked")[1])
    assert parts["room"] > 0.5
    assert parts["load"] < 0.5


def test_a_cold_request_that_failed_has_its_parts_too(tmp_path: Path) -> None:
    """A load that is refused: the caller waited for it all the same."""
    fake_model(tmp_path / "archives", "a.tar.gz", load_seconds=0.4, load_status=400)
    with simulator(tmp_path / "archives", tmp_path / "log") as running:
        running.invoke("a.tar.gz")
        (failed,) = running.kinds("invocation_failed")
    assert _parts(failed)["load"] > 0.35
    assert sum(_parts(failed).values()) == pytest.approx(failed["seconds"], abs=1e-6)
