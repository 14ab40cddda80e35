"""What reloads that fail say of the container: whose fault each is, and who can still be served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from serve.errors import (
    CallerError,
    ModelNotLoaded,
    ModelUnusable,
    ResourceExhausted,
    ServeError,
    TritonTimeout,
    TritonUnavailable,
)
from tests.unit.serve.parts_on_fake import (
    DEAD,
    UNHEALTHY_AFTER_S,
    WAIT_S,
    Lacking,
    PartsOnFake,
    parts_on_fake,
)

#: As a tritonserver says it that has loaded the model once.
NO_MEMORY = {"message": "out of memory", "code": "INTERNAL", "after": 1}


@dataclass
class Asked:
    """A container whose models are lost, and asked for; its clock stands still meanwhile."""

    on: PartsOnFake
    clock: list[float]

    @property
    def is_sick(self) -> bool:
        return self.on.health.trouble() is not None

    async def ask(self, name: str = "m") -> ServeError:
        """What keeps a model from being loaded again."""
        model = self.on.registry.loaded(name)
        with pytest.raises(ServeError) as caught:
            await asyncio.wait_for(self.on.revival.revive(model, model.generation), WAIT_S)
        return caught.value

    async def keep_asking(self, name: str = "m") -> ServeError:
        """For as long as it takes to be sick."""
        await self.ask(name)
        self.clock[0] += UNHEALTHY_AFTER_S
        return await self.ask(name)


async def unavailable(*_: object, **__: object) -> None:
    """In the place of what asks tritonserver: there is none to be asked."""
    raise TritonUnavailable("gone")


@asynccontextmanager
async def asked(tmp_path: Path, *names: str, **knobs: Any) -> AsyncIterator[Asked]:
    """With these models loaded, m at least."""
    clock = [1000.0]
    async with parts_on_fake(tmp_path, health_clock=lambda: clock[0], **knobs) as on:
        for name in ("m", *names):
            await on.load(name)
        yield Asked(on, clock)


async def test_no_memory_for_the_only_model(tmp_path: Path) -> None:
    """Nobody can be served, until the model is back."""
    async with asked(tmp_path, load={"m": {**NO_MEMORY, "times": 2}}) as it:
        assert isinstance(await it.ask(), ResourceExhausted)
        assert not it.is_sick
        it.clock[0] += UNHEALTHY_AFTER_S
        await it.ask()
        assert "out of memory" in (it.on.health.trouble() or "")
        model = it.on.registry.loaded("m")
        await it.on.revival.revive(model, 0)
        assert not it.is_sick


async def test_a_model_that_comes_back_in_between(tmp_path: Path) -> None:
    """What fails later begins anew, though nobody asked for the container's health meanwhile."""
    async with asked(tmp_path, load={"m": {**NO_MEMORY, "times": 1}}) as it:
        await it.ask()
        model = it.on.registry.loaded("m")
        await it.on.revival.revive(model, model.generation)
        it.on.triton.instead["request_load"] = unavailable
        it.clock[0] += UNHEALTHY_AFTER_S
        await it.ask()
        assert not it.is_sick


async def test_a_load_in_between(tmp_path: Path) -> None:
    """As well, though its model has gone again."""
    async with asked(tmp_path, load={"m": NO_MEMORY}) as it:
        await it.ask()
        await it.on.load("other")
        await it.on.lifecycle.unload("other")
        it.clock[0] += UNHEALTHY_AFTER_S
        await it.ask()
        assert not it.is_sick


async def test_a_model_that_is_asked_for_now_and_then(tmp_path: Path) -> None:
    """It fails each time, and after each pause it begins anew."""
    async with asked(tmp_path, load={"m": NO_MEMORY}) as it:
        for _ in range(3):
            await it.ask()
            assert not it.is_sick
            it.clock[0] += UNHEALTHY_AFTER_S + 1


@pytest.mark.parametrize("lack", ["descriptors", "threads"])
async def test_what_else_the_container_may_lack(tmp_path: Path, lack: str) -> None:
    """It is no fault of an archive's, either."""
    lacking = Lacking()
    async with asked(tmp_path, hosting=lacking.hosting) as it:
        setattr(lacking, lack, True)
        await it.keep_asking()
        assert "no resources to load the model m again" in (it.on.health.trouble() or "")


@pytest.mark.parametrize("error", [TritonTimeout("a load", 1.0), TritonUnavailable("gone")])
async def test_a_tritonserver_that_loads_nothing(tmp_path: Path, error: ServeError) -> None:
    """Whether it does not answer or is not there."""
    async with asked(tmp_path) as it:

        async def fail(*_: object) -> None:
            raise error

        it.on.triton.instead["request_load"] = fail
        await it.keep_asking()
        assert str(error) in (it.on.health.trouble() or "")


async def test_a_tritonserver_that_dies_under_each_reload(tmp_path: Path) -> None:
    """Each is cancelled by the supervision, and has failed."""
    async with asked(tmp_path) as it:
        for _ in range(2):
            loading = asyncio.Event()

            async def hang(*_: object, loading: asyncio.Event = loading) -> None:
                loading.set()
                await asyncio.Event().wait()

            it.on.triton.instead["request_load"] = hang
            reviving = asyncio.ensure_future(it.on.revival.revive_all())
            await asyncio.wait_for(loading.wait(), WAIT_S)
            reviving.cancel()
            await asyncio.wait({reviving})
            assert not it.is_sick or it.clock[0] > 1000.0
            it.clock[0] += UNHEALTHY_AFTER_S
        assert "it is restarting" in (it.on.health.trouble() or "")


async def test_archives_that_cannot_be_loaded_any_more(tmp_path: Path) -> None:
    """Their models are given up one after another, the last one, too: nothing of the container."""
    async with asked(tmp_path, "m2", "m3") as it:

        async def fail(*_: object) -> None:
            raise ModelUnusable("no weights")

        it.on.triton.instead["request_load"] = fail
        for name in ("m", "m2", "m3"):
            assert isinstance(await it.ask(name), ModelNotLoaded)
            assert not it.is_sick
            it.clock[0] += UNHEALTHY_AFTER_S / 2
        assert it.on.registry.all_loaded() == []


async def test_an_archive_does_not_end_the_containers_own_trouble(tmp_path: Path) -> None:
    """It was given up between two failures."""
    async with asked(tmp_path, "bad", load={"m": NO_MEMORY}) as it:
        await it.ask()

        async def fail(*_: object) -> None:
            raise ModelUnusable("no weights")

        it.on.triton.instead["request_load"] = fail
        assert isinstance(await it.ask("bad"), ModelNotLoaded)
        del it.on.triton.instead["request_load"]
        assert not it.is_sick
        await it.keep_asking()
        assert it.is_sick


async def test_another_model_that_can_be_served(tmp_path: Path) -> None:
    """A tenant whose model fails again and again takes nobody else's away."""
    async with asked(tmp_path, "idle", load={"m": NO_MEMORY, "idle": NO_MEMORY}) as it:
        await it.keep_asking()
        assert not it.is_sick
        await it.ask("idle")  # it was lost as well
        assert not it.is_sick
        await it.keep_asking()
        assert it.is_sick
        await it.on.load("third")
        assert not it.is_sick
        await it.on.lifecycle.unload("third")
        assert not it.is_sick
        await it.keep_asking("idle")
        assert it.is_sick
        for name in ("m", "idle"):
            await it.on.lifecycle.unload(name)
        assert not it.is_sick  # there is nobody to be served


async def test_a_model_that_answers_now_and_then(tmp_path: Path) -> None:
    """As one that lost one of its instances: it serves somebody, though it cannot heal."""
    async with asked(tmp_path) as it:
        it.on.triton.instead["request_unload"] = unavailable
        await it.keep_asking()
        assert it.is_sick
        assert b"echo" in await it.on.invoke()
        assert not it.is_sick
        del it.on.triton.instead["request_unload"]


async def test_which_answers_are_proof(tmp_path: Path) -> None:
    """Those of 200, also at the second try; no refusal, and no failure of the model's."""
    infer = {"m": {**DEAD, "times": 1}, "bad": {"status": 400, "message": "no such input"}}
    async with asked(tmp_path, "bad", infer=infer) as it:
        with pytest.raises(CallerError):
            await it.on.invoke("bad")
        assert it.on.invocation.answered == 0
        await it.on.invoke()
        assert it.on.invocation.answered == 1
        await it.on.invoke()
        assert it.on.invocation.answered == 2


async def test_streams_are_proof(tmp_path: Path) -> None:
    """When their head has come with 200."""
    async with asked(tmp_path, operation="generate_stream") as it:
        pieces = await it.on.stream()
        assert it.on.invocation.answered == 1
        assert [piece async for piece in pieces]
