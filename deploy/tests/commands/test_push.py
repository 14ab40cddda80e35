"""`push`, with an engine that does what is asked of it and fails as real ones do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.tests.support.commands import RUN_TIMEOUT_S, environment
from simulator.tests.support.control_plane import ControlPlane
from tests.support.container import ROOT, until
from tests.support.docker_engine import DIGEST, FakeEngine, fake_engine

ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com"


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    """With the image merlin:1."""
    with fake_engine() as running:
        yield running


def test_the_login_goes_with_the_push_and_nowhere_else(
    plane: ControlPlane, engine: FakeEngine, tmp_path: Path
) -> None:
    """Stdout has the line for CONFIG.toml alone; the name that was pushed is gone again."""
    done = push(plane, engine, tmp_path, "merlin:1", "--repository", "shop/merlin", "--tag", "7")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f'image = "{ECR}/shop/merlin@{DIGEST}"\n'
    (login,) = engine.logins
    assert login is not None
    assert login["username"] == "AWS"
    assert login["password"] not in done.stdout + done.stderr
    assert list(engine.names) == ["merlin:1"]
    assert not list((tmp_path / "docker").iterdir())
    (repository,) = plane.client("ecr").describe_repositories(repositoryNames=["shop/merlin"])[
        "repositories"
    ]
    assert repository["imageScanningConfiguration"] == {"scanOnPush": True}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"error": "dial tcp 10.0.0.1:443: connect: connection refused"}, "the push stopped"),
        ({"breaks": True}, "the Docker engine went away in the middle"),
    ],
    ids=["registry", "engine"],
)
def test_a_push_that_stops_is_finished_by_the_next_one(
    plane: ControlPlane,
    engine: FakeEngine,
    tmp_path: Path,
    fault: dict[str, object],
    said: str,
) -> None:
    """One sentence, and nothing is left on this machine; layers that are there are not sent."""
    engine.stop_after = 2
    for name, value in fault.items():
        setattr(engine, name, value)
    stopped = push(plane, engine, tmp_path, "merlin:1")
    assert stopped.returncode == 1
    assert said in stopped.stderr.splitlines()[-1]
    assert "Traceback" not in stopped.stderr
    assert list(engine.names) == ["merlin:1"]
    engine.stop_after, engine.error, engine.breaks = 3, None, False
    finished = push(plane, engine, tmp_path, "merlin:1")
    assert finished.returncode == 0, finished.stderr
    assert "3 of 3 layers, 1 MB; 2 were there before" in finished.stderr


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_ended_by_a_signal_it_leaves_nothing(
    plane: ControlPlane, engine: FakeEngine, tmp_path: Path, sent: signal.Signals
) -> None:
    """While a layer is on its way: the name is gone."""
    engine.stop_after, engine.hangs = 1, True
    with running(plane, engine, tmp_path, "merlin:1") as process:
        until(lambda: len(engine.there) == 1, "a layer is there")
        assert f"{ECR}/merlin:1" in engine.names
        process.send_signal(sent)
        _, said = process.communicate(timeout=RUN_TIMEOUT_S)
    assert process.returncode == 128 + sent
    last_line = "interrupted; layers that are there stay: the same command finishes it\n"
    assert said.endswith(last_line) == (sent == signal.SIGINT)
    assert "Traceback" not in said
    assert list(engine.names) == ["merlin:1"]


def test_a_name_that_another_image_has_is_its_own_again(
    plane: ControlPlane, engine: FakeEngine, tmp_path: Path
) -> None:
    """Also where the push fails; an image without a name of its own keeps the new one."""
    engine.add_image(f"{ECR}/merlin:1")
    before = dict(engine.names)
    engine.error = "denied: no"
    assert push(plane, engine, tmp_path, "merlin:1").returncode == 1
    assert engine.names == before


def test_ecrs_login_is_for_no_other_host(
    plane: ControlPlane, engine: FakeEngine, tmp_path: Path
) -> None:
    done = push(plane, engine, tmp_path, "merlin:1", "--registry", "127.0.0.1:5000")
    assert done.returncode == 0, done.stderr
    assert engine.logins == [None]
    assert done.stdout == f'image = "{ECR}/merlin@{DIGEST}"\n'


def test_a_dry_run_changes_nothing(plane: ControlPlane, engine: FakeEngine, tmp_path: Path) -> None:
    """What would be called is printed, as lines of the two commands."""
    done = push(plane, engine, tmp_path, "merlin:1", "--repository", "dry", "--dry-run")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("aws ecr create-repository ")
    assert lines[1].startswith("aws ecr get-login-password --region us-east-1 | docker login ")
    assert lines[2:] == [f"docker tag merlin:1 {ECR}/dry:1", f"docker push {ECR}/dry:1"]
    assert engine.logins == []
    names = plane.client("ecr").describe_repositories()["repositories"]
    assert "dry" not in [it["repositoryName"] for it in names]


def test_what_cannot_be_served_is_refused_before_anything_is_made(
    plane: ControlPlane, engine: FakeEngine, tmp_path: Path
) -> None:
    """No image, no label, no engine: one sentence each."""
    engine.add_image("plain:1")
    for image, said in (
        ("nothing:1", "error: the Docker engine has no image nothing:1"),
        ("plain:1", "error: plain:1 has no label com.amazonaws.sagemaker.capabilities.multi-"),
    ):
        refused = push(plane, engine, tmp_path, image, "--repository", "refused")
        assert refused.returncode == 1
        assert refused.stderr.startswith(said)
    engine.host = "unix:///nowhere.sock"
    refused = push(plane, engine, tmp_path, "merlin:1", "--repository", "refused")
    assert refused.stderr.startswith("error: no Docker engine answers at unix:///nowhere.sock")
    names = plane.client("ecr").describe_repositories()["repositories"]
    assert "refused" not in [it["repositoryName"] for it in names]


def push(
    plane: ControlPlane, engine: FakeEngine, folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """`python -m deploy push …`, to its end."""
    with running(plane, engine, folder, *arguments) as process:
        stdout, stderr = process.communicate(timeout=RUN_TIMEOUT_S)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


@contextlib.contextmanager
def running(
    plane: ControlPlane, engine: FakeEngine, folder: Path, *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """The same, while it runs; Docker's own settings are in folder/docker."""
    (folder / "docker").mkdir(exist_ok=True)
    settings = {"DOCKER_HOST": engine.host, "DOCKER_CONFIG": str(folder / "docker")}
    with subprocess.Popen(
        [sys.executable, "-m", "deploy", "push", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment(plane), **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
