"""Candidates take only memory that nobody needs, and leave nothing, on a fake tritonserver."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from serve.errors import ResourceExhausted
from serve.models.admission import Snapshot
from serve.models.candidates import Candidates, LifecycleBesideCandidates
from serve.resources.census import Census, Usage
from serve.resources.free import MEMORY
from tests.unit.serve.parts_on_fake import WAIT_S, PartsOnFake, parts_on_fake, until

MIB = 1 << 20
RESERVE = 200 * MIB
DROPPED = "the model's candidate is dropped: "


@contextlib.asynccontextmanager
async def beside(tmp_path: Path, **more: object) -> AsyncIterator[PartsOnFake]:
    """The parts, with memory enough."""
    async with parts_on_fake(
        tmp_path,
        lifecycle_class=LifecycleBesideCandidates,
        memory_reserve_bytes=RESERVE,
        **more,  # type: ignore[arg-type]
    ) as on:
        on.admission.seen = machine()
        yield on


def machine(
    held: int = 0,
    free: int = 1 << 40,
    server: int = 1,
    threads: int = 1,
    pids: tuple[int, ...] = (),
) -> Snapshot:
    """held: bytes of the candidate of m, which has so many threads."""
    models = {"m=candidate.step": Usage(memory=held, processes=1, tasks=threads)}
    census = Census(models, pid=server, pids={"m=candidate.step": pids})
    return Snapshot(0.0, {MEMORY: free}, census, {})


async def load(on: PartsOnFake, name: str = "m") -> None:
    """A model with a candidate; returns when that can be asked."""
    archive = Path(on.archive(name))
    shutil.copytree(archive, archive / "candidate")
    await asyncio.wait_for(on.lifecycle.load(name, str(archive)), WAIT_S)
    candidates = candidates_of(on)
    await until(lambda: candidates.find(on.registry.loaded(name)) is not None)


def candidates_of(on: PartsOnFake) -> Candidates:
    assert isinstance(on.lifecycle, LifecycleBesideCandidates)
    return on.lifecycle.candidates


def published(on: PartsOnFake) -> list[str]:
    return sorted(path.name for path in on.repository.iterdir())


async def test_there_and_back(tmp_path: Path) -> None:
    """It has Triton names of its own, and goes with its model, whenever that is."""
    async with beside(tmp_path) as on:
        await load(on)
        assert published(on) == ["m", "m.step", "m=candidate", "m=candidate.step"]
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        await until(lambda: published(on) == [])  # an unload waits for some seconds at most
        await on.assert_empty()
        for _ in range(2):  # while it is being loaded, or waits for that
            await asyncio.wait_for(on.lifecycle.load("m", f"{on.root}/m/model"), WAIT_S)
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
            await until(lambda: published(on) == [] and on.ledger.loading == [])
            await on.assert_empty()


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (machine(2 * 50 * MIB + 65 * MIB), "its processes grew from 50 to 165 MiB"),
        (
            machine(50 * MIB, free=199 * MIB),
            "199 MiB of memory are free, and 200 MiB are kept free",
        ),
        (machine(50 * MIB, server=2), "tritonserver was started again"),
        (machine(50 * MIB, threads=515), "its processes have 515 threads"),
    ],
)
async def test_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seen: Snapshot, why: str
) -> None:
    """It is dropped when it grows, when memory is short whoever has it, with tritonserver, and when
    it starts many threads or processes."""
    async with beside(tmp_path) as on:
        on.admission.seen = machine(50 * MIB)
        await load(on)
        candidates = candidates_of(on)
        candidate = candidates.find(on.registry.loaded("m"))
        assert candidate is not None
        await until(lambda: candidate.server == 1)
        # As much as it may have:
        on.admission.seen = machine(2 * 50 * MIB + 64 * MIB, threads=514)
        looks = on.admission.looks
        await until(lambda: on.admission.looks > looks + 1)
        assert candidate.ending is None
        on.admission.seen = seen
        await until(lambda: published(on) == ["m", "m.step"])
        assert [it for it in caplog.messages if it.startswith(DROPPED)] == [DROPPED + why]
        assert b"echo" in await on.invoke()


async def test_a_model_needs_the_room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A load that would be refused gets a candidate's memory, the newest first; with none left it
    is refused as ever."""
    async with beside(tmp_path) as on:
        for name in ("m", "n"):
            await load(on, name)

        def lacks() -> None:
            if len(published(on)) > 6:
                raise ResourceExhausted("no memory")

        on.admission.lacks = lacks
        await asyncio.wait_for(on.lifecycle.load("o", on.archive("o")), WAIT_S)
        assert published(on)[2:6] == ["m=candidate", "m=candidate.step", "n", "n.step"]
        await asyncio.wait_for(on.lifecycle.load("p", on.archive("p")), WAIT_S)
        assert not [name for name in published(on) if "=" in name]
        with pytest.raises(ResourceExhausted):
            await asyncio.wait_for(on.lifecycle.load("q", on.archive("q")), WAIT_S)
        lines = [it for it in caplog.messages if it.startswith(DROPPED)]
        assert lines == [f"{DROPPED}a model that is loaded needs the room"] * 2


async def test_it_finds_no_room(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Then it is not loaded, and no other is dropped for it."""
    async with beside(tmp_path) as on:
        await load(on)
        archive = Path(on.archive("n"))
        shutil.copytree(archive, archive / "candidate")

        def lacks() -> None:
            if on.registry.count() or "n" in published(on):
                raise ResourceExhausted("no memory")

        on.admission.lacks = lacks
        await asyncio.wait_for(on.lifecycle.load("n", str(archive)), WAIT_S)
        await until(lambda: any(it.startswith(DROPPED) for it in caplog.messages))
        assert published(on) == ["m", "m.step", "m=candidate", "m=candidate.step", "n", "n.step"]
        assert f"{DROPPED}it cannot be loaded: no memory" in caplog.messages


async def test_processes_that_die_while_it_is_unloaded(tmp_path: Path) -> None:
    """tritonserver would wait for their word for ever, so it is told as lost."""
    async with beside(tmp_path) as on:
        on.admission.seen = machine(pids=(1 << 30,))
        await load(on)
        candidate = candidates_of(on).find(on.registry.loaded("m"))
        assert candidate is not None
        assert candidate.itself is not None
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        assert candidate.itself.lost == {"m=candidate", "m=candidate.step"}
        await until(lambda: published(on) == [])


async def test_stop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is asked no more, and not unloaded from a tritonserver that ends."""
    async with beside(tmp_path) as on:
        await load(on)
        candidates, model = candidates_of(on), on.registry.loaded("m")
        candidate = candidates.find(model)
        assert candidate is not None
        on.lifecycle.stop()
        assert candidates.find(model) is None
        candidates.drop(candidate, "it gave no answer")
        assert candidate.ending is None
        assert not [it for it in caplog.messages if it.startswith(DROPPED)]


@pytest.mark.parametrize("goes", [False, True])
async def test_its_model_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, goes: bool
) -> None:
    """A candidate whose model died is dropped, since it may have killed that; where the model goes
    for good, it goes with it, without a word of its own."""
    async with beside(tmp_path) as on:
        await load(on)
        model = on.registry.loaded("m")
        on.registry.begin_reload(model)
        if goes:
            on.registry.forget(model)
        else:
            on.registry.finish_reload(model)
        await until(lambda: published(on) == ["m", "m.step"])
        lines = [it for it in caplog.messages if it.startswith(DROPPED)]
        assert lines == ([] if goes else [f"{DROPPED}its model's process died"])


async def test_a_load_that_is_not_wanted_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """tritonserver is given some time to end it, before the candidate is unloaded."""
    caplog.set_level(logging.INFO)
    knobs = {"load": {"m=candidate": {"delay_s": 0.5}}}
    async with beside(tmp_path, **knobs) as on:
        archive = Path(on.archive("m"))
        shutil.copytree(archive, archive / "candidate")
        await asyncio.wait_for(on.lifecycle.load("m", str(archive)), WAIT_S)
        await until(lambda: "m=candidate" in published(on))
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        await until(lambda: published(on) == [])
        loaded = [it for it in caplog.records if it.getMessage() == "model loaded"]
        assert [vars(it)["model_name"] for it in loaded] == ["m", "m=candidate"]


async def test_unload_does_not_wait_for_a_load_that_hangs(tmp_path: Path) -> None:
    """It is ended behind the answer."""
    knobs = {"load": {"m=candidate": {"hang": True}}, "unload": {"m=candidate": {"ready_for_s": 0}}}
    async with beside(tmp_path, lifecycle={"unwanted_s": 0.1}, **knobs) as on:
        archive = Path(on.archive("m"))
        shutil.copytree(archive, archive / "candidate")
        await asyncio.wait_for(on.lifecycle.load("m", str(archive)), WAIT_S)
        await until(lambda: "m=candidate" in published(on))
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        assert not {"m", "m.step"} & {*published(on)}
        await until(lambda: published(on) == [])
