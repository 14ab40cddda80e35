"""Wishes to upgrade at the runtime API: a body is its request's own, wherever the segments end."""

from __future__ import annotations

from pathlib import Path

import pytest

from simulator.tests.end_to_end.runtime_server import WAIT_S, Served
from tests.reliability.wire import NoAnswer, Wire
from tests.support.http_clients import curl_http2, java

PATH = "/endpoints/ranker/invocations"
TARGET = "X-Amzn-SageMaker-Target-Model: a.tar.gz\r\n"
#: In the body of another: it would be an invocation of its own.
HIDDEN = f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{TARGET}Content-Length: 0\r\n\r\n".encode()
WISHES = {
    "h2c": "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
    "websocket": "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n",
    "expecting": "Connection: upgrade\r\nUpgrade: h2c, x\r\nUpgrade: y\r\nExpect: 100-continue\r\n",
}


def wishing(wish: str, body: bytes, chunked: bool) -> bytes:
    """An invocation that wishes to upgrade."""
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{TARGET}{WISHES[wish]}"
    if not chunked:
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    framed = b"%x\r\n%b\r\n0\r\nUpgrade: h2c\r\nHost: y\r\n\r\n" % (len(body), body)
    return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + framed


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("wish", WISHES)
def test_a_wish_to_upgrade_is_passed_over(served: Served, wish: str, chunked: bool) -> None:
    """In one segment, in several, and byte by byte; what is pipelined behind it is answered."""
    one = wishing(wish, HIDDEN, chunked)
    whole = one + HIDDEN + one
    end = one.index(b"\r\n\r\n") + 4
    for size in (len(whole), end, end + 7, 1):
        wire, before = Wire(served.port, WAIT_S), len(served.endpoint.asked)
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        wire.send(pieces, 0.0005 if size == 1 else 0.02)
        assert [wire.answer().status for _ in range(3)] == [200] * 3
        assert wire.is_silent()
        wire.close()
        asked = served.endpoint.asked[before:]
        assert [invocation.body for invocation in asked] == [HIDDEN, b"", HIDDEN]


@pytest.mark.parametrize(
    "head",
    [
        "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n",
        f"CONNECT {PATH} HTTP/1.1\r\nHost: x\r\n",
        "PRI * HTTP/2.0\r\n",
        f"POST {PATH} HTTP/2.0\r\nHost: x\r\n",
        f"POST {PATH} HTTP/2.0\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n",
        f"POST {PATH} HTTP/0.9\r\nHost: x\r\n",
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nhost: x\r\n",
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        f"POST {PATH} HTTP/1.1\r\nHost: x\r\nA: {'x' * 1_100_000}\r\n",
        f"POST {PATH}?{'x' * 1_100_000} HTTP/1.1\r\nHost: x\r\n",
    ],
    ids=lambda head: head[:60],
)
def test_what_is_no_request_ends_the_connection(served: Served, head: str) -> None:
    """A 400, and nothing behind it is read as a request."""
    wire = Wire(served.port, WAIT_S)
    wire.send([f"{head}{TARGET}\r\n".encode() + HIDDEN])
    assert wire.answer().status == 400
    with pytest.raises(NoAnswer):
        wire.answer()
    assert served.endpoint.asked == []


async def test_real_clients(single: Served, tmp_path: Path) -> None:
    """Java's client and `curl --http2` are answered by HTTP/1.1, request after request."""
    url, bodies = f"{single.url}{PATH}", ["{}", "x" * 100_000, HIDDEN.decode()]
    assert await java(tmp_path, url, *bodies) == ['HTTP_1_1 200 {"ok": true}'] * 3
    assert await curl_http2(url, *bodies) == ['1.1 200 {"ok": true}'] * 3
    assert [asked.body.decode() for asked in single.endpoint.asked] == bodies * 2
