"""The examples' stories: their commands run, their numbers are torch's, and nothing is left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tests.support.container import ROOT, until

#: Measured: 10 to 30 s on two cores that others use, too.
STORY_S = 200.0
#: What stands in the environment of everything that a story starts.
MARK = "STORY_TEST"
#: What a variant for GPUs may have otherwise; callers and neighbours see the rest.
OF_THE_VARIANT = ("platform", "backend", "instance_group", "dynamic_batching")

pytestmark = [pytest.mark.tritonserver, pytest.mark.timeout(2 * STORY_S)]


@contextmanager
def begun(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A story whose temporary files lie in the folder; killed if the test has failed."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder), MARK: str(folder), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def told(folder: Path, *words: str) -> str:
    """What the whole story said; all its numbers were right, and it left nothing."""
    with begun(folder, *words) as story:
        said, _ = story.communicate(timeout=STORY_S)
        assert story.returncode == 0, said
    until(lambda: not left(folder), "no process is left")
    assert not list(folder.iterdir())
    return said


def left(folder: Path) -> list[Path]:
    """Processes that a story has started, and that still run."""
    mark = f"{MARK}={folder}".encode()
    return [it.parent for it in Path("/proc").glob("[0-9]*/environ") if mark in read(it)]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""


def test_vision(tmp_path: Path) -> None:
    """Both forms of a request are answered alike, for a JPEG, a PNG, and both in one batch."""
    said = told(tmp_path, "examples.vision")
    answers = re.findall(
        r"^  (drawn.*?) +(binary|json) .* s  (\w+ [\d.]+(?:, \w+ [\d.]+)?)  the same bits$",
        said,
        re.MULTILINE,
    )
    assert [form for _, form, _ in answers] == ["binary", "json"] * 3
    assert len({answer for _, _, answer in answers}) == 3
    assert "All numbers are torch's own, to the last bit." in said


def test_bert(tmp_path: Path) -> None:
    """Two models that answer differently, six archives, and memory for two or three of them."""
    said = told(tmp_path, "examples.bert", "--copies", "3", "--memory", "350MB")
    one, other = map(json.loads, re.findall(r"one text: (\[.*\])", said))
    assert one != pytest.approx(other, abs=0.1)
    assert len(re.findall(r"^  bert-[ab]-00[012].tar.gz (?:cold|warm)", said, re.MULTILINE)) == 12
    assert re.search(r" (\d+) loaded.* left$", said, re.MULTILINE)
    assert "All numbers are torch's own, to the last bit." in said


def test_session(tmp_path: Path) -> None:
    """The demo, of the Transformers4Rec model alone."""
    assert "All numbers are Merlin's own" in told(tmp_path, "examples.demo", "session")


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGINT, 130, "the endpoint starts"),
        (signal.SIGTERM, 143, "the archive is made"),
    ],
    ids=["SIGINT", "SIGTERM"],
)
def test_the_end_in_the_middle(
    number: signal.Signals, code: int, line: str, tmp_path: Path
) -> None:
    """Whoever stops a story has no process and no file left."""
    with begun(tmp_path, "examples.vision") as story:
        assert story.stdout is not None
        # What it tells of has happened: the line is whole.
        assert any(line in said for said in story.stdout)
        story.send_signal(number)
        said, _ = story.communicate(timeout=STORY_S)
        assert (story.returncode, "Traceback" in said) == (code, False), said
    until(lambda: not left(tmp_path), "no process is left")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["vision/gpu/decode", "vision/gpu/classify", "bert/gpu/bert"])
def test_gpu_variants_have_the_same_tensors(name: str) -> None:
    """What cannot be run here differs from what can in the backend and its place alone."""
    variant, here = config(name), config(name.replace("/gpu/", "/repository/"))
    assert {it.kind for it in variant.instance_group} == {
        model_config_pb2.ModelInstanceGroup.KIND_GPU
    }
    for field in OF_THE_VARIANT:
        variant.ClearField(field)
        here.ClearField(field)
    assert variant == here


def config(name: str) -> model_config_pb2.ModelConfig:
    text = (ROOT / "examples" / name / "config.pbtxt").read_text("utf-8")
    return text_format.Parse(text, model_config_pb2.ModelConfig())
