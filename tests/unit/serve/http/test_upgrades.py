"""Wishes to upgrade, versions and hosts: what a request is does not depend on how it comes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.http_clients import curl_http2, java
from tests.unit.serve.routes_on_fake import RoutesOnFake, Wire, post

PING = b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n"
#: In the body of another: it would unload the model.
HIDDEN = b"DELETE /models/m HTTP/1.1\r\nhost: x\r\n\r\n"
WISHES = {
    "h2c": "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
    "websocket": "Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n",
    "several": "Connection: upgrade\r\nUpgrade: h2c, x/1\r\nUpgrade: y\r\n",
    "expecting": "Connection: Upgrade\r\nUpgrade: h2c\r\nExpect: 100-continue\r\n",
}


def wishing(wish: str, body: bytes, chunked: bool, name: str = "m") -> bytes:
    """An invocation that wishes to upgrade."""
    if not chunked:
        return post(name, body, headers=WISHES[wish])
    head = f"POST /models/{name}/invoke HTTP/1.1\r\nhost: x\r\n{WISHES[wish]}"
    framed = b"%x;a=b\r\n%b\r\n0\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n" % (len(body), body)
    return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + framed


async def answers(wire: Wire, count: int) -> list[tuple[int, bytes]]:
    """The next ones; an interim one is none."""
    found: list[tuple[int, bytes]] = []
    while len(found) < count:
        status, _, body = await wire.answer()
        if status >= 200:
            found.append((status, body))
    return found


@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("wish", WISHES)
@pytest.mark.parametrize("name", ["m", "%6d"], ids=["plain", "ASGI"])
async def test_a_wish_to_upgrade_is_passed_over(
    routes: RoutesOnFake, wish: str, chunked: bool, name: str
) -> None:
    """The body is the request's, wherever the segments end, and what comes behind is answered."""
    one = wishing(wish, HIDDEN, chunked, name)
    whole = one + PING + one + one + PING
    expected = [(200, b"m:" + HIDDEN), (200, b"")]
    expected = [*expected, expected[0], *expected]
    end = one.index(b"\r\n\r\n") + 4
    cuts = ([len(whole)], [end, len(whole)], [end - 1, end + 9, len(whole)], range(1, len(whole)))
    for places in cuts:
        wire = await routes.connect()
        starts = [0, *places]
        for start, stop in zip(starts, [*places, len(whole)], strict=True):
            wire.writer.write(whole[start:stop])
            for _ in range(3):  # the server reads it before the next is written
                await asyncio.sleep(0)
        assert await answers(wire, 5) == expected
        wire.writer.close()


async def test_a_large_body_behind_a_wish(routes: RoutesOnFake) -> None:
    """It comes through whole; one that is too large is refused as any."""
    wire = await routes.connect()
    body = b"x" * 5_000_000
    await wire.send(post("m", body, headers=WISHES["h2c"]) + PING)
    assert await answers(wire, 2) == [(200, b"m:" + body), (200, b"")]
    wire.writer.write(post("m", b"x" * 20_000_001, headers=WISHES["h2c"]))
    status, _, said = await wire.answer()
    assert (status, b"at most 20000000" in said) == (413, True)


async def test_a_large_head_with_a_wish_is_refused(routes: RoutesOnFake) -> None:
    """Its bounds are those of any head, in pieces, too."""
    wire = await routes.connect()
    line = "a: " + "x" * 17_000 + "\r\n"
    whole = post("m", b"1", headers=WISHES["h2c"] + line)
    await wire.send(whole[:9000], whole[9000:17_000], whole[17_000:])
    assert (await wire.answer())[0] == 431


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (b"CONNECT x:80 HTTP/1.1\r\nhost: x\r\n", b"CONNECT"),
        (b"CONNECT /models/m/invoke HTTP/1.1\r\nhost: x\r\n", b"CONNECT"),
        (
            b"CONNECT http://x/ping HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: a\r\n",
            b"",
        ),
        (b"PRI * HTTP/2.0\r\n", b"no HTTP/1.1"),
        (b"GET /ping HTTP/2.0\r\nhost: x\r\n", b"found HTTP/2.0, expected HTTP/1.1"),
        (b"POST /models/m/invoke HTTP/2.0\r\nhost: x\r\n", b"HTTP/2.0"),
        (b"GET /ping HTTP/2.0\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n", b"HTTP/2.0"),
        (b"GET /ping HTTP/0.9\r\nhost: x\r\n", b"HTTP/0.9"),
        (b"GET /ping HTTP/1.2\r\nhost: x\r\n", b"no HTTP/1.1"),
        (b"GET /ping HTTP/1.1\r\nhost: x\r\nhost: x\r\n", b"Host: found it 2 times"),
        (b"POST /models/m/invoke HTTP/1.1\r\nhost: x\r\nhOST: y\r\n", b"Host"),
        (b"GET /ping HTTP/1.0\r\nhost: x\r\nhost: y\r\n", b"Host"),
        (b"GET /ping HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip, chunked\r\n", b"gzip"),
        (b"GET /ping HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n", b"Duplic"),
        (b"GET /ping HTTP/1.1\r\nhost: x\r\ncontent-length: 3, 3\r\n", b"Content-Length"),
        (
            b"GET /ping HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n",
            b"Transfer-Encoding",
        ),
        (b"GET /ping HTTP/1.1\r\nhost: x\r\na: b\r\n c\r\n", b"whitespace"),
        (b"GET /ping HTTP/1.1\r\nhost : x\r\n", b"header"),
        (b"GET /ping HTTP/1.1\nhost: x\n", b"CRLF"),
    ],
)
async def test_what_is_no_request_of_ours_ends_the_connection(
    routes: RoutesOnFake, head: bytes, says: bytes
) -> None:
    """One sentence, and nothing behind it is read as a request (RFC 9112 3.2, 6, 9110 2.5)."""
    for cut in (len(head) + 2, 11, 1):
        wire = await routes.connect()
        whole = head + b"\r\n" + HIDDEN
        await wire.send(whole[:cut], whole[cut:])
        status, headers, said = await wire.answer()
        assert (status, headers["connection"]) == (400, "close"), said
        assert says in said
        assert await wire.is_closed()


async def test_a_request_without_a_host_is_taken(routes: RoutesOnFake) -> None:
    """As of HTTP/1.0, and of what is typed by hand."""
    wire = await routes.connect()
    await wire.send(post("m", b"1").replace(b"host: x\r\n", b""))
    assert (await wire.answer())[2] == b"m:1"


@pytest.mark.thorough
async def test_clients_that_wish_for_it(routes: RoutesOnFake, tmp_path: Path) -> None:
    """Java's, and `curl --http2`, with every request: their bodies are the requests' own, however
    large, and none runs as a request of its own."""
    came: list[str] = []

    async def note(_: str, body: bytes) -> None:
        came.append(body.decode())

    routes.invocation.behind = note
    url = f"http://127.0.0.1:{routes.port}/models/full/invoke"
    bodies = ["{}", HIDDEN.decode(), "2" * 100_000, HIDDEN.decode()]
    for said in (await java(tmp_path, url, *bodies), await curl_http2(url, *bodies)):
        versions, statuses, texts = zip(*(line.split(" ", 2) for line in said), strict=True)
        assert set(versions) <= {"HTTP_1_1", "1.1"}
        assert set(statuses) == {"507"}
        assert all("no memory" in text for text in texts)
    assert came == bodies * 2
    assert len(routes.invocation.asked) == len(came)
