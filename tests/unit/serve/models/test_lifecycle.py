"""Load and unload on a fake tritonserver: whatever fails or is cancelled leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools import Compile, ServingPlan, write_tables
from ensemble_tools.errors import PayloadBroken
from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.tables import TableUnusable
from serve.deadline import Deadline
from serve.errors import (
    BadRequest,
    CallerError,
    DiskFailed,
    ModelAlreadyLoaded,
    ModelNotLoaded,
    ModelUnusable,
    ResourceExhausted,
    ServeError,
    TritonTimeout,
    TritonUnavailable,
)
from serve.invoke.request import Request
from serve.models.registry import State
from serve.triton.hosting import HostingSettings
from serve.triton.stubs import Patience
from tests.unit.serve.fake_stub import started_by, starting, stub
from tests.unit.serve.parts_on_fake import (
    CHOICES,
    WAIT_S,
    Lacking,
    invocation_of,
    parts_on_fake,
    stepping,
    until,
)


async def test_a_straight_line_there_and_back(tmp_path: Path) -> None:
    """Load, invoke, unload: afterwards nothing is held and the name is free."""
    async with parts_on_fake(tmp_path) as on:
        url = on.archive()
        for _ in range(2):
            await asyncio.wait_for(on.lifecycle.load("m", url), WAIT_S)
            assert sorted(path.name for path in on.repository.iterdir()) == ["m", "m.step"]
            assert sorted(await on.held()) == ["m", "m.step"]
            assert b'"echo": "{\\"inputs\\":[]}"' in await on.invoke()
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
            await on.assert_empty()


async def test_unload_waits_for_stubs_that_tritonserver_no_longer_tells_of(tmp_path: Path) -> None:
    """Those of what was lost under the model end beside its own, and maybe after them."""
    hosting = HostingSettings(patience=Patience(ending_s=WAIT_S))
    async with parts_on_fake(tmp_path, hosting=hosting) as on:
        await on.load()
        with stub(on.repository, "m.step", 0.5) as ending:
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
            assert ending.wait(0) == 0
        await on.assert_empty()


async def test_unload_ends_stubs_that_stay(tmp_path: Path) -> None:
    """tritonserver keeps some for ever; another model's are no matter."""
    hosting = HostingSettings(patience=Patience(ending_s=0.1, killed_s=WAIT_S))
    async with parts_on_fake(tmp_path, hosting=hosting) as on:
        await on.load()
        with (
            stub(on.repository, "m.step", WAIT_S) as staying,
            stub(on.root, "m.step", WAIT_S) as other,
        ):
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
            assert [staying.wait(0), other.poll()] == [-signal.SIGKILL, None]
        await on.assert_empty()


async def test_unload_ends_what_stubs_have_started(tmp_path: Path) -> None:
    """Also that of stubs that tritonserver ends itself."""
    hosting = HostingSettings(patience=Patience(alone_s=0.1, killed_s=WAIT_S))
    mine = tmp_path / "mine"
    async with parts_on_fake(tmp_path, hosting=hosting) as on:
        await on.load()
        unload = on.triton.itself("request_unload")
        with stub(on.repository, "m.step", WAIT_S, more=starting(mine)) as ending:

            async def end(*arguments: Any, **named: Any) -> None:
                await unload(*arguments, **named)
                ending.kill()
                ending.wait()

            on.triton.instead["request_unload"] = end
            await until(lambda: len(started_by(mine)) == 2)
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
            assert not started_by(mine)
        await on.assert_empty()


async def test_what_stubs_have_started_is_looked_for_without_threads(tmp_path: Path) -> None:
    """It may have all threads that there are."""
    hosting = HostingSettings(
        patience=Patience(alone_s=0.1, killed_s=WAIT_S),
        in_thread=Lacking(threads=True).in_thread,
    )
    mine = tmp_path / "mine"
    async with parts_on_fake(tmp_path, hosting=hosting) as on:
        await on.load()
        plan = on.registry.loaded("m").plan

        with stub(on.repository, "m.step", WAIT_S, more=starting(mine)):
            await until(lambda: len(started_by(mine)) == 2)
            found = await on.hosting.end_model(plan, Deadline(WAIT_S))
            assert {it.pid for it in found} > {it.pid for it in started_by(mine)}
            await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
            assert not started_by(mine)


def load_knob(**wrong: Any) -> dict[str, Any]:
    return {"load": {"m": wrong}}


FAILED = "load failed for model 'm': version 1 is at UNAVAILABLE state: Internal: "


async def lives(*_: object) -> None:
    """In the place of what asks tritonserver whether it does."""


@pytest.mark.parametrize(
    ("options", "url", "error", "says"),
    [
        ({}, "/etc", BadRequest, "outside"),
        ({}, "{root}/missing/model", BadRequest, "no directory"),
        ({}, "{broken}", ModelUnusable, "config.pbtxt"),
        ({"memory_reserve_bytes": 1 << 60}, "{good}", ResourceExhausted, "no memory"),
        (
            load_knob(message=FAILED + "ValueError: boom\n\nAt:\n  x(1): y\n;"),
            "{good}",
            ModelUnusable,
            "the model m failed to load: ValueError: boom;",
        ),
        (
            load_knob(
                message="Model '/r::m.step' loading failed with error: version 1 is at"
                " UNAVAILABLE state: Internal: ValueError: boom;"
            ),
            "{good}",
            ModelUnusable,
            "the step step of the model m failed to load: ValueError: boom;",
        ),
        (
            load_knob(
                message="memory limit set for GPU 0 has exceeded, model loading is rejected."
            ),
            "{good}",
            ResourceExhausted,
            "memory limit",
        ),
        (load_knob(message="gone", code="UNAVAILABLE"), "{good}", TritonUnavailable, "went away"),
        (
            {**load_knob(hang=True), "load_timeout_s": 0.3},
            "{good}",
            TritonTimeout,
            "0.3 s; raise SERVE_LOAD_TIMEOUT",
        ),
        (
            {**load_knob(delay_s=1.0), "load_timeout_s": 0.3},
            "{good}",
            TritonTimeout,
            "SERVE_LOAD_TIMEOUT",
        ),
    ],
    ids=[
        "outside",
        "missing",
        "broken",
        "memory",
        "raises",
        "step raises",
        "gpu",
        "unavailable",
        "hangs",
        "slow",
    ],
)
async def test_a_load_that_fails(
    tmp_path: Path, options: dict[str, Any], url: str, error: type[ServeError], says: str
) -> None:
    """At whichever step: the reason is told in one line, and no trace is left."""
    async with parts_on_fake(tmp_path, **options) as on:
        if "load_timeout_s" in options:  # of which nothing may be left for this question
            on.triton.instead["wait_until_live"] = lives
        on.archive("good")
        on.archive("broken", config="nonsense {")
        url = url.replace("{root}", str(on.root))
        for name in ("good", "broken"):
            url = url.replace("{" + name + "}", f"{on.root}/{name}/model")
        with pytest.raises(error, match=says) as refused:
            await asyncio.wait_for(on.lifecycle.load("m", url), WAIT_S)
        assert "\n" not in str(refused.value)
        await on.assert_empty()


async def test_a_disk_that_does_not_answer(tmp_path: Path) -> None:
    """The load is given up in its time, and the name is free again."""
    answers = threading.Event()

    def hanging(read: Callable[[], Any]) -> Any:
        answers.wait(WAIT_S)
        return read()

    hooks = {"in_thread": stepping(read=hanging)}
    async with parts_on_fake(tmp_path, load_timeout_s=0.3, lifecycle=hooks) as on:
        url = on.archive()
        with pytest.raises(TritonTimeout, match=r"^reading the archive .* SERVE_LOAD_TIMEOUT"):
            await asyncio.wait_for(on.lifecycle.load("m", url), WAIT_S / 2)
        await on.assert_empty()
        answers.set()
        on.registry.forget(on.registry.begin_load("m", url))


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "a b", "x" * 5000, "a\0", "é", "a\n"]
)
async def test_names_that_are_none(tmp_path: Path, name: str) -> None:
    """The caller's fault, before anything is touched."""
    async with parts_on_fake(tmp_path, start=False) as on:
        with pytest.raises(CallerError, match="the model name"):
            await on.lifecycle.load(name, on.archive())
        assert on.registry.count(*State) == 0


async def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """ENOSPC is a lack of resources, EIO the disk's fault; what is left is the archive's."""
    for number, error in ((28, ResourceExhausted), (5, DiskFailed), (13, ModelUnusable)):
        failure = OSError(number, "no")

        def fail(_: object, failure: OSError = failure) -> Any:
            raise failure

        hooks = {"in_thread": stepping(publish=fail)}
        (tmp_path / str(number)).mkdir()
        async with parts_on_fake(tmp_path / str(number), lifecycle=hooks) as on:
            with pytest.raises(error, match="could not be published"):
                await on.load()
            await on.assert_empty()


async def test_a_file_that_nothing_can_read(tmp_path: Path) -> None:
    """Found while it is published; the archive is at fault, in the sentence that says so."""
    broken = PayloadBroken(Path("/m/unique.a.parquet"), "cannot be read", "export it again")

    def fail(_: object) -> Any:
        raise broken

    async with parts_on_fake(tmp_path, lifecycle={"in_thread": stepping(publish=fail)}) as on:
        with pytest.raises(ModelUnusable) as refused:
            await on.load()
        assert str(refused.value) == "/m/unique.a.parquet: cannot be read; export it again"
        await on.assert_empty()


async def test_a_failed_load_ends_stubs_that_stay(tmp_path: Path) -> None:
    """As an unload does, with what they have started."""
    patience = Patience(ending_s=0.1, killed_s=WAIT_S, alone_s=0.1)
    hosting = HostingSettings(patience=patience)
    async with parts_on_fake(tmp_path, hosting=hosting) as on:
        with contextlib.ExitStack() as running:
            started = []

            async def fail(*_: object) -> None:
                more = starting(tmp_path / "mine")
                one = stub(on.repository, "m.step", WAIT_S, more=more)
                started.append(running.enter_context(one))
                await until(lambda: len(started_by(tmp_path / "mine")) == 2)
                raise ModelUnusable("boom")

            on.triton.instead["request_load"] = fail
            with pytest.raises(ModelUnusable, match="boom"):
                await on.load()
            assert [one.wait(0) for one in started] == [-signal.SIGKILL]
            assert not started_by(tmp_path / "mine")
        await on.assert_empty()


async def test_a_load_before_the_server_lives(tmp_path: Path) -> None:
    """It waits and is done: tritonserver is asked nothing before it lives."""
    async with parts_on_fake(tmp_path) as on:
        waits, lives = asyncio.Event(), asyncio.Event()

        async def wait_until_live(*_: object) -> None:
            waits.set()
            await lives.wait()

        on.triton.instead["wait_until_live"] = wait_until_live
        loading = asyncio.ensure_future(on.load())
        await asyncio.wait_for(waits.wait(), WAIT_S)
        assert not loading.done()
        assert on.events("load") == []
        lives.set()
        await loading
        assert await on.held() == ["m", "m.step"]


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    """Waited for as long as the start may take, and then given up without a trace."""
    async with parts_on_fake(tmp_path, never_live=True, start=False, start_timeout_s=0.2) as on:
        with pytest.raises(TritonUnavailable, match=r"not live within 0\.2 s"):
            await on.load()
        assert on.registry.count(*State) == 0
        assert list(on.repository.iterdir()) == []


@pytest.mark.parametrize("step", ["decide", "publish", "start", "load"])
async def test_a_load_that_is_cancelled(tmp_path: Path, step: str) -> None:
    """At whichever step, in a thread too: what it began is undone before it is over."""
    options: dict[str, Any] = {"load": {"m": {"delay_s": 1}}} if step == "load" else {}
    reached, loop = asyncio.Event(), asyncio.get_running_loop()
    blocked, finished = threading.Event(), threading.Event()

    def slowly(work: Callable[[], Any]) -> Any:
        loop.call_soon_threadsafe(reached.set)
        try:
            assert blocked.wait(WAIT_S)
            return work()
        finally:
            finished.set()

    hooks = {"in_thread": stepping(**{step: slowly})}
    async with parts_on_fake(tmp_path, lifecycle=hooks, **options) as on:
        loop.call_later(0.3, blocked.set)
        if step == "start":

            async def never(timeout_s: float) -> None:
                reached.set()
                await asyncio.Event().wait()

            on.triton.instead["wait_until_live"] = never
        loading = asyncio.ensure_future(on.lifecycle.load("m", on.archive()))
        if step == "load":
            await until(lambda: bool(on.events("load")))
        else:
            await asyncio.wait_for(reached.wait(), WAIT_S)
        loading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(loading, WAIT_S)
        if step in {"decide", "publish"}:  # what the thread writes late must not stay either
            assert await asyncio.to_thread(finished.wait, WAIT_S)
        await on.assert_empty()


async def test_one_name_is_loaded_once(tmp_path: Path) -> None:
    """Of twenty loads at once one wins, the others are told that it is being loaded."""
    async with parts_on_fake(tmp_path) as on:
        url = on.archive()
        loads = [on.lifecycle.load("m", url) for _ in range(20)]
        results = await asyncio.wait_for(asyncio.gather(*loads, return_exceptions=True), WAIT_S)
        assert sum(isinstance(result, ServingPlan) for result in results) == 1
        assert sum(isinstance(result, ModelAlreadyLoaded) for result in results) == 19
        assert on.events("load") == ["load"]
        assert sorted(await on.held()) == ["m", "m.step"]


@pytest.mark.slow
async def test_names_do_not_meet(tmp_path: Path) -> None:
    """Ten archives with the same step names load at once and unload at once."""
    async with parts_on_fake(tmp_path) as on:
        names = [f"m{number}" for number in range(10)]
        await asyncio.gather(*(on.load(name) for name in names))
        assert len(await on.held()) == 20
        await asyncio.gather(*(on.lifecycle.unload(name) for name in names[1:]))
        assert sorted(await on.held()) == ["m0", "m0.step"]
        assert b"m0" in await on.invoke("m0")


async def test_unload_of_what_is_not_loaded(tmp_path: Path) -> None:
    """Unknown, being loaded, or being unloaded: not loaded, in other words each."""
    go_on = tmp_path / "go_on"
    async with parts_on_fake(tmp_path, load={"m": {"until": str(go_on)}}) as on:
        with pytest.raises(ModelNotLoaded, match="is not loaded"):
            await on.lifecycle.unload("m")
        loading = asyncio.ensure_future(on.load())
        await until(lambda: bool(on.events("load")))
        with pytest.raises(ModelNotLoaded, match="is being loaded"):
            await on.lifecycle.unload("m")
        go_on.touch()
        await loading
        with invocation_of(on.registry.loaded("m")):
            unloading = asyncio.ensure_future(on.lifecycle.unload("m"))
            await until(lambda: on.registry.count(State.UNLOADING) == 1)
            with pytest.raises(ModelNotLoaded, match="is being unloaded"):
                await on.lifecycle.unload("m")
        await asyncio.wait_for(unloading, WAIT_S)
        await on.assert_empty()


async def test_a_workflow_whose_tables_turn_out_unusable(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is served as delivered, the log says why, and what it takes more is admitted anew."""
    examples = Path(__file__).parents[4] / "examples/merlin"
    seen: list[str] = []

    def write(tables: Sequence[Table], directory: Path) -> list[dict[str, Any]]:
        seen.extend(["tables"] if tables else [])
        if "1_transformworkflowtriton" in str(directory):
            raise TableUnusable("it has a category twice")
        return write_tables(tables, directory)

    choices = replace(CHOICES, compile=Compile.AUTO)
    settings: Any = {
        "model_root": Path("/"),
        "choices": lambda: choices,
        "write_tables": write,
    }
    async with parts_on_fake(tmp_path, lifecycle=settings) as on:
        on.admission.lacks = lambda: seen.append("room")
        with caplog.at_level(logging.INFO, logger="serve.models.lifecycle"):
            served = await on.lifecycle.load("two", str(examples / "two_workflows/repository"))
        attempt = ["room", "tables", "tables"]
        assert seen == [*attempt, *attempt]
        assert served.compiled == 1
        entry = on.ledger.get("two")
        assert entry is not None
        assert [model.kind for model in entry.demand.models].count("workflow") == 1
        on.admission.lacks = lambda: None
        (record,) = (one for one in caplog.records if one.getMessage() == "model loaded")
        reason = "1_transformworkflowtriton: it has a category twice"
        assert vars(record)["not_compiled"] == reason


async def test_an_unload_waits_for_what_is_in_flight(tmp_path: Path) -> None:
    """Requests that came before are answered; those that come after are refused."""
    go_on = tmp_path / "go_on"
    async with parts_on_fake(tmp_path, infer={"m": {"until": str(go_on)}}) as on:
        await on.load()
        calls = [asyncio.ensure_future(on.invoke()) for _ in range(5)]
        await until(lambda: len(on.events("infer")) == 5)
        unloading = asyncio.ensure_future(on.lifecycle.unload("m"))
        await until(lambda: on.registry.count(State.UNLOADING) == 1)
        with pytest.raises(ModelNotLoaded, match="is being unloaded"):
            await on.invocation.forward("m", Request([], [b'{"inputs":[]}']))
        assert on.events("unload") == []
        go_on.touch()
        assert all(b"echo" in answer for answer in await asyncio.gather(*calls))
        await asyncio.wait_for(unloading, WAIT_S)
        await on.assert_empty()


async def test_an_unload_that_waits_blocks_nobody(tmp_path: Path) -> None:
    """Another model is loaded, asked and unloaded meanwhile; its own name stays taken."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        with invocation_of(on.registry.loaded("m")):
            unloading = asyncio.ensure_future(on.lifecycle.unload("m"))
            await until(lambda: on.registry.count(State.UNLOADING) == 1)
            await on.load("other")
            assert b"echo" in await on.invoke("other")
            await asyncio.wait_for(on.lifecycle.unload("other"), WAIT_S)
            with pytest.raises(ModelAlreadyLoaded, match="being unloaded"):
                await on.lifecycle.load("m", f"{on.root}/m/model")
            assert not unloading.done()
        await asyncio.wait_for(unloading, WAIT_S)
        await on.assert_empty()


@pytest.mark.slow
@pytest.mark.parametrize("why", ["in flight", "held"])
async def test_an_unload_that_takes_too_long(tmp_path: Path, why: str) -> None:
    """It is listed again and can be invoked, so that the platform can try again."""
    knobs: Any = {"unload": {"m": {"ready_for_s": -1, "times": 3}}} if why == "held" else {}
    async with parts_on_fake(tmp_path, unload_timeout_s=1.0, **knobs) as on:
        await on.load()
        model = on.registry.loaded("m")
        if why == "held":
            with pytest.raises(TritonTimeout, match=r"took longer than 1 s$"):
                await on.lifecycle.unload("m")
        else:
            with invocation_of(model), pytest.raises(TritonTimeout, match="waiting for the invoc"):
                await on.lifecycle.unload("m")
        assert on.registry.loaded("m") is model
        assert b"echo" in await on.invoke()
        await on.lifecycle.unload("m")
        await on.assert_empty()


async def test_an_unload_that_is_cancelled(tmp_path: Path) -> None:
    """Listed again while it waits; gone when it was past that."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        with invocation_of(on.registry.loaded("m")):
            unloading = asyncio.ensure_future(on.lifecycle.unload("m"))
            await until(lambda: on.registry.count(State.UNLOADING) == 1)
            unloading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await unloading
        assert on.registry.loaded("m").state is State.READY
        unloading = asyncio.ensure_future(on.lifecycle.unload("m"))
        await until(lambda: not list(on.repository.iterdir()))
        unloading.cancel()
        await asyncio.wait({unloading}, timeout=WAIT_S)
        await on.assert_empty()


async def test_an_unload_that_is_cancelled_while_stubs_end(tmp_path: Path) -> None:
    """tritonserver has the model no more: it is not listed again, and its files go."""
    ending = asyncio.Event()

    async def never(*_: object) -> None:
        ending.set()
        await asyncio.Event().wait()

    async with parts_on_fake(tmp_path, hosting=HostingSettings(end_stubs=never)) as on:
        await on.load()
        unloading = asyncio.ensure_future(on.lifecycle.unload("m"))
        await asyncio.wait_for(ending.wait(), WAIT_S)
        unloading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await unloading
        await on.assert_empty()


async def test_steps_that_stay_are_unloaded_by_name(tmp_path: Path) -> None:
    """A step that is held after its ensemble has gone is asked to go itself."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        await on.control.unload_model("m", unload_dependents=False)
        assert await on.held() == ["m.step"]
        await on.lifecycle.unload("m")
        await on.assert_empty()


async def test_unloading_when_the_server_is_gone(tmp_path: Path) -> None:
    """A tritonserver that is not there holds nothing: the unload is done."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        await on.process.stop()
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        assert on.registry.count(*State) == 0
        assert list(on.repository.iterdir()) == []


async def test_an_undoing_waits_for_what_is_still_written(tmp_path: Path) -> None:
    """However often the load is cancelled."""
    done: list[str] = []
    writing, go_on = threading.Event(), threading.Event()

    def publish_slowly(work: Callable[[], Any]) -> Any:
        writing.set()
        go_on.wait(WAIT_S)
        work()
        done.append("written")

    def retract(work: Callable[[], Any]) -> Any:
        done.append("retracted")
        work()

    hooks = {"in_thread": stepping(publish=publish_slowly, retract=retract)}
    async with parts_on_fake(tmp_path, lifecycle=hooks) as on:
        loading = asyncio.ensure_future(on.lifecycle.load("m", on.archive()))
        await until(writing.is_set)
        for _ in range(3):
            on.lifecycle.stop()
            await asyncio.sleep(0.01)
        assert not loading.done()
        go_on.set()
        with pytest.raises(TritonUnavailable, match="the container is stopping"):
            await asyncio.wait_for(loading, WAIT_S)
        assert done == ["written", "retracted"]
        await on.assert_empty()


async def test_no_load_begins_once_the_container_stops(tmp_path: Path) -> None:
    """It would not be seen to its end."""
    async with parts_on_fake(tmp_path) as on:
        on.lifecycle.stop()
        with pytest.raises(TritonUnavailable, match="the container is stopping"):
            await on.load()
        await on.assert_empty()


async def test_without_threads(tmp_path: Path) -> None:
    """A load is refused so that the platform makes room; an unload leaves nothing all the same."""
    lacking = Lacking()
    kept = {"in_thread": lacking.in_thread}
    async with parts_on_fake(tmp_path, hosting=lacking.hosting, lifecycle=kept) as on:
        await on.load()
        lacking.threads = True
        with pytest.raises(ResourceExhausted, match="can't start new thread"):
            await on.load("n")
        await asyncio.wait_for(on.lifecycle.unload("m"), WAIT_S)
        await on.assert_empty()


async def test_what_an_unload_could_not_remove(tmp_path: Path) -> None:
    """For want of a descriptor, say: the name is the next load's all the same."""
    async with parts_on_fake(tmp_path) as on:
        (on.repository / "m.step/1").mkdir(parents=True)
        await on.load()
        assert b"echo" in await on.invoke()
        await on.lifecycle.unload("m")
        await on.assert_empty()


async def test_the_limit_is_for_all_of_a_load(tmp_path: Path) -> None:
    """tritonserver gets what reading and publishing have left of it."""
    given: list[float] = []

    def slowly(work: Callable[[], Any]) -> Any:
        time.sleep(0.5)
        return work()

    kept = {"in_thread": stepping(publish=slowly)}
    async with parts_on_fake(tmp_path, load_timeout_s=WAIT_S, lifecycle=kept) as on:
        load = on.triton.itself("request_load")

        async def noting(plan: ServingPlan, deadline: Deadline) -> None:
            given.append(deadline.remaining)
            await load(plan, deadline)

        on.triton.instead["request_load"] = noting
        await on.load()
        assert given[0] <= WAIT_S - 0.5


@pytest.mark.parametrize("turns", range(5))
async def test_a_model_that_is_lost_as_its_unload_begins(tmp_path: Path, turns: int) -> None:
    """It is listed, so it can be unloaded, whenever callers find it lost."""
    async with parts_on_fake(tmp_path) as on:
        await on.load()
        model = on.registry.loaded("m")
        on.registry.begin_reload(model)
        unloading = asyncio.ensure_future(on.lifecycle.unload("m"))
        await asyncio.sleep(0.1)
        on.registry.finish_reload(model)
        for _ in range(turns):
            await asyncio.sleep(0)
        if model.state is State.READY:
            on.registry.begin_reload(model)
            await asyncio.sleep(0.1)
            on.registry.finish_reload(model)
        await asyncio.wait_for(unloading, WAIT_S)
        await on.assert_empty()


async def test_without_descriptors_a_failed_load_is_undone(tmp_path: Path) -> None:
    """Stubs cannot be looked for then; the unload does not wait for that."""

    hosting = Lacking(descriptors=True).hosting
    async with parts_on_fake(tmp_path, hosting=hosting, **load_knob(message=FAILED)) as on:
        with pytest.raises(ModelUnusable):
            await on.load()
        assert on.events("unload")
        await on.assert_empty()
