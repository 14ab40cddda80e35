"""The container's log as a process writes it: in both forms, to its last line, and to nobody."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from container.constants import Constants
from tests.support import models
from tests.support.container import Container, launch, running, until
from tests.support.fake_triton import fake_environment
from tests.support.protocol import infer, values
from tests.support.quick_container import told

TARGET = "X-Amzn-SageMaker-Target-Model"
#: Of a model's lines, what Python may not have written yet: 8 KB.
UNFLUSHED = 8192 // 100
PRINTING = """
import sys
class TritonPythonModel(Each):
    def answer(self, request, values):
        for number in range(20_000):
            print("x" * 100, number)
        print("stderr, too", file=sys.stderr)
        return respond(request, values)
"""


class UnreadLog:
    """The file of a container's log, as a small pipe; nobody reads it until `read_on`."""

    def __init__(self, directory: Path) -> None:
        os.mkfifo(directory / "log")
        self._end = os.open(directory / "log", os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(self._end, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(self._end, True)
        self._found = bytearray()
        self._reading = threading.Thread(target=self._read, daemon=True)

    def read_on(self) -> None:
        """Until its writers are gone."""
        self._reading.start()

    @property
    def lines(self) -> list[str]:
        return bytes(self._found).decode().splitlines()

    def ended(self) -> list[str]:
        """All of it, when the container has ended."""
        self._reading.join(120)
        assert not self._reading.is_alive()
        os.close(self._end)
        return self.lines

    def _read(self) -> None:
        while data := os.read(self._end, 65536):
            self._found += data


def objects(container: Container) -> list[dict[str, Any]]:
    return [json.loads(line) for line in container.log.splitlines()]


def test_nobody_reads_the_log(tmp_path: Path) -> None:
    """Every request is answered; when it is read again, one line says how much was lost.

    A line of ours is 4 KB here, for the name that each load gives: a megabyte of them waits.
    """
    said = f"I1123 05:22:23.712047 1 a.cc:1] {'x' * 100}\n"
    environment = fake_environment(tmp_path, say=said * 100, say_times=200)
    log = UnreadLog(tmp_path)
    with running(tmp_path, **environment) as container:
        for number in range(400):
            target = f"{number:04d}" + "x" * 4000
            answer = container.load("m1", Path("/nowhere"), **{TARGET: target})
            assert answer.status_code == 400
        assert container.ping() == 200
        log.read_on()
        until(lambda: any("were dropped" in line for line in log.lines), "it says so")
        container.load("m1", Path("/nowhere"), **{TARGET: "last"})
    lines = log.ended()
    refused = [line for line in lines if "request refused" in line]
    numbers = [int(m[1]) for line in refused if (m := re.search(r"target_model=\"?(\d{4})x", line))]
    assert numbers == list(range(len(numbers)))
    assert 200 < len(numbers) < 400
    assert "target_model=last" in refused[-1]
    dropped = [
        int(m[1]) for line in lines if (m := re.search(r"were dropped.* dropped=(\d+)$", line))
    ]
    theirs = sum("a.cc:1" in line for line in lines)
    assert sum(dropped) + len(numbers) + theirs == 400 + 20_000
    assert all(line.removeprefix("| ") in said for line in lines if "a.cc:1" in line)
    assert "Finished server process" in "".join(lines[-4:])


def test_the_end_of_a_log_that_nobody_reads(tmp_path: Path) -> None:
    """SIGTERM ends the container as ever: whoever might read on is given a second."""
    environment = fake_environment(tmp_path, say="x" * 100 + "\n", say_times=20_000)
    log = UnreadLog(tmp_path)
    with running(tmp_path, **environment) as container:
        container.descendants()
        container.signal(signal.SIGTERM)
        assert container.wait() == 0
    log.read_on()
    assert len(log.ended()) < 20_000


REFUSED = " request refused: "


def test_refused_calls_and_the_last_line(tmp_path: Path) -> None:
    """Each says which call it was, of which archive; loads that are refused are warnings.

    The last line says that it has stopped, and how.
    """
    with running(tmp_path, **fake_environment(tmp_path)) as container:
        container.load("m1", Path("/nowhere"), **{TARGET: "shop.tar.gz"})
        container.unload("m2")
        container.http.get("/models/m3")
        container.http.get("/nope?" + "q" * 500)
        container.http.put("/" + "p" * 500)
    lines = [line.partition("Z ")[2] for line in container.log.splitlines() if REFUSED in line]
    load, unload, described, unknown, method = lines
    assert load.startswith("WARNING request refused: the field `url`: found '/nowhere', which ")
    assert load.endswith(
        "model_name=m1 target_model=shop.tar.gz status=400 method=POST path=/models url=/nowhere"
    )
    assert unload == (
        "INFO request refused: the model 'm2' is not loaded, so nothing is unloaded; GET /models "
        "lists what is model_name=m2 status=404 method=DELETE path=/models/m2"
    )
    assert described.endswith("model_name=m3 status=404 method=GET path=/models/m3")
    assert unknown == "INFO request refused: no such path status=404 method=GET path=/nope"
    assert method.endswith(f"status=404 method=PUT path=/{'p' * 255}")
    assert container.log.splitlines()[-1].endswith(" INFO stopped signal=SIGTERM")


@pytest.mark.tritonserver
def test_what_a_model_prints_to_nobody(tmp_path: Path) -> None:
    """It and its neighbours are answered, though its lines fill every pipe there is.

    When the log is read on, tritonserver's lines name the models that they are about.
    """
    log = UnreadLog(tmp_path)
    with running(tmp_path, SERVE_LOG_FORMAT="json") as container:
        printing = models.write_archive(
            container.model_root / "one/model", {"m": models.PythonModel(PRINTING)}
        )
        witness = models.sums(container.model_root / "two/model", [1, 2])
        with container.loaded("printing", printing), container.loaded("wit.ness", witness):
            for _ in range(5):  # 11 MB
                assert values(container.invoke("printing", infer([1]))) == [1.0]
                assert values(container.invoke("wit.ness", infer([1]))) == [4.0]
            log.read_on()
            until(lambda: _lines_of_models(log.lines) >= 5 * 20_000 - UNFLUSHED, "all is told")
    found = [json.loads(line) for line in log.ended()]
    assert {line["source"] for line in found} == {"container", "tritonserver", "model"}
    printed = {line["message"].split()[0] for line in found if line["source"] == "model"}
    assert printed <= {"x" * 100, "stderr,"}
    unloaded = {line["model"] for line in found if "successfully unloaded" in line["message"]}
    assert unloaded == {"printing", "wit.ness"}


def _lines_of_models(lines: list[str]) -> int:
    """Those that are there, and those that are said to be missing."""
    found = [json.loads(line) for line in lines if line.endswith("}")]
    return sum(line.get("dropped", line["source"] == "model") for line in found)


@pytest.mark.parametrize("life", [{"exit_at_start": 3}, {"die_after_requests": 0}])
@pytest.mark.parametrize("log_format", ["text", "json"])
def test_a_tritonserver_that_dies_again_and_again(
    log_format: str, life: dict[str, object], tmp_path: Path
) -> None:
    """It ends the container with code 1, and the reason is the last line: behind its own words."""
    environment = fake_environment(tmp_path, say="no such device\n", **life)
    few = Constants(restart_limit=1)
    container = launch(tmp_path, **told(few), SERVE_LOG_FORMAT=log_format, **environment)
    try:
        if "die_after_requests" in life:
            invoke_until_it_ends(container)
        assert container.wait() == 1
    finally:
        container.close()
    lines = container.log.splitlines()
    if log_format == "json":
        said = [line for line in objects(container) if line["source"] == "model"]
        assert [line["message"] for line in said] == ["no such device"] * 2
        assert objects(container)[-1]["level"] == "CRITICAL"
    else:
        assert lines.count("| no such device") == 2
        assert " CRITICAL " in lines[-1]
    assert "tritonserver died 2 times in 60 s" in lines[-1]
    assert f"exit code {life.get('exit_at_start', 9)}" in lines[-1]


def invoke_until_it_ends(container: Container) -> None:
    """With another request each time: one that is known is not sent a third time."""
    numbers = itertools.count()
    directory = models.write_archive(container.model_root / "one/model", {"m": models.identity})
    until(lambda: container.ping() == 200, "/ping is 200", container)
    assert container.load("m1", directory).status_code == 200

    def ended() -> bool:
        with contextlib.suppress(httpx.TransportError):
            answer = container.invoke("m1", infer([next(numbers)]))
            assert answer.status_code in (404, 500, 503)
        return container.process.poll() is not None

    until(ended, "the container has ended")


@pytest.mark.parametrize(
    ("settings", "fragments"),
    [
        ({"SERVE_TRITON_SERVER": "/no/such/tritonserver"}, ["/no/such/tritonserver"]),
        (
            {"SAGEMAKER_SAFE_PORT_RANGE": "9-1", "SERVE_LOAD_TIMEOUT": "soon"},
            ["SAGEMAKER_SAFE_PORT_RANGE", "SERVE_LOAD_TIMEOUT"],
        ),
        ({"SERVE_LOG_FORMAT": "json", "SERVE_SLOW_MS": "few"}, ["SERVE_SLOW_MS", '"CRITICAL"']),
        (
            {"SERVE_LOG_FORMAT": "xml"},
            ["SERVE_LOG_FORMAT is 'xml', expected one of text, json", " CRITICAL "],
        ),
    ],
    ids=["no tritonserver", "all mistakes at once", "as JSON", "a form that there is not"],
)
def test_what_cannot_start(settings: dict[str, str], fragments: list[str], tmp_path: Path) -> None:
    """The last line says why, in the form that the log has, before anything is started."""
    container = launch(tmp_path, **settings)
    try:
        assert container.wait() == 1
    finally:
        container.close()
    lines = container.log.splitlines()
    for fragment in fragments:
        assert fragment in lines[-1]
    if settings.get("SERVE_LOG_FORMAT") == "json":
        (line,) = objects(container)
        assert line["level"] == "CRITICAL"
