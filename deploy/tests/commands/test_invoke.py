"""`invoke` on the control plane."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.tests.support.commands import (
    RUN_TIMEOUT_S,
    deploy,
    environment,
    put_archive,
    write_config,
)
from simulator.tests.support.control_plane import ControlPlane
from tests.support.container import ROOT

BODY = '{"inputs": []}'


@pytest.fixture(scope="module")
def shop_config(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The CONFIG.toml of an endpoint of one archive, shop-a."""
    folder = tmp_path_factory.mktemp("asked")
    put_archive(plane, folder, "asked")
    config = write_config(folder, "asked")
    deploy(plane, "up", config)
    return config


@pytest.fixture
def request_file(tmp_path: Path) -> Path:
    """A file with the shortest request."""
    path = tmp_path / "request.json"
    path.write_text(BODY)
    return path


def test_archive_answers(plane: ControlPlane, shop_config: Path, request_file: Path) -> None:
    """By its name, by its key, and without either where there is one alone."""
    for named in ((), ("--model", "shop-a"), ("--target-model", "shop-a/0123.tar.gz")):
        output = deploy(plane, "invoke", shop_config, "--request", request_file, *named)
        assert '"answer":"shop-a.tar.gz"' in output
        assert "shop-a/0123.tar.gz by the variant AllTraffic of asked" in output


def test_binary_body_is_sent_with_its_size(
    plane: ControlPlane, shop_config: Path, tmp_path: Path
) -> None:
    """All of it arrives, and the answer is a file where one is asked for."""
    body, answer = tmp_path / "request.bin", tmp_path / "answer"
    head = b'{"inputs": [{"parameters": {"binary_data_size": 2}}]}'
    body.write_bytes(head + b"\x00\xff")
    output = deploy(plane, "invoke", shop_config, "--request", body, "--output", answer)
    assert json.loads(answer.read_bytes())["echo"].encode("latin-1") == head + b"\x00\xff"
    assert f"{answer}: " in output


def test_repeated_request_is_measured(
    plane: ControlPlane, shop_config: Path, request_file: Path
) -> None:
    """One answer is printed, and the times of all."""
    output = deploy(plane, "invoke", shop_config, "--request", request_file, "--repeat", "5")
    assert output.count('"answer"') == 1
    assert "5 answers: p50 " in output


def test_reader_that_leaves(plane: ControlPlane, shop_config: Path, request_file: Path) -> None:
    """As `| head` does: there is no traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "deploy", "invoke", shop_config, "--request", request_file]
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(
            list(map(str, command)),
            cwd=ROOT,
            env=environment(plane),
            stdout=pipe,
            stderr=subprocess.PIPE,
            timeout=RUN_TIMEOUT_S,
        )
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr


def test_what_is_refused(plane: ControlPlane, shop_config: Path, request_file: Path) -> None:
    """By the platform and before it: one sentence, exit code 1."""
    ask = ("invoke", shop_config, "--request", request_file)
    unknown = deploy(plane, *ask, "--model", "shop-z", code=1)
    assert "there is no archive called shop-z" in unknown
    assert "there are: shop-a" in unknown
    missing = deploy(plane, *ask, "--target-model", "no.tar.gz", code=1)
    assert "error: the endpoint does not get the archive no.tar.gz" in missing
    assert "--stream is for single-model endpoints" in deploy(plane, *ask, "--stream", code=1)


def test_model_that_refuses(plane: ControlPlane, tmp_path: Path, request_file: Path) -> None:
    """Its status and its own sentence; exit code 1."""
    put_archive(plane, tmp_path, "refusing", invoke_status=400)
    config = write_config(tmp_path, "refusing")
    deploy(plane, "up", config)
    output = deploy(plane, "invoke", config, "--request", request_file, code=1)
    assert output == (
        "error: shop-a/0123.tar.gz answers 400: the model failed: it says so; correct the request\n"
    )


def test_stream_of_a_single_model(plane: ControlPlane, tmp_path: Path, request_file: Path) -> None:
    """Parts are printed as they come; no target model is named, and none may be."""
    put_archive(plane, tmp_path, "alone", parts=["one ", "two "], part_seconds=0.2)
    config = write_config(tmp_path, "alone", single_model="shop-a")
    deploy(plane, "up", config)
    ask = ("invoke", config, "--request", request_file)
    streamed = deploy(plane, *ask, "--stream")
    assert "one two " in streamed
    assert "2 parts, the first after " in streamed
    assert "one two " in deploy(plane, *ask)
    assert "serves shop-a alone" in deploy(plane, *ask, "--model", "shop-b", code=1)
