"""tritonserver's own metrics page, fetched over loopback."""

from __future__ import annotations

import time
from http.client import HTTPConnection, HTTPException

from container.ports import LOOPBACK

#: For all of it, in seconds: a tritonserver that stands still may not hold up the page.
SCRAPE_TIMEOUT_S = 2.0
PAGE_MAX = 64 * 1024 * 1024  # bytes of a page; thousands of models fit
_AT_ONCE = 1024 * 1024


def fetch_page(port: int | None, timeout_s: float = SCRAPE_TIMEOUT_S) -> str:
    """The page; empty where tritonserver does not answer all of it in time, or has no such port.

    A page that breaks off is none: half a number is a wrong one. Blocking.
    """
    if port is None:
        return ""
    deadline = time.monotonic() + timeout_s
    connection = HTTPConnection(LOOPBACK, port, timeout=timeout_s)
    try:
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
