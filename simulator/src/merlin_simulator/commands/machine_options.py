"""The options that say where the instances of `python -m simulator serve` run."""

from __future__ import annotations

import argparse
import re

from merlin_simulator.commands.up_options import read_duration

HERE, DOCKER = "this-machine", "docker"
_PULL_S = 1800.0


def add_machine_options(group: argparse._ArgumentGroup) -> None:
    """Where instances run; see machines.py."""
    group.add_argument(
        "--instances-on",
        choices=[HERE, DOCKER],
        default=HERE,
        help=f"{HERE}: containers are processes of this project, whatever Image says (default). "
        f"{DOCKER}: containers of the Docker engine of this machine (DOCKER_HOST, or "
        "/var/run/docker.sock), made of the model's Image, with the memory of their instance "
        "type; an image that the engine does not have is pulled. All of them are removed at the "
        "end; those of a simulator that was killed, at the next start",
    )
    group.add_argument(
        "--container",
        metavar="COMMAND",
        help="the processes' command; {port} and {models} in it are filled in (default: this "
        "project's own, python -m container serve)",
    )
    group.add_argument(
        "--registry",
        type=_read_registry,
        metavar="HOST:PORT",
        help=f"with {DOCKER}: where images of ECR are pulled from, so that "
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/NAME:TAG is HOST:PORT/NAME:TAG, unless the "
        "engine has one of the long name; 127.0.0.1:5000, a registry of this machine, needs no "
        "TLS; ECR's calls about images tell what it has (default: ECR itself, with what docker "
        "login has kept)",
    )
    group.add_argument(
        "--pull-timeout",
        type=read_duration,
        default=_PULL_S,
        metavar="SECONDS",
        help=f"with {DOCKER}: how long an image may be pulled ({_PULL_S:g})",
    )


def _read_registry(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9a-f:]+\]:\d{1,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected HOST:PORT, as 127.0.0.1:5000")
    return text
