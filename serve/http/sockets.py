"""What the kernel knows of a connection; Linux."""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios

#: tcp_states.h of Linux: the other side refused what was sent; it closed its side.
TCP_CLOSE, TCP_CLOSE_WAIT = 7, 8


def read_tcp_state(transport: asyncio.BaseTransport) -> int:
    """The kernel's state of a connection; 0 where it does not tell."""
    try:
        known = transport.get_extra_info("socket")
        return int(known.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0])
    except (OSError, AttributeError):
        return 0


def count_unread_bytes(transport: asyncio.BaseTransport) -> int:
    """How many bytes the kernel holds for us; 0 where it does not tell."""
    try:
        answer = fcntl.ioctl(transport.get_extra_info("socket"), termios.FIONREAD, bytes(4))
        return int.from_bytes(answer, sys.byteorder)
    except (OSError, AttributeError, TypeError, ValueError):
        return 0
