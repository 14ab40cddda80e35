"""One instance's disk: a model's folder is there whole or not at all.

    root/<model_name>/model   an extracted archive, as /opt/ml/models/<model_name>/model
    root/.arriving/           downloads and what is being extracted
    root/.leaving/            what is being deleted

Both of the latter are on the same file system, so that models come and go by one rename.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from merlin_simulator.archives.extraction import NotExtractable, extract
from merlin_simulator.archives.stores import ArchiveStore
from merlin_simulator.errors import ArchiveUnusable, PlatformFailed, SimulatorError
from merlin_simulator.rules import ExtractionLimits
from merlin_simulator.watch.events import Value

Tell = Callable[[str, Mapping[str, Value]], object]

_ARRIVING, _LEAVING = ".arriving", ".leaving"
#: What earlier runs left: names as target_model.model_name_for makes them. Nothing else is touched.
_MODEL_NAME = re.compile(r"[0-9a-f]{32}")


class ModelDisk:
    """The extracted models of one instance; methods block and may be called from any thread.

    seen_as is root as the container sees it. A new disk is empty: models of an earlier run are
    deleted. Raises PlatformFailed where root cannot be used.
    """

    def __init__(self, root: Path, seen_as: Path | None = None) -> None:
        self._root, self._seen_as = root, seen_as or root
        self._bytes: dict[str, int] = {}
        self._lock = threading.Lock()
        with _disk_errors(root):
            if not root.is_dir():
                root.mkdir(parents=True)
                root.chmod(0o755)  # a container of another user reads it, whatever our umask
            _empty(root)
            for name in (_ARRIVING, _LEAVING):
                (root / name).mkdir(mode=0o700)

    def directory(self, model_name: str) -> Path:
        """The model's folder, there or not."""
        return self._root / model_name / "model"

    def url(self, model_name: str) -> str:
        """The model's folder as the container is told of it."""
        return str(self._seen_as / model_name / "model")

    def used(self) -> int:
        """Bytes of the files of all models."""
        with self._lock:
            return sum(self._bytes.values())

    def fetch(
        self,
        target_model: str,
        model_name: str,
        store: ArchiveStore,
        limits: ExtractionLimits,
        cancelled: Callable[[], bool],
        tell: Tell,
    ) -> int:
        """Download and extract; the bytes of the model's folder, which is there, readable by all.

        tell is called for each step, in this thread, by events' kinds. Raises ArchiveUnavailable or
        PlatformFailed, and then nothing of it is left. The model is not on the disk before.
        """
        teller = _Teller(tell, target_model)
        with self._arriving(model_name) as folder:
            archive, arrived = folder / "archive", folder / "arrived"
            teller("download_started")
            with teller.failing("download_failed"), _disk_errors(self._root):
                start = time.monotonic()
                archive_bytes = store.download(target_model, archive, cancelled)
            seconds = time.monotonic() - start
            teller("download_finished", seconds=seconds, bytes=archive_bytes)
            with teller.failing("extraction_failed"), _disk_errors(self._root):
                start = time.monotonic()
                arrived.mkdir()
                with _unusable(store, target_model):
                    disk_bytes = extract(archive, arrived / "model", limits, cancelled)
                self._arrive(model_name, arrived, disk_bytes)
        teller("extracted", seconds=time.monotonic() - start, bytes=disk_bytes)
        return disk_bytes

    def remove(self, model_name: str) -> int:
        """Delete a model's folder; the bytes that this freed, 0 when there was none.

        It is renamed away first, so it is never seen half deleted. Raises PlatformFailed where
        files remain; they are not counted any more and go with the next start.
        """
        with _disk_errors(self._root):
            gone = Path(tempfile.mkdtemp(dir=self._root / _LEAVING))
            try:
                (self._root / model_name).rename(gone / model_name)
            except FileNotFoundError:
                gone.rmdir()
                return 0
            with self._lock:
                freed = self._bytes.pop(model_name, 0)
            shutil.rmtree(gone)
        return freed

    def _arrive(self, model_name: str, arrived: Path, disk_bytes: int) -> None:
        arrived.chmod(0o755)
        arrived.rename(self._root / model_name)
        with self._lock:
            self._bytes[model_name] = disk_bytes

    @contextmanager
    def _arriving(self, model_name: str) -> Iterator[Path]:
        """A folder for the work, removed in every outcome."""
        with _disk_errors(self._root):
            folder = Path(tempfile.mkdtemp(dir=self._root / _ARRIVING, prefix=f"{model_name}."))
            try:
                yield folder
            finally:
                shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class _Teller:
    """Reports the steps of one target model."""

    tell: Tell
    target_model: str

    def __call__(self, kind: str, **fields: Value) -> None:
        self.tell(kind, {"target_model": self.target_model, **fields})

    @contextmanager
    def failing(self, kind: str) -> Iterator[None]:
        """Tell of the block's failure, too."""
        try:
            yield
        except SimulatorError as error:
            self(kind, message=str(error))
            raise


@contextmanager
def _unusable(store: ArchiveStore, target_model: str) -> Iterator[None]:
    try:
        yield
    except NotExtractable as error:
        raise ArchiveUnusable(store.bucket, store.key(target_model), str(error)) from error


@contextmanager
def _disk_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PlatformFailed(
            f"The models' disk at {root} cannot be used: {error.strerror or error}. "
            "Make room there, make it writable, or name another folder."
        ) from error


def _empty(root: Path) -> None:
    """Delete what earlier runs left."""
    for path in root.iterdir():
        if path.name in (_ARRIVING, _LEAVING) or _MODEL_NAME.fullmatch(path.name):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
