"""A model's folder is on the disk whole or not at all, and the sum of bytes says what is there."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from merlin_simulator.archives.model_disk import ModelDisk
from merlin_simulator.archives.stores import FolderArchives
from merlin_simulator.errors import (
    ArchiveUnavailable,
    ArchiveUnusable,
    PlatformFailed,
    SimulatorError,
)
from merlin_simulator.instance.requests import make_model_name
from merlin_simulator.rules import ExtractionLimits
from merlin_simulator.watch.events import Value
from simulator.tests.unit.archives.disks import going_on, small_files

LIMITS = ExtractionLimits()
A, B = make_model_name("i", "a.tar.gz"), make_model_name("i", "b.tar.gz")


def pack(file: Path, **members: bytes) -> None:
    with tarfile.open(file, "w:gz", compresslevel=1) as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(f"m/{name}")
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


@pytest.fixture
def store(tmp_path: Path) -> FolderArchives:
    """Two good archives, one that is none, and one with a size that takes a while."""
    folder = tmp_path / "archives"
    folder.mkdir()
    pack(folder / "a.tar.gz", x=b"abc", y=b"de")
    pack(folder / "b.tar.gz", x=b"1")
    pack(folder / "large.tar.gz", x=os.urandom(3_000_000))
    (folder / "bad.tar.gz").write_bytes(b"<html>")
    return FolderArchives(folder)


class Steps:
    """What was told: kinds, and their fields by kind."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.fields: dict[str, Mapping[str, Value]] = {}

    def __call__(self, kind: str, fields: Mapping[str, Value]) -> None:
        self.kinds.append(kind)
        self.fields[kind] = fields


def fetched(
    disk: ModelDisk,
    store: FolderArchives,
    target_model: str = "a.tar.gz",
    told: Callable[[str, Mapping[str, Value]], object] = lambda kind, fields: None,
    cancelled: Callable[[], bool] = going_on,
) -> int:
    name = make_model_name("i", target_model)
    return disk.fetch(target_model, name, store, LIMITS, cancelled, told)


def nothing_arriving(root: Path) -> bool:
    return not [*(root / ".arriving").iterdir(), *(root / ".leaving").iterdir()]


def test_a_model_is_fetched_told_of_and_removed(tmp_path: Path, store: FolderArchives) -> None:
    """Its folder, its url, its bytes, and every step with the fields of events.py."""
    disk, steps = ModelDisk(tmp_path / "disk"), Steps()
    got = fetched(disk, store, told=steps)
    assert disk.directory(A) == tmp_path / "disk" / A / "model"
    assert disk.url(A) == str(disk.directory(A))
    assert (disk.directory(A) / "m" / "x").read_bytes() == b"abc"
    assert (got, disk.used()) == (5, 5)
    assert steps.kinds == ["download_started", "download_finished", "extracted"]
    archive_bytes = (tmp_path / "archives" / "a.tar.gz").stat().st_size
    for kind, size in (("download_finished", archive_bytes), ("extracted", 5)):
        told = dict(steps.fields[kind])
        assert 0 <= float(str(told.pop("seconds"))) < 60
        assert told == {"target_model": "a.tar.gz", "bytes": size}
    assert steps.fields["download_started"] == {"target_model": "a.tar.gz"}
    assert disk.remove(A) == 5
    assert (disk.used(), disk.directory(A).exists()) == (0, False)
    assert nothing_arriving(tmp_path / "disk")


def test_the_used_bytes_are_the_sum_over_all_models(tmp_path: Path, store: FolderArchives) -> None:
    """Removing what is not there frees nothing, and a model can come again."""
    disk = ModelDisk(tmp_path / "disk")
    fetched(disk, store)
    fetched(disk, store, "b.tar.gz")
    assert disk.used() == 6
    assert [disk.remove(A), disk.remove(A), disk.remove("f" * 32)] == [5, 0, 0]
    assert disk.used() == 1
    fetched(disk, store)
    assert disk.used() == 6


def test_the_container_is_told_its_own_path(tmp_path: Path) -> None:
    """A docker volume has one path here and another there."""
    disk = ModelDisk(tmp_path / "disk", seen_as=Path("/opt/ml/models"))
    assert disk.url(A) == f"/opt/ml/models/{A}/model"
    assert disk.directory(A) == tmp_path / "disk" / A / "model"


def test_every_user_can_read_the_models(tmp_path: Path, store: FolderArchives) -> None:
    """From the root down, whatever the umask: the container's user is another."""
    before = os.umask(0o077)
    try:
        disk = ModelDisk(tmp_path / "disk")
        fetched(disk, store)
    finally:
        os.umask(before)
    for path in (tmp_path / "disk", disk.directory(A).parent, disk.directory(A)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert stat.S_IMODE((disk.directory(A) / "m" / "x").stat().st_mode) == 0o644


@pytest.mark.parametrize(
    ("target_model", "error", "kinds"),
    [
        ("none.tar.gz", ArchiveUnavailable, ["download_started", "download_failed"]),
        (
            "bad.tar.gz",
            ArchiveUnusable,
            ["download_started", "download_finished", "extraction_failed"],
        ),
    ],
)
def test_what_fails_is_told_and_leaves_nothing(
    tmp_path: Path,
    store: FolderArchives,
    target_model: str,
    error: type[SimulatorError],
    kinds: list[str],
) -> None:
    """The last step's message is the exception's; bucket and key are in it."""
    disk, steps = ModelDisk(tmp_path / "disk"), Steps()
    with pytest.raises(error) as raised:
        fetched(disk, store, target_model, steps)
    assert type(raised.value) is error
    assert steps.kinds == kinds
    assert steps.fields[kinds[-1]] == {"target_model": target_model, "message": str(raised.value)}
    assert f"(bucket: {store.bucket}, key: {target_model})" in str(raised.value)
    assert disk.used() == 0
    assert nothing_arriving(tmp_path / "disk")
    assert not disk.directory(make_model_name("i", target_model)).parent.exists()


@pytest.mark.parametrize("step", ["download", "extraction"])
def test_a_disk_that_takes_no_more_is_told_with_its_folder(
    tmp_path: Path, store: FolderArchives, step: str
) -> None:
    """PlatformFailed, at either step, and nothing of the model is left."""
    disk, steps = ModelDisk(tmp_path / "disk"), Steps()
    archive = tmp_path / "archives" / "large.tar.gz"
    if step == "extraction":
        pack(archive, x=b"0" * 3_000_000)
    assert (archive.stat().st_size > 100_000) == (step == "download")
    with small_files(100_000), pytest.raises(PlatformFailed, match=str(tmp_path / "disk")):
        fetched(disk, store, "large.tar.gz", steps)
    assert steps.kinds[-1] == f"{step}_failed"
    assert nothing_arriving(tmp_path / "disk")
    assert disk.used() == 0


def test_given_up_in_either_step_nothing_is_left(tmp_path: Path, store: FolderArchives) -> None:
    """The endpoint stops while a model is on its way."""
    disk = ModelDisk(tmp_path / "disk")
    for asked in range(1, 8):
        answer = iter([False] * asked + [True] * 100).__next__
        steps = Steps()
        with pytest.raises(PlatformFailed, match="given up"):
            fetched(disk, store, "large.tar.gz", steps, answer)
        assert nothing_arriving(tmp_path / "disk")
        assert disk.used() == 0
    assert steps.kinds[-1] == "extraction_failed"


def test_the_folder_appears_whole(tmp_path: Path, store: FolderArchives) -> None:
    """At every moment of a fetch the model is not there; when it is there it is complete."""
    disk = ModelDisk(tmp_path / "disk")
    seen: list[bool] = []

    def looking() -> bool:
        seen.append(disk.directory(make_model_name("i", "large.tar.gz")).parent.exists())
        return False

    fetched(disk, store, "large.tar.gz", cancelled=looking)
    assert len(seen) > 5
    assert not any(seen)


def test_a_model_that_is_there_is_not_overwritten(tmp_path: Path, store: FolderArchives) -> None:
    """A second fetch is the caller's mistake: it fails, and the first model stays."""
    disk = ModelDisk(tmp_path / "disk")
    fetched(disk, store)
    with pytest.raises(PlatformFailed, match="not empty"):
        fetched(disk, store)
    assert (disk.directory(A) / "m" / "x").read_bytes() == b"abc"
    assert disk.used() == 5


def test_many_models_come_and_go_at_once(tmp_path: Path, store: FolderArchives) -> None:
    """From several threads; the sum is right at the end, and no work files are left."""
    disk = ModelDisk(tmp_path / "disk")
    folder = tmp_path / "archives"
    for i in range(24):
        pack(folder / f"{i}.tar.gz", x=b"x" * i)
    start = threading.Barrier(8)

    def work(worker: int) -> None:
        start.wait(60)
        for i in range(worker, 24, 8):
            fetched(disk, store, f"{i}.tar.gz")
            if i % 2:
                assert disk.remove(make_model_name("i", f"{i}.tar.gz")) == i

    with ThreadPoolExecutor(8) as workers:
        list(workers.map(work, range(8)))
    assert disk.used() == sum(range(0, 24, 2))
    assert nothing_arriving(tmp_path / "disk")


def test_a_new_disk_is_empty_and_touches_nothing_else(tmp_path: Path) -> None:
    """Models and work files of an earlier run go; what is not the simulator's stays."""
    root = tmp_path / "disk"
    for name in (A, ".arriving", ".leaving", "notes", "A" * 32):
        (root / name / "model").mkdir(parents=True)
        (root / name / "model" / "x").write_bytes(b"x")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").touch()
    (root / B).symlink_to(tmp_path / "elsewhere")
    disk = ModelDisk(root)
    assert sorted(path.name for path in root.iterdir()) == [
        ".arriving",
        ".leaving",
        "A" * 32,
        "notes",
    ]
    assert (root / "notes" / "model" / "x").exists()
    assert (tmp_path / "elsewhere" / "x").exists()
    assert nothing_arriving(root)
    assert disk.used() == 0


def test_a_root_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """A file in its place; the message says which and what to do."""
    (tmp_path / "file").touch()
    with pytest.raises(PlatformFailed, match=rf"{tmp_path}/file/disk .*name another folder"):
        ModelDisk(tmp_path / "file" / "disk")
