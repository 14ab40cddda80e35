"""Models that were lost under their callers come back once, whoever meets the loss."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from serve.errors import (
    InvocationFailed,
    ModelNotLoaded,
    ModelUnusable,
    ResourceExhausted,
    ServeError,
    TritonTimeout,
    TritonUnavailable,
)
from serve.models.registry import State
from serve.triton.hosting import HostingSettings
from serve.triton.stubs import Patience
from tests.fakes import tritonserver as fake
from tests.unit.serve.fake_stub import started_by, starting, stub
from tests.unit.serve.parts_on_fake import (
    DEAD,
    WAIT_S,
    Lacking,
    invocation_of,
    parts_on_fake,
    until,
)

LOST = [
    DEAD,
    {"status": 500, "message": "in ensemble 'm', Stub process 'm.step_0_0' is not healthy."},
    {
        "status": 400,
        "message": "Failed to process the request(s) for model instance 'm_0', message:"
        " Stub process 'm_0' is not healthy.",
    },
    {"status": 400, "message": "Request for unknown model: 'm' is not found"},
    {"status": 404, "message": "Request for unknown model: '/r::m' has no available versions"},
    {"status": 404, "message": "Identifier of model 'm' is not found in global map"},
]


@pytest.mark.parametrize("lost", LOST)
async def test_the_caller_that_meets_the_loss_is_answered(
    tmp_path: Path, lost: dict[str, Any]
) -> None:
    """Unloaded, loaded again, and the request sent once more."""
    async with parts_on_fake(tmp_path, infer={"m": {**lost, "times": 1}}) as on:
        await on.load()
        assert b"echo" in await on.invoke()
        assert on.events("load", "unload", "infer") == ["load", "infer", "unload", "load", "infer"]
        model = on.registry.loaded("m")
        assert (model.state, model.generation, model.in_flight) == (State.READY, 1, 0)


async def test_twenty_callers_cause_one_reload(tmp_path: Path) -> None:
    """All meet the same death, all are answered, and the model is loaded again once."""
    knobs: Any = {"infer": {"m": {**DEAD, "times": 20, "together": 20}}}
    async with parts_on_fake(tmp_path, **knobs) as on:
        await on.load()
        answers = await asyncio.gather(*(on.invoke() for _ in range(20)))
        assert all(b"echo" in answer for answer in answers)
        assert on.events("load", "unload") == ["load", "unload", "load"]
        assert on.registry.loaded("m").generation == 1


async def test_callers_in_one_turn_of_the_loop_cause_one_reload(tmp_path: Path) -> None:
    """Also when none of them had run between the look at the state and the reload."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        model = on.registry.loaded("m")
        await asyncio.gather(*(on.revival.revive(model, 0) for _ in range(20)))
        assert on.events("load", "unload") == ["load", "unload", "load"]
        assert model.generation == 1


async def test_who_comes_late_causes_none(tmp_path: Path) -> None:
    """A loss that was met before the last reload is no reason for another."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        model = on.registry.loaded("m")
        await on.revival.revive(model, 0)
        await asyncio.wait_for(on.revival.revive(model, 0), WAIT_S)
        assert on.events("load") == ["load", "load"]


async def test_a_model_that_dies_at_every_request(tmp_path: Path) -> None:
    """The caller gets an error after the second death; the model stays in the list."""
    async with parts_on_fake(tmp_path, infer={"m": DEAD}) as on:
        await on.load()
        with pytest.raises(InvocationFailed, match="the model m failed: Stub process"):
            await on.invoke()
        assert on.events("load") == ["load", "load"]
        assert on.registry.loaded("m").state is State.READY


async def test_a_model_that_is_looked_at(tmp_path: Path) -> None:
    """Nobody asks for it: a stub of it that has died is found, and one that lives is left alone."""
    async with parts_on_fake(tmp_path) as on:
        with contextlib.ExitStack() as running:
            old = running.enter_context(stub(on.repository, "m.step", WAIT_S))
            await on.load()
            model = on.registry.loaded("m")
            model.stubs = await on.hosting.find_stubs(model.plan)
            for _ in range(2):
                on.revival.look_at(model)
            await asyncio.sleep(0.3)
            assert on.events("load", "unload") == ["load"]
            old.kill()
            old.wait()
            for _ in range(2):
                on.revival.look_at(model)
            await until(lambda: model.generation == 1)
            assert on.events("load", "unload") == ["load", "unload", "load"]


async def test_other_failures_cause_no_reload(tmp_path: Path) -> None:
    """A model that raises, quoting what a dead one says, is not loaded again."""
    message = f"Failed to process the request(s) for model 'm_0_0', message: E: {DEAD['message']}"
    async with parts_on_fake(tmp_path, infer={"m": {"status": 500, "message": message}}) as on:
        await on.load()
        with pytest.raises(InvocationFailed):
            await on.invoke()
        assert on.events("load") == ["load"]


async def test_what_an_older_generation_left_is_ended(tmp_path: Path) -> None:
    """Once nobody can wait for its answer; the stubs of the new one are left alone."""
    hosting = HostingSettings(patience=Patience(ending_s=0.1, killed_s=WAIT_S))
    async with parts_on_fake(tmp_path, hosting=hosting, infer={"m": {**DEAD, "times": 1}}) as on:
        await on.load()
        with stub(on.repository, "m.step", WAIT_S) as old:
            with invocation_of(on.registry.loaded("m")):  # of the older generation
                assert b"echo" in await on.invoke()
                await asyncio.sleep(0.5)
                assert old.poll() is None
            with stub(on.repository, "m.step", WAIT_S) as new:
                await until(lambda: old.poll() is not None)
                assert [old.poll(), new.poll()] == [-signal.SIGKILL, None]


async def test_what_an_older_generation_had_started_is_ended(tmp_path: Path) -> None:
    """Also where tritonserver ends the stub itself, at the unload."""
    hosting = HostingSettings(patience=Patience(alone_s=0.1, killed_s=WAIT_S))
    mine, others = tmp_path / "mine", tmp_path / "others"
    async with parts_on_fake(tmp_path, hosting=hosting, infer={"m": {**DEAD, "times": 1}}) as on:
        await on.load()
        unload, load = on.triton.itself("request_unload"), on.triton.itself("request_load")
        with contextlib.ExitStack() as running:
            old = running.enter_context(stub(on.repository, "m.step", WAIT_S, more=starting(mine)))

            async def end(*arguments: Any, **named: Any) -> None:
                await unload(*arguments, **named)
                old.kill()
                old.wait()

            async def begin(*arguments: Any, **named: Any) -> None:
                await load(*arguments, **named)
                new = stub(on.repository, "m.step", WAIT_S, more=starting(others))
                running.enter_context(new)

            await until(lambda: len(started_by(mine)) == 2)
            on.triton.instead["request_unload"] = end
            on.triton.instead["request_load"] = begin
            assert b"echo" in await on.invoke()
            await until(lambda: not started_by(mine))
            await until(lambda: len(started_by(others)) == 2)
            await on.lifecycle.unload("m")
            assert not started_by(others)


async def test_a_reload_that_fails_ends_what_was_left(tmp_path: Path) -> None:
    """Nobody can unload the model any more."""
    patience = Patience(ending_s=0.1, killed_s=WAIT_S, alone_s=0.1)
    hosting = HostingSettings(patience=patience)
    failure = {"message": "no", "code": "INTERNAL", "after": 1}
    async with parts_on_fake(
        tmp_path, hosting=hosting, infer={"m": DEAD}, load={"m": failure}
    ) as on:
        await on.load()
        with stub(on.repository, "m.step", WAIT_S, more=starting(tmp_path / "mine")) as old:
            await until(lambda: len(started_by(tmp_path / "mine")) == 2)
            with pytest.raises(ModelNotLoaded):
                await on.invoke()
            assert old.wait(0) == -signal.SIGKILL
        assert not started_by(tmp_path / "mine")
        await on.assert_empty()


async def test_the_first_caller_goes_away(tmp_path: Path) -> None:
    """The reload that it began goes on, and the others are answered."""
    dead = {**DEAD, "times": 5, "together": 5}
    knobs: Any = {"infer": {"m": dead}, "unload": {"m": {"ready_for_s": 0.5}}}
    async with parts_on_fake(tmp_path, **knobs) as on:
        await on.load()
        callers = [asyncio.ensure_future(on.invoke()) for _ in range(5)]
        await until(lambda: len(on.events("infer")) == 5 and bool(on.events("unload")))
        for caller in callers[:4]:
            caller.cancel()
        assert b"echo" in await callers[4]
        assert on.registry.loaded("m").in_flight == 0
        assert on.events("load") == ["load", "load"]


async def test_invocations_wait_for_a_reload(tmp_path: Path) -> None:
    """None is sent while the model is loaded again; the model stays in the list."""
    async with parts_on_fake(tmp_path, unload={"m": {"ready_for_s": 0.5}}) as on:
        await on.load()
        model = on.registry.loaded("m")
        reviving = asyncio.ensure_future(on.revival.revive(model, 0))
        await until(lambda: bool(on.events("unload")))
        assert on.registry.loaded("m").state is State.RELOADING
        calls = [on.invoke() for _ in range(5)]
        assert all(b"echo" in answer for answer in await asyncio.gather(*calls))
        await reviving
        assert on.events("load", "infer") == ["load", "load", *["infer"] * 5]


@pytest.mark.parametrize("callers", [1, 5])
async def test_a_reload_that_fails(tmp_path: Path, callers: int) -> None:
    """The model is gone, from the list and from disk, and each caller is told so with a 404."""
    async with parts_on_fake(tmp_path, infer={"m": DEAD}) as on:
        await on.load()
        for path in on.repository.iterdir():  # what a load of it needs is lost as well
            path.rename(tmp_path / path.name)
        calls = [on.invoke() for _ in range(callers)]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, ModelNotLoaded)
        await on.assert_empty()
        with pytest.raises(ModelNotLoaded, match="is not loaded"):
            await on.invoke()


async def test_a_reload_that_fails_in_part_leaves_nothing(tmp_path: Path) -> None:
    """What the reload did load before it failed is unloaded: no stub without an owner."""
    failure = {"message": "no", "code": "INTERNAL"}
    knobs: Any = {"infer": {"m": DEAD}, "load": {"m": {**failure, "after": 1}}}
    async with parts_on_fake(tmp_path, **knobs) as on:
        await on.load()
        with pytest.raises(ModelNotLoaded):
            await on.invoke()
        await on.assert_empty()


@pytest.mark.parametrize("callers", [1, 20])
async def test_a_reload_without_memory_keeps_the_model(tmp_path: Path, callers: int) -> None:
    """Each caller is told of the lack (507), and the next one succeeds when it is over."""
    lacking = {"message": "out of memory", "code": "INTERNAL", "after": 1, "times": 1}
    dead = {**DEAD, "times": callers, "together": callers}
    knobs: Any = {"infer": {"m": dead}, "load": {"m": lacking}}
    async with parts_on_fake(tmp_path, **knobs) as on:
        await on.load()
        calls = [on.invoke() for _ in range(callers)]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(result, ResourceExhausted)
        assert [model.name for model in on.registry.all_loaded()] == ["m"]
        assert b"echo" in await on.invoke()


async def test_an_invocation_does_not_wait_for_ever_for_a_reload(tmp_path: Path) -> None:
    """The limit of an invocation is for the reload in it as well; the reload goes on."""
    slow = {"delay_s": 2.0, "after": 1, "times": 1}
    knobs: Any = {"infer": {"m": {**DEAD, "times": 1}}, "load": {"m": slow}}
    async with parts_on_fake(tmp_path, invoke_timeout_s=0.5, **knobs) as on:
        await on.load()
        with pytest.raises(TritonTimeout, match="SERVE_INVOKE_TIMEOUT"):
            await on.invoke()
        model = on.registry.loaded("m")
        assert model.in_flight == 0
        await asyncio.wait_for(model.settled(), WAIT_S)
        on.invocation.timeout_s = WAIT_S
        assert b"echo" in await on.invoke()


async def test_unload_waits_for_a_reload(tmp_path: Path) -> None:
    """And then gives everything back."""
    async with parts_on_fake(tmp_path, unload={"m": {"ready_for_s": 0.3}}) as on:
        await on.load()
        reviving = asyncio.ensure_future(on.revival.revive(on.registry.loaded("m"), 0))
        await until(lambda: bool(on.events("unload")))
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        await asyncio.gather(reviving, return_exceptions=True)
        assert on.events("load") == ["load", "load"]
        await on.assert_empty()


async def test_an_unload_that_began_is_not_undone_by_a_revival(tmp_path: Path) -> None:
    """Who meets the loss during an unload is told that the model is not loaded."""
    go_on = tmp_path / "go_on"
    async with parts_on_fake(tmp_path, infer={"m": {**DEAD, "until": str(go_on)}}) as on:
        await on.load()
        caller = asyncio.ensure_future(on.invoke())
        await until(lambda: bool(on.events("infer")))
        unloading = asyncio.ensure_future(on.lifecycle.unload("m"))
        await until(lambda: on.registry.count(State.UNLOADING) == 1)
        go_on.touch()
        with pytest.raises(ModelNotLoaded):
            await caller
        await asyncio.wait_for(unloading, WAIT_S)
        assert on.events("load") == ["load"]
        await on.assert_empty()


async def test_a_new_tritonserver_gets_every_model(tmp_path: Path) -> None:
    """After kill -9 all models are loaded again, and in the end all are answered as before."""
    async with parts_on_fake(tmp_path, dies=True) as on:
        for name in ("a", "b"):
            await on.load(name)
        pid = on.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await until(lambda: len(on.events("load")) == 4)
        await until(lambda: all(m.state is State.READY for m in on.registry.all_loaded()))
        for name in ("a", "b"):
            assert b"echo" in await on.invoke(name)
        assert [model.name for model in on.registry.all_loaded()] == ["a", "b"]


@pytest.mark.slow
async def test_a_tritonserver_that_dies_again_while_it_is_filled(tmp_path: Path) -> None:
    """No model is given up for that: the next tritonserver gets them."""
    lives: Any = [{}, {"load": {"*": {"hang": True}}}, {}]
    async with parts_on_fake(tmp_path, dies=True, lives=lives) as on:
        for name in ("a", "b"):
            await on.load(name)
        for loads in (2, 4):
            pid = on.process.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await until(lambda loads=loads: len(on.events("load")) == loads + 2)  # type: ignore[misc]
        await until(lambda: all(m.state is State.READY for m in on.registry.all_loaded()))
        assert [model.name for model in on.registry.all_loaded()] == ["a", "b"]
        for name in ("a", "b"):
            assert b"echo" in await on.invoke(name)


async def test_a_reload_without_a_server_keeps_the_model(tmp_path: Path) -> None:
    """It is as lost as before; callers are told to try again, and no file is removed."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        await on.process.stop()
        on.hosting.loading.load_timeout_s = 1
        model = on.registry.loaded("m")
        with pytest.raises(TritonUnavailable):
            await asyncio.wait_for(on.revival.revive(model, 0), WAIT_S)
        assert (model.state, model.generation) == (State.READY, 0)
        assert sorted(path.name for path in on.repository.iterdir()) == ["m", "m.step"]
        with pytest.raises(TritonUnavailable):
            await on.invoke()


@pytest.mark.slow
async def test_a_death_while_a_failed_reload_is_released(tmp_path: Path) -> None:
    """The model is as lost as before, so that the next tritonserver is given it."""
    lives: Any = [{}, {"load": {"*": {"hang": True}}}, {}]
    async with parts_on_fake(tmp_path, dies=True, lives=lives) as on:
        await on.load()
        on.hosting.loading.load_timeout_s = 1
        assert on.process.pid is not None
        os.kill(on.process.pid, signal.SIGKILL)
        await until(lambda: on.events("load") == ["load", "load"])
        second = on.process.pid
        assert second is not None
        releasing = asyncio.Event()

        async def unload_nothing(*_: Any, **__: Any) -> None:
            releasing.set()
            await asyncio.Event().wait()

        on.triton.instead["request_unload"] = unload_nothing
        await asyncio.wait_for(releasing.wait(), WAIT_S)
        del on.triton.instead["request_unload"]
        on.hosting.loading.load_timeout_s = WAIT_S
        os.kill(second, signal.SIGKILL)
        await until(lambda: on.events("load") == ["load", "load", "load"])
        await until(lambda: on.registry.loaded("m").state is State.READY)
        assert b"echo" in await on.invoke()


async def test_a_reload_without_descriptors_is_tried_again(tmp_path: Path) -> None:
    """What the container lacks for a moment costs no model."""

    lacking = Lacking()
    async with parts_on_fake(tmp_path, hosting=lacking.hosting) as on:
        await on.load()
        model = on.registry.loaded("m")
        lacking.descriptors = True
        with pytest.raises(ResourceExhausted, match="Too many open files"):
            await asyncio.wait_for(on.revival.revive(model, 0), WAIT_S)
        await asyncio.wait_for(on.revival.revive_all(), WAIT_S)
        lacking.descriptors = False
        assert (model.state, model.generation) == (State.READY, 0)
        await asyncio.wait_for(on.revival.revive(model, 0), WAIT_S)
        assert (model.state, model.generation) == (State.READY, 1)
        assert b"echo" in await on.invoke()


async def test_a_reload_without_threads_is_tried_again(tmp_path: Path) -> None:
    """Nor does this cost a model."""
    lacking = Lacking()
    async with parts_on_fake(tmp_path, hosting=lacking.hosting) as on:
        await on.load()
        model = on.registry.loaded("m")
        lacking.threads = True
        with pytest.raises(ResourceExhausted, match="can't start new thread"):
            await asyncio.wait_for(on.revival.revive(model, 0), WAIT_S)
        lacking.threads = False
        assert (model.state, model.generation) == (State.READY, 0)
        await asyncio.wait_for(on.revival.revive(model, 0), WAIT_S)
        assert b"echo" in await on.invoke()


@pytest.mark.slow
async def test_after_a_renewal_those_come_first_that_are_asked_for(tmp_path: Path) -> None:
    """Others may not be for minutes."""
    names = [f"m{number}" for number in range(9)]
    async with parts_on_fake(tmp_path, dies=True) as on:
        for name in names:
            await on.load(name)
        renewing = asyncio.ensure_future(on.revival.renew())
        await asyncio.sleep(0)
        asked = asyncio.ensure_future(on.invoke("m8"))
        await asyncio.wait_for(renewing, WAIT_S)
        assert b"echo" in await asked
        order: list[str] = []
        for event in fake.read_record(on.record):
            if event["event"] == "load":
                order.append(event["model"])
        assert "m8" in order[9:13]


async def test_giving_up_a_model_without_descriptors(tmp_path: Path) -> None:
    """As at an unload: what is lacking to look for stubs leaves no model that cannot be served."""
    lacking = Lacking()
    async with parts_on_fake(tmp_path, hosting=lacking.hosting) as on:
        await on.load()
        model = on.registry.loaded("m")

        async def fail(*_: object) -> None:
            lacking.descriptors = True
            raise ModelUnusable("no weights")

        on.triton.instead["request_load"] = fail
        with pytest.raises(ModelNotLoaded):
            await asyncio.wait_for(on.revival.revive(model, 0), WAIT_S)
        await on.assert_empty()


async def test_revive_all_never_raises(tmp_path: Path) -> None:
    """A model that cannot be loaded again does not keep the others away."""
    async with parts_on_fake(tmp_path) as on:
        for name in ("a", "b"):
            await on.load(name)
        (on.repository / "a").rename(tmp_path / "away")
        await asyncio.wait_for(on.revival.revive_all(), WAIT_S)
        assert [model.name for model in on.registry.all_loaded()] == ["b"]
        with pytest.raises(ServeError):
            await on.invoke("a")
        assert b"echo" in await on.invoke("b")


async def test_a_tritonserver_that_is_replaced_for_what_it_keeps(tmp_path: Path) -> None:
    """What it works on is finished first, callers wait, and each model is loaded once."""
    async with parts_on_fake(tmp_path, dies=True, infer={"a": {"delay_s": 0.5, "times": 1}}) as on:
        for name in ("a", "b"):
            await on.load(name)
        first = on.process.pid
        slow = asyncio.ensure_future(on.invoke("a"))
        await until(lambda: on.hosting.suspects.inside == 1)
        renewing = asyncio.ensure_future(on.revival.renew())
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(on.invoke("b"))
        await asyncio.wait_for(renewing, WAIT_S)
        assert b"echo" in await slow
        assert b"echo" in await waiting
        assert on.process.pid != first
        for name in ("a", "b"):
            model = on.registry.loaded(name)
            assert (model.state, model.generation) == (State.READY, 1)
            assert b"echo" in await on.invoke(name)


async def test_a_tritonserver_that_cannot_be_replaced(tmp_path: Path) -> None:
    """Its models can be asked for as before."""
    async with parts_on_fake(tmp_path, replaceable=False) as on:
        await on.load()
        with pytest.raises(TritonUnavailable):
            await on.revival.renew()
        assert on.registry.loaded("m").state is State.READY
        assert b"echo" in await on.invoke()
