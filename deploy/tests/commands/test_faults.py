"""Whatever stops a command, the next call of it ends where it would have ended."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from deploy.tests.commands.test_up import put
from deploy.tests.support.aws_faults import Fault, FaultyAws
from deploy.tests.support.commands import write_config
from deploy.tests.support.runs import (
    IN_PROGRESS,
    End,
    Killed,
    left_of,
    lifecycle,
    live,
    run_here,
    until_done,
)
from simulator.tests.support.control_plane import ControlPlane
from simulator.tests.support.simulator import fake_model


@pytest.fixture(scope="module")
def ends(
    plane: ControlPlane, aws: FaultyAws, tmp_path_factory: pytest.TempPathFactory
) -> list[End]:
    """Of a life without faults."""
    folder = tmp_path_factory.mktemp("calm")
    put(plane, fake_model(folder, "shop-a.tar.gz"), "calm")
    return live(plane, aws, lifecycle(folder, "calm"), "calm")


def test_what_is_refused_is_finished_by_the_next_call(
    plane: ControlPlane, aws: FaultyAws, ends: list[End], tmp_path: Path, archive: Path
) -> None:
    """A command that may do one change at a time, and is refused the next one, gets to its end.

    So it stops after each of its changes once.
    """
    put(plane, archive, "refused")
    life = lifecycle(tmp_path, "refused")
    for (command, config), end in zip(life, ends, strict=True):

        def run(command: str = command, config: Path = config) -> str:
            return run_here(aws, command, config, Fault(after=1, code="AccessDeniedException"))

        stopped = until_done(run, len(end.changes))
        assert len(stopped) == len(end.changes) - 1, (command, stopped)
        assert all(
            "is not allowed in us-east-1: No, said the test" in sentence for sentence in stopped
        )
        assert left_of(plane, "refused", [path for _, path in life]) == end.left, command


def test_lost_answers_change_nothing(
    plane: ControlPlane, aws: FaultyAws, ends: list[End], tmp_path: Path, archive: Path
) -> None:
    """A call that was carried out, and is sent again because its answer was lost, is done."""
    put(plane, archive, "lost")
    life = lifecycle(tmp_path, "lost")
    for (command, config), end in zip(life, ends, strict=True):
        faults = [Fault(operation, lose=True) for operation in dict.fromkeys(end.changes)]
        # The control plane deletes whatever an endpoint is doing; SageMaker does not.
        again = Fault("DeleteEndpoint", after=1, code="ValidationException", words=IN_PROGRESS)
        assert run_here(aws, command, config, again, *faults) == ""
        assert all(fault.met > 1 for fault in faults), faults
        assert left_of(plane, "lost", [path for _, path in life]) == end.left, command


def test_a_rollback_whose_last_answer_is_lost_goes_no_step_further(
    plane: ControlPlane, aws: FaultyAws, tmp_path: Path, archive: Path
) -> None:
    """It notes that the step is taken, last of all, and looks whether that is noted."""
    put(plane, archive, "noted")
    config = write_config(tmp_path, "noted")
    for count in (1, 2, 1):
        more = f'[instances]\ntype = "ml.c5.xlarge"\ncount = {count}'
        assert run_here(aws, "up", write_config(tmp_path, "noted", more)) == ""
    before = plane.describe("noted")["EndpointConfigName"]
    # All that one call may be: asked again by botocore, too.
    lost = Fault("AddTags", after=1, times=5, half=True)
    assert run_here(aws, "rollback", config, lost) == ""
    assert lost.met > 1
    after = plane.describe("noted")
    assert after["EndpointConfigName"] != before
    tags = plane.client("sagemaker").list_tags(ResourceArn=after["EndpointArn"])["Tags"]
    assert {tag["Key"]: tag["Value"] for tag in tags}["deploy:rollback"] == ""
    assert run_here(aws, "down", config) == ""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGINT])
def test_a_process_that_ends_in_the_middle_is_finished_by_the_next_one(
    plane: ControlPlane,
    aws: FaultyAws,
    ends: list[End],
    tmp_path: Path,
    archive: Path,
    sent: signal.Signals,
) -> None:
    """At the call after which an endpoint changes, and at another one."""
    at = (
        ("PutMetricAlarm", "CreateEndpoint"),
        ("AddTags", "UpdateEndpoint"),
        ("UpdateEndpoint", "PutScalingPolicy"),
        ("DeregisterScalableTarget", "DeleteEndpoint"),
    )
    name = sent.name.lower()
    put(plane, archive, name)
    killed, life = Killed(aws, tmp_path / "log"), lifecycle(tmp_path, name)
    for (command, config), end, calls in zip(life, ends, at, strict=True):
        for operation in calls:
            code = killed.run(command, config, sent, operation=operation)
            assert code == (-sent if sent == signal.SIGKILL else 130), (command, operation)
        assert run_here(aws, command, config) == ""
        assert left_of(plane, name, [path for _, path in life]) == end.left, command
    output = (tmp_path / "log").read_text()
    assert "Traceback" not in output
    assert ("the same command finishes it" in output) == (sent == signal.SIGINT)
