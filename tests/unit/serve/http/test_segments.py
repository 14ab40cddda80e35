"""Random requests one behind the other: what they do does not depend on where segments end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from tests.unit.serve.routes_on_fake import RoutesOnFake, Wire

_HIDDEN = b"DELETE /models/m HTTP/1.1\r\nhost: x\r\n\r\n"
_BODIES = (b"", b"1", _HIDDEN, _HIDDEN * 2, b"x" * 300, b"0\r\n\r\n", b"5\r\n" + _HIDDEN)
#: Without `close`: behind such a request nobody says more.
_HEADERS = (
    *(b"Connection: Upgrade", b"connection: keep-alive, upgrade"),
    *(b"Upgrade: h2c", b"upgrade: a, b", b"Expect: 100-continue", b"Expect: x"),
    *(b"X: a\r\n b", b"X : y", b"X:\ty", b": y", b"Host: y", b"Trailer: Host", b"TE: trailers"),
)
_FRAMINGS = (
    *(b"Content-Length: +1", b"Content-Length: 1, 1", b"Content-Length: 0x1", b"Content-Length:"),
    *(b"Content-Length: 1\r\nContent-Length: 2", b"Transfer-Encoding: identity"),
    *(b"Transfer-Encoding: chunked\r\nContent-Length: 3", b"Transfer-Encoding: gzip, chunked"),
    b"X: unframed",
)
_TRAILERS = (
    *(b"", b"", b"a: b\r\n", b"host: z\r\n", b"bad\r\n"),
    b"Upgrade: h2c\r\nConnection: upgrade\r\n",
)


def _chunked(chance: random.Random, body: bytes) -> bytes:
    pieces = []
    while body:
        piece, body = body[: (size := chance.randint(1, 60))], body[size:]
        extension = chance.choice([b""] * 4 + [b";a=b", b";", b' ;a="\r\n"', b"g"])
        end = chance.choice([b"\r\n"] * 20 + [b"\n"])
        pieces.append(b"%x%b\r\n%b%b" % (len(piece), extension, piece, end))
    return b"".join([*pieces, b"0\r\n", chance.choice(_TRAILERS), b"\r\n"])


def _request(chance: random.Random) -> bytes:
    if chance.random() < 0.2:
        return b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n"
    target = chance.choice([b"/models/m/invoke", b"/models/%6d/invoke", b"/models/m/invoke?a=b"])
    version = chance.choice([b"1.1"] * 9 + [b"2.0"])
    lines = [*chance.sample(_HEADERS, chance.choice([0, 0, 1, 2, 3])), b"host: x"]
    body = chance.choice(_BODIES)
    framing = chance.random()
    if framing < 0.45:
        lines.append(b"Content-Length: %d" % len(body))
    elif framing < 0.85:
        lines.append(b"Transfer-Encoding: chunked")
        body = _chunked(chance, body)
    else:
        lines.append(chance.choice(_FRAMINGS))
    chance.shuffle(lines)
    return b"\r\n".join([b"POST %b HTTP/%b" % (target, version), *lines, b"", body])


async def _play(
    routes: RoutesOnFake, whole: bytes, cuts: Sequence[int], asked: list[bytes]
) -> tuple[list[int], list[bytes]]:
    """The statuses of the answers, and the bodies that were invoked with."""
    asked.clear()
    wire = await routes.connect()
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        wire.writer.write(whole[start:stop])
        for _ in range(3):  # the server reads it before the next is written
            await asyncio.sleep(0)
    wire.writer.write_eof()
    statuses = await _statuses(wire)
    wire.writer.close()
    return statuses, [*asked]


async def _statuses(wire: Wire) -> list[int]:
    found: list[int] = []
    while True:
        try:
            status, _, _ = await wire.answer()
        except asyncio.IncompleteReadError:  # the end
            return found
        if status >= 200:
            found.append(status)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
async def test_wherever_segments_end(routes: RoutesOnFake, seed: int) -> None:
    """Whole, cut into single bytes, and at random: the same answers, the same invocations."""
    asked: list[bytes] = []

    async def note(_: str, body: bytes) -> None:
        asked.append(bytes(body))

    routes.invocation.behind = note
    chance = random.Random(seed)
    for _ in range(12):
        whole = b"".join(_request(chance) for _ in range(chance.randint(1, 4)))
        places = range(1, len(whole))
        cuts = [places, sorted(chance.sample(places, 2)), sorted(chance.sample(places, 6))]
        expected = await _play(routes, whole, [], asked)
        for each in cuts:
            assert await _play(routes, whole, each, asked) == expected, (whole, each)
