"""Addresses that servers of this machine listen at."""

from __future__ import annotations

import socket

#: Hosts that stand for all addresses of a machine.
ANY_ADDRESS = ("0.0.0.0", "::", "")


def make_url(host: str, port: int) -> str:
    """The URL by which callers on this machine reach a listening address."""
    if host in ANY_ADDRESS:
        host = "::1" if host == "::" else "localhost"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def find_free_port() -> int:
    """A port of this machine that nobody listens on just now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
