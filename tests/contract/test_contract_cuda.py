"""CUDA compatibility libraries, before the host's for everything that runs models."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.container import ROOT, running
from tests.support.cuda_machine import add_libraries, make_machine
from tests.support.protocol import values

pytestmark = pytest.mark.tritonserver

DENSE = ROOT / "examples/merlin/dense"
EXPECTED = json.loads((DENSE / "expected.json").read_text())["outputs"][0]


def library_path(pid: int) -> list[str]:
    """Where a process's loader looks first."""
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    (found,) = (it for it in entries if it.startswith(b"LD_LIBRARY_PATH="))
    return os.fsdecode(found).partition("=")[2].split(":")


def test_tritonserver_and_all_that_runs_models(tmp_path: Path) -> None:
    """On a machine with an older driver: the server and a stub; one line says so, with both
    versions. The image's own folders stay behind, and answers are right."""
    machine = make_machine(tmp_path / "machine", "535.104.05")
    folder = add_libraries(machine, "550.54.15", "usr/local/cuda/compat/lib.real")
    with running(
        tmp_path,
        program="tests.support.cuda_machine",
        CUDA_MACHINE=str(machine),
        LD_LIBRARY_PATH="/usr/local/nvidia/lib64",
        SERVE_MODEL_ROOT=str(ROOT / "examples"),
    ) as container:
        (line,) = (it for it in container.log.splitlines() if "CUDA compatibility" in it)
        assert "are used: the driver is older than this image's CUDA" in line
        assert f"driver=535.104.05 libraries=550.54.15 path={folder}" in line
        with container.loaded("dense", DENSE / "repository"):
            answer = container.invoke("dense", (DENSE / "request.json").read_bytes())
            assert values(answer, EXPECTED["name"]) == pytest.approx(EXPECTED["data"], rel=1e-6)
            stubs = container.stubs()
            assert stubs
            for pid in (container.triton(), *stubs):
                path = library_path(pid)
                assert path[0] == str(folder)
                assert "/usr/local/nvidia/lib64" in path[1:]
