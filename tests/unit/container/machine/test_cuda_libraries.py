"""CUDA compatibility libraries in each layout of an image, really loaded where they are tried."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from container.machine.cuda_libraries import arrange_cuda_compat, count_gpus, look
from tests.support.cuda_machine import OPEN, add_libraries, make_machine

PLAIN, TRITONS = "usr/local/cuda/compat", "usr/local/cuda/compat/lib.real"


def arranged(root: Path, caplog: pytest.LogCaptureFixture, **environment: str) -> Path | None:
    with caplog.at_level(logging.INFO):
        return arrange_cuda_compat("auto", {**os.environ, **environment}, root)


@pytest.mark.parametrize("folder", [PLAIN, TRITONS])
def test_each_layout(folder: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The folder that holds libcuda.so.1 goes first, and one line names both versions."""
    make_machine(tmp_path, "535.104.05")
    path = add_libraries(tmp_path, "550.54.15", folder)
    assert arranged(tmp_path, caplog) == path == tmp_path / folder
    (record,) = caplog.records
    assert record.levelname == "INFO"
    assert record.getMessage().startswith("CUDA compatibility libraries are used: the driver is")
    assert (record.__dict__["driver"], record.__dict__["libraries"]) == ("535.104.05", "550.54.15")


def test_another_place(tmp_path: Path) -> None:
    """NVIDIA's images name theirs in _CUDA_COMPAT_PATH; a folder that is gone is no obstacle."""
    make_machine(tmp_path, "535.104.05")
    path = add_libraries(tmp_path, "590.44.01", "opt/compat/lib.real")
    for named, expected in (("/opt/compat", path), ("/nowhere", None), ("", None)):
        found = look({"_CUDA_COMPAT_PATH": named}, tmp_path).libraries
        assert (found.folder if found else None) == expected


def test_a_link_that_leads_nowhere(tmp_path: Path) -> None:
    """A `lib.real` without its library is passed over."""
    make_machine(tmp_path, "535.104.05")
    (tmp_path / TRITONS).mkdir(parents=True)
    (tmp_path / TRITONS / "libcuda.so.1").symlink_to("libcuda.so.550.54.15")
    assert look({}, tmp_path).libraries is None
    (tmp_path / TRITONS / "libcuda.so.1").unlink()
    assert add_libraries(tmp_path, "550.54.15") == tmp_path / PLAIN
    found = look({}, tmp_path).libraries
    assert found is not None
    assert (found.folder, found.version, found.branches) == (tmp_path / PLAIN, "550.54.15", ())


def test_a_copy_in_the_place_of_a_link(tmp_path: Path) -> None:
    """Where an image was unpacked without links, the file beside it has the version."""
    make_machine(tmp_path, "535.104.05")
    library = add_libraries(tmp_path, "550.54.15") / "libcuda.so.1"
    content = library.read_bytes()
    library.unlink()
    library.write_bytes(content)
    found = look({}, tmp_path).libraries
    assert found is not None
    assert found.version == "550.54.15"


def test_a_driver_that_is_too_old(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The libraries themselves say which drivers they work with."""
    make_machine(tmp_path, "470.256.02")
    add_libraries(tmp_path, "575.57.08", TRITONS, drivers=(535, 550, 575))
    assert arranged(tmp_path, caplog) is None
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert "do not work with a driver 470, but with 535, 550" in record.getMessage()


@pytest.mark.parametrize(
    ("result", "said"), [(804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE"), (803, "cuInit()")]
)
def test_a_gpu_that_they_do_not_work_with(
    result: int, said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What CUDA says of them in a process of its own decides."""
    make_machine(tmp_path, "535.104.05", OPEN)
    add_libraries(tmp_path, "550.54.15", result=result)
    assert arranged(tmp_path, caplog) is None
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert said in record.getMessage()


def test_a_library_that_cannot_be_loaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_machine(tmp_path, "535.104.05")
    path = add_libraries(tmp_path, "550.54.15")
    (path / "libcuda.so.550.54.15").write_bytes(b"")
    assert arranged(tmp_path, caplog) is None
    assert "libcuda.so.1: file too short" in caplog.text


def test_a_driver_that_needs_none(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    make_machine(tmp_path, "580.142", OPEN)
    add_libraries(tmp_path, "550.54.15", TRITONS)
    assert arranged(tmp_path, caplog) is None
    assert [record.getMessage() for record in caplog.records] == [
        "CUDA compatibility libraries are not needed"
    ]


def test_an_image_without_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The image's own word for what it was built for makes a warning of it."""
    make_machine(tmp_path, "470.256.02")
    assert arranged(tmp_path, caplog) is None
    assert arranged(tmp_path, caplog, CUDA_DRIVER_VERSION="575.57.08") is None
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_no_gpu(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A host's driver is seen in every container; one without a GPU says and does nothing."""
    make_machine(tmp_path, "535.104.05")
    add_libraries(tmp_path, "550.54.15")
    (tmp_path / "dev/nvidia0").unlink()
    assert arranged(tmp_path, caplog) is None
    assert not caplog.records


def test_gpus_are_counted_by_their_device_files(tmp_path: Path) -> None:
    """nvidiactl and its like are not GPUs."""
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert count_gpus(tmp_path) == 2
