"""The local endpoint of this example: two containers as processes, archives, traffic."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from examples.observe.relay import Counts
from merlin_simulator.replay.local_endpoint import LocalEndpoint, start_endpoint

ROOT = Path(__file__).parents[2]
NAME = "observed"
INSTANCES = 2
_START_S, _ASK_S = 120.0, 90.0
_SIMULATOR = (sys.executable, "-m", "simulator")


def make_archives(folder: Path, models: int) -> None:
    """Small Python models that answer their own names."""
    words = ["replay", "--models", str(models), "--archives-only", str(folder)]
    subprocess.run([*_SIMULATOR, *words], cwd=ROOT, check=True)


@contextmanager
def running_endpoint(archives: Path, work: Path, port: int, *rules: str) -> Iterator[str]:
    """Its address, once both containers are in service; their logs are in work.

    rules: options of `simulator up`.
    """
    options = {
        "--models": str(archives),
        "--work-dir": str(work),
        "--endpoint-name": NAME,
        "--port": str(port),
        "--instances": str(INSTANCES),
    }
    words = [word for option in options.items() for word in option]
    command = [*_SIMULATOR, "up", *words, *rules]
    with start_endpoint(command, port, work / "simulator.log") as endpoint:
        _until_in_service(endpoint)
        yield endpoint.url


def _until_in_service(endpoint: LocalEndpoint) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if gone := endpoint.gone():
            raise SystemExit(gone)
        try:
            state = json.loads(_ask(endpoint.url, "GET", "/simulator/state")[1])
            if [one["state"] for one in state["instances"]] == ["in service"] * INSTANCES:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"the endpoint was not in service within {_START_S:g} s")


def replay(url: str, models: int, rps: float, seconds: float, report: Path) -> dict[str, Any]:
    """`simulator replay` on it; its report."""
    options = {
        "--models": str(models),
        "--rps": str(rps),
        "--duration": str(seconds),
        "--zipf": "0.7",
        "--endpoint-url": url,
        "--endpoint-name": NAME,
        "--report": str(report),
    }
    words = [word for option in options.items() for word in option]
    # 1: not every answer was right, which the counts will show.
    code = subprocess.run([*_SIMULATOR, "replay", *words], cwd=ROOT).returncode
    if code not in (0, 1) or not (report / "report.json").exists():
        raise SystemExit(f"the replay ended with exit code {code}")
    found: dict[str, Any] = json.loads((report / "report.json").read_text())
    if found["measuring"]["requests_without_event"]:
        raise SystemExit("the endpoint did not tell the end of every request; ask for less at once")
    return found


def send_faulty(url: str, targets: Sequence[str]) -> tuple[Counts, int]:
    """Requests that containers refuse, and some that the platform does.

    Returns what containers answered to them, by the platform's word, and how many reached none.
    """
    answered: Counts = Counter()
    refused = 0
    for target in (*targets, "no-such-archive.tar.gz"):
        for _ in range(2):
            _, answer = _ask(url, "POST", f"/endpoints/{NAME}/invocations", target)
            status = json.loads(answer).get("OriginalStatusCode")
            if status is None:
                refused += 1
            else:
                answered[target, str(status)] += 1
    return answered, refused


def _ask(url: str, method: str, path: str, target: str | None = None) -> tuple[int, bytes]:
    """With a body that is no JSON where a target model is named."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=_ASK_S)
    named = {"X-Amzn-SageMaker-Target-Model": target} if target else {}
    try:
        connection.request(method, path, b"{" if target else None, named)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
