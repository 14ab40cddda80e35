"""What the simulator adds to a warm call, against a container with knobs: a real process.

Callers take turns, call by call, and the least of each counts: a busy machine makes most calls
slower, but not all, and what is waited for stands in each of them. They go on until it is as it
shall be.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import math
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from merlin_simulator.replay.asking import Runtime
from simulator.tests.support.simulator import ENDPOINT, Simulator, fake_model, simulator

_TARGET = "one.tar.gz"
_LEAST_CALLS, _MOST_CALLS = 30, 3000
#: What the simulator may add, in milliseconds: it adds 2 or less, a delayed acknowledgement 40.
_ADDED_MS = 8.0
_HEADERS = {"Content-Type": "application/json"}

Call = Callable[[], object]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """An endpoint whose model is loaded."""
    folder = tmp_path_factory.mktemp("latency")
    fake_model(folder / "archives", _TARGET)
    with simulator(folder / "archives", folder / "log") as started:
        assert started.invoke(_TARGET).status_code == 200
        yield started


def test_web_pages_and_other_hosts_are_refused(running: Simulator) -> None:
    """`up` has them at its door, too; its own page and programs are let in."""
    own = running.http.get("/", headers={"Sec-Fetch-Site": "none"})
    assert own.status_code == 200
    for headers in (
        {"Origin": "http://localhost:3000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ):
        for path in ("/", "/simulator/state", f"/endpoints/{ENDPOINT}/invocations", "/metrics"):
            answer = running.http.post(path, headers=headers, content=b"{}")
            assert (answer.status_code, answer.json()["message"][-1]) == (403, ".")


@pytest.fixture
def by_boto3(running: Simulator) -> Call:
    """A call of the endpoint by an unmodified boto3, on a connection that is kept."""
    return _boto3_caller(running)


def _boto3_caller(running: Simulator, before_sign: Callable[..., None] | None = None) -> Call:
    client = running.boto3_client()
    if before_sign is not None:
        client.meta.events.register("before-sign", before_sign)

    def call() -> None:
        answer = client.invoke_endpoint(
            EndpointName=ENDPOINT, TargetModel=_TARGET, ContentType="application/json", Body=b"{}"
        )
        assert json.loads(answer["Body"].read())["answer"] == _TARGET

    return call


def _to_the_container(running: Simulator) -> Callable[..., None]:
    """Sends a request of boto3 to the container in the place of the simulator."""
    instance = running.instance()
    url = f"{instance['url']}/models/{instance['models'][0]['model_name']}/invoke"

    def send_there(request: Any, **_: object) -> None:
        request.url = url

    return send_there


def _added_ms(call: Call, other: Call) -> float:
    """What one takes more than the other at the least, asked in turns, until it is little."""
    least = [math.inf, math.inf]
    for number in range(_MOST_CALLS):
        for place, ask in enumerate((call, other)):
            start = time.perf_counter()
            ask()
            least[place] = min(least[place], (time.perf_counter() - start) * 1e3)
        added = least[0] - least[1]
        if number >= _LEAST_CALLS and abs(added) < _ADDED_MS:
            break
    return added


def test_the_simulator_adds_milliseconds(running: Simulator, by_boto3: Call) -> None:
    """boto3's call of the simulator, less boto3's same call of the container."""
    directly = _boto3_caller(running, _to_the_container(running))
    assert _added_ms(by_boto3, directly) < _ADDED_MS


def test_a_plain_client_on_a_kept_connection_does_not_wait_for_acknowledgements(
    running: Simulator,
) -> None:
    """One that reads head and body as http.client does waits as long as any other."""
    address = urlsplit(running.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=60)
    headers = {**_HEADERS, "X-Amzn-SageMaker-Target-Model": _TARGET}

    def call() -> bytes:
        connection.request("POST", f"/endpoints/{ENDPOINT}/invocations", b"{}", headers)
        return connection.getresponse().read()

    added = _added_ms(call, lambda: None)
    connection.close()
    assert added < _ADDED_MS


def test_the_replay_and_boto3_measure_the_same(running: Simulator, by_boto3: Call) -> None:
    """The replay's client is as fast as boto3, less the time that boto3 takes for itself."""
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        runtime = Runtime(running.url, ENDPOINT)

        def by_replay() -> None:
            reply = loop.run_until_complete(runtime.invoke(_TARGET, b"{}"))
            assert reply.status == 200, reply.message

        added = _added_ms(by_boto3, by_replay)
        loop.run_until_complete(runtime.close())
    assert abs(added) < _ADDED_MS
