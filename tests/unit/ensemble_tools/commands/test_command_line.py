"""`python -m ensemble_tools`: exit codes, misuse, and how it ends when nobody listens any more."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ensemble_tools import __main__ as command
from ensemble_tools.signals import INTERRUPTED, PIPE_CLOSED
from tests.support.signals import TRIES, as_in_front, until_it_heeds

ROOT = Path(__file__).parents[4]
DENSE = ROOT / "examples/merlin/dense/repository"
COMMANDS = ("explain", "rewrite", "pack")


@contextmanager
def started(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The program, as a shell in front starts it; it is over, and its pipes closed, at the end."""
    with as_in_front():
        running = subprocess.Popen(
            [sys.executable, "-m", "ensemble_tools", *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    with running:
        try:
            yield running
        finally:
            running.kill()


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("explain",), ("request",)])
def test_an_image_that_chooses_its_models_protobuf(arguments: tuple[str, ...]) -> None:
    """Its choice is for the models' protobuf; ours has no `cpp`, and is not to be slow."""
    choice = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "cpp"}
    with started(*arguments, str(DENSE), **choice) as running:
        answer, said = running.communicate(timeout=60)
    assert (running.returncode, said) == (0, b"")
    assert b"visits" in answer


def test_what_a_command_starts_inherits_the_choice() -> None:
    """Models that `verify` runs get the image's protobuf, as they do in the container."""
    script = (
        "from ensemble_tools.command_start import import_own_protobuf; import_own_protobuf();"
        "from google.protobuf.internal import api_implementation; import os;"
        "print(api_implementation.Type(), os.environ['PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION'])"
    )
    choice = {"PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, **choice},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["upb", "python"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["x"],
        *([name] for name in COMMANDS),
        ["explain", ".", "--format", "gif"],
        ["explain", ".", "--rewrite", "never"],
        ["explain", ".", "--compile", "never"],
        ["rewrite", str(DENSE), "somewhere", "--compile", "never"],
        ["pack", str(DENSE), "-o", "model.zip"],
        ["pack", str(DENSE), "-o", ".tar.gz"],
        ["pack", str(DENSE), "-o", "model.tar.gz", "--copies", "0"],
        ["pack", str(DENSE), "-o", "model.tar.gz", "--copies", "100001"],
        ["rewrite", str(DENSE), "somewhere", "--name", "a.b"],
        ["rewrite", str(DENSE), "somewhere", "--name", ""],
    ],
)
def test_misuse(arguments: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Misuse prints the usage, exits with 2 and makes nothing."""
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        with pytest.raises(SystemExit) as leaving:
            command.main(arguments)
    finally:
        os.chdir(before)
    assert leaving.value.code == command.MISUSED
    assert "usage: python -m ensemble_tools" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_another_commands_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The usage is that of the command, which says how it is called instead."""
    with pytest.raises(SystemExit) as leaving:
        command.main(["rewrite", str(DENSE), "-o", str(tmp_path / "shop")])
    assert leaving.value.code == command.MISUSED
    printed = capsys.readouterr().err
    assert " source dest\n" in printed
    assert printed.endswith("ensemble_tools rewrite: error: unrecognized arguments: -o\n")
    assert list(tmp_path.iterdir()) == []


def test_an_option_in_front_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """It is refused as none of the program's, although the command has it."""
    with pytest.raises(SystemExit):
        command.main(["--rewrite=auto", "explain", str(DENSE)])
    printed = capsys.readouterr().err
    assert printed.endswith("ensemble_tools: error: unrecognized arguments: --rewrite=auto\n")


@pytest.mark.parametrize("copies", ["x", "0", "-1", "1.5", "1_0", "", "9" * 5000, "100001"])
def test_copies_that_are_no_number(copies: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The option, what was found and what was expected are named."""
    with pytest.raises(SystemExit):
        command.main(["pack", str(DENSE), "-o", "model.tar.gz", f"--copies={copies}"])
    printed = capsys.readouterr().err
    assert f"--copies: found {copies!r}, expected a number from 1 to 100000" in printed


@pytest.mark.parametrize("name", COMMANDS)
def test_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """--help says what the command does, each option, and what its exit codes mean."""
    with pytest.raises(SystemExit) as leaving:
        command.main([name, "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert leaving.value.code == 0
    assert "Exit codes: 0 it can be served, 1 it cannot" in printed
    assert "2 misuse" in printed


@pytest.mark.slow
@pytest.mark.parametrize("name", ["explain", "rewrite", "verify"])
def test_help_on_compiled_workflows(name: str) -> None:
    """Each command that has --compile says what it does, and what is done without it."""
    with started(name, "--help") as running:
        out, _ = running.communicate(timeout=60)
    printed = " ".join(out.decode().split())
    assert running.returncode == 0
    assert "--compile {auto,off}" in printed
    assert "compiled" in printed.rpartition("--compile {auto,off}")[2]
    assert "(default: auto)" in printed.rpartition("--compile {auto,off}")[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "nothing-here"],
        ["explain", ".", "--model-name", "../x"],
        ["explain", str(DENSE / "executor_model/config.pbtxt")],
        ["rewrite", "nothing-here", "{tmp}/made"],
        ["rewrite", str(DENSE), "{tmp}/no/such/parent"],
        ["pack", "nothing-here", "-o", "{tmp}/a.tar.gz"],
        ["pack", str(DENSE), "-o", "{tmp}/no/such/a.tar.gz"],
        ["pack", str(DENSE), "-o", str(DENSE / "a.tar.gz")],
        ["explain", str(DENSE), "-o", "{tmp}"],
    ],
)
def test_error(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot even be looked at, or written to, is one line on stderr and exit code 1."""
    assert command.main([part.format(tmp=tmp_path) for part in arguments]) == command.REFUSED
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def packed(directory: Path, source: Path) -> Path:
    path = directory / "shop.tar.gz"
    subprocess.run(["tar", "-C", source, "-czf", path, "."], check=True)
    return path


@pytest.mark.parametrize("name", COMMANDS)
def test_packed_archive(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each command takes the archive itself; nothing of what it extracted stays."""
    more = {"explain": [], "rewrite": [str(tmp_path / "d")], "pack": ["-o", f"{tmp_path}/a.tgz"]}
    archive = packed(tmp_path, DENSE)
    before = {*Path(tempfile.gettempdir()).glob("archive-*")}
    assert command.main([name, str(archive), *more[name]]) == command.SERVED
    found = capsys.readouterr()
    assert "archive-" not in found.out + found.err
    assert found.out.startswith(f"archive      {archive}\n") or name != "explain"
    assert {*Path(tempfile.gettempdir()).glob("archive-*")} <= before


@pytest.mark.parametrize("name", COMMANDS)
def test_refused_packed_archive(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence names the archive, and not the directory that it is extracted to."""
    (tmp_path / "source/m/1").mkdir(parents=True)
    (tmp_path / "source/m/config.pbtxt").write_text('backend: "python"')
    archive = packed(tmp_path, tmp_path / "source")
    more = {"explain": [], "rewrite": [str(tmp_path / "d")], "pack": ["-o", f"{tmp_path}/a.tgz"]}
    assert command.main([name, str(archive), *more[name]]) == command.REFUSED
    found = capsys.readouterr()
    assert f"{archive}/m/" in found.out + found.err
    assert "archive-" not in found.out + found.err


def write_into(directory: Path, name: str) -> list[str]:
    """The arguments by which a command writes there; `request` writes nothing."""
    more = {"explain": ["-o", "x.png"], "rewrite": ["d"], "pack": ["-o", "a.tgz"]}
    return [word if word == "-o" else str(directory / word) for word in more.get(name, [])]


def list_names(directory: Path) -> set[Path]:
    return {path.relative_to(directory) for path in directory.rglob("*")}


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0.0, 0.02, 0.1, 0.2, 0.3, 0.4])
@pytest.mark.parametrize("name", [*COMMANDS, "request"])
def test_interrupted_at_any_time(name: str, moment: float, tmp_path: Path) -> None:
    """Ctrl-C while it imports and while it works: quiet, exit code 130, all is there or nothing."""
    codes = []
    for number in range(TRIES):  # who sends it may be kept waiting until all is done
        codes.append(_interrupt(name, moment, tmp_path / str(number)))
        if codes[-1] == INTERRUPTED or moment >= 0.2:
            break
    assert {*codes} <= {INTERRUPTED, command.SERVED}
    assert INTERRUPTED in codes or moment >= 0.2


def _interrupt(name: str, moment: float, folder: Path) -> int:
    source, made, complete = (folder / part for part in ("source", "made", "complete"))
    for directory in (source, made, complete):
        directory.mkdir(parents=True)
    archive = packed(source, DENSE)
    with started(name, str(archive), *write_into(made, name), TMPDIR=str(source)) as running:
        until_it_heeds(running)
        time.sleep(moment)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=60)
    assert err == b""
    if running.returncode == command.SERVED or any(made.iterdir()):  # it has its name by then
        assert command.main([name, str(archive), *write_into(complete, name)]) == command.SERVED
        assert list_names(made) == list_names(complete)
    assert list(source.iterdir()) == [archive]
    return running.returncode


def test_as_a_program() -> None:
    """It runs, and nothing is on stderr."""
    with started("explain", str(DENSE)) as running:
        out, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (command.SERVED, b"")
    assert out.startswith(b"archive ")


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("ensemble_tools", "explain", str(DENSE)), ("container", "settings")]
)
def test_nobody_listens(command: tuple[str, ...]) -> None:
    """A reader that goes away (`| head`) ends it quietly, with the shell's number for SIGPIPE."""
    reading, writing = os.pipe()
    os.close(reading)
    running = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert (running.returncode, running.stderr) == (PIPE_CLOSED, b"")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, INTERRUPTED), (signal.SIGTERM, 128 + signal.SIGTERM)]
)
def test_interrupted(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """Ctrl-C and SIGTERM in the middle leave nothing behind, and no traceback."""
    source, destination = tmp_path / "source", tmp_path / "made"
    (source / "m/1").mkdir(parents=True)
    destination.mkdir()
    (source / "m/config.pbtxt").write_text('backend: "python"')
    with (source / "m/1/model.py").open("wb") as file:
        file.truncate(20 * 2**30)  # a hole: minutes of work, no space
    with started("pack", str(source), "-o", str(destination / "a.tar.gz"), "--no-check") as running:
        until = time.monotonic() + 60
        while not list(destination.iterdir()):
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < until, "nothing is packed"
            time.sleep(0.01)
        running.send_signal(number)
        _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (code, b"")
    assert list(destination.iterdir()) == []


@pytest.mark.slow
def test_a_job_in_the_background_is_not_interrupted() -> None:
    """A shell has it ignore SIGINT, which is meant for the job in front."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        command_line = [sys.executable, "-m", "ensemble_tools", "explain", str(DENSE)]
        running = subprocess.Popen(command_line, cwd=ROOT, stdout=subprocess.DEVNULL)
    finally:
        signal.signal(signal.SIGINT, before)
    until_it_heeds(running)
    running.send_signal(signal.SIGINT)
    assert running.wait(60) == command.SERVED


@pytest.mark.slow
def test_bars_cost_nothing_until_they_are_drawn() -> None:
    """Neither the server's package nor the commands import tqdm before they draw a bar."""
    probe = "import sys, ensemble_tools, ensemble_tools.__main__; print('tqdm' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", probe],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert result.stdout.strip() == "False"


@pytest.mark.slow
def test_progress_on_a_terminal(tmp_path: Path) -> None:
    """A terminal sees a bar while it is packed; on stdout are the sizes alone."""
    leading, following = pty.openpty()
    fcntl.ioctl(following, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "TQDM_DISABLE"}
    running = subprocess.run(
        [sys.executable, "-m", "ensemble_tools", "pack", str(DENSE), "-o", str(tmp_path / "a.tgz")],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=following,
        timeout=60,
        check=True,
    )
    os.set_blocking(leading, False)
    seen = os.read(leading, 65536)
    os.close(following)
    os.close(leading)
    assert b"packing" in seen
    assert b"packing" not in running.stdout


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["svg", "png"])
def test_without_graphviz(chosen: str, tmp_path: Path) -> None:
    """No image carries it: one sentence, and nothing is written."""
    result = _draw(chosen, tmp_path)
    assert result.returncode == 1
    assert "pictures are drawn by Graphviz, and there is no `dot` on the PATH" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_graphviz_that_fails(tmp_path: Path) -> None:
    """Its own words are said, in one line, with what needs none of it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "dot").write_text("#!/bin/sh\ncat > /dev/null; echo 'no plugin' >&2; exit 1\n")
    (programs / "dot").chmod(0o755)
    result = _draw("svg", tmp_path, f"{programs}:/bin")
    assert result.returncode == 1
    assert result.stderr.endswith(
        "Graphviz's `dot`: no plugin; use --format text, json or mermaid\n"
    )
    assert list(tmp_path.iterdir()) == [programs]


def _draw(chosen: str, directory: Path, path: str = "") -> subprocess.CompletedProcess[str]:
    picture = str(directory / f"picture.{chosen}")
    return subprocess.run(
        [sys.executable, "-m", "ensemble_tools", "explain", str(DENSE), "-o", picture],
        cwd=ROOT,
        env={**os.environ, "PATH": path or str(directory)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "words", "program", "extra"),
    [
        ("ensemble_tools", ("explain", "x"), "python -m ensemble_tools", "tools"),
        ("verification", ("x",), "python -m ensemble_tools verify", "tools"),
        ("verification.request_command", ("x",), "python -m ensemble_tools request", "tools"),
        ("verification.compare_command", ("x",), "python -m ensemble_tools compare", "tools"),
        ("container", ("serve",), "python -m container", "server"),
    ],
)
def test_a_python_without_the_packages(
    module: str, words: tuple[str, ...], program: str, extra: str
) -> None:
    """A sentence that names the package, the Python, and how it is installed; exit code 1."""
    bare = [sys.executable, "-S", "-m", module, *words]
    ended = subprocess.run(bare, cwd=ROOT, capture_output=True, text=True, timeout=60)
    (line,) = ended.stderr.splitlines()
    assert ended.returncode == 1
    assert line.startswith(f"{program}: the Python package '")
    assert f"is not installed for {sys.executable}; in a checkout `make setup`" in line
    assert line.endswith(f"pip install '.[{extra}]'")
