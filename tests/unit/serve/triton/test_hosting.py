"""Loads and unloads that end, on a fake tritonserver that answers some of them or none."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from serve.deadline import Deadline
from serve.errors import (
    KilledForMemory,
    ModelNotLoaded,
    ModelUnusable,
    RequestRefused,
    ResourceExhausted,
    TritonTimeout,
    TritonUnavailable,
)
from serve.invoke.request import Request
from serve.models.registry import State
from serve.resources.shortages import Denials
from serve.triton.hosting import HostingSettings
from serve.triton.suspects import LoadWork, Standing
from serve.triton.unloading import PROBE_S
from tests.fakes import tritonserver as fake
from tests.support.clock import Clock
from tests.unit.serve.parts_on_fake import CONFIG, WAIT_S, PartsOnFake, parts_on_fake, until


def standing(on: PartsOnFake, name: str) -> Standing:
    model = on.registry.loaded(name)
    return on.hosting.suspects.standing(LoadWork(name, model.archive))


async def _fails(on: PartsOnFake, body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        await asyncio.wait_for(on.invocation.forward("m", Request([], [body])), WAIT_S)


@pytest.mark.slow
async def test_a_request_at_two_deaths(tmp_path: Path) -> None:
    """Lost with 503 twice, then refused; another one is answered."""
    deadly = {"die_after_requests": 0}
    async with parts_on_fake(tmp_path, dies=True, lives=[deadly, deadly, {}]) as on:
        await on.load()
        for generation in (1, 2):
            await _fails(on, b'{"inputs": []}', TritonUnavailable)
            await until(lambda g=generation: on.registry.loaded("m").generation == g)  # type: ignore[misc]
        await _fails(on, b'{"inputs": []}', RequestRefused)
        assert b"echo" in await on.invoke(body=b'{"inputs": [] }')
        assert on.events("infer") == ["infer"] * 3


@pytest.mark.slow
async def test_a_load_at_two_deaths(tmp_path: Path) -> None:
    """Lost with 503 twice, then refused; from another archive the same model may come."""
    deadly: Any = {"load": {"m": {"hang": True}}}
    async with parts_on_fake(tmp_path, dies=True, lives=[deadly, deadly, {}]) as on:
        await on.load("neighbour")
        url = on.archive("m")
        for death in (1, 2):
            loading = asyncio.ensure_future(on.lifecycle.load("m", url))
            await until(lambda loads=2 * death: len(on.events("load")) == loads)  # type: ignore[misc]
            assert on.process.pid is not None
            os.kill(on.process.pid, signal.SIGKILL)
            with pytest.raises(TritonUnavailable):
                await asyncio.wait_for(loading, WAIT_S)
            await until(lambda g=death: on.registry.loaded("neighbour").generation == g)  # type: ignore[misc]
        with pytest.raises(ModelUnusable, match="died or stood still twice"):
            await on.lifecycle.load("m", url)
        other = on.archive("other", config=f"{CONFIG}# another one\n")
        await asyncio.wait_for(on.lifecycle.load("m", other), WAIT_S)
        assert b"echo" in await on.invoke("m")
        assert b"echo" in await on.invoke("neighbour")


@pytest.mark.slow
async def test_a_reload_at_two_deaths(tmp_path: Path) -> None:
    """The model is given up and refused; its neighbour is back each time."""
    deadly: Any = {"load": {"m": {"hang": True}}}
    async with parts_on_fake(tmp_path, dies=True, lives=[{}, deadly, deadly, {}]) as on:
        for name in ("m", "neighbour"):
            await on.load(name)
        neighbour = on.registry.loaded("neighbour")
        for generation in range(3):
            loads = 2 * (generation + 1)
            await until(
                lambda loads=loads, g=generation: (  # type: ignore[misc]
                    len(on.events("load")) == loads and neighbour.generation == g
                )
            )
            assert on.process.pid is not None
            os.kill(on.process.pid, signal.SIGKILL)
        await until(lambda: [model.name for model in on.registry.all_loaded()] == ["neighbour"])
        await until(lambda: neighbour.generation == 3)
        assert b"echo" in await on.invoke("neighbour")
        with pytest.raises(ModelUnusable, match="died or stood still twice"):
            await on.lifecycle.load("m", f"{on.root}/m/model")


async def test_a_suspect_that_found_no_model_is_not_cleared(tmp_path: Path) -> None:
    """It was not tried; one that a model answered was, whatever the answer is."""
    unknown = {"status": 404, "message": "Request for unknown model: 'm' is not found", "times": 1}
    lives: Any = [{"die_after_requests": 0}, {"infer": {"m": unknown}}]
    async with parts_on_fake(tmp_path, dies=True, lives=lives) as on:
        await on.load()
        await _fails(on, b'{"inputs":[]}', TritonUnavailable)
        await until(lambda: on.registry.loaded("m").generation == 1)
        sent: list[bool] = []
        suspects = on.hosting.suspects
        on.revival.on_revive = lambda: sent.append(suspects.watching)
        assert b"echo" in await on.invoke(body=b'{"inputs":[]}')
        assert sent == [True]
        assert not suspects.watching


async def test_a_hung_tritonserver_is_replaced(tmp_path: Path) -> None:
    """One that answers no load at all; its models come back, the hung one is a suspect."""
    hosting = HostingSettings(probe_s=0.5)
    deaf: Any = {"load": {"*": {"hang": True, "after": 1}}, "unload": {"b": {"ready_for_s": -1}}}
    async with parts_on_fake(tmp_path, dies=True, hosting=hosting, lives=[deaf, {}]) as on:
        await on.load("a")
        url = on.archive("b")
        first = on.process.pid
        load = on.triton.itself("request_load")

        async def wait_too_long(plan: Any, deadline: Deadline) -> None:
            if plan.model_name != "b":
                await load(plan, deadline)
                return
            loading = asyncio.ensure_future(load(plan, deadline))
            await until(lambda: len(on.events("load")) == 2)
            loading.cancel()
            raise deadline.missed("loading the model b")

        on.triton.instead["request_load"] = wait_too_long
        with pytest.raises(TritonTimeout, match="SERVE_LOAD_TIMEOUT"):
            await asyncio.wait_for(on.lifecycle.load("b", url), WAIT_S)
        await until(lambda: on.registry.loaded("a").generation == 1)
        assert on.process.pid != first
        assert b"echo" in await on.invoke("a")
        assert not (on.repository / "serve=canary").exists()


async def test_loads_of_others_are_waited_for(clock: Clock, tmp_path: Path) -> None:
    """All threads may load, each within its time: that is no standstill."""
    hosting = HostingSettings(probe_s=PROBE_S)
    go_on = tmp_path / "go_on"
    busy = {"serve=canary": {"until": str(go_on)}}
    async with parts_on_fake(tmp_path, hosting=hosting, load=busy) as on:

        def canaries() -> int:
            loads = [it["model"] for it in fake.read_record(on.record) if it["event"] == "load"]
            return loads.count("serve=canary")

        on.hosting.loading.under_way.add(LoadWork("other", ""))
        looking = asyncio.ensure_future(on.hosting.unloading.is_stuck())
        await until(lambda: canaries() == 1)
        for _ in range(3):
            clock.advance(PROBE_S + 1)
            await asyncio.sleep(0.02)
        assert not looking.done()
        go_on.touch()
        assert not await looking
        go_on.unlink()
        on.hosting.loading.under_way.clear()
        looking = asyncio.ensure_future(on.hosting.unloading.is_stuck())
        await until(lambda: canaries() == 2)
        clock.advance(PROBE_S + 1)
        assert await looking


@pytest.mark.slow
async def test_a_suspect_load_comes_last_and_a_culprit_is_given_up(tmp_path: Path) -> None:
    """Its neighbours are back before it is tried, and stay when it is not."""
    async with parts_on_fake(tmp_path, dies=True) as on:
        for name in ("a", "b", "c"):
            await on.load(name)
        suspects = on.hosting.suspects
        work = LoadWork("a", on.registry.loaded("a").archive)
        suspects.stood_still([work])
        assert standing(on, "a") is Standing.SUSPECT
        order: list[str] = []
        load = on.triton.itself("request_load")

        async def noting(plan: Any, deadline: Deadline) -> None:
            order.append(plan.model_name)
            await load(plan, deadline)

        on.triton.instead["request_load"] = noting
        await _restarted(on)
        await until(lambda: len(order) == 3)
        assert order[2] == "a"
        await until(lambda: standing(on, "a") is Standing.INNOCENT)
        for _ in range(2):
            suspects.stood_still([work])
        await _restarted(on)
        await until(lambda: [m.name for m in on.registry.all_loaded()] == ["b", "c"])
        with pytest.raises(ModelNotLoaded):
            on.registry.loaded("a")
        with pytest.raises(ModelUnusable, match="died or stood still twice"):
            await on.lifecycle.load("a", f"{on.root}/a/model")
        await until(lambda: all(m.state is State.READY for m in on.registry.all_loaded()))


async def _restarted(on: PartsOnFake) -> None:
    old = on.process.pid
    assert old is not None
    os.kill(old, signal.SIGKILL)
    await until(lambda: on.process.pid not in (None, old))
    await asyncio.wait_for(on.process.wait_live(), WAIT_S)


@pytest.mark.parametrize(
    ("message", "denied", "error"),
    [
        ("Stub process 'm_0_0' is not healthy.", Denials(1, 0), KilledForMemory),
        ("Stub process 'm_0_0' is not healthy.", Denials(0, 1), ResourceExhausted),
        ("Stub process 'm_0_0' is not healthy.", Denials(0, 0), ModelUnusable),
        ("ValueError: no weights", Denials(1, 1), ModelUnusable),
        ("Failed to fork the stub process for auto-complete.", Denials(0, 0), ResourceExhausted),
    ],
)
async def test_a_shortage_is_told_by_the_kernel(
    tmp_path: Path, message: str, denied: Denials, error: type[Exception]
) -> None:
    """A stub that died while nothing was denied killed itself; what a model says is believed."""
    wrong = {"message": f"load failed for model 'm': version 1 is at UNAVAILABLE state: {message}"}
    looks = iter([Denials(0, 0)])
    hosting = HostingSettings(denied=lambda: next(looks, denied))
    async with parts_on_fake(tmp_path, hosting=hosting, load={"m": wrong}) as on:
        with pytest.raises(error):
            await on.load()
        await on.assert_empty()


async def test_a_load_that_waits_for_a_denied_thread(tmp_path: Path) -> None:
    """Given up soon, as a shortage, and not held against the archive."""
    looks = iter([Denials(0, 0)])
    hosting = HostingSettings(
        denied=lambda: next(looks, Denials(0, 1)), denied_s=0.3, denied_look_s=0.1
    )
    async with parts_on_fake(tmp_path, hosting=hosting, load={"m": {"hang": True}}) as on:
        with pytest.raises(ResourceExhausted, match="a process or a thread"):
            await on.load()
        await on.assert_empty()
        assert not on.hosting.suspects.watching
