"""The rest of a large body, read where it stays.

A protocol is given each read as a copy of the event loop's own buffer, and its parser copies that
once more. Where a body's length is known and much of it is still to come, none of that is needed.
"""

from __future__ import annotations

import asyncio
import ctypes
from collections.abc import Callable

#: With less left, to change protocols costs as much as it saves, in bytes.
_WORTH = 128 * 1024
#: Memory is taken as the body comes, in pieces of so many bytes: a length is only announced.
_PIECE = 256 * 1024

#: A bytearray of so many bytes; Python's own writes zeros into it, which takes as long as a copy.
_make_piece: Callable[[None, int], bytearray] = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_char_p, ctypes.c_ssize_t
)(("PyByteArray_FromStringAndSize", ctypes.pythonapi))

#: Told how many bytes have come, of the piece that is full now or None, and whether all are there;
#: says whether the rest is wanted.
Came = Callable[[int, "bytearray | None", bool], bool]


def read_where_it_stays(
    transport: asyncio.Transport, protocol: asyncio.Protocol, left: int, came: Came
) -> None:
    """Have so many bytes read for `came`, if they are worth it; then the protocol reads again."""
    if left >= _WORTH and not transport.is_closing():
        transport.set_protocol(_BodyReader(transport, protocol, left, came))


class _BodyReader(asyncio.BufferedProtocol):
    """Stands in for a connection's protocol, which hears of all else that happens to it."""

    def __init__(
        self, transport: asyncio.Transport, protocol: asyncio.Protocol, left: int, came: Came
    ) -> None:
        self._transport, self._protocol = transport, protocol
        self._left, self._came = left, came
        self._piece, self._filled = bytearray(), 0

    def get_buffer(self, sizehint: int) -> memoryview:
        if not self._piece:
            self._piece = _make_piece(None, min(self._left, _PIECE))
        return memoryview(self._piece)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        self._left -= nbytes
        full = None
        if self._filled == len(self._piece):
            full, self._piece, self._filled = self._piece, bytearray(), 0
        if not self._left:
            self._transport.set_protocol(self._protocol)
        if not self._came(nbytes, full, not self._left) and self._left:
            self._transport.set_protocol(self._protocol)

    def eof_received(self) -> bool | None:
        return self._protocol.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()
