"""deploy/docs/deploy.md's session is run as it stands, and says what the page says that it says."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.container import ROOT, STOP_TIMEOUT_S

PAGE = ROOT / "deploy/docs/deploy.md"
#: The sections that are one session: from the start of the control plane to its end, and after it.
SECTIONS = (
    "Try it here",
    "One request: `invoke`",
    "What it does now: `status`",
    "What is new, and back: `put`, `up`, `rollback`",
    "The end: `down`",
    "The least rights",
)
#: The page's own, which may be taken here.
PORT, FOLDER = "8090", "/tmp/"
SESSION_TIMEOUT_S = 500
#: After each command, with its exit code; no command writes it.
MARK = "\\n=====%s\\n"
#: In the place of a line's end that a command goes on after.
CONTINUED = "\0"


@dataclass(frozen=True)
class Command:
    """One of the page, and the lines of its output that the page shows; … stands for others."""

    line: str
    shown: tuple[str, ...]


def commands_of(page: str) -> Iterator[Command]:
    """Of the session's blocks, in their order."""
    for heading in SECTIONS:
        section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        for block in re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                line, _, shown = part.replace("\\\n", CONTINUED).partition("\n")
                yield Command(line.replace(CONTINUED, "\\\n"), tuple(shown.splitlines()))


def run(commands: list[Command], folder: Path) -> list[str]:
    """What each of them says, in one shell, on both of its outputs. Each ends with 0."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    # The control plane ends its containers, wherever the shell stops.
    script = "trap 'kill $(jobs -p) 2> /dev/null; wait' EXIT\n"
    script += "".join(f"{command.line}\nprintf '{MARK}' $?\n" for command in commands)
    script = script.replace(PORT, port).replace(FOLDER, f"{folder}/")
    shell = subprocess.Popen(
        ["bash", "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = shell.communicate(timeout=SESSION_TIMEOUT_S)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGTERM)
            shell.wait(STOP_TIMEOUT_S)
    parts = re.split(r"\n=====(\d+)\n", output.replace(f"{folder}/", FOLDER))
    assert set(parts[1::2]) == {"0"}, output
    return parts[:-1:2]


def masked(line: str) -> str:
    """Without what is another at each run: times, amounts, alarms, and names that are made up.

    Digests of content stay.
    """
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d|\b[0-9a-f]{32}\b|OK|INSUFFICIENT_DATA", "#", line)
    return " ".join(re.sub(r"(?<![\w./-])\d[\d.]*( m?s\b| min\b)?", "#", line).split())


def check_shown(command: Command, output: str) -> None:
    """The page's lines stand there in their order; … at an end stands for the rest of a line."""
    left = iter(output.splitlines())
    for line in command.shown:
        if line == "…":
            continue
        expected = masked(line.removesuffix("…"))
        whole = not line.endswith("…")
        for found in left:
            if masked(found) == expected or (not whole and masked(found).startswith(expected)):
                break
        else:
            raise AssertionError(f"{line!r} is not said by {command.line}:\n{output}")


@pytest.mark.timeout(SESSION_TIMEOUT_S + STOP_TIMEOUT_S)
def test_session_says_what_the_page_shows(tmp_path: Path) -> None:
    """Every line that is shown is said; digests of content are those of the page."""
    commands = list(commands_of(PAGE.read_text()))
    assert [it.line.split()[3] for it in commands if " deploy " in it.line] == [
        *("example", "put", "put", "up", "invoke", "invoke", "invoke", "status"),
        *("put", "rollback", "archives", "archives", "up", "rollback", "down"),
        *["policy"] * 4,
    ]
    for command, output in zip(commands, run(commands, tmp_path), strict=True):
        check_shown(command, output)
