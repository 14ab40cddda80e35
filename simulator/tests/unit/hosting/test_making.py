"""Instances that nobody wants any more while they are made."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from merlin_simulator.errors import PlatformFailed
from merlin_simulator.hosting import Fleet, InstanceRunner, Variant
from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import EventLog


class Slow:
    """Makes no instance, and takes until it is given up; it writes to a folder meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.begun, self.forgotten = folder, threading.Event(), list[str]()

    def make(self, name: str, given_up: Callable[[], bool]) -> InstanceRunner:
        self.begun.set()
        pause = threading.Event()
        while not given_up():
            (self.folder / name).mkdir(exist_ok=True)
            pause.wait(0.01)
        raise PlatformFailed("it was given up")

    def forget(self, name: str) -> None:
        (self.folder / name).rmdir()
        self.forgotten.append(name)


def fleet_of(slow: Slow) -> Fleet:
    variant = Variant("shop", True, "s3://models/", Rules(), EventLog())
    return Fleet(variant, slow.make, iter(["one", "two"]), slow.forget)


async def test_an_instance_in_the_making_ends_with_its_fleet(tmp_path: Path) -> None:
    """Afterwards nothing writes to its folder, which another endpoint of the name may have."""
    slow = Slow(tmp_path)
    fleet = fleet_of(slow)
    scaling = asyncio.create_task(fleet.scale(1))
    await asyncio.to_thread(slow.begun.wait)
    scaling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await scaling
    await asyncio.wait_for(fleet.stop(), 60)
    assert slow.forgotten == ["one"]
    assert os.listdir(tmp_path) == []


async def test_an_instance_that_cannot_be_made_leaves_nothing(tmp_path: Path) -> None:
    def broken(name: str, _: Callable[[], bool]) -> InstanceRunner:
        (tmp_path / name).mkdir()
        raise PlatformFailed("no archive")

    forgotten = list[str]()
    variant = Variant("shop", True, "s3://models/", Rules(), EventLog())
    fleet = Fleet(variant, broken, iter(["one"]), forgotten.append)
    with pytest.raises(PlatformFailed, match="no archive"):
        await fleet.scale(1)
    await fleet.stop()
    assert forgotten == ["one"]
