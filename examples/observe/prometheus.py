"""Debian's prometheus as a process, with this folder's files, and what it is asked."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from merlin_simulator.addresses import find_free_port

FOLDER = Path(__file__).parent
#: Where the file says that the endpoint answers.
_ENDPOINT = "http://127.0.0.1:8090"
_START_S, _STOP_S, _ASK_S = 30.0, 20.0, 30.0
Series = dict[str, Any]
_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open  # loopback: no proxy


class Prometheus:
    """One that runs."""

    def __init__(self, url: str) -> None:
        self.url = url

    def is_ready(self) -> bool:
        """It answers queries."""
        try:
            return bool(_open(f"{self.url}/-/ready", timeout=2).status == 200)
        except OSError:
            return False

    def query(self, expression: str, at: float | None = None) -> list[Series]:
        """An instant query: the vector, each of metric and value."""
        return self._ask("query", query=expression, **({} if at is None else {"time": at}))

    def query_range(self, expression: str, start: float, end: float, step_s: float) -> list[Series]:
        """A range query: the matrix, each of metric and values."""
        return self._ask("query_range", query=expression, start=start, end=end, step=step_s)

    def _ask(self, what: str, **parameters: str | float) -> list[Series]:
        url = f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(parameters)}"
        try:
            with _open(url, timeout=_ASK_S) as answer:
                result: list[Series] = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise SystemExit(
                f"Prometheus refused {parameters['query']}: {error.read()!r}"
            ) from None
        return result


def find_prometheus(path: str | None = None) -> str:
    """The program, looked for along path (PATH where None); ends with a sentence without it."""
    if found := shutil.which("prometheus", path=path):
        return found
    raise SystemExit(
        "found no program `prometheus`, which this example starts; on Debian: "
        "apt-get install prometheus"
    )


def write_files(folder: Path, endpoint_url: str, scrape_every_s: int, proxy: str) -> Path:
    """This folder's prometheus.yml for that endpoint, and its rules; where the first one lies."""
    text = (FOLDER / "prometheus.yml").read_text()
    changes = (
        (_ENDPOINT, endpoint_url),
        (urllib.parse.urlsplit(_ENDPOINT).netloc, urllib.parse.urlsplit(endpoint_url).netloc),
        ("scrape_interval: 5s", f"scrape_interval: {scrape_every_s}s"),
        ("refresh_interval: 5s", "refresh_interval: 1s"),
        ("job_name: containers\n", f"job_name: containers\n    proxy_url: {proxy}\n"),
    )
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    (folder / "prometheus.yml").write_text(text)
    shutil.copyfile(FOLDER / "rules.yml", folder / "rules.yml")
    return folder / "prometheus.yml"


@contextmanager
def running_prometheus(program: str, config: Path) -> Iterator[Prometheus]:
    """It, ready to be asked; its data and its log lie beside the file."""
    port = find_free_port()
    command = [
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={config.parent / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    log = config.parent / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + _START_S
        while not prometheus.is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"prometheus did not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.1)
        yield prometheus
    finally:
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
