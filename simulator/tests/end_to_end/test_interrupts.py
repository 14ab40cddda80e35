"""Ctrl-C at any moment of any command: a real process, whose imports tell how far it has come."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from simulator.tests.support.environment import find_marked
from simulator.tests.support.simulator import FAKE_CONTAINER, fake_model
from tests.support.container import ROOT

WAIT_S = 120.0
#: What stands in the environment of everything that a command starts.
_MARK = "INTERRUPT_TEST"

UP = ("up", "--models", "{archives}", "--port", "0", "--container", FAKE_CONTAINER)
S3 = ("s3", "--port", "0", "--bucket", "models", "--fill", "{archives}")
REPLAY = ("replay", "--models", "2", "--rps", "5", "--duration", "60", "--report", "{report}")
#: Nothing answers there; the replay looks for it for some seconds.
ELSEWHERE = ("--endpoint-url", "http://127.0.0.1:1", "--endpoint-name", "x")

#: A command, the words after which Ctrl-C comes (`import NAME`: when that is done), and its exit
#: code. What serves until Ctrl-C has done what it was asked for then: 0.
MOMENTS = [
    (UP, "import merlin_simulator.interrupts.", 130),
    (UP, "import argparse.", 130),
    (UP, "import uvicorn.config.", 130),
    (UP, "import aiohttp.typedefs.", 130),
    (UP, "import fastapi.", 130),
    (UP, "import merlin_simulator.hosting.", 130),
    (UP, "instance starting", 0),
    (UP, "instance in service", 0),
    (S3, "import merlin_simulator.interrupts.", 130),
    (S3, "import botocore.config.", 130),
    (S3, "import boto3.", 130),
    (S3, "listening:", 0),
    (S3, "ready:", 0),
    (REPLAY, "import aiohttp.", 130),
    (REPLAY, "import merlin_simulator.replay.load.", 130),
    (REPLAY, "import merlin_simulator.replay.run.", 130),
    (REPLAY, "archives made", 130),
    (REPLAY, "its page:", 130),
    (REPLAY, "traffic:", 130),
    ((*REPLAY, *ELSEWHERE), "import merlin_simulator.replay.run.", 130),
]


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """A folder with one archive."""
    fake_model(tmp_path / "archives", "a.tar.gz")
    return tmp_path / "archives"


def _begun(words: tuple[str, ...], folder: Path) -> subprocess.Popen[str]:
    places = {"{archives}": str(folder / "archives"), "{report}": str(folder / "report")}
    (folder / "tmp").mkdir()
    return subprocess.Popen(
        [
            *(sys.executable, "-X", "importtime", "-m", "simulator"),
            *(places.get(word, word) for word in words),
        ],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), _MARK: str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _plain(line: str) -> str:
    """A line of -X importtime as `import NAME` with an end, any other as it stands."""
    if line.startswith("import time:"):
        return f"import {line.rpartition('|')[2].strip()}."
    return line


@pytest.mark.parametrize(
    ("words", "moment", "code"),
    MOMENTS,
    ids=[f"{'-'.join(words[:1])} {moment.strip('.: ')}" for words, moment, _ in MOMENTS],
)
@pytest.mark.usefixtures("archives")
def test_it_ends_quietly(words: tuple[str, ...], moment: str, code: int, tmp_path: Path) -> None:
    """No traceback, the exit code of an interruption, and nothing left that runs or lies about."""
    process = _begun(words, tmp_path)
    giving_up = threading.Timer(WAIT_S, process.kill)
    giving_up.start()
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            if moment in _plain(line):
                process.send_signal(signal.SIGINT)
                break
        said += process.stdout.read()
        process.wait(WAIT_S)
    finally:
        giving_up.cancel()
        process.kill()
        process.stdout.close()
    told = [line for line in said.splitlines() if not line.startswith("import time:")]
    assert any(moment in _plain(line) for line in said.splitlines())
    assert process.returncode == code, told
    assert "Traceback" not in said, told
    assert "Exception ignored" not in said, told
    assert not find_marked(f"{_MARK}={tmp_path}")
    assert not list((tmp_path / "tmp").iterdir())
