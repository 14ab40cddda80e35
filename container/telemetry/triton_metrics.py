"""tritonserver's own metrics page, fetched from where it listens."""

from __future__ import annotations

import socket
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from container.addresses import LOOPBACK

#: For all of it, in seconds: a tritonserver that stands still may not hold up the page.
SCRAPE_TIMEOUT_S = 2.0
PAGE_MAX = 64 * 1024 * 1024  # bytes of a page; thousands of models fit
_AT_ONCE = 1024 * 1024


def fetch_page(address: Path | int | None, timeout_s: float = SCRAPE_TIMEOUT_S) -> str:
    """The page; empty where tritonserver does not answer all of it in time, or has none.

    address: a Unix socket's path, or a port of loopback.
    A page that breaks off is none: half a number is a wrong one. Blocking.
    """
    if address is None:
        return ""
    deadline = time.monotonic() + timeout_s
    connection = HTTPConnection(LOOPBACK, timeout=timeout_s)
    try:
        connection.sock = _connect(address, timeout_s)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        page = bytearray()
        while piece := answer.read1(_AT_ONCE):
            page += piece
            left_s = deadline - time.monotonic()
            if left_s <= 0 or len(page) > PAGE_MAX:
                return ""
            if connection.sock is not None:  # the limit is of each wait
                connection.sock.settimeout(left_s)
        is_whole = not answer.length and page.endswith(b"\n")
    except (OSError, HTTPException):
        return ""
    finally:
        connection.close()
    return page.decode("utf-8", errors="replace") if is_whole and answer.status == 200 else ""


def _connect(address: Path | int, timeout_s: float) -> socket.socket:
    if isinstance(address, int):
        return socket.create_connection((LOOPBACK, address), timeout_s)
    connected = socket.socket(socket.AF_UNIX)
    try:
        connected.settimeout(timeout_s)
        connected.connect(str(address))
    except BaseException:
        connected.close()
        raise
    return connected
