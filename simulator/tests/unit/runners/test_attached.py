"""Containers behind a host name: as many instances as it has addresses, which come and go."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from merlin_simulator.archives.stores import open_archives
from merlin_simulator.assembly import EndpointSpec, assemble
from merlin_simulator.errors import NoInstance
from merlin_simulator.hosting import Endpoint
from merlin_simulator.instance.holdings import Budget
from merlin_simulator.instance.requests import Invocation
from merlin_simulator.rules import Rules
from merlin_simulator.runners.attached import read_attachment
from merlin_simulator.watch.events import EventLog
from merlin_simulator.watch.state import InstanceState
from simulator.tests.support.simulator import fake_container, fake_model
from simulator.tests.support.waiting import until

HOST = "replicas.test"
RULES = replace(
    Rules(), ping_timeout_s=1.0, ping_every_s=0.1, unhealthy_after=2, resolve_every_s=0.05
)


@dataclass
class Names:
    """The DNS of a test: the host's addresses; none is an unknown name."""

    addresses: list[str] = field(default_factory=list)
    asked: int = 0

    async def getaddrinfo(self, host: str, port: int, **_: Any) -> list[Any]:
        """As the event loop's."""
        self.asked += 1
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "not known")
        return [(2, 1, 6, "", (address, port)) for address in self.addresses]


@asynccontextmanager
async def _playing(
    tmp_path: Path, port: int, names: Names, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Endpoint, EventLog]]:
    """An endpoint of the containers behind HOST; folder/ is the one they share."""
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names.getaddrinfo)
    attachment = read_attachment(f"http://{HOST}:{port}={tmp_path / 'folder'}")
    wanted = EndpointSpec("test", RULES, Budget(), tmp_path, attachments=(attachment,))
    log = EventLog()
    endpoint, (runner,) = assemble(wanted, open_archives(str(tmp_path / "models")), log)
    running = asyncio.create_task(runner.run())
    try:
        yield endpoint, log
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running
        await asyncio.gather(*(instance.close() for instance in endpoint.instances))


def _serves(endpoint: Endpoint) -> bool:
    return [one.state for one in endpoint.instances] == [InstanceState.IN_SERVICE]


async def _answer(endpoint: Endpoint) -> Any:
    """Of the model, once an instance is in service: on a busy machine a ping may be late."""
    while True:
        with contextlib.suppress(NoInstance):
            answer = await endpoint.invoke(Invocation("r", "m.tar.gz", b"", {}))
            return json.loads(answer.body)["answer"]
        await until(lambda: _serves(endpoint), "it is in service")


async def test_one_that_leaves_answers_what_it_was_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its address is gone and it did not answer for a while: its request still ends well.

    After that its folder is gone, and what earlier runs left beside it.
    """
    fake_model(tmp_path / "models", "m.tar.gz")
    (tmp_path / "folder" / "10.0.0.9" / "old").mkdir(parents=True)
    (tmp_path / "folder" / "other").mkdir()
    names = Names(["127.0.0.1"])
    with fake_container() as (port, process):
        async with _playing(tmp_path, port, names, monkeypatch) as (endpoint, _):
            assert await _answer(endpoint) == "m.tar.gz"
            folder, kept = tmp_path / "folder", ["127.0.0.1", "other"]
            await until(lambda: sorted(p.name for p in folder.iterdir()) == kept, "old ones go")
            await until(lambda: _serves(endpoint), "it is in service")
            process.send_signal(signal.SIGSTOP)
            asked = asyncio.create_task(_answer(endpoint))
            names.addresses.clear()
            await until(lambda: endpoint.instances == (), "it has left")
            assert not asked.done()
            process.send_signal(signal.SIGCONT)
            assert await asked == "m.tar.gz"
            await until(lambda: [p.name for p in folder.iterdir()] == ["other"], "no folder stays")


async def test_one_that_comes_back_is_a_new_instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under its old address, once what it held before is gone."""
    fake_model(tmp_path / "models", "m.tar.gz")
    names = Names(["127.0.0.1"])
    with fake_container() as (port, process):
        async with _playing(tmp_path, port, names, monkeypatch) as (endpoint, _):
            await until(lambda: _serves(endpoint), "it is in service")
            process.send_signal(signal.SIGSTOP)
            names.addresses.clear()
            await until(lambda: endpoint.instances == (), "it has left")
            names.addresses.append("127.0.0.1")
            process.send_signal(signal.SIGCONT)
            await until(lambda: _serves(endpoint), "it is in service again")
            assert await _answer(endpoint) == "m.tar.gz"


async def test_an_unknown_host_is_told_once_until_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it is looked for; then its containers join."""
    (tmp_path / "models").mkdir()
    names = Names()
    with fake_container() as (port, _), caplog.at_level(logging.WARNING):
        async with _playing(tmp_path, port, names, monkeypatch) as (endpoint, _):
            await until(lambda: names.asked > 5, "it is looked for")
            assert [record.message.count(HOST) for record in caplog.records] == [1]
            names.addresses.append("127.0.0.1")
            await until(lambda: _serves(endpoint), "it is in service")
