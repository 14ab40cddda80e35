"""A machine with two GPUs and an older driver, made of device files and libraries like NVIDIA's.

The container, the management library's binding and tritonserver are real. tritonserver sees no GPU,
so that what is for one runs on the CPU.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import models
from tests.support.container import ROOT, Container, running
from tests.support.cuda_machine import add_libraries, add_nvml, make_machine
from tests.support.protocol import complaint, infer, values

pytestmark = pytest.mark.tritonserver

MIB = 1024 * 1024
DENSE = ROOT / "examples/merlin/dense"
EXPECTED = json.loads((DENSE / "expected.json").read_text())["outputs"][0]
WORKFLOW = "0_transformworkflowtriton"
#: Of each GPU: the reserve, a first guess of one process (414 MiB), and a little.
FREE = (256 + 414 + 30) * MIB
DRIVER, COMPAT = "535.104.05", "550.54.15"
COMPAT_FOLDER = "usr/local/cuda/compat/lib.real"
ONE, TWO, TWO_ON_THE_CPU = "", "count: 2", "count: 2 kind: KIND_CPU"


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """The container on it, and a model on the CPU: an empty endpoint tries whatever it is asked."""
    directory = tmp_path_factory.mktemp("gpus")
    root = make_machine(directory / "machine", DRIVER, gpus=2)
    add_libraries(root, COMPAT, COMPAT_FOLDER)
    nvml = add_nvml(root, gpus=2, free=FREE, total=16 << 30)
    with (
        running(
            directory,
            program="tests.support.cuda_machine",
            CUDA_MACHINE=str(root),
            LD_LIBRARY_PATH=str(nvml),
            SERVE_MODEL_ROOT="/",
        ) as container,
        container.loaded("witness", write(directory, "witness", 1, TWO_ON_THE_CPU)),
    ):
        yield container


def write(directory: Path, name: str, addend: int, group: str) -> Path:
    """A Python model with one instance group, which says that."""
    archive = models.write_archive(directory / f"{name}/model", {"m": models.adder(addend)})
    (config,) = archive.rglob("config.pbtxt")
    text, replaced = re.subn(
        "instance_group {.*?}", f"instance_group {{ {group} }}", config.read_text()
    )
    assert replaced == 1
    config.write_text(text)
    return archive


def library_path(pid: int) -> list[str]:
    """Where a process's loader looks first."""
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    (found,) = (it for it in entries if it.startswith(b"LD_LIBRARY_PATH="))
    return os.fsdecode(found).partition("=")[2].split(":")


def test_a_merlin_export(machine: Container) -> None:
    """Its predictor has room on both; its workflow needs none, and is kept on the CPU.

    The start says how many GPUs there are, what becomes of the driver, and who is not forked.
    The compatibility libraries come before the host's for tritonserver and for its processes.
    """
    (configured,) = (line for line in machine.log.splitlines() if " configured " in line)
    assert "gpus=2" in configured
    assert (
        "there are GPUs: models that may use one import their libraries themselves" in machine.log
    )
    (line,) = (it for it in machine.log.splitlines() if "CUDA compatibility" in it)
    assert "are used: the driver is older than this image's CUDA" in line
    assert f"driver={DRIVER} libraries={COMPAT} path=" in line
    assert not [it for it in machine.descendants() if it.command[0] == "merlin-interpreter"]
    with machine.loaded("dense", DENSE / "repository"):
        answer = machine.invoke("dense", (DENSE / "request.json").read_bytes())
        assert values(answer, EXPECTED["name"]) == pytest.approx(EXPECTED["data"], rel=1e-6)
        (published,) = machine.serving.glob(f"dense*{WORKFLOW}/config.pbtxt")
        assert "KIND_CPU" in published.read_text()
        assert machine.stubs()
        for pid in (machine.triton(), *machine.stubs()):
            first, *others = library_path(pid)
            assert first.endswith(f"/machine/{COMPAT_FOLDER}")
            assert any(path.endswith("/usr/lib/nvidia") for path in others)


def test_a_config_that_names_no_kind(machine: Container, tmp_path: Path) -> None:
    """It is for every GPU: one process has room on each, two have not. What is lacking, where, and
    what to do is said; on the CPU the same has room."""
    with machine.loaded("one", write(tmp_path, "one", 2, ONE)):
        assert values(machine.invoke("one", infer([1]))) == [3.0]
        answer = machine.load("two", write(tmp_path, "two", 3, TWO))
        assert answer.status_code == 507, answer.text
        assert complaint(answer) == (
            "no memory of GPU 0 to load the model two: 700 MiB available, and 256 MiB are kept "
            "free (SERVE_GPU_MEMORY_RESERVE_MB); the load is expected to take 828 MiB, by its "
            "form and its files' sizes: unload a model"
        )
        with machine.loaded("two", write(tmp_path, "cpu", 3, TWO_ON_THE_CPU)):
            assert values(machine.invoke("two", infer([1]))) == [4.0]
