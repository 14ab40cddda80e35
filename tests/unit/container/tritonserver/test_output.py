"""What tritonserver and its models print, on its way into the log."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from container.logs.setup import LogFormat
from container.logs.sink import Sink
from container.logs.text_lines import MARK
from container.tritonserver.named_models import NamedModels
from container.tritonserver.output import LINE_MAX, TritonOutput
from tests.unit.container.conftest import Stage, running, until

WAIT_S = 60.0
PRINTING = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        print("printed", flush=True)
        pb_utils.Logger.log_warn("logged")

    def execute(self, requests):
        return [pb_utils.InferenceResponse([]) for _ in requests]
"""
CONFIG = """
backend: "python"
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
instance_group { kind: KIND_CPU }
"""


class Logged:
    """A log in a file, and outputs that go there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("wb")
        self.sink = Sink(self.file.fileno())
        self.outputs: list[TritonOutput] = []

    def output(self, log_format: LogFormat = "text", **how: int) -> TritonOutput:
        self.outputs.append(TritonOutput(self.sink, log_format, **how))
        return self.outputs[-1]

    def read(self) -> bytes:
        """All that was printed so far; a last line without an end has got one."""
        for output in self.outputs:
            output.drain()
        assert self.sink.flush(WAIT_S)
        return self.path.read_bytes()

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read().splitlines()]

    def close(self) -> None:
        for output in self.outputs:
            output.close()
        self.sink.close()
        assert self.sink.flush(WAIT_S)
        self.file.close()


@pytest.fixture
def logged(tmp_path: Path) -> Iterator[Logged]:
    logged = Logged(tmp_path / "log")
    yield logged
    logged.close()


def test_each_line_has_a_mark(logged: Logged) -> None:
    """As text: whatever they are, and however they come."""
    output = logged.output()
    pieces = [b"a", b"b\nc\n", b"\xff\x00\r\n", b"\n\n", "é\td\n".encode()]
    for piece in pieces:
        os.write(output.descriptor, piece)
        time.sleep(0.002)  # they are read one by one, or not
    assert logged.read() == "| ab\n| c\n| \\xff\\x00\n| \n| \n| é\td\n".encode()


def test_what_its_library_says_of_a_unix_socket(logged: Logged) -> None:
    """It is dropped: as it stands in the output of 2.51, with colours, between two other lines."""
    said = (
        b"[\x1b[1;33mWARN\x1b[0;39m]  \x1b[33mevhtp.c:4050     \x1b[39m\x1b[94mNODELAY NOT "
        b"SUPPORTED\x1b[39m :: \x1b[35m(errno: Operation not supported)\x1b[39m\n"
    )
    os.write(logged.output().descriptor, b"a\n" + said + b"b: NODELAY NOT SUPPORTED\n" + said)
    assert logged.read() == b"| a\n| b: NODELAY NOT SUPPORTED\n"


FORGED = "2026-01-01T00:00:00.000Z INFO stopped signal=SIGTERM"


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"x\n",
        b"x\r",
        b"x\r\n",
        b"\r\r\n",
        b"\x1b[2K\x1b[1G",
        b"\x9b2K\x9b1G",
        "\x9b2K".encode(),
        b"\x08\x08",
        b"\x0b",
        b"\x0c",
        b"\x1c\x1d\x1e",
        b"\x85",
        "\x85".encode(),
        "\u2028".encode(),
        "\u2029".encode(),
        b"\xe2\x80",
        b"\x00",
        b"y" * (LINE_MAX - 1) + b"\n",
        b"y" * LINE_MAX,
        b"y" * LINE_MAX + b"\n",
        b"y" * (LINE_MAX + 1) + b"\n",
        b'| \n{"source":"container"}\n',
    ],
)
def test_what_models_print_is_no_line_of_ours(
    before: bytes, log_format: LogFormat, logged: Logged
) -> None:
    """For whoever splits the log into lines, and on a terminal."""
    output = logged.output(log_format)
    os.write(output.descriptor, before + FORGED.encode() + b"\n")
    shown = logged.read().decode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]", shown)
    for line in shown.splitlines():
        if log_format == "text":
            assert line.startswith(MARK)
        else:
            assert json.loads(line)["source"] == "model"


def test_a_last_line_without_an_end(logged: Logged) -> None:
    """It is written out when its printer has ended, and the next life's lines stand below it."""
    output = logged.output()
    os.write(output.descriptor, b"one\ntw")
    assert logged.read() == b"| one\n| tw\n"
    os.write(output.descriptor, b"three\n")
    assert logged.read() == b"| one\n| tw\n| three\n"


@pytest.mark.parametrize("size", [LINE_MAX, LINE_MAX + 1, LINE_MAX * 2, LINE_MAX * 5 + 7])
def test_long_lines_are_cut(size: int, logged: Logged) -> None:
    """Those next to them are whole; one that ends nowhere is cut as well."""
    output = logged.output()
    text = b"before\n" + b"x" * size + b"\nafter\n" + b"y" * size
    assert os.write(output.descriptor, text) == len(text)
    lines = logged.read().splitlines()
    cut = b"..." if size > LINE_MAX else b""
    assert lines == [
        b"| before",
        b"| " + b"x" * min(size, LINE_MAX) + cut,
        b"| after",
        b"| " + b"y" * min(size, LINE_MAX) + cut,
    ]


def test_lines_of_several_writers_stay_whole(logged: Logged) -> None:
    """Ours stand between them, never inside of one."""
    output = logged.output()
    begun, done = threading.Event(), threading.Event()

    def print_all() -> None:
        for number in range(2000):
            if number == 1000:  # however late the other one comes
                begun.wait(WAIT_S)
            os.write(output.descriptor, b"theirs %d" % number)
            os.write(output.descriptor, b" ends\n")
        done.set()

    threading.Thread(target=print_all, daemon=True).start()
    while not done.is_set():
        logged.sink.put(b"ours\n")
        begun.set()
        time.sleep(0.0005)
    lines = logged.read().splitlines()
    theirs = [b"| theirs %d ends" % number for number in range(2000)]
    assert [line for line in lines if line != b"ours"] == theirs
    assert b"ours" in lines


def test_a_flood_of_what_is_to_be_escaped(logged: Logged) -> None:
    """Is dropped beyond a bound, and counted; plain lines beside it are all there."""
    output = logged.output(lines_per_s=1)
    flood = (b"\x1b" * 499 + b"\n") * 8  # read at once
    os.write(output.descriptor, flood)
    logged.read()
    os.write(output.descriptor, flood + flood)
    logged.read()
    os.write(output.descriptor, b"plain\n" * 5)
    lines = logged.read().splitlines()
    assert lines.count(b"| " + b"\\x1b" * 499) == 8
    assert lines.count(b"| plain") == 5
    assert logged.sink.dropped == 16


def test_as_json(logged: Logged) -> None:
    """One object for each line that says something; bytes that are no text are shown."""
    output = logged.output("json")
    output.name_models(lambda words, printed: "" if printed else "m")
    os.write(
        output.descriptor, b'I1123 05:22:23.1 1 a.cc:7] "say \\"it\\""\n\nprinted \xff\r\nlast'
    )
    found = logged.objects()
    assert [list(line) for line in found] == [
        ["time", "level", "source", "logger", "message", "model"],
        ["time", "level", "source", "message"],
        ["time", "level", "source", "message"],
    ]
    assert [(line["source"], line["message"]) for line in found] == [
        ("tritonserver", 'say "it"'),
        ("model", "printed \\xff"),
        ("model", "last"),
    ]
    assert (found[0]["logger"], found[0]["model"]) == ("a.cc:7", "m")


def test_too_many_lines_a_second(logged: Logged) -> None:
    """As JSON they would take the time of requests: what is more is dropped and counted."""
    logged.sink.notice = lambda lost, _: b'{"dropped":%d}\n' % lost
    output = logged.output("json", lines_per_s=100)
    for _ in range(50):
        os.write(output.descriptor, b"printed\n" * 100)
        time.sleep(0.001)
    os.write(output.descriptor, b"last\n" * 5000)
    found = logged.objects()
    logged.sink.put(b'{"end":1}\n')
    found = logged.objects()
    kept = sum("message" in line for line in found)
    assert 100 <= kept < 10_000
    assert kept + logged.sink.dropped == 10_000
    assert sum(line.get("dropped", 0) for line in found) == logged.sink.dropped


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_who_prints_does_not_wait(log_format: LogFormat) -> None:
    """The log's reader has stopped, and a process prints a hundred times what both pipes hold."""
    read_end, write_end = os.pipe()
    sink = Sink(write_end)
    output = TritonOutput(sink, log_format)
    line, size = "x" * 60, 61 * 500_000
    try:
        subprocess.run(
            ["sh", "-c", f"yes {line} | head -c {size}"],
            stdout=output.descriptor,
            timeout=WAIT_S,  # who waited for the log's reader would do so for ever
            check=True,
        )
        output.drain()
        assert 450_000 < sink.dropped < 500_000
    finally:
        output.close()
        sink.close()
        os.close(read_end)
        assert sink.flush(WAIT_S)
        os.close(write_end)


def test_a_reader_that_fails_reads_on(logged: Logged) -> None:
    """tritonserver would stand still if nobody read any more."""
    failed = threading.Event()

    def fail(words: str, printed: bool) -> str:
        failed.set()
        raise LookupError(words)

    output = logged.output("json")
    output.name_models(fail)
    os.write(output.descriptor, b"lost\n")
    assert failed.wait(WAIT_S)
    output.name_models(lambda words, printed: "")
    os.write(output.descriptor, b"kept\n")
    deadline = time.monotonic() + WAIT_S
    while b"kept" not in logged.path.read_bytes():  # nobody but its thread reads here
        assert time.monotonic() < deadline
        time.sleep(0.005)
    assert b"lost" not in logged.path.read_bytes()


def test_who_holds_the_pipe_does_not_hold_the_end() -> None:
    """A process that outlives tritonserver may keep it: ours ends all the same."""
    code = (
        "import subprocess, sys\n"
        "from container.logs.sink import Sink\n"
        "from container.tritonserver.output import TritonOutput\n"
        "output = TritonOutput(Sink(2))\n"
        "pipe = {'stdout': output.descriptor, 'stderr': output.descriptor}\n"
        "left = subprocess.Popen(['sleep', '300'], **pipe)\n"
        "output.drain()\n"
        "print(left.pid)\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, check=True
    )
    os.kill(int(ended.stdout), 9)


@pytest.mark.tritonserver
async def test_the_real_ones(stage: Stage, logged: Logged) -> None:
    """Each version's lines are its own, but for what its model prints; nobody else's."""
    (stage.repository / "printing/1").mkdir(parents=True)
    (stage.repository / "printing/1/model.py").write_text(PRINTING)
    (stage.repository / "printing/config.pbtxt").write_text(CONFIG)
    output = logged.output("json")
    output.name_models(NamedModels(stage.repository).find)
    process = stage.process(output=output)
    async with running(process), stage.client() as client:
        await client.load_model("printing")
        # A stub's log comes after the load's answer, and a signal's words may stand in its line.
        await until(lambda: b'"logged"' in logged.path.read_bytes())
    found = logged.objects()
    printed = [line for line in found if line["source"] == "model"]
    assert [(line["level"], line["message"]) for line in printed] == [
        ("INFO", "printed"),
        ("WARNING", "logged"),
    ]
    # What it prints without a head: that there is no GPU to measure.
    no_gpu = {"source": "tritonserver", "message": "Error: Failed to initialize NVML"}
    assert all(
        line["logger"]
        for line in found
        if line not in printed[:1]
        and "Signal" not in line["message"]
        and not no_gpu.items() <= line.items()
    )
    named = [line["message"] for line in found if line.get("model") == "printing"]
    assert any("successfully loaded" in message for message in named)
    assert any("successfully unloaded" in message for message in named)
