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
STORY_S = 800.0
#: What stands in the environment of everything that a story starts.
MARK = "STORY_TEST"
#: What a variant for GPUs may have otherwise; callers and neighbours see the rest.
OF_THE_VARIANT = ("platform", "backend", "instance_group", "dynamic_batching")

pytestmark = [pytest.mark.thorough, pytest.mark.tritonserver]


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


def test_hundreds(tmp_path: Path) -> None:
    """A day of sixteen models, and memory for eight: the endpoint grows, and is small again."""
    size = ("--models", "16", "--seconds", "8", "--instances", "2", "--memory", "430MB")
    said = told(tmp_path, "examples.hundreds", *size)
    assert re.search(r"^\d+ answers of \d+ of 16 models, 0 failed$", said, re.MULTILINE), said
    assert int(re.findall(r"(\d+) evictions$", said, re.MULTILINE)[-1]) > 0
    for how in ("cold", "warm"):
        assert re.search(rf"^{how}: [1-9]\d* requests, p50 [\d.]+ m?s$", said, re.MULTILINE)
    assert "  Successful: Setting desired instance count to 2." in said
    assert "instances: 1 → 2 → 1\n" in said
    assert "All answers are torch's own, to the last bit." in said


def test_tenants(tmp_path: Path) -> None:
    """What each role may, by the printed policies; nobody may more, by no detour."""
    said = told(tmp_path, "examples.tenants")
    got = dict(re.findall(r"^  (\S.*?)  +(200 .*|403.*)$", said, re.MULTILINE))
    cells = {words: re.split(r"  +", row) for words, row in got.items()}
    own = {"shop-a/1.tar.gz": 0, "shop-b/1.tar.gz": 1}
    for target, column in own.items():
        shop = target.partition("/")[0]
        assert cells.pop(target)[:2] == [
            f"200 {shop} greets you" if column == number else "403" for number in range(2)
        ]
    assert {"shop-a-evil/1.tar.gz", "shop-a/../shop-b/1.tar.gz", "no TargetModel"} < cells.keys()
    assert {"a response stream", "keys of nobody"} < cells.keys()
    assert not [row for row in cells.values() if any(cell[:3] == "200" for cell in row[:2])]
    # Without IAM anybody has it: what refuses here is the policy.
    assert cells["shop-a-evil/1.tar.gz"] == ["403", "403", "200 shop-a-evil greets you"]
    assert "with an explicit deny in an identity-based policy" in said
    assert "Each has its own, and nothing else." in said


def test_drift(tmp_path: Path) -> None:
    """Unseen items are counted exactly; a mistake is refused by captured requests; the new archive
    knows its items.
    """
    said = told(tmp_path, "examples.drift")
    counts = dict(re.findall(r"^  (shop-., .*): (\d+) items unseen", said, re.MULTILINE))
    assert [int(counts.pop("shop-b, afternoon")) > 500, *counts.values()] == [True, "0", "0", "0"]
    shown = re.findall(r"^    (shop-./.)\.tar\.gz .* (\w+)$", said, re.MULTILINE)
    assert sorted(shown) == [
        *[("shop-a/1", "stable")] * 3,
        *(("shop-b/1", "large"), ("shop-b/1", "stable"), ("shop-b/2", "stable")),
    ]
    assert said.index("    NOT WITHIN:") < said.index("    WITHIN: kendall=0.3")
    assert said.endswith("Seen, proved, switched.\n")


def test_streaming(tmp_path: Path) -> None:
    """Token by token; who leaves frees the model; errors of the model and of the stream."""
    said = told(tmp_path, "examples.streaming")
    first, last = map(
        float, re.findall(r"first token after ([\d.]+) s, the last after (.*) s", said)[0]
    )
    assert first < last / 2
    rest_s = float(re.findall(r"tokens, ([\d.]+) s before the last one", said)[0])
    assert rest_s > 7
    assert (
        float(re.findall(r"the next caller's first token after ([\d.]+) s", said)[0]) < rest_s / 2
    )
    assert "32 tokens, then the error “the context has room for 32 tokens, and 40 were" in said
    assert re.search(r"longer than 4 s: [1-4] tokens, then ModelStreamError: ", said)
    assert "a request that lacks inputs: ModelError, status 400 of the container" in said
    assert 'with TargetModel: Unknown parameter in input: "TargetModel"' in said
    assert "All tokens are the generator's own, in order." in said


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
