"""`python -m deploy` as a process of its own, on a control plane of the tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from simulator.tests.support.control_plane import IMAGE, ROLE, ControlPlane
from simulator.tests.support.simulator import fake_model
from tests.support.container import ROOT, until

RUN_TIMEOUT_S = 120


def deploy(
    plane: ControlPlane,
    *arguments: str | Path,
    code: int = 0,
    host: str | None = None,
    timeout_s: float = RUN_TIMEOUT_S,
) -> str:
    """What it says, on both of its outputs; it ends with this code. host: of a Docker engine."""
    done = subprocess.run(
        _command(arguments),
        cwd=ROOT,
        env=environment(plane, host),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
    )
    assert done.returncode == code, done.stdout
    return done.stdout


def meddle(
    plane: ControlPlane,
    *arguments: str | Path,
    log: Path,
    when: Callable[[], bool],
    act: Callable[[subprocess.Popen[bytes]], object],
    host: str | None = None,
) -> int:
    """Do something to a command, or to what it works with, when it is time; its exit code.

    log: gets what it says, while it runs.
    """
    with log.open("wb") as file:
        process = subprocess.Popen(
            _command(arguments),
            cwd=ROOT,
            env=environment(plane, host),
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: when() or process.poll() is not None, f"it is time; {log} has what it says")
        assert process.poll() is None, f"it ended too soon:\n{log.read_text()}"
        act(process)
        return process.wait(RUN_TIMEOUT_S)
    finally:
        process.kill()
        process.wait()


def interrupt(process: subprocess.Popen[bytes]) -> None:
    """Press Ctrl-C."""
    process.send_signal(signal.SIGINT)


def _command(arguments: Sequence[str | Path]) -> list[str]:
    return [sys.executable, "-m", "deploy", *map(str, arguments)]


def environment(plane: ControlPlane, host: str | None = None) -> dict[str, str]:
    """The environment of a caller for whom the control plane is AWS. host: a Docker engine's."""
    return {
        **os.environ,
        **({} if host is None else {"DOCKER_HOST": host}),
        "AWS_ENDPOINT_URL": plane.url,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_DEFAULT_REGION": "us-east-1",
    }


def put_archive(plane: ControlPlane, folder: Path, name: str, **model: Any) -> str:
    """An archive for the fake container as `put` keeps it, called shop-a; its target model."""
    s3, target = plane.client("s3"), "shop-a/0123.tar.gz"
    path = fake_model(folder, "shop-a.tar.gz", **model)
    s3.upload_file(str(path), "models", f"{name}/archives/{target}")
    table = {"version": 1, "aliases": {"shop-a": [target]}}
    s3.put_object(Bucket="models", Key=f"{name}/aliases.json", Body=json.dumps(table))
    return target


def write_config(folder: Path, name: str, more: str = "", **endpoint: str) -> Path:
    """A CONFIG.toml of an endpoint; more: sections, which may be [instances] anew."""
    given = {
        "name": name,
        "image": IMAGE,
        "archives": f"s3://models/{name}/",
        "role": ROLE,
        **endpoint,
    }
    lines = ["[endpoint]", *(f'{key} = "{value}"' for key, value in given.items())]
    if "[instances]" not in more:
        lines += ["[instances]", 'type = "ml.c5.xlarge"']
    path = folder / f"{name}.toml"
    path.write_text("\n".join([*lines, more, ""]))
    return path
