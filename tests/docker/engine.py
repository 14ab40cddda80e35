"""A Docker engine for the tests: the one that is there, or one started by hand as root.

Standard library only, so that CI can start it before anything is installed:

    python3 -m tests.docker.engine

prints DOCKER_HOST=... once the engine answers, and ends it, with all it made, on SIGTERM.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

#: A start is 2 s; the first one on a machine loads kernel modules.
START_TIMEOUT_S = 180.0
#: dockerd gives the containers that still run 15 s.
STOP_TIMEOUT_S = 120.0
ASK_TIMEOUT_S = 120.0
LOOK_S = 0.1

#: linux/sockios.h: to add, remove and switch off a bridge.
_SIOCBRADDBR, _SIOCBRDELBR, _SIOCSIFFLAGS = 0x89A0, 0x89A1, 0x8914
_INTERFACE_NAME = 15  # IFNAMSIZ less the closing 0
_BRIDGED = (
    "FORWARD",
    "--match",
    "physdev",
    "--physdev-is-bridged",
    "--match",
    "comment",
    "--comment",
    f"merlin-tests-{os.getpid()}",
    "--jump",
    "ACCEPT",
)

REMEDY = (
    "start Docker, or set DOCKER_HOST, or run as root with dockerd installed "
    "(apt-get install docker.io docker-compose docker-registry debootstrap)"
)


class NoEngine(Exception):
    """No engine answers and none can be started; the message says what to do."""


@contextlib.contextmanager
def running_engine() -> Iterator[str]:
    """The address of an engine that answers; one that was started here is gone afterwards."""
    if shutil.which("docker") is None:
        raise NoEngine(f"the command docker is not there; {REMEDY}")
    found = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    if answers(found):
        yield found
        return
    if os.environ.get("DOCKER_HOST"):
        raise NoEngine(f"DOCKER_HOST is {found} and no engine answers there; {REMEDY}")
    with _started() as host:
        yield host


def answers(host: str) -> bool:
    """Whether an engine is there and lets us use it."""
    asked = docker(host, "version", "--format", "{{.Server.Version}}", check=False)
    return asked.returncode == 0


def docker(host: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """A short command of Docker's command line."""
    return subprocess.run(
        ["docker", "--host", host, *arguments],
        check=check,
        capture_output=True,
        text=True,
        timeout=ASK_TIMEOUT_S,
    )


@contextlib.contextmanager
def _started() -> Iterator[str]:
    program = shutil.which("dockerd")
    if program is None or os.geteuid() != 0:
        found = "dockerd is not installed" if program is None else "only root may start one"
        raise NoEngine(f"no Docker engine answers, and {found}; {REMEDY}")
    # A socket's path has at most 107 characters (unix(7)), so pytest's own folders are too deep.
    directory = Path(tempfile.mkdtemp(prefix="dockerd-"))
    with _bridge() as bridge, _bridged_traffic():
        process = _start(program, directory, bridge)
        host = f"unix://{directory}/docker.sock"
        try:
            _until_it_answers(process, host, directory / "log")
            yield host
        finally:
            _clear(host)
            _end(process)
            _remove(directory)


def _start(program: str, directory: Path, bridge: str) -> subprocess.Popen[bytes]:
    """Ports are published by its proxy process; nothing is forwarded to or from the outside."""
    command = (
        program,
        "--data-root",
        directory / "data",
        "--exec-root",
        directory / "exec",
        "--pidfile",
        directory / "pid",
        "--host",
        f"unix://{directory}/docker.sock",
        "--bridge",
        bridge,
        "--iptables=false",
        "--ip-forward=false",
    )
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def _until_it_answers(process: subprocess.Popen[bytes], host: str, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if answers(host):
            return
        time.sleep(LOOK_S)
    last = log.read_text(errors="replace")[-3000:]
    raise NoEngine(f"dockerd (as root) did not come up; its log ends with:\n{last}")


def _clear(host: str) -> None:
    """Containers and networks, so that their mounts and bridges go with them."""
    containers = docker(host, "ps", "--all", "--quiet", check=False).stdout.split()
    if containers:
        docker(host, "rm", "--force", "--volumes", *containers, check=False)
    docker(host, "network", "prune", "--force", check=False)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its containerd, too
        process.wait(STOP_TIMEOUT_S)


def _remove(directory: Path) -> None:
    for line in reversed(Path("/proc/mounts").read_text().splitlines()):
        mounted = line.split()[1]
        if mounted.startswith(f"{directory}/"):
            subprocess.run(["umount", "--lazy", mounted], check=False, timeout=ASK_TIMEOUT_S)
    shutil.rmtree(directory)


# -- the network: beside other engines, whose docker0 and packet filter are left as they are


@contextlib.contextmanager
def _bridge() -> Iterator[str]:
    """A bridge of our own for the default network; dockerd gives it an address."""
    name = f"merlin{os.getpid()}"[:_INTERFACE_NAME]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        fcntl.ioctl(asked, _SIOCBRADDBR, name.encode() + b"\0")
        try:
            yield name
        finally:
            _set_down(asked, name)
            fcntl.ioctl(asked, _SIOCBRDELBR, name.encode() + b"\0")


def _set_down(asked: socket.socket, name: str) -> None:
    """Clears IFF_UP: only a bridge that is down may go."""
    request = struct.pack("16sH14x", name.encode(), 0)
    fcntl.ioctl(asked, _SIOCSIFFLAGS, request)


@contextlib.contextmanager
def _bridged_traffic() -> Iterator[None]:
    """Containers of one network reach each other, even where a firewall forwards nothing."""
    _iptables("--insert", *_BRIDGED)
    try:
        yield
    finally:
        _iptables("--delete", *_BRIDGED)


def _iptables(*arguments: str) -> None:
    """Without iptables, or without its module for bridges, there is no such firewall."""
    if shutil.which("iptables"):
        subprocess.run(
            ["iptables", "--wait", *arguments],
            check=False,
            capture_output=True,
            timeout=ASK_TIMEOUT_S,
        )


def main() -> int:
    """Run an engine until SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        with running_engine() as host:
            print(f"DOCKER_HOST={host}", flush=True)
            stop.wait()
    except NoEngine as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
