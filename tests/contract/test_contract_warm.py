"""Models that are forked from a warm interpreter: alone they are slow to start, and large."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from serve.resources.processes import FORKED
from tests.support import models
from tests.support.container import ROOT, Container, Process, launch, processes, running, until
from tests.support.metrics_page import scrape
from tests.support.protocol import values

pytestmark = pytest.mark.tritonserver

DENSE = ROOT / "examples/merlin/dense"
REQUEST = (DENSE / "request.json").read_bytes()
EXPECTED = json.loads((DENSE / "expected.json").read_text())["outputs"][0]


def right(container: Container, name: str) -> bool:
    """Whether it answers Merlin's numbers."""
    found = values(container.invoke(name, REQUEST), EXPECTED["name"])
    return bool(found == pytest.approx(EXPECTED["data"], rel=1e-6))


def forked(serving: Path, name: str = "") -> list[Process]:
    """The processes that run that container's models, or those of one."""
    below = f"{serving}/{name}"
    return [it for it in processes() if it.command[0] == FORKED and it.command[1].startswith(below)]


def interpreters(container: Container) -> list[Process]:
    """Those of the container."""
    ours = container.process.pid
    found = [it for it in processes() if it.command[0] == "merlin-interpreter"]
    return [it for it in found if it.parent == ours]


def memory_of(container: Container, name: str) -> list[float]:
    """What the page says of a model's processes, once they were looked at."""
    page = container.http.get("/metrics").text.splitlines()
    lines = [it for it in page if it.startswith("serve_model_memory_bytes{")]
    return [float(it.rpartition(" ")[2]) for it in lines if f'model_name="{name}"' in it]


def inferences(container: Container, name: str) -> list[float]:
    """What tritonserver has counted of a model and its steps."""
    return [
        count
        for (family, labels), count in scrape(container).items()
        if family == "nv_inference_count_total" and ("model_name", name) in labels
    ]


def kill(found: list[Process]) -> None:
    """Each, which must be there, and wait until they are gone."""
    assert found
    for one in found:
        os.kill(one.pid, signal.SIGKILL)
    until(lambda: not {*found} & {*processes()}, "they are gone")


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """It has one export."""
    folder = tmp_path_factory.mktemp("warm")
    with running(folder, SERVE_MODEL_ROOT=str(ROOT / "examples")) as container:
        assert container.load("kept", DENSE / "repository").status_code == 200
        assert right(container, "kept")
        yield container


@pytest.fixture(autouse=True)
def until_nothing_leaves(container: Container) -> Iterator[None]:
    """The next test's model finds its name free in tritonserver."""
    yield
    until(lambda: container.published() == {"kept"}, "tritonserver has the others no more")


def test_a_model_is_forked_and_ends_with_its_unload(container: Container) -> None:
    """It says whose it is where all see it; its stub has not imported torch.

    It runs the compiled workflow, too. Its memory is told as its own, and not that of torch, which
    all share.
    """
    with container.loaded("m", DENSE / "repository"):
        assert right(container, "m")
        assert container.published() == {"kept", "m"}
        (process,) = forked(container.serving, "m/")
        assert process.command[1].endswith("/1")
        (stub,) = container.stubs("m")
        maps = Path(f"/proc/{stub}/maps").read_text()
        assert "libtorch" not in maps
        assert "libtorch" in Path(f"/proc/{process.pid}/maps").read_text()
        until(lambda: bool(memory_of(container, "m")), "it was looked at")
        assert 20e6 < memory_of(container, "m")[0] < 200e6
    until(lambda: not forked(container.serving, "m/"), "it has ended")
    assert right(container, "kept")


def test_a_model_that_comes_back_at_once(container: Container) -> None:
    """It answers as itself, and is one model to whoever reads the page.

    Its predecessor, which tritonserver may still have, has no numbers there.
    """
    for _ in range(3):
        with container.loaded("m", DENSE / "repository"):
            assert right(container, "m")
            until(lambda: inferences(container, "m") == [1], "its request is counted")
            until(lambda: bool(memory_of(container, "m")), "it was looked at")
        assert memory_of(container, "m") == []
    assert not forked(container.serving, "m")
    assert right(container, "kept")


WAYS: dict[str, Callable[[Container], Any]] = {
    "its stub": lambda on: kill([it for it in processes() if it.pid in on.stubs("m")]),
    "tritonserver": lambda on: os.kill(on.triton(), signal.SIGKILL),
}


@pytest.mark.parametrize("way", WAYS)
def test_who_dies_is_healed(way: str, container: Container) -> None:
    """The next request is answered, and nothing of the older ones is left."""
    with container.loaded("m", DENSE / "repository"):
        (before,) = forked(container.serving, "m/")
        WAYS[way](container)
        until(lambda: before not in processes(), "it has ended")
        until(lambda: container.ping() == 200, "tritonserver is there")
        assert right(container, "m")
        (after,) = forked(container.serving, "m/")
        assert after != before
        assert right(container, "kept")
    until(lambda: not forked(container.serving, "m/"), "it has ended")


def test_children_that_die_are_healed_and_leave_nothing(container: Container) -> None:
    """No dead stub, no thread and no region in tritonserver, however many."""
    with container.loaded("m", DENSE / "repository"):
        assert right(container, "m")
        triton, stubs, regions = container.triton(), container.stubs("m"), container.regions()
        threads = os.listdir(f"/proc/{triton}/task")
        for _ in range(3):
            (before,) = forked(container.serving, "m/")
            kill([before])
            assert right(container, "m")
            (after,) = forked(container.serving, "m/")
            assert after != before
        assert right(container, "kept")
        assert (container.stubs("m"), container.regions()) == (stubs, regions)
        most = len(threads) + 2
        until(lambda: len(os.listdir(f"/proc/{triton}/task")) <= most, "no thread is left")
        until(lambda: "it is forked again" in container.log, "the log says so")


def test_an_interpreter_that_dies_costs_its_children_nothing(container: Container) -> None:
    """The next model has another one started."""
    with container.loaded("m", DENSE / "repository"):
        before = forked(container.serving)
        kill(interpreters(container))
        assert right(container, "m")
        assert right(container, "kept")
        assert forked(container.serving) == [
            it for it in processes() if it.pid in {one.pid for one in before}
        ]
        with container.loaded("n", DENSE / "repository"):
            assert right(container, "n")
            assert len(forked(container.serving)) == 3
        (interpreter,) = interpreters(container)
        assert interpreter.command[1] == "torch"
    until(lambda: "an interpreter died" in container.log, "the log says so")
    page = container.http.get("/metrics").text
    assert 'serve_interpreter_starts_total{library="torch"} 2.0' in page
    assert 'serve_interpreter_starts_total{library="nvtabular"} 0.0' in page
    started = re.compile(r"interpreter started library=torch seconds=[0-9.]+")
    until(lambda: len(started.findall(container.log)) == 2, "the log says so")


#: Writes a TorchScript model that adds noise to its input, and another that sets a seed before.
NOISY = """
import sys, torch

class Noise(torch.nn.Module):
    def forward(self, x):
        return x + torch.rand_like(x)

class Seeded(torch.nn.Module):
    def forward(self, x):
        torch.manual_seed(7)
        return x + torch.rand_like(x)

for kind in (Noise, Seeded):
    torch.jit.script(kind()).save(sys.argv[1] + "/" + kind.__name__)
"""
NOISE_CONFIG = """
backend: "pytorch" platform: "pytorch_libtorch"
input { name: "x" data_type: TYPE_FP32 dims: [4] }
output { name: "y" data_type: TYPE_FP32 dims: [4] }
instance_group { kind: KIND_CPU count: 2 }
"""


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Archives Noise and Seeded, each with two instances."""
    folder = tmp_path_factory.mktemp("noisy")
    python = ROOT / ".venv-merlin/bin/python"
    script = folder / "noisy.py"  # TorchScript reads the source
    script.write_text(NOISY)
    subprocess.run([python, "-W", "ignore", script, folder], check=True, timeout=600)
    for kind in ("Noise", "Seeded"):
        model = folder / "archives" / kind / "noise"
        (model / "1").mkdir(parents=True)
        (folder / kind).rename(model / "1/model.pt")
        (model / "config.pbtxt").write_text(NOISE_CONFIG)
    return folder / "archives"


@pytest.mark.thorough
def test_each_model_draws_random_numbers_of_its_own(noisy: Path, tmp_path: Path) -> None:
    """Each instance of each, and anew after each load; where a model sets a seed, the seed's."""
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [4], "data": [0, 0, 0, 0]}]}
    with running(tmp_path, SERVE_MODEL_ROOT=str(noisy)) as container:
        drawn: dict[str, list[tuple[object, ...]]] = {"Noise": [], "Seeded": []}
        for _ in range(2):
            for kind, found in drawn.items():
                names = [f"{kind}{number}" for number in range(2)]
                for name in names:
                    assert container.load(name, noisy / kind).status_code == 200
                for name in names * 2:
                    found.append(tuple(values(container.invoke(name, body), "y")))
                for name in names:
                    assert container.unload(name).status_code == 200
        assert len(interpreters(container)) == 1
    assert len(set(drawn["Noise"])) == 8
    assert len(set(drawn["Seeded"])) == 1


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left(sent: signal.Signals, tmp_path: Path) -> None:
    """Whatever ends the container: of tritonserver, stubs, interpreters, and what these forked."""
    container = launch(tmp_path, SERVE_MODEL_ROOT="/")
    try:
        until(lambda: container.ping() == 200, "it has started", container)
        assert container.load("m", DENSE / "repository").status_code == 200
        sums = models.sums(tmp_path / "sums/model", [1, 2])
        assert container.load("sums", sums).status_code == 200
        assert (len(forked(container.serving)), len(interpreters(container))) == (1, 1)
        everyone = {process.pid for process in container.descendants()}
        assert everyone >= {container.triton(), *container.stubs()}
        assert len(everyone) >= 6
        container.signal(sent)
        container.wait()
        until(lambda: not container.survivors(), "nothing is left")
    finally:
        container.http.close()
        container.discard()


@pytest.mark.parametrize("without", ["the setting", "an interpreter"])
def test_what_is_not_forked(without: str, tmp_path: Path) -> None:
    """Switched off, each model's process imports its libraries itself; and where no interpreter is
    to be had, the stub runs all steps, with Triton's own classes."""
    environment = {"SERVE_MODEL_ROOT": str(ROOT / "examples")}
    if without == "the setting":
        environment["SERVE_WARM"] = "off"
    with running(tmp_path, **environment) as container:
        if without == "an interpreter":
            (container.serving.parent / "warm/torch.sock").unlink()
        with container.loaded("m", DENSE / "repository"):
            assert right(container, "m")
            assert forked(container.serving) == []
            if without == "the setting":
                assert interpreters(container) == []
            imported = [
                "libtorch" in Path(f"/proc/{pid}/maps").read_text() for pid in container.stubs()
            ]
            assert imported.count(True) == 1
            request = json.loads(REQUEST)
            request["inputs"][0]["data"].append(1)
            request["inputs"][0]["shape"] = [6]
            refused = container.invoke("m", json.dumps(request).encode())
            assert refused.status_code == 400
            said = "refused by design: column 'item_id' has 5"
            assert refused.json()["error"].startswith(said)


@pytest.mark.thorough
def test_workflows_in_nvtabular(tmp_path: Path) -> None:
    """Both workflows and the predictor are forked; what is preloaded waits for the first model."""
    export = ROOT / "examples/merlin/two_workflows"
    environment = {
        "SERVE_MODEL_ROOT": str(ROOT / "examples"),
        "SERVE_COMPILE": "off",
        "SERVE_PRELOAD": "nvtabular, torch",
    }
    with running(tmp_path, **environment) as container:
        until(lambda: len(interpreters(container)) == 2, "they are preloaded")
        with container.loaded("m", export / "repository"):
            answer = container.invoke("m", (export / "request.json").read_bytes())
            (expected,) = json.loads((export / "expected.json").read_text())["outputs"]
            found = values(answer, expected["name"])
            assert found == pytest.approx(expected["data"], rel=1e-6)
            assert len(forked(container.serving)) == 3
            assert len(interpreters(container)) == 2
            refused = container.invoke("m", b'{"inputs": []}')
            assert refused.status_code == 400


@pytest.mark.thorough
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: one thread in any case")
def test_a_model_computes_with_one_thread(container: Container, tmp_path: Path) -> None:
    """Unless there are to be as many as cores."""
    request = json.loads(REQUEST)
    for tensor in request["inputs"]:
        tensor["data"] = (tensor["data"] * 1000)[:4096]
        tensor["shape"] = [4096]
    body = json.dumps(request).encode()

    def threads(container: Container) -> int:
        with container.loaded("counted", DENSE / "repository"):
            assert container.invoke("counted", body).status_code == 200
            (process,) = forked(container.serving, "counted/")
            return len(os.listdir(f"/proc/{process.pid}/task"))

    many = {"SERVE_MODEL_ROOT": str(ROOT / "examples"), "SERVE_INTRA_OP_THREADS": "0"}
    with running(tmp_path, **many) as other:
        assert threads(container) < threads(other)
