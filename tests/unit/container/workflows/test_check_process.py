"""The process that compares a compiled workflow with NVTabular, played by scripts."""

from __future__ import annotations

import errno
import json
import logging
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from container.tritonserver.runtime import BackendPython, ModelsPython
from container.workflows.check_process import WorkflowChecks
from ensemble_tools.serving.plan import Compiled, PublishedModel
from ensemble_tools.workflows.program import Program

WAIT_S = 30.0
CONFIG = """backend: "python"
input { name: "IN" data_type: TYPE_INT64 dims: [-1, 1] }
parameters { key: "cats" value { string_value: "[]" } }
"""
EQUAL = json.dumps({"asked": 15, "answered": 14, "difference": ""})
UNSURE = "it could not be compared with NVTabular"


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


def models(python: Path, nvtabular: str = "23.8.0") -> ModelsPython:
    described = BackendPython(python, "3.11", Path("/usr"), None, nvtabular)
    return ModelsPython(described, {"PATH": os.environ["PATH"], "OURS": "kept"})


def checks(python: Path, load_timeout_s: float = WAIT_S) -> WorkflowChecks:
    return WorkflowChecks(lambda: models(python), load_timeout_s)


def checked(tmp_path: Path, begun: WorkflowChecks) -> str:
    """What the check says of a compiled model."""
    check = begun.begin()
    assert check is not None
    program = Program((), (), (), 0)
    links = (("1", tmp_path / "delivered/1"),)
    model = PublishedModel(
        "m.step", "step", CONFIG, links, compiled=Compiled(program, "1/model.py")
    )
    return check(model, tmp_path / "published")


def ended(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def until(true: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_equal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is said against it, and the log says what was asked."""
    python = script(tmp_path / "python", f"cat > /dev/null; echo '{EQUAL}'")
    with caplog.at_level(logging.INFO):
        assert checked(tmp_path, checks(python)) == ""
    (record,) = caplog.records
    assert record.getMessage() == "a compiled workflow is NVTabular's equal"
    assert (vars(record)["triton_model"], vars(record)["requests"]) == ("m.step", 15)


def test_what_the_program_is_given(tmp_path: Path) -> None:
    """The models' environment without GPUs, both models' files, the config as Triton has it."""
    said = tmp_path / "said"
    python = script(
        tmp_path / "python", f"(echo $@; echo $OURS:${{CUDA_VISIBLE_DEVICES-unset}}; cat) > {said}"
    )
    checked(tmp_path, checks(python))
    arguments, environment, job = said.read_text().splitlines()
    flags, _, program = arguments.rpartition(" ")
    assert flags == "-I -B"
    assert Path(program).name == "check_model.py"
    assert Path(program).is_file()
    assert environment == "kept:"
    read = json.loads(job)
    assert read["directory"] == str(tmp_path / "published/1")
    assert read["compiled"] == str(tmp_path / "published/1/model.py")
    assert read["original"] == str(tmp_path / "delivered/1/model.py")
    assert read["config"]["input"] == [
        {"name": "IN", "data_type": "TYPE_INT64", "dims": ["-1", "1"]}
    ]
    assert read["config"]["parameters"] == {"cats": {"string_value": "[]"}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            """echo '{"asked": 3, "answered": 2, "difference": "usual\\nvalues: 1 of 5"}'""",
            "compiled, it differs from NVTabular (usual values: 1 of 5)",
        ),
        (
            """echo '{"asked": 9, "answered": 0, "difference": ""}'""",
            "NVTabular answered none of 9 generated requests, so it was not compared",
        ),
        ("echo first >&2; echo last words >&2; exit 3", f"{UNSURE} (exit 3: last words)"),
        ("exit 1", f"{UNSURE} (exit 1: nothing was said)"),
        ("kill -SEGV $$", f"{UNSURE} (exit -11: nothing was said)"),
        (f"echo '{EQUAL}'; exit 1", f"{UNSURE} (exit 1: nothing was said)"),
        ("true", "the comparison with NVTabular ended without a result"),
        ("echo garbage", "the comparison with NVTabular ended without a result"),
        ("echo '[1]'", "the comparison with NVTabular ended without a result"),
        ("echo '{}'", "the comparison with NVTabular ended without a result"),
        (
            """echo '{"asked": "3", "answered": 2, "difference": ""}'""",
            "the comparison with NVTabular ended without a result",
        ),
        ("head -c 300 /dev/urandom", "the comparison with NVTabular ended without a result"),
    ],
)
def test_what_is_not_equal_or_not_certain(tmp_path: Path, text: str, reason: str) -> None:
    """A reason, which does not depend on whether the program read its job."""
    assert checked(tmp_path, checks(script(tmp_path / "python", text))) == reason


def test_a_difference_is_a_line(tmp_path: Path) -> None:
    """However long the archive's names are."""
    long = json.dumps({"asked": 1, "answered": 1, "difference": "x" * 100_000})
    (tmp_path / "answer").write_text(long)
    python = script(tmp_path / "python", f"cat {tmp_path / 'answer'}")
    assert len(checked(tmp_path, checks(python))) < 400


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    """It is found out when the check begins, and is no error of the load."""
    reason = checked(tmp_path, checks(tmp_path / "missing"))
    assert reason.startswith(UNSURE)


def test_one_that_takes_too_long(tmp_path: Path) -> None:
    """Half of the load's time; it ends with everything that it started."""
    text = f"sleep 100 & echo $! > {tmp_path}/child; echo $$ > {tmp_path}/own; wait"
    started = time.monotonic()
    reason = checked(tmp_path, checks(script(tmp_path / "python", text), 2.0))
    assert reason == "it was not compared with NVTabular within 1 s"
    assert time.monotonic() - started < 10
    for name in ("child", "own"):
        pid = int((tmp_path / name).read_text())
        until(lambda pid=pid: ended(pid))


def test_one_that_leaves_its_output_to_another(tmp_path: Path) -> None:
    """It has ended, but what it said has no end: the other one is ended, too."""
    text = f"sleep 100 & echo $! > {tmp_path}/child"
    reason = checked(tmp_path, checks(script(tmp_path / "python", text), 2.0))
    assert reason == "it was not compared with NVTabular within 1 s"
    pid = int((tmp_path / "child").read_text())
    until(lambda: ended(pid))


def test_checks_take_turns(tmp_path: Path) -> None:
    """One process at a time, whatever is loaded at once."""
    lock = tmp_path / "lock"
    python = script(
        tmp_path / "python",
        f"mkdir {lock} || exit 9; sleep 0.2; rmdir {lock}; cat > /dev/null; echo '{EQUAL}'",
    )
    begun, found = checks(python), []
    threads = [
        threading.Thread(target=lambda: found.append(checked(tmp_path, begun))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert found == [""] * 3


def test_stopping_ends_the_check_that_runs(tmp_path: Path) -> None:
    """And those that come after it."""
    python = script(tmp_path / "python", f"echo $$ > {tmp_path}/own; sleep 100")
    begun, found = checks(python, 200.0), []
    thread = threading.Thread(target=lambda: found.append(checked(tmp_path, begun)))
    thread.start()
    until(lambda: (tmp_path / "own").exists() and (tmp_path / "own").read_text())
    begun.stop()
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert found[0].startswith(UNSURE)
    assert checked(tmp_path, begun).startswith(UNSURE)


def test_models_python_without_nvtabular(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No check, one line in the log: what is compiled is all that can answer."""
    made = WorkflowChecks(lambda: models(tmp_path / "python", nvtabular=""), WAIT_S)
    assert made.begin() is None
    (record,) = caplog.records
    assert "the models' Python has no NVTabular" in record.getMessage()


def test_the_images_own_arrangement(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where no interpreter is set, it is python3 on the models' PATH."""
    facts = dict.fromkeys(("library_directory", "library", "prefix"), "")
    packages = [["nvtabular", "23.8.0"]]
    answer = json.dumps({**facts, "version": "3.10", "packages": packages})
    folder = tmp_path / "bin"
    folder.mkdir()
    text = f"""if [ "$2" = -c ]; then echo '{answer}'; else cat > /dev/null; echo '{EQUAL}'; fi"""
    script(folder / "python3", text)
    path = f"{folder}:{os.environ['PATH']}"
    made = WorkflowChecks(lambda: ModelsPython(None, {"PATH": path}), WAIT_S)
    assert checked(tmp_path, made) == ""
    nothing = WorkflowChecks(lambda: ModelsPython(None, {"PATH": str(tmp_path)}), WAIT_S)
    assert nothing.begin() is None
    assert "no python3 on PATH" in caplog.text


def test_a_shortage_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor to start it with, or killed for its memory: nothing else is served for it."""
    killed = checks(script(tmp_path / "python", "kill -9 $$"))
    with pytest.raises(OSError, match="was killed") as error:
        checked(tmp_path, killed)
    assert error.value.errno == errno.ENOMEM

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    begun = checks(script(tmp_path / "other", "exit 0"))
    monkeypatch.setattr(subprocess, "Popen", fail)
    with pytest.raises(OSError, match="Too many open files"):
        checked(tmp_path, begun)
