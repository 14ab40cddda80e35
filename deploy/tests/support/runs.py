"""`deploy`'s commands with faults in front of the control plane, and what they leave there."""

from __future__ import annotations

import multiprocessing
import os
import pprint
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Any

from deploy.tests.support.aws_faults import Fault, FaultyAws
from deploy.tests.support.commands import RUN_TIMEOUT_S, environment, write_config
from merlin_deploy.__main__ import as_program
from merlin_deploy.archives.aliases import read_store
from merlin_deploy.command_line import read_command
from merlin_deploy.config.reading import read_config
from merlin_deploy.desired import Facts, make_desired
from merlin_deploy.endpoint.state import digest_of
from merlin_deploy.errors import DeployError
from simulator.tests.support.control_plane import ControlPlane

SCALING = """
[autoscaling]
max = 4
invocations_per_instance = 300
"""
#: Another image and another instance type.
CHANGED = SCALING + '[instances]\ntype = "ml.c5.large"'
CHANGED_IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin-sagemaker:2"
#: SageMaker's refusal of a change of an endpoint that is in one.
IN_PROGRESS = "Cannot update in-progress endpoint."


def lifecycle(folder: Path, name: str) -> tuple[tuple[str, Path], ...]:
    """Commands, each with its CONFIG.toml: all of an endpoint's life."""
    folders = folder / "first", folder / "second"
    for item in folders:
        item.mkdir(parents=True, exist_ok=True)
    first = write_config(folders[0], name, SCALING)
    second = write_config(folders[1], name, CHANGED, image=CHANGED_IMAGE)
    return ("up", first), ("up", second), ("rollback", second), ("down", second)


@contextmanager
def caller(plane: ControlPlane, aws: FaultyAws, **more: str) -> Iterator[None]:
    """This process asks the control plane, through what lets calls fail; more: of environment."""
    before = dict(os.environ)
    os.environ.update({**environment(plane), "AWS_ENDPOINT_URL": aws.url, **more})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def run_here(
    aws: FaultyAws, command: str, config: Path, *faults: Fault, more: Sequence[object] = ()
) -> str:
    """One command in this process; why it stopped, or nothing. more: of its arguments."""
    aws.begin(*faults)
    before, sys.argv = sys.argv, ["deploy", command, str(config), *map(str, more)]
    try:
        assert read_command("deploy")() == 0
    except DeployError as error:
        return str(error)
    finally:
        sys.argv = before
    return ""


#: A signal is sent so often, if the process does not end.
_TIMES = 4


class Killed:
    """Commands as processes that are sent a signal at a call. They are forked, which is quick."""

    def __init__(self, aws: FaultyAws, log: Path) -> None:
        self._aws, self._log = aws, log
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(
            ["deploy.__main__", "deploy.tests.support.runs", "merlin_deploy.commands"]
        )
        # Before a test has a TMPDIR of its own: a socket's path must be short.
        ensure_running()

    def run(
        self,
        command: str,
        config: Path,
        sent: signal.Signals,
        *,
        more: Sequence[object] = (),
        **where: Any,
    ) -> int:
        """Its exit code; more: of its arguments; where: members of the Fault that is the call."""
        arguments = [command, str(config), *map(str, more)]
        process = self._context.Process(
            target=as_process, args=(self._log, dict(os.environ), arguments)
        )

        def send() -> None:
            assert process.pid is not None
            # Python drops a KeyboardInterrupt that comes in a destructor; press it again.
            for _ in range(_TIMES):
                os.kill(process.pid, sent)
                # Not joined: two threads that do so take its exit code from one another.
                if connection.wait([process.sentinel], RUN_TIMEOUT_S / _TIMES):
                    return

        self._aws.begin(Fault(act=send, **where))
        process.start()
        try:
            process.join(RUN_TIMEOUT_S)
            assert process.exitcode is not None, self._log.read_text()
            return process.exitcode
        finally:
            process.kill()
            process.join()


def as_process(log: Path, environ: Mapping[str, str], arguments: Sequence[str]) -> None:
    """What a forked process does. arguments: of the command line."""
    os.environ.update(environ)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    sys.argv = ["deploy", *arguments]
    sys.exit(as_program("deploy"))


def left_of(plane: ControlPlane, name: str, configs: Sequence[Path]) -> str:
    """Everything that AWS has of an endpoint, as far as `up` and `down` are answerable for it.

    Without its own name, and with words for the digests of configurations: so lives compare.
    """
    labels = {name: "NAME"}
    for number, path in enumerate(dict.fromkeys(configs)):
        config = read_config(path)
        store = read_store(config.endpoint.archives)
        wanted = make_desired(config, Facts(str(config.endpoint.image), store.archives_url))
        labels[digest_of(wanted.config_name)] = f"<config {number}>"
        labels[digest_of(wanted.model_name)] = f"<model {number}>"
    return pprint.pformat(_labelled(_found(plane, name), labels))


def _labelled(value: Any, labels: Mapping[str, str]) -> Any:
    """With these words in the place of others in every string; lists in their order then."""
    if isinstance(value, str):
        for word, label in labels.items():
            value = value.replace(word, label)
        return value
    if isinstance(value, dict):
        return {_labelled(key, labels): _labelled(item, labels) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(_labelled(item, labels) for item in value)
    return value


def _found(plane: ControlPlane, name: str) -> dict[str, Any]:
    sagemaker, scaling = plane.client("sagemaker"), plane.client("application-autoscaling")
    namespace = {"ServiceNamespace": "sagemaker"}
    resource = f"endpoint/{name}/variant/AllTraffic"
    alarms = plane.client("cloudwatch").describe_alarms(AlarmNamePrefix=f"{name}/")
    models = sagemaker.list_models(NameContains=f"{name}-")["Models"]
    configs = sagemaker.list_endpoint_configs(NameContains=f"{name}-")["EndpointConfigs"]
    targets = scaling.describe_scalable_targets(**namespace, ResourceIds=[resource])
    policies = scaling.describe_scaling_policies(**namespace, ResourceId=resource)
    return {
        "endpoint": _endpoint(plane, name),
        "models": [item["ModelName"] for item in models],
        "configs": [item["EndpointConfigName"] for item in configs],
        "alarms": [item["AlarmName"] for item in alarms["MetricAlarms"]],
        "targets": [
            (item["MinCapacity"], item["MaxCapacity"]) for item in targets["ScalableTargets"]
        ],
        "policies": [item["PolicyName"] for item in policies["ScalingPolicies"]],
    }


def _endpoint(plane: ControlPlane, name: str) -> Any:
    if name not in plane.endpoint_names():
        return None
    plane.settled(name)
    found = plane.describe(name)
    tags = plane.client("sagemaker").list_tags(ResourceArn=found["EndpointArn"])["Tags"]
    return {
        "status": found["EndpointStatus"],
        "config": found["EndpointConfigName"],
        "reason": found.get("FailureReason"),
        "tags": {tag["Key"]: tag["Value"] for tag in tags if tag["Value"]},
    }


@dataclass(frozen=True)
class End:
    """Of a command of a life without faults: what is left then, and what it had changed."""

    left: str
    changes: tuple[str, ...]


def live(
    plane: ControlPlane, aws: FaultyAws, life: Sequence[tuple[str, Path]], name: str
) -> list[End]:
    """A life without faults."""
    ends = []
    for command, config in life:
        assert run_here(aws, command, config) == ""
        changes = tuple(aws.changes)
        ends.append(End(left_of(plane, name, [path for _, path in life]), changes))
    return ends


def until_done(run: Callable[[], str], most: int) -> list[str]:
    """Call again until nothing stops it; why each call stopped."""
    stopped: list[str] = []
    while (arguments := run()) != "":
        stopped.append(arguments)
        assert len(stopped) < most, stopped
    return stopped
