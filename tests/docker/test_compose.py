"""The whole stack of docker-compose.yml, with the real images, asked by an unmodified boto3.

One stack for all tests of the file, which stand in the order of its life; one after the other with
each compose that this machine has.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import docker
import httpx
import pytest
from botocore.exceptions import ClientError
from docker.models.containers import Container

from tests.docker.base_image import ROOT
from tests.docker.compose import ENDPOINT, Stack, compose_commands, stack_settings
from tests.docker.images import Built
from tests.docker.running import EXPORTS
from tests.support.merlins_answers import check_numbers

SERVED = ("dense", "session")
#: Without any the tests are there and fail.
COMMANDS = compose_commands() or [()]


@pytest.fixture(scope="module", params=COMMANDS, ids=" ".join)
def stack(
    request: pytest.FixtureRequest,
    host: str,
    engine: docker.DockerClient,
    images: Built,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """docker-compose up, with two of the examples."""
    exports = tmp_path_factory.mktemp("exports")
    for name in SERVED:
        (exports / name).symlink_to(EXPORTS / name)
    named = {"SERVING_IMAGE": images.cpu, "SIMULATOR_IMAGE": images.simulator}
    settings = stack_settings(host, named, _copied(exports))
    project = f"merlin-{os.getpid()}"
    made = Stack(engine, request.param, project, int(settings["PORT"]), settings)
    try:
        made.compose("up", "--detach", "--no-build")
        made.wait_for(lambda: _healthy(made), "the endpoint did not come into service")
        yield made
    except BaseException:
        print(made.log())
        raise
    finally:
        made.compose("down", "--volumes", "--timeout", "30")


def _copied(exports: Path) -> Path:
    """Readable for the container's user, whoever that is; without links out of the folder."""
    copy = exports.with_name(f"{exports.name}-copy")
    subprocess.run(["cp", "--recursive", "--dereference", exports, copy], check=True)
    copy.chmod(0o755)
    return copy


def _healthy(stack: Stack) -> bool:
    try:
        url = f"http://127.0.0.1:{stack.port}/simulator/health"
        return httpx.get(url, trust_env=False, timeout=60).status_code == 200
    except httpx.TransportError:
        return False


def ask(client: Any, export: str) -> dict[str, Any]:
    """InvokeEndpoint with the export's committed request."""
    answer = client.invoke_endpoint(
        EndpointName=ENDPOINT,
        TargetModel=f"{export}.tar.gz",
        ContentType="application/json",
        Body=(EXPORTS / export / "request.json").read_bytes(),
    )
    return dict(json.loads(answer["Body"].read()))


def cold(stack: Stack, target: str) -> bool:
    """Whether no instance has the model loaded."""
    models = [model for one in stack.state()["instances"] for model in one["models"]]
    return not any(m["target_model"] == target and m["state"] == "loaded" for m in models)


@pytest.mark.parametrize("export", SERVED)
def test_cold_then_warm(export: str, stack: Stack) -> None:
    """The first invocation fetches and loads; it and the next one answer with Merlin's numbers."""
    client = stack.client()
    assert cold(stack, f"{export}.tar.gz")
    check_numbers(EXPORTS / export, ask(client, export))
    assert not cold(stack, f"{export}.tar.gz")
    check_numbers(EXPORTS / export, ask(client, export))


def test_an_archive_that_is_not_there(stack: Stack) -> None:
    """A target model that the bucket does not have is the caller's error, with S3's key in it."""
    with pytest.raises(ClientError, match=r"absent\.tar\.gz") as refused:
        stack.client().invoke_endpoint(
            EndpointName=ENDPOINT, TargetModel="absent.tar.gz", Body=b"{}"
        )
    assert refused.value.response["Error"]["Code"] == "ValidationError"


def test_the_memory_of_an_instance_is_seen(stack: Stack) -> None:
    """With the engine's socket the page knows what an instance uses, and of what limit."""
    (instance,) = stack.state()["instances"]
    assert instance["memory_limit"] == 3 * 1024**3
    stack.wait_for(
        lambda: (stack.state()["instances"][0]["memory_used"] or 0) > 200 * 1024**2,
        "the instance's memory is not known",
    )


def test_the_address_that_is_told_answers(stack: Stack) -> None:
    """The url in the simulator's own output is one that this machine can ask."""
    (container,) = stack.containers("simulator")
    told = re.search(r" at (http://\S+) ", container.logs().decode())
    assert told is not None
    assert httpx.get(f"{told[1]}/simulator/health", trust_env=False, timeout=60).status_code == 200


def test_nothing_but_loopback_is_published(stack: Stack) -> None:
    """Every published port is bound to 127.0.0.1."""
    addresses = {
        binding["HostIp"]
        for container in stack.containers()
        for bindings in container.attrs["NetworkSettings"]["Ports"].values()
        for binding in bindings or ()
    }
    assert addresses == {"127.0.0.1"}


def test_the_instance_cannot_write_models(stack: Stack) -> None:
    """/opt/ml/models is the platform's: the instance has it read-only."""
    (instance,) = stack.containers("instance")
    code, said = instance.exec_run(["touch", "/opt/ml/models/mark"])
    assert code != 0
    assert b"Read-only" in said


def test_two_instances(stack: Stack) -> None:
    """--scale instance=2 is an endpoint of two instances; both models answer as before."""
    stack.compose("up", "--detach", "--no-build", "--scale", "instance=2")
    stack.wait_for(lambda: len(stack.in_service()) == 2, "the second is not in service")
    for export in SERVED:
        check_numbers(EXPORTS / export, ask(stack.client(), export))


def test_the_simulator_starts_again(stack: Stack) -> None:
    """`restart simulator`: its containers go on without it, and are emptied; both models answer."""
    started = _started(stack)
    stack.compose("restart", "--timeout", "30", "simulator")
    stack.wait_for(lambda: _healthy(stack) and len(stack.in_service()) == 2, "not in service")
    assert _started(stack) == started
    for export in SERVED:
        assert cold(stack, f"{export}.tar.gz")
        check_numbers(EXPORTS / export, ask(stack.client(), export))


def _started(stack: Stack) -> dict[str, str]:
    """When each instance's container was started."""
    containers = stack.containers("instance")
    return {str(container.name): container.attrs["State"]["StartedAt"] for container in containers}


def test_an_instance_dies_and_comes_back(stack: Stack) -> None:
    """SIGKILL in mid-run: no more fails than the requests that were in its hands, as ModelError.

    The other instance takes over; compose starts the container again, and it is in service again.
    (On a machine so busy that a load takes 60 s, callers are told ModelNotReadyException.)
    """
    instance = holder(stack, "dense.tar.gz")
    started = instance.attrs["State"]["StartedAt"]
    with Traffic(stack) as traffic:
        stack.wait_for(lambda: traffic.answered > 10, "no invocation was answered")
        kill(stack.engine, instance.attrs["State"]["Pid"], stack.settings["SERVING_IMAGE"])

        def is_back() -> bool:
            instance.reload()
            state = instance.attrs["State"]
            return bool(state["Running"]) and state["StartedAt"] != started

        stack.wait_for(is_back, "the instance was not started again")
        stack.wait_for(lambda: len(stack.in_service()) == 2, "it is not in service")
        before = traffic.answered
        stack.wait_for(lambda: traffic.answered > before + 10, "the endpoint answers no more")
    assert set(traffic.errors) <= {"ModelError", "ModelNotReadyException"}, traffic.errors
    assert traffic.errors["ModelError"] <= len(SERVED), "each caller has one request in flight"


def holder(stack: Stack, target: str) -> Container:
    """The container of an instance that has the model loaded."""
    (address, *_) = (
        urlsplit(one["url"]).hostname
        for one in stack.state()["instances"]
        for model in one["models"]
        if model["target_model"] == target and model["state"] == "loaded"
    )
    (container,) = (
        container
        for container in stack.containers("instance")
        for network in container.attrs["NetworkSettings"]["Networks"].values()
        if network["IPAddress"] == address
    )
    return container


class Traffic:
    """Callers that ask, one request each at a time, until the block ends; numbers are checked."""

    def __init__(self, stack: Stack) -> None:
        self._stack, self._stop = stack, threading.Event()
        self._callers = [threading.Thread(target=self._call, args=(name,)) for name in SERVED]
        self.answered, self.errors = 0, Counter[str]()
        self._wrong: list[Exception] = []

    def __enter__(self) -> Traffic:
        for caller in self._callers:
            caller.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for caller in self._callers:
            caller.join()
        assert not self._wrong, self._wrong

    def _call(self, export: str) -> None:
        client = self._stack.client()
        while not self._stop.is_set():
            try:
                check_numbers(EXPORTS / export, ask(client, export))
                self.answered += 1
            except ClientError as error:
                self.errors[error.response["Error"]["Code"]] += 1
                self._stop.wait(0.1)  # as a caller does who was told to try again
            except Exception as error:
                self._wrong.append(error)
                return


def kill(engine: docker.DockerClient, pid: int, image: str) -> None:
    """SIGKILL from the host's side. `docker kill` would not do: it also ends the restarts."""
    engine.containers.run(
        image, ["-c", f"kill -9 {pid}"], entrypoint="/bin/sh", pid_mode="host", remove=True
    )


def test_without_the_engines_socket(stack: Stack) -> None:
    """As by default: the endpoint answers as before, and the instances' memory is not known."""
    settings = {name: value for name, value in stack.settings.items() if name != "DOCKER_SOCKET"}
    stack.compose("rm", "--stop", "--force", "simulator")
    without = replace(stack, settings=settings)
    without.compose("up", "--detach", "--no-build", "--no-deps", "simulator")
    stack.wait_for(lambda: _healthy(stack) and len(stack.in_service()) == 2, "not in service")
    for export in SERVED:
        check_numbers(EXPORTS / export, ask(stack.client(), export))
    assert [one["memory_used"] for one in stack.state()["instances"]] == [None, None]


def test_down_leaves_nothing(stack: Stack) -> None:
    """`down -v` takes containers, volumes and networks; every container ended in its time."""
    running = stack.containers("instance") + stack.containers("simulator")
    stack.compose("stop", "--timeout", "30")
    for container in running:
        container.reload()
        assert container.attrs["State"]["ExitCode"] == 0, container.name
    stack.compose("down", "--volumes")
    assert stack.leftovers() == []


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("more", [(), ("--file", "docker-compose.gpu.yml")], ids=["cpu", "gpu"])
def test_every_compose_reads_it(command: tuple[str, ...], more: tuple[str, ...]) -> None:
    """Each compose of this machine takes the files and warns of nothing."""
    done = subprocess.run(
        [*command, "--file", "docker-compose.yml", *more, "config", "--quiet"],
        cwd=ROOT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "")
