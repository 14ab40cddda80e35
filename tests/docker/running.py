"""A container of one of the images: started, asked over its published port, looked at, removed."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import httpx
from docker.models.containers import Container

from tests.docker.base_image import ROOT
from tests.support.merlins_answers import check_numbers

EXPORTS = ROOT / "examples/merlin"
#: A start is 2 s; on a busy machine with a cold disk longer.
START_TIMEOUT_S = 180.0
#: The platform kills after that.
STOP_TIMEOUT_S = 30
#: The exit code of what docker has killed.
KILLED = 137
CALL_TIMEOUT_S = 120.0
LOOK_S = 0.05


@dataclass(frozen=True)
class Served:
    """A container that answers at its port on this machine."""

    container: Container
    http: httpx.Client

    def load(self, name: str, url: str | None = None) -> httpx.Response:
        """POST /models, of what was delivered under that name."""
        body = {"model_name": name, "url": url or delivered_url(name)}
        return self.http.post("/models", json=body)

    def invoke(self, name: str, body: bytes | dict[str, object]) -> httpx.Response:
        """POST /models/{name}/invoke."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.http.post(f"/models/{name}/invoke", content=content)

    def check_numbers(self, export: str, exports: Path = EXPORTS) -> None:
        """The export of that name answers its committed request with Merlin's own numbers."""
        answer = self.invoke(export, (exports / export / "request.json").read_bytes())
        assert answer.status_code == 200, answer.text
        check_numbers(exports / export, answer.json())

    def stop(self) -> int:
        """SIGTERM, as the platform does it; the exit code. Fails when it has to be killed."""
        self.container.stop(timeout=STOP_TIMEOUT_S)
        self.container.reload()
        code = int(self.container.attrs["State"]["ExitCode"])
        assert code != KILLED, self.log
        return code

    def run(self, *command: str) -> str:
        """The output of a command in the container, which must succeed."""
        code, output = self.container.exec_run(list(command))
        assert code == 0, output
        return str(output.decode())

    @property
    def log(self) -> str:
        """All that it and tritonserver have said."""
        return str(self.container.logs().decode(errors="replace"))


def delivered_url(name: str) -> str:
    """Where the platform puts the extracted archive of that name, as the container sees it."""
    return f"/opt/ml/models/{name}/model"


def deliver(models: Path, *names: str, exports: Path = EXPORTS) -> Path:
    """Put exports where the platform puts extracted archives, under their names as hashes."""
    for name in names:
        shutil.copytree(exports / name / "repository", models / name / "model")
    return models


@contextlib.contextmanager
def serving(
    engine: docker.DockerClient, image: str, models: Path, **options: Any
) -> Iterator[Served]:
    """`docker run IMAGE serve` for many models, which lie on a read-only volume.

    options are those of the SDK's containers.run; environment is added to. The container is removed
    at the end; its log is shown when a test fails.
    """
    environment = {"SAGEMAKER_MULTI_MODEL": "true", **options.pop("environment", {})}
    models.chmod(0o755)  # pytest's folders are for their owner only
    container = engine.containers.run(
        image,
        "serve",
        detach=True,
        environment=environment,
        volumes={str(models): {"bind": "/opt/ml/models", "mode": "ro"}},
        ports={"8080/tcp": ("127.0.0.1", None)},
        **options,
    )
    try:
        with httpx.Client(
            base_url=f"http://127.0.0.1:{_port(container)}",
            timeout=CALL_TIMEOUT_S,
            trust_env=False,
        ) as http:
            served = Served(container, http)
            _until_it_answers(served)
            yield served
    except BaseException:
        print(container.logs().decode(errors="replace")[-6000:])
        raise
    finally:
        container.remove(force=True, v=True)


def _port(container: Container) -> int:
    container.reload()
    (published,) = container.attrs["NetworkSettings"]["Ports"]["8080/tcp"]
    return int(published["HostPort"])


def _until_it_answers(served: Served) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if served.http.get("/ping").status_code == 200:
                return
        served.container.reload()
        assert served.container.status == "running", served.log
        time.sleep(LOOK_S)
    raise AssertionError(f"/ping was not 200 within {START_TIMEOUT_S:g} s")
