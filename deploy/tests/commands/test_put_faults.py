"""Whatever stops `put`, names mean what they meant, and the next call of it ends where it would."""

from __future__ import annotations

import json
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from deploy.tests.support.aws_faults import Fault, FaultyAws
from deploy.tests.support.commands import write_config
from deploy.tests.support.runs import Killed, run_here
from simulator.tests.support.control_plane import ControlPlane
from simulator.tests.support.simulator import fake_model
from tests.support.stored_archives import (
    aliases_of,
    keys_of,
    large_archive,
    state_of,
    uploads_of,
)

OLD = "large/0123456789abcdef.tar.gz"
#: Of one that is sent at once, and of one in parts: each of its calls, and the table's.
CALLS = 6


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of both."""
    folder = tmp_path_factory.mktemp("archives")
    large_archive(folder, "large")
    fake_model(folder, "small.tar.gz")
    return folder


@pytest.fixture(scope="module")
def end(
    plane: ControlPlane, aws: FaultyAws, archives: Path, tmp_path_factory: pytest.TempPathFactory
) -> Any:
    """What a `put` leaves that nothing stops."""
    config = begin(plane, tmp_path_factory.mktemp("calm"), "put-calm")
    assert put(aws, config, archives) == ""
    assert len(aws.changes) == CALLS
    return state_of(plane, "put-calm")


@pytest.fixture
def killed(aws: FaultyAws, tmp_path: Path) -> Killed:
    """What runs commands in processes that are ended; they say it in log."""
    return Killed(aws, tmp_path / "log")


@pytest.fixture
def rooms(killed: Killed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, from when what forks them has its own."""
    directory = tmp_path / "rooms"
    directory.mkdir()
    monkeypatch.setenv("TMPDIR", str(directory))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return directory


def test_what_is_refused_is_finished_by_the_next_call(
    plane: ControlPlane, aws: FaultyAws, archives: Path, end: Any, tmp_path: Path
) -> None:
    """At each change, after which no other is allowed either, not even to clear away."""
    for number in range(CALLS):
        name = f"put-refused-{number}"
        config = begin(plane, tmp_path, name)
        fault = Fault(after=number, times=None, code="AccessDenied", status=403)
        output = put(aws, config, archives, fault)
        assert "is not allowed in us-east-1: No, said the test" in output
        assert aliases_of(plane, name) == {"large": [OLD]}
        assert len(uploads_of(plane, name)) == (number in (1, 2, 3)), number
        assert put(aws, config, archives) == ""
        assert state_of(plane, name) == end, number


def test_lost_answers_change_nothing(
    plane: ControlPlane, aws: FaultyAws, archives: Path, end: Any, tmp_path: Path
) -> None:
    """A call that was carried out, and is sent again because its answer was lost, is done."""
    config = begin(plane, tmp_path, "put-lost")
    # Of six calls each one, with the one that is sent in the place of the one before.
    faults = [Fault(after=2 * number, lose=True) for number in range(CALLS)]
    assert put(aws, config, archives, *faults) == ""
    assert all(fault.met > fault.after for fault in faults)
    assert state_of(plane, "put-lost") == end


def test_a_process_that_is_killed_is_finished_by_the_next_one(
    plane: ControlPlane,
    aws: FaultyAws,
    archives: Path,
    end: Any,
    tmp_path: Path,
    killed: Killed,
    rooms: Path,
) -> None:
    """Behind a part, behind an upload, and behind the table: what is left else is what is left
    where the next change is refused. What S3 keeps of an upload is cleared away then, and what
    lies in the directory for temporary files."""
    for number in (1, 3, CALLS - 1):
        name = f"put-killed-{number}"
        config = begin(plane, tmp_path, name)
        more = (archives, "--no-check")
        code = killed.run("put", config, signal.SIGKILL, more=more, after=number)
        assert code == -signal.SIGKILL
        assert len(list(rooms.glob("deploy-*"))) == 1
        assert put(aws, config, archives) == ""
        assert state_of(plane, name) == end, number
        assert list(rooms.glob("deploy-*")) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_upload_and_no_file(
    plane: ControlPlane,
    aws: FaultyAws,
    archives: Path,
    end: Any,
    tmp_path: Path,
    killed: Killed,
    rooms: Path,
    sent: signal.Signals,
) -> None:
    """In the middle of an upload; names mean what they meant."""
    name = f"put-{sent.name.lower()}"
    config = begin(plane, tmp_path, name)
    code = killed.run("put", config, sent, more=(archives, "--no-check"), after=1)
    assert code == 128 + sent
    output = (tmp_path / "log").read_text()
    assert "Traceback" not in output
    last_line = "interrupted; what came to S3 stays: the same command finishes it\n"
    assert output.endswith(last_line) == (sent == signal.SIGINT)
    assert (keys_of(plane, name), uploads_of(plane, name)) == (["aliases.json"], [])
    assert aliases_of(plane, name) == {"large": [OLD]}
    assert list(rooms.iterdir()) == []
    assert put(aws, config, archives) == ""
    assert state_of(plane, name) == end


def test_a_lost_answer_goes_back_one_step(
    plane: ControlPlane, aws: FaultyAws, tmp_path: Path
) -> None:
    """The call that is sent again in its place finds that it is done."""
    config, s3 = write_config(tmp_path, "back-lost"), plane.client("s3")
    targets = [f"a/{number}.tar.gz" for number in range(3)]
    for target in targets:
        s3.put_object(Bucket="models", Key=f"back-lost/archives/{target}", Body=b"")
    table = json.dumps({"version": 1, "aliases": {"a": targets}})
    s3.put_object(Bucket="models", Key="back-lost/aliases.json", Body=table)
    fault = Fault(lose=True)
    assert run_here(aws, "rollback", config, fault, more=("--archive", "a")) == ""
    assert fault.met == 2
    assert aliases_of(plane, "back-lost") == {"a": targets[1:]}
    s3.delete_object(Bucket="models", Key=f"back-lost/archives/{targets[2]}")
    output = run_here(aws, "rollback", config, more=("--archive", "a"))
    assert output.startswith("the archive a/2.tar.gz, which a meant before, is not there any more")


def begin(plane: ControlPlane, folder: Path, name: str) -> Path:
    """A name that means something already."""
    table = f'{{"version": 1, "aliases": {{"large": ["{OLD}"]}}}}'
    plane.client("s3").put_object(Bucket="models", Key=f"{name}/aliases.json", Body=table.encode())
    return write_config(folder, name)


def put(aws: FaultyAws, config: Path, archives: Path, *faults: Fault) -> str:
    """Why it stopped, or nothing."""
    return run_here(aws, "put", config, *faults, more=(archives, "--no-check"))
