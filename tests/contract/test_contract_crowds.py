"""Crowds: callers who leave, callers who are too many, too slow or too large, and the others.

Everything here runs against one container with few descriptors, on loopback, with raw sockets.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
import resource
import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from container.constants import Constants
from tests.support import models
from tests.support.container import Container, running, until
from tests.support.protocol import infer, values
from tests.support.quick_container import told

pytestmark = pytest.mark.thorough

DESCRIPTORS = 1024
#: Of the slow model, in seconds.
ONE_REQUEST_S = 0.2
ABANDONED, FRESH = 400, 30
HELD_MB = 48
#: The platform's limit.
LONGEST_PING_S = 2.0


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container with few descriptors and short times, a quick model loaded in it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    directory = tmp_path_factory.mktemp("crowded")
    environment = {
        "SERVE_MEMORY_RESERVE_MB": "0",
        "SERVE_INVOKE_TIMEOUT": "20",
        "SERVE_MAX_WAITING_TOTAL_MB": str(4 * HELD_MB),
    }
    with running(
        directory,
        descriptors=str(DESCRIPTORS),
        **told(Constants(read_timeout_s=12)),
        **environment,
    ) as container:
        quick = models.write_archive(container.model_root / "quick/model", {"m": models.identity})
        with container.loaded("quick", quick):
            yield container
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def archive(container: Container, name: str, model: models.PythonModel) -> Path:
    """An archive of one model."""
    return models.write_archive(container.model_root / name / "model", {"m": model})


def connect(container: Container) -> socket.socket:
    """A connection."""
    return socket.create_connection(("127.0.0.1", container.port), timeout=90)


def request(name: str, content: dict[str, object] | bytes, headers: str = "") -> bytes:
    """An invocation as it goes over the wire."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    head = f"POST /models/{name}/invoke HTTP/1.1\r\nhost: x\r\n{headers}"
    return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body


def until_closed(connection: socket.socket) -> bytes:
    """All that comes before the other side closes."""
    received = b""
    while piece := connection.recv(1 << 16):
        received += piece
    return received


def resident_mb(pid: int, row: str = "VmRSS") -> int:
    """Memory of a process, in MB; VmHWM is the most that it was."""
    rows = Path(f"/proc/{pid}/status").read_text()
    found = re.search(rf"{row}:\s+(\d+) kB", rows)
    assert found is not None
    return int(found.group(1)) // 1024


def until_ping_is_quick(container: Container) -> None:
    """Soon /ping is answered in the platform's time, on a connection of its own."""

    def is_quick() -> bool:
        started = time.monotonic()
        with connect(container) as connection:
            connection.sendall(b"GET /ping HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert until_closed(connection).startswith(b"HTTP/1.1 200")
        return time.monotonic() - started < LONGEST_PING_S

    until(is_quick, "/ping is quick", container)


def test_callers_who_left(crowded: Container, tmp_path: Path) -> None:
    """Hundreds who hang up cost those who come after them next to nothing, and no unload."""
    slow = archive(crowded, "slow", models.slow(tmp_path / "marker"))
    assert crowded.load("slow", slow).status_code == 200
    asked = request("slow", infer([ONE_REQUEST_S]))
    left = [connect(crowded) for _ in range(ABANDONED)]
    for connection in left:
        connection.sendall(asked)
    time.sleep(0.5)
    for connection in left:
        connection.close()
    with ThreadPoolExecutor(FRESH) as pool:
        fresh = list(pool.map(lambda _: crowded.invoke("slow", infer([0.05])), range(FRESH)))
    # Behind all of those who left they would take 80 s, of the 20 that an invocation has.
    assert Counter(answer.status_code for answer in fresh) == {200: FRESH}
    asked = request("slow", infer([10 * ONE_REQUEST_S]))  # more than an unload waits for
    left = [connect(crowded) for _ in range(100)]
    for connection in left:
        connection.sendall(asked)
    time.sleep(0.3)
    for connection in left:
        connection.close()
    assert crowded.unload("slow").status_code == 200


def test_batches_still_fill(crowded: Container, tmp_path: Path) -> None:
    """Requests that come together reach a model with dynamic batching together."""
    marker, go = tmp_path / "batches", tmp_path / "go"
    one = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [1.0]}]}
    with (
        crowded.loaded("batching", archive(crowded, "batching", models.batching(marker, go))),
        ThreadPoolExecutor(32) as pool,
    ):
        asking = [pool.submit(crowded.invoke, "batching", one) for _ in range(32)]
        row = r'serve_invocations_in_flight\{[^}]*model_name="batching"\} 32'
        metrics = functools.partial(crowded.http.get, "/metrics")
        until(lambda: re.search(row, metrics().text), "all have come", crowded)
        go.touch()
        answers = [each.result() for each in asking]
    assert {tuple(values(answer)) for answer in answers} == {(1.0,)}
    batches = [int(size) for size in marker.read_text().split()]
    assert sum(batches) == 32
    assert max(batches) == 8
    assert len(batches) <= 12


def test_more_connections_than_descriptors(crowded: Container) -> None:
    """Idle ones make way: /ping, loads and invocations go on, and in time they are closed."""
    with contextlib.ExitStack() as ending:
        idle = []
        for _ in range(DESCRIPTORS + 76):
            with contextlib.suppress(OSError):
                idle.append(ending.enter_context(connect(crowded)))
        time.sleep(0.5)  # so long one has the time to say something
        until_ping_is_quick(crowded)
        assert values(crowded.invoke("quick", infer([1]))) == [1.0]
        with crowded.loaded("other", archive(crowded, "other", models.adder(1))):
            assert values(crowded.invoke("other", infer([1]))) == [2.0]
        time.sleep(2.5)  # what looks at memory has looked
        until_ping_is_quick(crowded)
        assert crowded.process.poll() is None
        for connection in idle:
            with contextlib.suppress(ConnectionError):
                assert not until_closed(connection).startswith(b"HTTP/1.1 200")


def test_many_large_requests(crowded: Container, tmp_path: Path) -> None:
    """More bytes than the bound are refused at once; neither server's memory grows by them."""
    slow = archive(crowded, "large", models.slow(tmp_path / "marker"))
    with crowded.loaded("large", slow):
        before = [resident_mb(pid) for pid in (crowded.process.pid, crowded.triton())]
        body = request("large", infer([0.15] + [0.5] * 200_000))
        assert len(body) > 1_000_000

        def ask(_: int) -> bytes:
            with connect(crowded) as connection:
                with contextlib.suppress(ConnectionError):
                    connection.sendall(body)
                    return connection.recv(4096)
                return b"HTTP/1.1 000"

        with ThreadPoolExecutor(150) as pool:
            asking = [pool.submit(ask, number) for number in range(300)]
            until(lambda: sum(a.done() for a in asking) > 100, "many are refused")
            after = [resident_mb(pid) for pid in (crowded.process.pid, crowded.triton())]
            statuses = Counter(a.result()[9:12] for a in asking if a.done())
            refused = next(a.result() for a in asking if a.done() and b" 503 " in a.result())
            until_ping_is_quick(crowded)
    assert b"\r\nretry-after: 1\r\n" in refused
    assert statuses[b"503"] > 50
    assert set(statuses) <= {b"503", b"200", b"000"}
    assert after[0] - before[0] < 3 * HELD_MB
    assert after[1] - before[1] < 3 * HELD_MB


@pytest.mark.parametrize("binary", [True, False])
def test_an_answer_larger_than_may_be_held(crowded: Container, binary: bool) -> None:
    """It is refused while it comes: the container's memory does not grow to all of it."""
    with crowded.loaded("huge", archive(crowded, f"huge-{binary}", models.large)):
        wanted = [{"name": "OUT", "parameters": {"binary_data": binary}}]
        assert crowded.invoke("huge", infer([1]) | {"outputs": wanted}).status_code == 200
        before = resident_mb(crowded.process.pid, "VmHWM")
        plain = {"accept_encoding": "identity"}  # zeros are little once they are compressed
        answer = crowded.invoke("huge", infer([128]) | {"outputs": wanted}, **plain)
        assert answer.status_code == 500
        assert (
            "answers with more than 48 MB (a quarter of SERVE_MAX_WAITING_TOTAL_MB)" in answer.text
        )
        assert resident_mb(crowded.process.pid, "VmHWM") - before < 2 * HELD_MB
        assert crowded.invoke("huge", infer([2]) | {"outputs": wanted}).status_code == 200
