"""Unloads of models whose processes have nothing to finalize: they are ended first."""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools import ServingPlan
from ensemble_tools.serving.namespace import NAME_MAX
from serve.errors import ModelUnusable, ResourceExhausted, TritonTimeout
from serve.models.registry import State
from serve.triton.control import LOST_UNLOAD_S
from tests.support.clock import Clock
from tests.unit.serve.fake_stub import started_by, starting, stub
from tests.unit.serve.parts_on_fake import WAIT_S, PartsOnFake, parts_on_fake, stepping, until

#: tritonserver says for so long that it has the model: of the test's clock, which moves on.
LONG_S = WAIT_S / 2
SLOW: Any = {"unload": {"m": {"ready_for_s": LONG_S, "times": 1}}}


def generated(decide: Callable[[], ServingPlan]) -> ServingPlan:
    """Each model is a step of ours."""
    made = decide()
    return replace(made, models=tuple(replace(each, generated=True) for each in made.models))


def join(root: Path, **knobs: Any) -> AbstractAsyncContextManager[PartsOnFake]:
    return parts_on_fake(root, lifecycle={"in_thread": stepping(decide=generated)}, **knobs)


async def pass_long(clock: Clock, on: PartsOnFake) -> None:
    """From when tritonserver was asked to unload: the caller may be answered before that."""
    await until(lambda: "unload" in on.events("unload"))
    clock.advance(LONG_S)


async def test_its_memory_is_free_when_its_caller_is_answered(clock: Clock, tmp_path: Path) -> None:
    """tritonserver holds the model still, and has no trace of it in the end."""
    async with join(tmp_path, **SLOW) as on:
        await on.load()
        with stub(on.repository, "m.step", WAIT_S) as ending:
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
            assert ending.wait(0) == -signal.SIGKILL
        assert on.registry.all_loaded() == []
        assert on.registry.count(State.UNLOADING) == 1
        assert "m" in await on.held()
        await pass_long(clock, on)
        await until(lambda: not list(on.repository.iterdir()))
        await until(lambda: on.registry.count(State.UNLOADING) == 0)
        await on.assert_empty()


async def test_what_they_have_started_ends_too(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    async with join(tmp_path) as on:
        await on.load()
        with stub(on.repository, "m.step", WAIT_S, more=starting(mine)):
            await until(lambda: len(started_by(mine)) == 2)
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
            assert not started_by(mine)
        await until(lambda: on.registry.count(*State) == 0)
        await on.assert_empty()


async def test_a_name_that_comes_back_waits_for_nobody(clock: Clock, tmp_path: Path) -> None:
    """The next has names of its own in tritonserver; the end of one leaves the other as it is."""
    async with join(tmp_path, **SLOW) as on:
        await on.load()
        with stub(on.repository, "m.step", WAIT_S):
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        await asyncio.wait_for(on.lifecycle.load("m", f"{on.root}/m/model"), WAIT_S)
        assert on.registry.count(State.UNLOADING) == 1
        assert on.registry.find_entries() == {"m": "m=-1"}
        assert {"m", "m=-1", "m=-1.step"} <= {*await on.held()}
        assert b"m=-1" in await on.invoke()
        await pass_long(clock, on)
        await until(lambda: on.registry.count(State.UNLOADING) == 0)
        assert await on.held() == ["m=-1", "m=-1.step"]
        assert sorted(it.name for it in on.repository.iterdir()) == ["m=-1", "m=-1.step"]
        assert b"m=-1" in await on.invoke()
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        await on.assert_empty()


async def test_the_next_load_that_fails_leaves_its_predecessor(
    clock: Clock, tmp_path: Path
) -> None:
    """Nothing of the load is left, and its undoing unloads nothing of another."""
    failing: Any = {"load": {"m=-1": {"message": "it broke"}}}
    async with join(tmp_path, **SLOW, **failing) as on:
        await on.load()
        with stub(on.repository, "m.step", WAIT_S):
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        with pytest.raises(ModelUnusable, match="it broke"):
            await asyncio.wait_for(on.lifecycle.load("m", f"{on.root}/m/model"), WAIT_S)
        assert "m" in await on.held()
        assert sorted(it.name for it in on.repository.iterdir()) == ["m", "m.step"]
        await pass_long(clock, on)
        await until(lambda: on.registry.count(*State) == 0)
        await asyncio.wait_for(on.lifecycle.load("m", f"{on.root}/m/model"), WAIT_S)
        assert on.registry.find_entries() == {"m": "m"}
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        await on.assert_empty()


@pytest.mark.parametrize("size", [NAME_MAX, NAME_MAX - len(".step")], ids=["entry", "step"])
async def test_a_name_too_long_for_a_number_waits(clock: Clock, tmp_path: Path, size: int) -> None:
    """It is refused for its own length alone, which is another reason at any time."""
    name = "m" * size
    slow: Any = {"unload": {name: {"ready_for_s": LONG_S, "times": 1}}}
    async with join(tmp_path, **slow) as on:
        url = on.archive()
        if size == NAME_MAX:
            shutil.rmtree(on.root / "m/model/entry")
        await asyncio.wait_for(on.lifecycle.load(name, url), WAIT_S)
        published = sorted(it.name for it in on.repository.iterdir())
        with stub(on.repository, published[-1], WAIT_S):
            await asyncio.wait_for(on.lifecycle.unload(name), WAIT_S)
        again = asyncio.ensure_future(on.lifecycle.load(name, url))
        await asyncio.wait_for(on.load("other"), WAIT_S)
        assert not again.done()
        await pass_long(clock, on)
        await asyncio.wait_for(again, WAIT_S)
        assert on.registry.find_entries() == {name: name, "other": "other"}
        for each in (name, "other"):
            await asyncio.wait_for(on.lifecycle.unload(each), WAIT_S)
        await on.assert_empty()


async def test_a_load_without_room_waits_for_what_they_still_hold(
    clock: Clock, tmp_path: Path
) -> None:
    """tritonserver frees a model's part of /dev/shm last; nobody is refused for it before."""
    async with join(tmp_path, **SLOW) as on:
        looks = []

        def lacks() -> None:
            looks.append(on.registry.count(State.UNLOADING))
            if looks[-1]:
                raise ResourceExhausted("no room in /dev/shm")

        await on.load()
        on.admission.lacks = lacks
        with stub(on.repository, "m.step", WAIT_S):
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        loading = asyncio.ensure_future(on.load("other"))
        await until(lambda: looks == [1])
        await pass_long(clock, on)
        await loading
        assert looks == [1, 0]
        assert [model.name for model in on.registry.all_loaded()] == ["other"]


@pytest.mark.parametrize("version", ["2.36.0", "2.51.0"])
async def test_what_tritonserver_lets_go_of_is_waited_for(tmp_path: Path, version: str) -> None:
    """Of a stub that was killed just now it still holds the part of /dev/shm: seen for a second."""
    async with join(tmp_path) as on:
        waited = []
        unload = on.triton.itself("request_unload")

        async def tell(*arguments: Any, lost_s: float, **named: Any) -> None:
            waited.append(lost_s)
            await unload(*arguments, lost_s=lost_s, **named)

        await on.load()
        on.triton.instead["request_unload"] = tell
        on.triton.control.version = version
        with stub(on.repository, "m.step", WAIT_S):
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        await until(lambda: on.registry.count(*State) == 0)
        assert waited == [LOST_UNLOAD_S]


async def test_a_lack_that_stays_is_told(clock: Clock, tmp_path: Path) -> None:
    """After one more look, when nothing is leaving any more; at once where nothing was."""
    async with join(tmp_path, **SLOW) as on:
        looks = []

        def lacks() -> None:
            looks.append(on.registry.count(State.UNLOADING))
            raise ResourceExhausted("no room in /dev/shm")

        await on.load()
        on.admission.lacks = lacks
        with stub(on.repository, "m.step", WAIT_S):
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        for seen in ([1, 0], [0]):
            loading = asyncio.ensure_future(on.load(f"other{len(seen)}"))
            await until(lambda: bool(looks))
            await pass_long(clock, on)
            with pytest.raises(ResourceExhausted):
                await loading
            assert looks == seen
            looks.clear()
        await on.assert_empty()


async def test_a_caller_who_stops_waiting_stops_nothing(tmp_path: Path) -> None:
    async with join(tmp_path) as on:
        await on.load()
        with stub(on.repository, "m.step", WAIT_S) as ending:
            unloading = asyncio.ensure_future(on.lifecycle.unload("m"))
            await until(lambda: ending.poll() is not None)
            unloading.cancel()
            await asyncio.wait({unloading})
        await until(lambda: on.registry.count(*State) == 0)
        await on.assert_empty()


async def test_a_tritonserver_that_keeps_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is asked again and again; models that come back under that name are served meanwhile."""
    async with join(tmp_path) as on:
        await on.load()
        failing = True
        unload = on.triton.itself("request_unload")

        async def keep(*arguments: Any, **named: Any) -> None:
            if failing:
                raise TritonTimeout("unloading the model m", 0.3)
            await unload(*arguments, **named)

        on.triton.instead["request_unload"] = keep
        with caplog.at_level(logging.ERROR):
            for number, entry in enumerate(["m", "m=-1", "m=-2"]):
                assert on.registry.find_entries() == {"m": entry}
                with stub(on.repository, f"{entry}.step", WAIT_S):
                    await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
                assert on.registry.count(State.UNLOADING) == number + 1
                await asyncio.wait_for(on.lifecycle.load("m", f"{on.root}/m/model"), WAIT_S)
            assert b"m=-3" in await on.invoke()
            await until(lambda: "tritonserver does not unload a model" in caplog.text)
        failing = False
        await until(lambda: on.registry.count(State.UNLOADING) == 0)
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        await on.assert_empty()


async def test_one_that_may_have_something_to_finalize_is_not_killed(tmp_path: Path) -> None:
    """An archive's own Python model ends when tritonserver says so."""

    def partly(decide: Callable[[], ServingPlan]) -> ServingPlan:
        made = generated(decide)
        last, *others = reversed(made.models)
        own: Callable[[Any], Any] = lambda model: replace(model, generated=False)  # noqa: E731
        return replace(made, models=(*map(own, reversed(others)), last))

    async with parts_on_fake(tmp_path, lifecycle={"in_thread": stepping(decide=partly)}) as on:
        await on.load()
        with stub(on.repository, "m.step", 0.3) as ending:
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
            assert ending.wait(0) == 0
        await on.assert_empty()
