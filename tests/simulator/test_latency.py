"""What the simulator adds to a warm call, against a container with knobs: a real process.

Callers take turns, call by call, so that a busy machine is as busy for each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import time
from collections.abc import Callable, Iterator
from statistics import median
from urllib.parse import urlsplit

import pytest

from simulator.replay.traffic.runtime import Runtime
from tests.support.simulator import ENDPOINT, Simulator, fake_model, simulator

_TARGET = "one.tar.gz"
_CALLS = 60
#: A machine that is busy for a moment has another try: Nagle's 40 ms stand in each of them.
_TRIES = 3
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


@pytest.fixture
def by_boto3(running: Simulator) -> Call:
    """A call of the endpoint by an unmodified boto3, on a connection that is kept."""
    client = running.boto3_client()

    def call() -> bytes:
        answer = client.invoke_endpoint(
            EndpointName=ENDPOINT, TargetModel=_TARGET, ContentType="application/json", Body=b"{}"
        )
        return bytes(answer["Body"].read())

    return call


def _p50s(*calls: Call) -> list[float]:
    """Milliseconds of each, asked in turns."""
    took: list[list[float]] = [[] for _ in calls]
    for _ in range(_CALLS):
        for call, seconds in zip(calls, took, strict=True):
            start = time.perf_counter()
            call()
            seconds.append(time.perf_counter() - start)
    return [median(seconds) * 1e3 for seconds in took]


def _within(limit_ms: float, difference: Callable[[], float]) -> list[float]:
    """The differences until one is within the limit, which the last one is then."""
    seen: list[float] = []
    while len(seen) < _TRIES and not (seen and seen[-1] < limit_ms):
        seen.append(difference())
    return seen


def test_a_warm_call_by_boto3_takes_three_milliseconds_more_at_most(
    running: Simulator, by_boto3: Call
) -> None:
    """boto3's call of the simulator, less the container's own answer to the same: below 3 ms."""
    instance = running.instance()
    address, model = urlsplit(instance["url"]), instance["models"][0]["model_name"]
    container = http.client.HTTPConnection(str(address.hostname), address.port)

    def directly() -> bytes:
        container.request("POST", f"/models/{model}/invoke", b"{}", _HEADERS)
        return container.getresponse().read()

    def added() -> float:
        over_simulator, alone = _p50s(by_boto3, directly)
        return over_simulator - alone

    seen = _within(3.0, added)
    container.close()
    assert seen[-1] < 3.0, seen


def test_a_plain_client_on_a_kept_connection_does_not_wait_for_acknowledgements(
    running: Simulator,
) -> None:
    """One that reads head and body as http.client does waits as long as any other."""
    address = urlsplit(running.url)
    connection = http.client.HTTPConnection(str(address.hostname), address.port)
    headers = {**_HEADERS, "X-Amzn-SageMaker-Target-Model": _TARGET}

    def call() -> bytes:
        connection.request("POST", f"/endpoints/{ENDPOINT}/invocations", b"{}", headers)
        return connection.getresponse().read()

    seen = _within(20.0, lambda: _p50s(call)[0])
    connection.close()
    assert seen[-1] < 20.0, seen


def test_the_replay_and_boto3_measure_the_same(running: Simulator, by_boto3: Call) -> None:
    """The replay's client is as fast as boto3, less the time that boto3 takes for itself."""
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        runtime = Runtime(running.url, ENDPOINT)

        def by_replay() -> None:
            reply = loop.run_until_complete(runtime.invoke(_TARGET, b"{}"))
            assert reply.status == 200, reply.message

        def apart() -> float:
            boto3, replay = _p50s(by_boto3, by_replay)
            return abs(boto3 - replay)

        seen = _within(3.0, apart)
        loop.run_until_complete(runtime.close())
    assert seen[-1] < 3.0, seen
