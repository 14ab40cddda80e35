"""Real containers behind the endpoint: this project's own, and NVIDIA's SageMaker frontend."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from container.tritonserver.process import remove_shared_memory
from simulator.tests.support.simulator import Simulator, archive_of, simulator
from tests.support.container import ROOT, until
from tests.support.models import adder, write_archive
from tests.support.sagemaker_triton import frontend_command

EXAMPLES = ROOT / "examples" / "merlin"
#: As in end_to_end/test_merlin_exports.py: another order of float32 sums.
RELATIVE, ABSOLUTE = 1e-6, 1e-7
REQUEST = json.dumps(
    {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1], "data": [1000]}]}
).encode()


@pytest.fixture(params=["ours", "nvidia"])
def container(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str | None]:
    """The command of a container; None is this project's own."""
    if request.param == "ours":
        yield None
        return
    frontend = frontend_command(tmp_path / "frontend", port="{port}")
    environment = [f"{name}={value}" for name, value in frontend.environment.items()]
    yield shlex.join(["env", "-i", *environment, *frontend.argv])
    remove_shared_memory(frontend.shm_prefix)


def _adders(folder: Path, count: int) -> Path:
    """Archives a1.tar.gz ...: a model that adds its number, so that its answer identifies it."""
    for number in range(1, count + 1):
        directory = write_archive(folder.parent / f"a{number}", {"adder": adder(number)})
        archive_of(folder / f"a{number}.tar.gz", directory)
    return folder


def _ask(played: Simulator, number: int) -> Any:
    answer = played.invoke(f"a{number}.tar.gz", REQUEST)
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"][0]["data"][0] - 1000


def test_many_callers_and_room_for_some(container: str | None, tmp_path: Path) -> None:
    """Six callers, twelve models, a limit on memory: right answers, evictions, no failure."""
    models = _adders(tmp_path / "archives", 12)
    with simulator(models, tmp_path / "log", "--memory", "1GB", container=container) as played:
        until(lambda: played.instance()["memory_used"], "its memory was read")
        idle = played.instance()["memory_used"]
        assert _ask(played, 1) == 1
        one = played.instance()["models"][0]["memory"]
        assert one > 2**20
    # Room for five models and a half, counting all that a model brings.
    limit = str(int((idle + 5.5 * one) / 0.9))
    with simulator(models, tmp_path / "log2", "--memory", limit, container=container) as played:

        def caller(seed: int) -> list[tuple[int, Any]]:
            numbers = [(seed * 5 + step * 7) % 12 + 1 for step in range(8)]
            return [(n, a) for n in numbers if (a := _ask(played, n)) != n]

        with ThreadPoolExecutor(6) as pool:
            assert list(pool.map(caller, range(6))) == [[]] * 6
        assert played.kinds("invocation_failed", "load_failed", "lost") == []
        assert len(played.kinds("unloaded")) >= 6
        assert list(played.states().values()).count("loaded") < 12
        coming = [event["target_model"] for event in played.kinds("download_started")]
        assert len(coming) == len(set(coming)) == 12


def test_errors_and_a_killed_server(container: str | None, tmp_path: Path) -> None:
    """A model that does not load, a refused request, a killed tritonserver: then it works again."""
    models = _adders(tmp_path / "archives", 1)
    (tmp_path / "bad" / "nothing").mkdir(parents=True)
    (tmp_path / "bad" / "nothing" / "config.pbtxt").write_text("this is no config")
    archive_of(models / "bad.tar.gz", tmp_path / "bad")
    with simulator(models, tmp_path / "log", container=container) as played:
        refused = played.invoke("bad.tar.gz", REQUEST).json()
        assert refused["OriginalStatusCode"] in (400, 500)
        assert _ask(played, 1) == 1
        refused = played.invoke("a1.tar.gz", b"no json").json()
        assert refused["OriginalStatusCode"] in (400, 500)
        _kill_tritonserver(played)
        until(lambda: _answers_again(played), "it answers again")


def _kill_tritonserver(played: Simulator) -> None:
    started = played.kinds("instance_starting")[-1]["pid"]
    family = [psutil.Process(started), *psutil.Process(started).children(recursive=True)]
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):  # a stub that has ended meanwhile
            if "tritonserver" in process.name():
                process.kill()
                return
    raise AssertionError("there is no tritonserver")


def _answers_again(played: Simulator) -> bool:
    answer = played.invoke("a1.tar.gz", REQUEST)
    return answer.status_code == 200 and answer.json()["outputs"][0]["data"] == [1001.0]


def test_merlin_exports_through_boto3_cold_and_warm(tmp_path: Path) -> None:
    """Two exports on one endpoint, packed by the command line: Merlin's numbers, both times."""
    models = tmp_path / "archives"
    models.mkdir()
    for name in ("dense", "session"):
        archive_of(models / f"{name}.tar.gz", EXAMPLES / name / "repository")
    with simulator(models, tmp_path / "log", container=None) as played:
        client = played.boto3_client()
        for name in ("dense", "session", "dense", "session"):
            answer = client.invoke_endpoint(
                EndpointName="test",
                TargetModel=f"{name}.tar.gz",
                ContentType="application/json",
                Body=(EXAMPLES / name / "request.json").read_bytes(),
            )
            _check(json.loads(answer["Body"].read()), EXAMPLES / name / "expected.json")
        assert [event["cold"] for event in played.kinds("invoked")] == [True, True, False, False]
        memory = {m["target_model"]: m["memory"] for m in played.instance()["models"]}
        assert min(memory.values()) > 20 * 2**20
        assert max(memory.values()) < 100 * 2**20  # they share torch


def _check(answer: dict[str, Any], expected: Path) -> None:
    found = {tensor["name"]: tensor for tensor in answer["outputs"]}
    for tensor in json.loads(expected.read_text())["outputs"]:
        assert found[tensor["name"]]["shape"] == tensor["shape"]
        assert found[tensor["name"]]["data"] == pytest.approx(
            tensor["data"], rel=RELATIVE, abs=ABSOLUTE
        )


def test_a_single_model_endpoint(tmp_path: Path) -> None:
    """--single-model: /invocations answers; a target model is refused as SageMaker does."""
    models = _adders(tmp_path / "archives", 1)
    options = ("--single-model", "a1.tar.gz")
    with simulator(models, tmp_path / "log", *options, container=None) as played:
        answer = played.invoke(None, REQUEST)
        assert answer.json()["outputs"][0]["data"] == [1001.0]
        refused = played.invoke("a1.tar.gz", REQUEST)
        assert refused.json()["ErrorCode"] == "TARGET_MODEL_HEADER_NOT_SUPPORTED"
