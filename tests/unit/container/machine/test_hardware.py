"""What defaults of settings depend on."""

from __future__ import annotations

import os
from pathlib import Path

from container.machine.hardware import Hardware, look_at_hardware


def test_gpus_and_shared_memory(tmp_path: Path) -> None:
    """GPUs by their device files, /dev/shm by its file system."""
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl"):
        (tmp_path / "dev" / name).touch()
    found = os.statvfs("/dev/shm")
    assert look_at_hardware(tmp_path) == Hardware(2, found.f_blocks * found.f_frsize or None)


def test_no_shared_memory(tmp_path: Path) -> None:
    """What cannot be looked at is not known."""
    assert look_at_hardware(tmp_path, tmp_path / "none") == Hardware(0, None)
