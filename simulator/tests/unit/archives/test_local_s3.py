"""A local S3 that an unmodified boto3 can use, filled before it says so, and gone on SIGTERM."""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from merlin_simulator.archives.local_s3 import (
    READY_PATH,
    fill,
    make_bucket,
    make_local_client,
    run_local_s3,
)
from merlin_simulator.commands.s3 import add_parser
from merlin_simulator.errors import PlatformFailed
from simulator.tests.support.environment import environment_of_ours

pytestmark = pytest.mark.slow

#: The command as __main__.py calls it.
MAIN = """
import argparse, sys
from merlin_simulator.commands.s3 import add_parser
parser = argparse.ArgumentParser("simulator")
add_parser(parser.add_subparsers())
options = parser.parse_args()
sys.exit(options.run(options))
"""


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """Two archives, one of them in two parts and in a sub-folder, and a file that is none."""
    folder = tmp_path / "archives"
    (folder / "b").mkdir(parents=True)
    (folder / "a.tar.gz").write_bytes(b"a" * 10)
    (folder / "b" / "é c.tar.gz").write_bytes(os.urandom(9_000_000))  # two parts
    (folder / "README").write_bytes(b"no archive")
    return folder


class Running:
    """The s3 command as a process of its own; its lines are read from its pipe."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, "s3", *arguments],
            env=environment_of_ours(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()

    def end(self, number: int) -> tuple[int, str]:
        """Exit status, and what stood on stderr."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors


@pytest.fixture
def running(archives: Path) -> Iterator[Running]:
    """The command on a free port, filled from the folder below a prefix."""
    command = Running(
        "--port", "0", "--bucket", "models", "--fill", str(archives), "--prefix", "p/q/"
    )
    yield command
    if command.process.poll() is None:
        command.end(signal.SIGKILL)


def test_the_command_fills_its_bucket_says_so_and_ends_on_sigterm(
    running: Running, archives: Path
) -> None:
    """Progress per archive, the url, ready; what boto3 gets is what was put; exit 0 in time."""
    url = running.line().split()[3]
    said = [running.line() for _ in range(3)]
    assert [line.split(": ")[1].split(" (")[0] for line in said[:2]] == [
        "p/q/a.tar.gz",
        "p/q/b/é c.tar.gz",
    ]
    assert said[2].startswith("local S3 ready: s3://models/p/q/")
    assert status(url + READY_PATH) == 200
    got = make_local_client(url).get_object(Bucket="models", Key="p/q/b/é c.tar.gz")["Body"]
    assert got.read() == (archives / "b" / "é c.tar.gz").read_bytes()
    got.close()
    assert running.end(signal.SIGTERM) == (0, "")


def test_the_command_ends_in_the_middle_of_filling(tmp_path: Path) -> None:
    """SIGTERM and Ctrl-C are heard while archives are put, and while a caller hangs."""
    for number in (signal.SIGTERM, signal.SIGINT):
        folder = tmp_path / str(number)
        folder.mkdir()
        for i in range(2000):
            # Its lines are more than a pipe holds that nobody reads: it does not come to its end.
            (folder / f"{'x' * 40}-{i}.tar.gz").write_bytes(b"x")
        command = Running("--port", "0", "--bucket", "models", "--fill", str(folder))
        url = command.line().split()[3]
        command.line()
        assert status(url + READY_PATH) == 503
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=60) as hanging:
            hanging.sendall(b"PUT /models/x HTTP/1.1\r\nContent-Length: 99\r\n\r\n")
            assert command.end(number) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--port", "0", "--bucket", "no"], "No bucket 'no' can be made"),
        (["--port", "0", "--bucket", "models", "--fill", "/none"], "no folder /none"),
        (["--port", "70000", "--bucket", "models"], "cannot listen on 127.0.0.1:70000"),
        (
            ["--port", "0", "--host", "192.0.2.1", "--bucket", "models"],
            "cannot listen on 192.0.2.1",
        ),
    ],
)
def test_what_cannot_start_says_why_in_one_line(arguments: list[str], found: str) -> None:
    """Exit 1, and no traceback."""
    command = Running(*arguments)
    _, errors = command.process.communicate(timeout=60)
    assert command.process.returncode == 1
    assert found in errors
    assert errors.count("\n") == 1


def test_a_taken_port_is_told() -> None:
    """werkzeug alone would end the process."""
    with (
        run_local_s3() as url,
        pytest.raises(PlatformFailed, match=r"in use.*name another port"),
        run_local_s3(port=int(url.rsplit(":", 1)[1])),
    ):
        pass


def test_ready_is_told_once_it_is_filled() -> None:
    """The health check's path: 503, then 200; without an event 200 at once."""
    filled = threading.Event()
    with run_local_s3(filled=filled) as url:
        assert status(url + READY_PATH) == 503
        filled.set()
        assert status(url + READY_PATH) == 200
    with run_local_s3() as url:
        assert status(url + READY_PATH) == 200


def test_each_server_starts_empty(archives: Path) -> None:
    """What one held is gone with it."""
    for _ in range(2):
        with run_local_s3() as url:
            assert make_local_client(url).list_buckets()["Buckets"] == []
            assert [key for key, _ in fill(url, "models", archives)] == [
                "a.tar.gz",
                "b/é c.tar.gz",
            ]


def test_hosts_with_dots_do_not_name_buckets() -> None:
    """In docker compose the server is reached as s3, or as local.s3 with an alias."""
    with run_local_s3("0.0.0.0") as url:
        make_bucket(url, "models")
        for host in ("s3:9000", "local.s3.internal:9000"):
            request = urllib.request.Request(f"{url}/models?list-type=2", headers={"Host": host})
            with urllib.request.urlopen(request, timeout=60) as response:
                assert b"<Name>models</Name>" in response.read()


def test_web_pages_and_other_hosts_are_refused() -> None:
    """Whoever may write an archive has its code run."""
    with run_local_s3(public_url="http://store.example") as url:
        make_bucket(url, "models")
        asked = (
            ({"Origin": "http://evil.example"}, 403),
            ({"Origin": "null"}, 403),
            ({"Sec-Fetch-Site": "same-site"}, 403),
            ({"Host": "evil.example:9000"}, 403),
            ({"Host": "s3:9000"}, 403),
            ({"Host": "store.example"}, 200),
            ({"Origin": url}, 200),
        )
        for headers, expected in asked:
            answer = httpx.put(f"{url}/models/x", headers=headers, content=b"x", timeout=60)
            assert answer.status_code == expected, headers
            assert "access-control-allow-origin" not in answer.headers


def test_an_ipv6_address_is_listened_on() -> None:
    """Its url has the brackets."""
    with run_local_s3(host="::1") as url:
        assert url.startswith("http://[::1]:")
        assert status(url + READY_PATH) == 200


def test_help_suffices(capsys: pytest.CaptureFixture[str]) -> None:
    """Every option, the health check, how it ends, and an example."""
    parser = argparse.ArgumentParser("simulator")
    add_parser(parser.add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["s3", "--help"])
    text = capsys.readouterr().out
    for word in ("--host", "--port", "--bucket", "--fill", "--prefix", READY_PATH, "SIGTERM"):
        assert word in text
