"""What the commands of the stories share: archives, an endpoint of this machine, exact comparing.

The endpoint is the simulator's: SageMaker's part is played by `python -m simulator up`, and its
instance is this project's own container. A story imports this module and needs `make setup`.
"""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import numpy as np
from boto3.exceptions import Boto3Error
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from ensemble_tools.__main__ import main as tools
from merlin_simulator.addresses import find_free_port
from merlin_simulator.replay.local_endpoint import start_endpoint

ROOT = Path(__file__).parents[1]
#: The environment that the container gives to models: what they are compared with runs there, too.
MODELS_PYTHON = Path(os.environ.get("SERVE_BACKEND_PYTHON", ROOT / ".venv-merlin/bin/python"))
NAME = "story"
INTERRUPTED, ENDED = 130, 143
_START_S, _EXPORT_S = 120.0, 120.0
#: A cold model may take 60 s, boto3's own limit; with that it would send the request once more.
_ANSWER_S = 70.0


@dataclass(frozen=True)
class Answer:
    """What the endpoint answered, and after how many seconds."""

    body: bytes
    content_type: str
    seconds: float


class Endpoint:
    """One that is in service, as boto3 and the simulator's page see it."""

    def __init__(self, url: str, name: str) -> None:
        self.url, self._name = url, name
        self._client = boto3.client(
            "sagemaker-runtime",
            endpoint_url=url,
            region_name="us-east-1",
            aws_access_key_id="any",
            aws_secret_access_key="any",
            config=Config(read_timeout=_ANSWER_S, retries={"total_max_attempts": 1}),
        )

    def invoke(
        self, target: str | None, body: bytes, content_type: str = "application/json"
    ) -> Answer:
        """The archive's answer; None: of the only one. Raises boto3's errors."""
        named = {} if target is None else {"TargetModel": target}
        began = time.perf_counter()
        answer = self._client.invoke_endpoint(
            EndpointName=self._name, ContentType=content_type, Body=body, **named
        )
        read = answer["Body"].read()
        return Answer(read, answer["ContentType"], time.perf_counter() - began)

    def stream(self, body: bytes, **more: str) -> Any:
        """The answer in pieces: botocore's EventStream, to be closed. Raises boto3's errors."""
        answer = self._client.invoke_endpoint_with_response_stream(
            EndpointName=self._name, ContentType="application/json", Body=body, **more
        )
        return answer["Body"]

    def state(self) -> dict[str, Any]:
        """What the simulator's page shows, as JSON."""
        with urllib.request.urlopen(f"{self.url}/simulator/state", timeout=_ANSWER_S) as answer:
            state: dict[str, Any] = json.load(answer)
            return state


@contextmanager
def endpoint(archives: Path, scratch: Path, *options: str) -> Iterator[Endpoint]:
    """An endpoint of all archives in the folder; options are those of `simulator up`.

    It and its container have ended when the block is left.
    """
    port, work = find_free_port(), scratch / "endpoint"
    work.mkdir()
    words = ["--models", str(archives), "--work-dir", str(work), "--endpoint-name", NAME]
    command = [sys.executable, "-m", "simulator", "up", "--port", str(port), *words, *options]
    with start_endpoint(command, port, work / "simulator.log") as started:
        running = Endpoint(started.url, NAME)
        with step("the endpoint starts"):
            _wait(running, started.gone)
        yield running


def _wait(running: Endpoint, gone: Callable[[], str | None]) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if why := gone():
            raise SystemExit(why)
        try:
            if [it["state"] for it in running.state()["instances"]] == ["in service"]:
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise SystemExit(f"the endpoint was not in service within {_START_S:g} s")


def ask_models_python(module: str, *arguments: str | Path) -> str:
    """What a module says that runs in the models' environment."""
    if not MODELS_PYTHON.exists():
        raise SystemExit(f"found no {MODELS_PYTHON}, expected the models' Python; run `make setup`")
    command: list[str | Path] = [MODELS_PYTHON, "-m", module, *arguments]
    return run(command, _EXPORT_S)


def pack(repository: Path, archive: Path, *options: str) -> None:
    """What SageMaker downloads, checked by what would load it.

    As `python -m ensemble_tools pack` does it, without a process for each.
    """
    archive.parent.mkdir(exist_ok=True)
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        try:
            code: object = tools(["pack", *options, str(repository), "-o", str(archive)])
        except SystemExit as misuse:  # of an option
            code = misuse.code
    if code:
        raise SystemExit(f"{repository} was not packed:\n{said.getvalue()}")


def run(command: Sequence[str | Path], seconds: float) -> str:
    """What it says on stdout; ends the story where it fails."""
    words = " ".join(map(str, command))
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SystemExit(f"`{words}` did not end within {seconds:g} s") from None
    if done.returncode:
        raise SystemExit(f"`{words}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def same_bits(got: object, expected: object) -> bool:
    """Whether two lists hold the same float32 numbers, to the last bit, in the same shape."""
    one, other = np.asarray(got, np.float32), np.asarray(expected, np.float32)
    return bool(one.shape == other.shape and one.tobytes() == other.tobytes())


@contextmanager
def step(what: str) -> Iterator[None]:
    """A line that says what is done, and at its end how long it took."""
    print(f"  {what} …", end=" ", flush=True)
    began = time.monotonic()
    yield
    print(f"{time.monotonic() - began:.1f} s", flush=True)


def tell(story: Callable[[Path], bool]) -> int:
    """Runs a story in a folder of its own, which is gone afterwards, and gives the exit code.

    0 if all its numbers were the expected ones, else 1; 130 after Ctrl-C and 143 after SIGTERM,
    which leave no process and no file behind either.
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(ENDED))
    # As in a multi-model container, and in what is compared: float32 sums in one order.
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as scratch:
            return 0 if story(Path(scratch)) else 1
    except KeyboardInterrupt:
        print("interrupted")
        return INTERRUPTED
    except (Boto3Error, BotoCoreError, ClientError) as error:
        print(error)
        return 1
