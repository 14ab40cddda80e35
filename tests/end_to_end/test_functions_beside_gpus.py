"""Functions of users' on a machine with GPUs: those that can use none are forked, and see none.

The GPUs are device files and a made management library. Interpreters import, before all else, a
library that initialises CUDA where it sees a GPU, and fails in a fork of a process that did; so
does a stub whose functions name it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.test_contract_warm import forked, interpreters
from tests.end_to_end.test_functions import PROGRAM, PYTHON, ask
from tests.support import made_cuda
from tests.support.container import Container, running, until
from tests.support.cuda_machine import add_nvml, make_machine
from tests.support.protocol import values
from tests.support.tritons import TRITONS

pytestmark = pytest.mark.tritonserver

GIB = 1 << 30


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("functions")
    command: list[str | Path] = [PYTHON, "-W", "ignore", PROGRAM, folder]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    for name in ("cuda_named", "cuda_imported"):
        shutil.copy(made_cuda.__file__, folder / name / "0_transformworkflowtriton/1")
    return folder


@pytest.fixture(scope="module", params=TRITONS)
def container(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, exports: Path
) -> Iterator[Container]:
    folder = tmp_path_factory.mktemp("gpus")
    root = make_machine(folder / "machine", "550.54.15", gpus=2)
    nvml = add_nvml(root, gpus=2, free=8 * GIB, total=16 * GIB)
    packages = folder / "packages"
    packages.mkdir()
    shutil.copy(made_cuda.__file__, packages)
    (packages / "sitecustomize.py").write_text("import made_cuda\n")
    environment = {
        **TRITONS[request.param],
        "CUDA_MACHINE": str(root),
        "LD_LIBRARY_PATH": str(nvml),
        "PYTHONPATH": str(packages),
        made_cuda.RECORD: str(folder / "initialised"),
        "SERVE_MODEL_ROOT": str(exports),
        "SERVE_PRELOAD": "torch,pandas",
    }
    with running(folder, program="tests.support.cuda_machine", **environment) as container:
        yield container


def read_initialised(container: Container) -> set[int]:
    """The processes that have initialised CUDA."""
    return {int(pid) for pid in (container.log_path.parent / "initialised").read_text().split()}


def test_the_start_says_who_is_forked(container: Container) -> None:
    """And that what is to be preloaded, and may use a GPU, is not."""
    (line,) = (it for it in container.log.splitlines() if "there are GPUs: models that may" in it)
    assert line.endswith('import their libraries themselves interpreters="feast, pandas"')
    (line,) = (it for it in container.log.splitlines() if "SERVE_PRELOAD names" in it)
    assert line.endswith(
        "SERVE_PRELOAD names torch, and there are GPUs: models of that import it themselves; "
        "name none but feast, pandas"
    )
    until(lambda: interpreters(container), "it is preloaded")
    assert [it.command[1] for it in interpreters(container)] == ["pandas"]
    page = container.http.get("/metrics").text.splitlines()
    started = [it for it in page if it.startswith("serve_interpreter_starts_total{")]
    assert {it.split('"')[1] for it in started} == {"feast", "pandas"}


def test_who_uses_no_gpu_is_forked(container: Container, exports: Path) -> None:
    """On the CPU, with the numbers of a process of its own."""
    with container.loaded("alone", exports / "alone"):
        answer = ask(container, "alone", "user", "time", "price")
        assert values(answer, "user") == [1, 2]
        assert values(answer, "told_list") == [0, 0, 0, 7]
        assert values(answer, "told_max") == values(answer, "user_told_max") == [0, 0]
        assert len(forked(container.serving, "alone/")) == 1
        (published,) = container.serving.glob("alone/config.pbtxt")
        assert "KIND_CPU" in published.read_text()
        (stub,) = container.stubs("alone")
        assert "/pandas/" not in Path(f"/proc/{stub}/maps").read_text()


def test_who_needs_nvtabular_has_it_without_a_gpu(container: Container, exports: Path) -> None:
    """Merlin counts the GPUs by the management library, and goes by what is visible."""
    with container.loaded("derived", exports / "derived"):
        assert values(ask(container, "derived", "user", "price"), "price") == [4.0] * 6


@pytest.mark.parametrize(
    ("name", "devices"), [("cuda_found", 0), ("cuda_named", 1), ("cuda_imported", 1)]
)
def test_a_library_that_uses_gpus(
    name: str, devices: int, container: Container, exports: Path
) -> None:
    """Functions that name it are in a process of their own, which sees them.

    Where a fork has the library, it has not initialised CUDA, nor has the interpreter.
    """
    with container.loaded(name, exports / name):
        assert values(ask(container, name, "user", "price"), "price") == [float(devices)] * 6
        children = {it.pid for it in forked(container.serving, f"{name}/")}
        assert len(children) == 1 - devices
        without = children | {it.pid for it in interpreters(container)}
        assert without.isdisjoint(read_initialised(container))
        if devices:
            assert container.stubs(name) <= read_initialised(container)
