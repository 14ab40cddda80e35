"""A simulator that runs, as `python -m simulator up` starts it, and what a caller needs of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import boto3
import httpx
from botocore.config import Config

from tests.support.container import CALL_TIMEOUT_S, ROOT, STOP_TIMEOUT_S, free_port, until

FAKE_CONTAINER = f"{sys.executable} {ROOT / 'tests/fakes/mme_container.py'} --port {{port}}"
ENDPOINT = "test"
#: What is at once on an idle machine is far below this on a busy one, and far below the time-outs
#: of a minute and more that a stall would take.
AT_ONCE_S = 50.0


@dataclass
class Simulator:
    """One that runs. Requests are sent as boto3 sends them, with or without it.

    since: what was told until that event is left out of events; see begin.
    """

    process: subprocess.Popen[bytes]
    url: str
    log_path: Path
    since: int = 0
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self.http = httpx.Client(
            base_url=self.url, timeout=CALL_TIMEOUT_S, limits=limits, trust_env=False
        )

    def invoke(self, target: str | None, body: bytes = b"{}", **headers: str) -> httpx.Response:
        """POST /endpoints/{name}/invocations."""
        named = {"X-Amzn-SageMaker-Target-Model": target} if target is not None else {}
        return self.http.post(
            f"/endpoints/{ENDPOINT}/invocations",
            content=body,
            headers={"Content-Type": "application/json", **named, **headers},
        )

    def invoke_all(self, *targets: str) -> list[httpx.Response]:
        """The answers of these, asked at the same time."""
        with ThreadPoolExecutor(len(targets)) as pool:
            return list(pool.map(self.invoke, targets, timeout=AT_ONCE_S))

    def boto3_client(self, **config: Any) -> Any:
        """An unmodified client of the runtime API."""
        return boto3.client(
            "sagemaker-runtime",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id="a",
            aws_secret_access_key="b",
            config=Config(read_timeout=CALL_TIMEOUT_S, **config),
        )

    def state(self) -> dict[str, Any]:
        """The endpoint as it stands."""
        answer: dict[str, Any] = self.http.get("/simulator/state").json()
        return answer

    def instance(self, number: int = 0) -> dict[str, Any]:
        """One instance as it stands."""
        answer: dict[str, Any] = self.state()["instances"][number]
        return answer

    def states(self, number: int = 0) -> dict[str, str]:
        """Target model → where it is, on one instance."""
        return {m["target_model"]: m["state"] for m in self.instance(number)["models"]}

    def fake(self, number: int = 0) -> dict[str, Any]:
        """What a fake container of an instance has seen."""
        answer: dict[str, Any] = self.http.get(f"{self.instance(number)['url']}/fake").json()
        return answer

    @contextlib.contextmanager
    def halted(self, number: int = 0) -> Iterator[None]:
        """A fake container of an instance does nothing until the block ends."""
        pid = int(self.fake(number)["pid"])
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def begin(self) -> None:
        """Events are those from now on: for tests that share one, each with models of its own."""
        self.since = self.state()["sequence"]

    def events(self) -> list[dict[str, Any]]:
        """All that happened until now."""
        last, seen, known = self.state()["sequence"], [], {"Last-Event-ID": str(self.since)}
        if last <= self.since:
            return []
        with self.http.stream("GET", "/simulator/events", headers=known) as lines:
            for line in lines.iter_lines():
                if line.startswith("data:"):
                    seen.append(json.loads(line[5:]))
                    if seen[-1]["sequence"] >= last:
                        break
        return seen

    def kinds(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these kinds."""
        return [event for event in self.events() if event["kind"] in kinds]

    def in_service(self, count: int = 1) -> bool:
        """That many instances take requests."""
        states = [instance["state"] for instance in self.state()["instances"]]
        return states.count("in service") >= count  # 0: it answers

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_TIMEOUT_S)


@contextlib.contextmanager
def simulator(
    models: Path | str,
    log_path: Path,
    *options: str,
    container: str | None = FAKE_CONTAINER,
    instances: int = 1,
    environment: Mapping[str, str] = {},
) -> Iterator[Simulator]:
    """Started, that many instances in service (0: not waited for), stopped after the block."""
    command = [sys.executable, "-m", "simulator", "up", "--models", str(models), "--port", "0"]
    command += ["--endpoint-name", ENDPOINT, "--ping-every", "0.3", *options]
    if "--instance" not in options:
        command += ["--instances", str(instances or 1)]
    if container is not None and "--instance" not in options:
        command += ["--container", container]
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **environment}, stdout=log, stderr=log
        )
    try:
        until(lambda: _url(process, log_path) is not None, "the simulator listens")
        url = _url(process, log_path)
        assert url is not None
        started = Simulator(process, url, log_path)
        with started.http:
            until(lambda: started.in_service(instances), f"in service; its log is {log_path}")
            yield started
            if process.poll() is None:
                assert started.stop() == 0, log_path.read_text()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(STOP_TIMEOUT_S)


@contextlib.contextmanager
def fake_container() -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """A container that runs already, and answers: its port."""
    port = free_port()
    with subprocess.Popen(FAKE_CONTAINER.format(port=port).split()) as process:
        try:
            until(lambda: _answers(port), "the container answers")
            yield port, process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            process.wait(STOP_TIMEOUT_S)


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/ping", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _url(process: subprocess.Popen[bytes], log_path: Path) -> str | None:
    said = log_path.read_text()
    assert process.poll() is None, f"{shlex.join(map(str, process.args))}\n{said}"  # type: ignore[arg-type]
    found = re.search(r" at (http://\S+) ", said)
    return found[1] if found else None


def make_room_for(count: int) -> str:
    """The command of a fake container in which so many models fit."""
    return f"{FAKE_CONTAINER} --capacity {count}"


def read_answers(responses: list[httpx.Response]) -> list[Any]:
    """What fake models have answered, all of them well."""
    assert {response.status_code for response in responses} == {200}, [r.text for r in responses]
    return [response.json()["answer"] for response in responses]


def fake_model(folder: Path, name: str, **model: Any) -> Path:
    """An archive for the fake container; its answer is its name."""
    return archive(folder / name, {"answer.json": json.dumps({"answer": name, **model}).encode()})


def archive(path: Path, files: Mapping[str, bytes]) -> Path:
    """A .tar.gz with these files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, BytesIO(content))
    return path


def archive_of(path: Path, directory: Path) -> Path:
    """A .tar.gz of what lies in a directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for child in sorted(directory.iterdir()):
            tar.add(child, child.name)
    return path
