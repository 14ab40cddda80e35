"""The registry: its table of states, its pages, and whom it wakes."""

from __future__ import annotations

import asyncio
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_tools import Form, ServingPlan
from serve.errors import ModelAlreadyLoaded, ModelNotLoaded, TritonTimeout, TritonUnavailable
from serve.http.contract_bodies import list_body, parse_page
from serve.models.registry import Model, Registry, State
from tests.support.clock import Clock
from tests.unit.serve.parts_on_fake import invocation_of

WAIT_S = 60.0
LEGAL = {
    (State.LOADING, State.READY),
    (State.LOADING, State.GONE),
    (State.READY, State.RELOADING),
    (State.READY, State.UNLOADING),
    (State.RELOADING, State.READY),
    (State.RELOADING, State.GONE),
    (State.UNLOADING, State.READY),
    (State.UNLOADING, State.GONE),
}
LISTED = [state for state in State if state is not State.GONE]


def plan_of(name: str) -> ServingPlan:
    """A plan of nothing but its names."""
    return ServingPlan(name, Form.AS_DELIVERED, name, ())


def ready(registry: Registry, name: str) -> Model:
    model = registry.begin_load(name, f"/m/{name}")
    registry.finish_load(model, plan_of(name))
    return model


@pytest.mark.parametrize("there", State)
@pytest.mark.parametrize("then", State)
def test_only_the_table_is_possible(there: State, then: State) -> None:
    """Every transition of the drawing is made; every other one is refused and changes nothing."""
    model = Model("m", "/m", there)
    if (there, then) in LEGAL:
        model.enter(then)
        assert model.state is then
    else:
        with pytest.raises(AssertionError, match="m: "):
            model.enter(then)
        assert model.state is there


async def test_since_when_a_model_is_idle(clock: Clock) -> None:
    """Since its load, its reload, or the end of the last invocation of those in flight."""
    clock.stop()
    registry = Registry()
    model = ready(registry, "m")
    assert model.idle_since == time.monotonic()
    for _ in range(2):
        model.begin_invocation()
    clock.advance(1.0)
    model.end_invocation()
    assert model.idle_since == time.monotonic() - 1.0
    model.end_invocation()
    assert model.idle_since == time.monotonic()
    registry.begin_reload(model)
    clock.advance(1.0)
    registry.finish_reload(model)
    assert model.idle_since == time.monotonic()


@pytest.mark.parametrize("state", LISTED)
def test_a_name_is_taken_whatever_the_state(state: State) -> None:
    """A second load is refused while anything has the name, and says what."""
    registry = Registry()
    registry.begin_load("m", "/a").state = state
    with pytest.raises(ModelAlreadyLoaded, match=f"already {state.value};"):
        registry.begin_load("m", "/b")


@pytest.mark.parametrize("state", LISTED)
def test_loaded_means_ready_or_being_loaded_again(state: State) -> None:
    """Only those two are listed and described; the others are answered with their state."""
    registry = Registry()
    model = registry.begin_load("m", "/a")
    model.state = state
    if state in {State.READY, State.RELOADING}:
        assert registry.loaded("m") is model
        assert registry.all_loaded() == [model]
    else:
        with pytest.raises(ModelNotLoaded, match=f"is {state.value};"):
            registry.loaded("m")
        assert registry.page("", None) == ([], False)


def test_unload_begins_at_ready_only() -> None:
    """Not while it is loaded again, not twice, and again after a failure."""
    registry = Registry()
    model = ready(registry, "m")
    registry.begin_reload(model)
    with pytest.raises(ModelNotLoaded, match="loaded again"):
        registry.begin_unload("m")
    registry.finish_reload(model)
    assert registry.begin_unload("m") is model
    with pytest.raises(ModelNotLoaded, match="unloaded"):
        registry.begin_unload("m")
    registry.fail_unload(model)
    assert registry.loaded("m") is model


def test_generations_count_reloads_that_worked() -> None:
    """One that failed for want of a server leaves the model ready, and of its old generation."""
    registry = Registry()
    model = ready(registry, "m")
    registry.begin_reload(model)
    registry.fail_reload(model, TritonUnavailable("gone"))
    assert (model.state, model.generation) == (State.READY, 0)
    registry.begin_reload(model)
    registry.finish_reload(model)
    assert (model.state, model.generation) == (State.READY, 1)


def test_each_who_waits_is_told_by_an_error_of_his_own() -> None:
    """What one has raised keeps nothing alive for the others, and nothing once it is back."""
    registry = Registry()
    model = ready(registry, "m")
    registry.begin_reload(model)
    try:
        raise TritonTimeout("the reload", 5) from LookupError()
    except TritonTimeout as error:
        registry.fail_reload(model, error)
        said = str(error)
    for _ in range(2):
        told = model.reload_error
        assert told is not None
        assert (told.__traceback__, told.__cause__, told.__context__) == (None, None, None)
        assert (type(told), str(told)) == (TritonTimeout, said)
        with pytest.raises(TritonTimeout):
            raise told
    registry.begin_reload(model)
    registry.finish_reload(model)
    assert model.reload_error is None


def test_a_model_that_is_gone_stays_so() -> None:
    """Whoever still holds it finds that, and can change nothing; its name is free."""
    registry = Registry()
    model = ready(registry, "m")
    with pytest.raises(AssertionError, match="m: "):
        registry.forget(model)
    registry.begin_reload(model)
    registry.forget(model)
    assert model.state is State.GONE
    with pytest.raises(AssertionError, match="m: "):
        registry.finish_reload(model)
    ready(registry, "m")


def test_forgetting_an_old_model_spares_a_new_one_of_its_name() -> None:
    """forget is about the object, not about the name."""
    registry = Registry()
    old = ready(registry, "m")
    registry.begin_unload("m")
    registry.forget(old)
    new = ready(registry, "m")
    registry.forget(old)
    assert registry.loaded("m") is new


async def test_idle_waits_for_the_last_invocation() -> None:
    """Not for the first that ends; and it does not wait when there is none."""
    model = Model("m", "/m", State.READY)
    await asyncio.wait_for(model.idle(), WAIT_S)
    with invocation_of(model):
        with invocation_of(model):
            waiting = asyncio.ensure_future(model.idle())
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait_for(waiting, WAIT_S)


async def test_idle_looks_again_when_it_wakes() -> None:
    """An invocation that began between the wake-up and the look is waited for as well."""
    model = Model("m", "/m", State.READY)
    with invocation_of(model):
        waiting = asyncio.ensure_future(model.idle())
        await asyncio.sleep(0)
    with invocation_of(model):
        for _ in range(3):
            await asyncio.sleep(0)
        assert not waiting.done()
    await asyncio.wait_for(waiting, WAIT_S)


@pytest.mark.parametrize("end", ["finish_reload", "fail_reload", "forget"])
async def test_all_who_wait_for_a_reload_are_woken(end: str) -> None:
    """However the reload ends."""
    registry = Registry()
    model = ready(registry, "m")
    registry.begin_reload(model)
    waiting = [asyncio.ensure_future(model.settled()) for _ in range(5)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    error = (TritonUnavailable("gone"),) if end == "fail_reload" else ()
    getattr(registry, end)(model, *error)
    await asyncio.wait_for(asyncio.gather(*waiting), WAIT_S)


NAMES = st.text("abcAB.-_9", min_size=1, max_size=3)


@given(
    stable=st.sets(NAMES, max_size=12),
    limit=st.integers(1, 7),
    changes=st.lists(st.sets(NAMES, max_size=4), max_size=20),
)
def test_pages_list_what_was_there_all_the_time_once(
    stable: set[str], limit: int, changes: list[set[str]]
) -> None:
    """Pages of any size, with other models coming and going between any two of them."""
    registry = Registry()
    for name in stable:
        ready(registry, name)
    seen: list[str] = []
    guests: list[Model] = []
    query = {"limit": str(limit)}
    for step in range(len(stable) + 13 * len(changes) + 2):
        models, more = registry.page(*parse_page(query))
        assert len(models) <= limit
        body = json.loads(list_body(models, more=more))
        seen += [model["modelName"] for model in body["models"]]
        if "nextPageToken" not in body:
            break
        query["next_page_token"] = body["nextPageToken"]
        for guest in guests:
            registry.forget(registry.begin_unload(guest.name))
        arriving = changes[step] - stable if step < len(changes) else set()
        guests = [ready(registry, name) for name in arriving]
    else:
        pytest.fail("the pages do not end")
    assert seen == sorted(set(seen))
    assert stable <= set(seen)
