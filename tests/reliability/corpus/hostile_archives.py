"""Archives that have hurt a container, each as a function that writes it.

`write` gets an empty directory and the marker file that hostile code would make. `allowed`: what
POST /models may be answered with. An archive that may be loaded is unloaded again by whoever tries
it. Besides, none may hurt anybody else.
"""

from __future__ import annotations

import os
import pickle
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support import models
from tests.support.container import ROOT
from tests.support.models import PythonModel

_DENSE = ROOT / "examples/merlin/dense/repository"
_REFUSED = (400,)
_SHORT = (400, 507)

Write = Callable[[Path, Path], None]


@dataclass(frozen=True)
class HostileArchive:
    """secret: text that no answer may hold. marks: whether it must never make its marker file.

    hangs: its load takes as long as it is let; SERVE_LOAD_TIMEOUT must end it (with 400 or 504).
    """

    name: str
    write: Write
    allowed: tuple[int, ...] = _REFUSED
    secret: str = ""
    marks: bool = False
    hangs: bool = False


def _model(directory: Path, model: PythonModel = models.identity) -> Path:
    model.write(directory / "m")
    return directory / "m"


def _loops(directory: Path, _: Path) -> None:
    model = _model(directory)
    for name in ("a", "b"):
        (model / "1" / name).symlink_to(".")


def _loop_above(directory: Path, _: Path) -> None:
    (_model(directory) / "1/up").symlink_to("../..")


def _fifo(directory: Path, _: Path) -> None:
    path = _model(directory) / "1/model.py"
    path.unlink()
    os.mkfifo(path)


def _fifo_config(directory: Path, _: Path) -> None:
    path = _model(directory) / "config.pbtxt"
    path.unlink()
    os.mkfifo(path)


def _environment(directory: Path, _: Path) -> None:
    path = _model(directory) / "config.pbtxt"
    path.unlink()
    path.symlink_to("/proc/self/environ")


def _endless_file(directory: Path, _: Path) -> None:
    path = _model(directory) / "config.pbtxt"
    path.unlink()
    path.symlink_to("/dev/zero")


def _outside(directory: Path, _: Path) -> None:
    elsewhere = directory.parent.parent.parent / f"outside-{directory.parent.name}"
    if not elsewhere.exists():
        models.identity.write(elsewhere)
    (directory / "m").symlink_to(elsewhere)


def _whole_disk(directory: Path, _: Path) -> None:
    (_model(directory) / "1/root").symlink_to("/")


def _device(directory: Path, _: Path) -> None:
    path = _model(directory) / "1/model.py"
    path.unlink()
    with suppress(PermissionError):  # only root makes devices; without one it is a missing file
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero


def _deep(directory: Path, _: Path) -> None:
    path = _model(directory) / "1"
    for _level in range(300):
        path = path / "deeper"
    path.mkdir(parents=True)


def _sparse_config(directory: Path, _: Path) -> None:
    os.truncate(_model(directory) / "config.pbtxt", 1 << 40)


def _config(more: str) -> Write:
    def write(directory: Path, _: Path) -> None:
        _model(directory, replace(models.identity, more=more))

    return write


_WARM_UP = """model_warmup { name: "w" batch_size: 1 inputs {
  key: "IN" value { data_type: TYPE_FP32 dims: [4000000000] zero_data: true } } }
"""
_INSTANCES = "instance_group { kind: KIND_CPU count: 1000 }\n"


class _Runs:
    """Unpickled, it makes a file."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self._marker), "w")


def _workflow(directory: Path, marker: Path) -> None:
    """A workflow whose pickle runs code, in an export whose predictor is missing."""
    shutil.copytree(_DENSE, directory, dirs_exist_ok=True)
    (path,) = directory.rglob("workflow.pkl")
    path.write_bytes(pickle.dumps(_Runs(marker)))
    for predictor in directory.glob("1_*"):
        shutil.rmtree(predictor)


def _graph(directory: Path, marker: Path) -> None:
    shutil.copytree(_DENSE, directory, dirs_exist_ok=True)
    (path,) = directory.rglob("ensemble.pkl")
    path.write_bytes(pickle.dumps(_Runs(marker)))


_UNENDING = """
import time
time.sleep(1e6)


class TritonPythonModel(Each):
    pass
"""
_DYING = """
os.kill(os.getpid(), signal.SIGKILL)


class TritonPythonModel(Each):
    pass
"""


def _python(source: str) -> Write:
    def write(directory: Path, _: Path) -> None:
        _model(directory, PythonModel(source))

    return write


def _empty(directory: Path, _: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)


HOSTILE_ARCHIVES: tuple[HostileArchive, ...] = (
    HostileArchive("1/a -> . and 1/b -> .", _loops),
    HostileArchive("1/up -> ../..", _loop_above, (200, 400)),
    HostileArchive("a FIFO as model.py", _fifo),
    HostileArchive("a FIFO as config.pbtxt", _fifo_config),
    HostileArchive("config.pbtxt -> /proc/self/environ", _environment, secret="SERVE_MODEL_ROOT"),
    HostileArchive("config.pbtxt -> /dev/zero", _endless_file),
    HostileArchive("a model directory linked to outside", _outside),
    HostileArchive("1/root -> /", _whole_disk),
    HostileArchive("a device as model.py", _device),
    HostileArchive("300 directories deep", _deep, (200, 400)),
    HostileArchive("a config.pbtxt of 1 TB, sparse", _sparse_config),
    HostileArchive("a warm-up of 16 GB", _config(_WARM_UP), _SHORT),
    HostileArchive("1,000 instances", _config(_INSTANCES), _SHORT),
    HostileArchive("a workflow.pkl that runs code", _workflow, marks=True),
    HostileArchive("an ensemble.pkl that runs code", _graph, marks=True),
    HostileArchive("a model that never ends its start", _python(_UNENDING), (400, 504), hangs=True),
    HostileArchive("a model that kills itself at its start", _python(_DYING), _SHORT),
    HostileArchive("nothing", _empty),
)
