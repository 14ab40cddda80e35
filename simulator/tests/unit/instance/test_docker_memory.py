"""The engine's figures of a container; an engine that says something else is no failure."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing
from typing import Any

import docker
import pytest

from merlin_simulator.instance.docker_memory import ByAddress, DockerGauge
from merlin_simulator.instance.memory import MemoryReading
from simulator.tests.unit.plain_http import Answering, plain_http

ADDRESS = "172.20.0.3"
STATS: dict[str, Any] = {
    "cpu_stats": {"cpu_usage": {"total_usage": 10**9}},
    "memory_stats": {"usage": 5000, "stats": {"inactive_file": 1000}},
}
TOP: dict[str, Any] = {
    "Titles": ["PID", "RSS", "COMMAND"],
    "Processes": [["1", "2", "server"], ["2", "1", "stub abc"]],
}


def _engine(stats: Any = STATS, top: Any = TOP, networks: Any = None) -> Answering:
    """An engine with one container."""
    attached = {"Networks": {"n": {"IPAddress": ADDRESS}} if networks is None else networks}
    container = {"Id": "c1", "NetworkSettings": attached}
    answers = {"version": {"ApiVersion": "1.41"}, "stats": stats, "top": top}

    def answering(_: str, path: str) -> bytes:
        last = path.split("?")[0].rsplit("/", 1)[-1]
        if path.split("?")[0].endswith("/containers/json"):
            return json.dumps([container]).encode()
        return json.dumps(answers.get(last, container)).encode()

    return answering


async def _read(answering: Answering) -> MemoryReading:
    with plain_http(answering) as port, ExitStack() as clients:

        def connect(base_url: str) -> docker.DockerClient:
            return clients.enter_context(closing(docker.DockerClient(base_url=base_url)))

        gauge = DockerGauge(ByAddress(f"tcp://127.0.0.1:{port}", ADDRESS, connect))
        return await gauge.read({"abc"})


async def test_what_the_engine_says_is_the_reading() -> None:
    """Memory without the cache that can be given back; a model's from the processes named by it."""
    assert await _read(_engine()) == MemoryReading(4000, {"abc": 1024}, None)


@pytest.mark.parametrize(
    "answering",
    [
        _engine(stats={}),
        _engine(stats=[]),
        _engine(stats={**STATS, "memory_stats": {}}),  # it has just ended
        _engine(stats={**STATS, "memory_stats": {"usage": "much", "stats": {}}}),
        _engine(top={"Processes": None}),
        _engine(top={"Processes": [["1", "2"]]}),
        _engine(top={"Processes": [["1", "much", "server"]]}),
        _engine(networks=[]),
        _engine(networks={"n": None}),
        _engine(networks={}),
        lambda *_: b"this is no engine",
    ],
)
async def test_what_the_engine_should_not_say_is_no_reading(answering: Answering) -> None:
    """An instance may start, end or be made anew while it is read: nothing is known then."""
    assert await _read(answering) == MemoryReading()


async def test_without_an_engine_there_is_no_reading() -> None:
    """Nobody listens there."""
    with plain_http(lambda *_: b"") as port:
        gone = port
    assert (
        await DockerGauge(ByAddress(f"tcp://127.0.0.1:{gone}", ADDRESS)).read(()) == MemoryReading()
    )
    assert await DockerGauge(ByAddress("what is this", ADDRESS)).read(()) == MemoryReading()
