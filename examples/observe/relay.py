"""What the containers write, written down: an HTTP proxy between Prometheus and their /metrics.

A model that has left is on one page only, that of the first who asks. So the pages are read on
their way to Prometheus, which asks for them through here (proxy_url), and are passed on as they
are. Only observe.py needs this, to compare; an operator's Prometheus asks the containers itself.
"""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from examples.local_server import serving

COUNTER = "serve_invocations_total"
#: (target model, status) -> how many.
Counts = Counter[tuple[str, str]]
_TIMEOUT_S = 10.0


class Pages:
    """The last value of each invocations' counter that a container has written."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[tuple[str, ...], int] = {}
        self.read = 0

    def take(self, container: str, page: str) -> None:
        """One page of a container, which is told by its address."""
        lines = [line for line in page.splitlines() if line.startswith(COUNTER + "{")]
        with self._lock:
            self.read += 1
            for family in text_string_to_metric_families("\n".join([*lines, ""])):
                for sample in family.samples:
                    labels = sample.labels
                    key = (container, labels["target_model"], labels["model_name"], labels["code"])
                    self._last[key] = int(sample.value)

    def counts(self) -> Counts:
        """Over all containers and all models, those that have left included."""
        found: Counts = Counter()
        with self._lock:
            for (_, target_model, _, status), count in self._last.items():
                found[target_model, status] += count
        return found


@contextmanager
def relaying(pages: Pages) -> Iterator[str]:
    """The proxy's address while it runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Fetch what is asked for, by its whole URL, as a proxy is asked."""
            url = urlsplit(self.path)
            connection = http.client.HTTPConnection(url.netloc, timeout=_TIMEOUT_S)
            try:
                connection.request("GET", url.path)
                answer = connection.getresponse()
                status, page = answer.status, answer.read()
                kind = answer.getheader("Content-Type") or "text/plain"
            except OSError as error:
                status, page, kind = 502, str(error).encode(), "text/plain"
            finally:
                connection.close()
            if status == 200:
                pages.take(url.netloc, page.decode())
            with suppress(ConnectionError):  # Prometheus is ending
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing: each scrape would be a line."""

    with serving(Handler) as url:
        yield url
