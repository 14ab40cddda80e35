"""tritonserver's own metrics page, fetched over loopback."""

from __future__ import annotations

import urllib.request

from container.ports import LOOPBACK

SCRAPE_TIMEOUT_S = 5.0
PAGE_MAX = 64 * 1024 * 1024  # bytes of a page; thousands of models fit


def fetch_page(port: int | None) -> str:
    """The page; empty where tritonserver does not answer, or has no such port.

    Blocking, at most SCRAPE_TIMEOUT_S for each step.
    """
    if port is None:
        return ""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback: no proxy
    try:
        with opener.open(f"http://{LOOPBACK}:{port}/metrics", timeout=SCRAPE_TIMEOUT_S) as answer:
            page: bytes = answer.read(PAGE_MAX)
    except OSError:
        return ""
    return page.decode("utf-8", errors="replace")
