"""Models that call others by name: loaded last, unloaded first, and all brought back together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from serve.errors import InvocationFailed, ModelUnusable, ServeError, TritonTimeout
from serve.triton.diagnosis.verdicts import quotes_a_death
from serve.triton.stubs import Stub
from tests.fakes import tritonserver as fake
from tests.unit.serve.fake_stub import stub
from tests.unit.serve.parts_on_fake import CONFIG, WAIT_S, PartsOnFake, parts_on_fake

SENTENCE = "Stub process 'm.plus_0_0' is not healthy."
RAISED = "Failed to process the request(s) for model instance 'm_0_0', message: "
#: What a model that calls others answers when one of their stubs is dead, as seen.
QUOTED = [
    {"status": 500, "message": f"{RAISED}TritonModelException: {SENTENCE}\n\nAt:\n  /m.py(6): x\n"},
    {"status": 400, "message": f"{RAISED}RuntimeError: asked plus: {SENTENCE} Sorry."},
    {
        "status": 500,
        "message": 'Traceback (most recent call last):\n  File "m.py", line 6\n'
        f"RuntimeError: {SENTENCE}\n",
    },
    {"status": 400, "message": "Error: in ensemble 'm.sum', " + SENTENCE},
]


async def load(on: PartsOnFake) -> None:
    """The model m: `top` calls `plus` and `minus`."""
    for name, source in (("top", "InferenceRequest, 'plus', 'minus'"), ("plus", ""), ("minus", "")):
        version = on.root / "a" / name / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(source)
        (version.parent / "config.pbtxt").write_text(CONFIG)
    await asyncio.wait_for(on.lifecycle.load("m", f"{on.root}/a"), WAIT_S)


def gone(*triton_names: str) -> frozenset[Stub]:
    """Stubs of these that run no more."""
    return frozenset(Stub(0, name, "") for name in triton_names)


def asked(on: PartsOnFake, event: str) -> list[str]:
    """The Triton models that were loaded or unloaded, in order."""
    return [seen["model"] for seen in fake.read_record(on.record) if seen["event"] == event]


async def test_order(tmp_path: Path) -> None:
    """Called models are loaded first and unloaded last."""
    async with parts_on_fake(tmp_path) as on:
        await load(on)
        assert asked(on, "load") == ["m.minus", "m.plus", "m"]
        await on.lifecycle.unload("m")
        assert asked(on, "unload") == ["m", "m.plus", "m.minus"]
        await on.assert_empty()


@pytest.mark.slow
async def test_callers_are_gone_before_called_models(tmp_path: Path) -> None:
    """While the entry model is still there, nothing that it may call is unloaded."""
    async with parts_on_fake(tmp_path, unload_timeout_s=1, unload={"m": {"ready_for_s": -1}}) as on:
        await load(on)
        with pytest.raises(TritonTimeout):
            await on.lifecycle.unload("m")
        assert set(asked(on, "unload")) == {"m"}


@pytest.mark.parametrize("failing", ["m.minus", "m.plus", "m"])
async def test_a_load_that_fails_is_undone(tmp_path: Path, failing: str) -> None:
    """What was loaded before it is unloaded; the message names the model of the archive."""
    async with parts_on_fake(tmp_path, load={failing: {"message": f"'{failing}': boom"}}) as on:
        with pytest.raises(ModelUnusable) as raised:
            await load(on)
        _, _, called = failing.partition(".")
        named = f"the called model {called} of the model m" if called else "the model m"
        assert str(raised.value).startswith(f"{named} failed to load")
        await on.assert_empty()


async def test_the_limit_is_for_all_loads(tmp_path: Path) -> None:
    """Called models and the entry model share SERVE_LOAD_TIMEOUT."""
    slow: dict[str, Any] = {"*": {"delay_s": 0.6}}
    async with parts_on_fake(tmp_path, load_timeout_s=1, load=slow) as on:
        with pytest.raises(TritonTimeout, match="SERVE_LOAD_TIMEOUT"):
            await load(on)
        assert "m" not in asked(on, "load")


@pytest.mark.parametrize("quoted", QUOTED)
async def test_the_death_of_a_called_model(tmp_path: Path, quoted: dict[str, Any]) -> None:
    """When its stub is really missing all is loaded again, and the request is answered."""
    async with parts_on_fake(tmp_path, infer={"m": {**quoted, "times": 1}}) as on:
        await load(on)
        on.registry.loaded("m").stubs = gone("m.plus")  # and the fake has none
        assert b"echo" in await on.invoke()
        assert asked(on, "load") == ["m.minus", "m.plus", "m"] * 2
        assert on.registry.loaded("m").generation == 1


async def test_a_stub_that_tritonserver_started_again(tmp_path: Path) -> None:
    """2.36 starts a dead stub again by itself: there are as many as before, and one is another."""
    async with parts_on_fake(tmp_path, infer={"m": {**QUOTED[0], "times": 1}}) as on:
        with stub(on.repository, "m.plus", WAIT_S) as old:
            await load(on)
            old.kill()
            old.wait()
        with stub(on.repository, "m.plus", WAIT_S):
            assert b"echo" in await on.invoke()
        assert asked(on, "load") == ["m.minus", "m.plus", "m"] * 2


async def test_stubs_of_the_older_generation_do_not_count(tmp_path: Path) -> None:
    """They will end, which is no death of the new one's."""
    async with parts_on_fake(tmp_path, infer={"m": {**QUOTED[0], "times": 1}}) as on:
        await load(on)
        on.registry.loaded("m").stubs = gone("m.minus", "m.plus")
        with stub(on.repository, "m.minus", WAIT_S):
            assert b"echo" in await on.invoke()
            assert on.registry.loaded("m").generation == 1
            assert on.registry.loaded("m").stubs == frozenset()


@pytest.mark.parametrize("quoted", QUOTED)
async def test_words_alone_reload_nothing(tmp_path: Path, quoted: dict[str, Any]) -> None:
    """A caller can make a model say it; nothing is missing, so the caller gets the words back."""
    async with parts_on_fake(tmp_path, infer={"m": quoted}) as on:
        await load(on)
        with pytest.raises(ServeError, match="is not healthy"):
            await on.invoke()
        assert asked(on, "load") == ["m.minus", "m.plus", "m"]


async def test_twenty_callers_cause_one_reload(tmp_path: Path) -> None:
    """Those that look while others load again, or after, are answered as well."""
    async with parts_on_fake(
        tmp_path, infer={"m": {**QUOTED[0], "times": 20, "together": 20}}
    ) as on:
        await load(on)
        on.registry.loaded("m").stubs = gone("m.plus")
        answers = await asyncio.gather(*(on.invoke() for _ in range(20)))
        assert all(b"echo" in answer for answer in answers)
        assert on.registry.loaded("m").generation == 1


async def test_another_models_stub(tmp_path: Path) -> None:
    """What is said of a model of another archive is no matter of this one."""
    message = f"{RAISED}ValueError: Stub process 'other_0_0' is not healthy."
    async with parts_on_fake(tmp_path, infer={"m": {"status": 500, "message": message}}) as on:
        await load(on)
        on.registry.loaded("m").stubs = gone("m.plus")
        with pytest.raises(InvocationFailed):
            await on.invoke()
        assert asked(on, "load") == ["m.minus", "m.plus", "m"]


@pytest.mark.parametrize(
    ("message", "names", "quotes"),
    [
        (f"x {SENTENCE}", ["m", "m.plus"], True),
        ("Stub process '/r::m.plus_0_0' is not healthy", ["m.plus"], True),
        ("Stub process 'm.plus' is not healthy", ["m.plus"], True),
        ("Stub process 'm.plus_x' is not healthy", ["m.plus"], False),
        ("Stub process 'mxplus_0' is not healthy", ["m.plus"], False),
        ("Stub process 'm.plus_0_0' is healthy", ["m.plus"], False),
        ("Stub process '" * 100_000, ["m.plus"], False),
        ("Stub process '" + ":" * 200_000, ["m.plus"], False),
        ("Stub process 'm" + "_0" * 100_000, ["m"], False),
        ("", ["m"], False),
    ],
    ids=range(10),
)
def test_quoted_deaths(message: str, names: Sequence[str], quotes: bool) -> None:
    """The whole sentence with the name of one of the models, in any words, in a moment."""
    began = time.thread_time()
    assert quotes_a_death(message, names) is quotes
    assert time.thread_time() - began < 5
