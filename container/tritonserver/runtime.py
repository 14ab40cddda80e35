"""Finds tritonserver and makes it able to run the models' Python.

Two layouts are met. NVIDIA's image holds `/opt/tritonserver/{bin,lib,backends,caches}`. The wheel
nvidia-pytriton holds `pytriton/tritonserver/{bin,backends,caches,python_backend_stubs}` with its
libraries in `nvidia_pytriton.libs` beside `pytriton`, which the RPATH of each file finds relative
to the file. Site-packages stay as they are: what is missing is put into an overlay.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from container.errors import RuntimeNotFound, RuntimeUnusable
from container.machine.children import ask_command, read_last_words
from container.settings.reading import Settings
from container.traces_endpoint import find_traces_endpoint
from container.tritonserver.backends import list_backends
from container.tritonserver.features import (
    OWN_REGIONS,
    PYTHON_BASED,
    TRACEPARENT,
    WHEEL_LIBRARIES,
    find_features,
)
from container.tritonserver.python_utils import UTILS, write_faster_utils
from container.tritonserver.stub import (
    STUB,
    check_numpy,
    check_python,
    find_installed_numpy,
    python_of,
    read_version,
)

log = logging.getLogger(__name__)

IMAGE_SERVER = Path("/opt/tritonserver/bin/tritonserver")
WHEEL_SERVER = Path("pytriton/tritonserver/bin/tritonserver")  # under site-packages
STAND_INS = Path(__file__).parents[1] / "backends"
#: A checkout's two: with Merlin in it, and with numpy and torch alone; the first one that is there.
_CHECKOUT = Path(__file__).parents[2]
MERLIN_PYTHON = _CHECKOUT / ".venv-merlin/bin/python"
SMALL_PYTHON = _CHECKOUT / ".venv-models/bin/python"
QUESTION_TIMEOUT_S = 30.0  # an interpreter's first start from a cold disk

_QUESTION = """
import json, sys, sysconfig
from importlib import metadata
def version(package):
    try:
        return metadata.version(package) or ""
    except metadata.PackageNotFoundError:
        return ""
print(json.dumps({
    "version": "%d.%d" % sys.version_info[:2],
    "library_directory": sysconfig.get_config_var("LIBDIR") or "",
    "library": sysconfig.get_config_var("INSTSONAME") or "",
    "prefix": sys.prefix,
    "packages": [[name, found] for name in sys.argv[1:] if (found := version(name))],
}))
"""
#: What models import, as packages are called, that a start tells the versions of.
_PACKAGES = (
    *("numpy", "torch", "tensorflow", "xgboost", "lightgbm", "nvtabular", "merlin-systems"),
    *("faiss-cpu", "faiss-gpu", "feast", "implicit"),
)


@dataclass(frozen=True)
class BackendPython:
    """The interpreter whose packages Python models get, as it describes itself."""

    executable: Path
    version: str
    prefix: Path
    #: Holds its libpython; None where it has none of its own there.
    library_directory: Path | None
    #: The version that it has, empty for none.
    nvtabular: str = ""
    #: The version that it has, empty for none.
    numpy: str = ""
    #: The versions of all packages that are asked for and there.
    packages: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class ModelsPython:
    """The Python that tritonserver runs models with, and its backends."""

    #: None for the image's own arrangement, and as long as it is not known.
    python: BackendPython | None = None
    #: The backends that have a stand-in of ours; none as long as they are not known.
    stand_ins: tuple[str, ...] = ()
    #: All backends; none as long as they are not known.
    backends: tuple[str, ...] = ()

    @property
    def nvtabular(self) -> str:
        """The version that it has; empty for none and for one that is not known."""
        return self.python.nvtabular if self.python is not None else ""


@dataclass(frozen=True)
class TritonRuntime:
    """How tritonserver is to be run."""

    executable: Path
    backend_directory: Path
    cache_directory: Path | None
    #: Goes first on PATH.
    bin_path: Path | None
    #: Goes first on LD_LIBRARY_PATH.
    library_path: Path | None
    #: Our own server's virtual environment, which leaves PATH.
    server_bin: Path | None
    backend_python: BackendPython | None
    #: The backends that have a stand-in of ours.
    stand_ins: tuple[str, ...]
    #: Those stand-ins that take no config of the Python backend's (_stand_apart).
    configured_apart: tuple[str, ...] = ()
    #: The features of this version.
    knows: frozenset[str] = frozenset()
    #: As the image has it, empty where it says none.
    version: str = ""

    @property
    def backends(self) -> tuple[str, ...]:
        """The names of all that there are; looks into the directory."""
        python_based = PYTHON_BASED in self.knows
        return tuple(list_backends(self.backend_directory, python_based=python_based))


def find_runtime(
    settings: Settings, work_dir: Path, environment: Mapping[str, str]
) -> TritonRuntime:
    """Finds tritonserver, and makes its overlay in `work_dir/runtime` where one is needed.

    Blocks: it starts the backend's interpreter once. Raises RuntimeNotFound or RuntimeUnusable.
    """
    executable = find_tritonserver(settings.triton_server, environment)
    root = executable.parent.parent
    from_wheel = (root / "python_backend_stubs").is_dir()
    python = _find_backend_python(settings.backend_python, environment, needed=from_wheel)
    traces = find_traces_endpoint(environment)
    knows = find_features(executable, () if traces else {TRACEPARENT})
    stand_ins = _stand_ins(root, PYTHON_BASED in knows)
    overlay = work_dir / "runtime"
    if from_wheel:
        assert python is not None
        backends = _make_wheel_overlay(overlay, root, python, stand_ins)
    else:
        check_stub(root / "backends/python" / STUB, python, environment)
        utils = _write_utils(root, work_dir)
        if stand_ins or utils is not None:
            backends = _make_plain_overlay(overlay, root, stand_ins, utils)
        else:
            backends = root / "backends"
    apart = () if OWN_REGIONS in knows else stand_ins
    for name in stand_ins:
        if name in apart:
            _stand_apart(backends, name)
        else:
            (backends / name).symlink_to(STAND_INS / name)
    caches = root / "caches"
    return TritonRuntime(
        executable=executable,
        backend_directory=backends,
        cache_directory=caches if caches.is_dir() else None,
        bin_path=python.executable.parent if python else None,
        library_path=python.library_directory if python else None,
        server_bin=own_environment_bin(),
        backend_python=python,
        stand_ins=stand_ins,
        configured_apart=apart,
        knows=knows,
        version=read_version(root),
    )


def find_tritonserver(configured: Path | None, environment: Mapping[str, str]) -> Path:
    """The executable, with symbolic links resolved, so that its neighbours are found.

    Raises RuntimeNotFound, which names every place.
    """
    searched: list[str] = []
    for source, path in _list_candidates(configured, environment):
        searched.append(source)
        if path and path.is_file() and os.access(path, os.X_OK):
            return path.resolve()
    raise RuntimeNotFound(searched)


def own_environment_bin() -> Path | None:
    """The programs of the virtual environment that runs us; None outside of one."""
    return Path(sys.prefix) / "bin" if sys.prefix != sys.base_prefix else None


def _list_candidates(
    configured: Path | None, environment: Mapping[str, str]
) -> Iterator[tuple[str, Path | None]]:
    if configured:  # it was asked for: nothing else will do
        yield f"SERVE_TRITON_SERVER={configured}", configured
        return
    yield str(IMAGE_SERVER), IMAGE_SERVER
    executable = shutil.which("tritonserver", path=environment.get("PATH", ""))
    yield "PATH", Path(executable) if executable else None
    for packages in dict.fromkeys(sysconfig.get_path(kind) for kind in ("platlib", "purelib")):
        path = Path(packages) / WHEEL_SERVER
        yield str(path), path


def _find_backend_python(
    configured: Path | None, environment: Mapping[str, str], *, needed: bool
) -> BackendPython | None:
    """The configured interpreter, else the first of the default ones.

    None: the image's own arrangement is left alone.
    """
    if configured:
        return ask_interpreter(configured)
    for default in (MERLIN_PYTHON, SMALL_PYTHON):
        if default.exists():
            return ask_interpreter(default)
    return ask_interpreter(find_python_on_path(environment)) if needed else None


def find_python_on_path(environment: Mapping[str, str]) -> Path:
    """python3 on PATH, but not our own server's; raises RuntimeUnusable."""
    executable = _find_python(environment)
    if not executable:
        raise RuntimeUnusable(
            "the models' Python", "no python3 on PATH", "set SERVE_BACKEND_PYTHON"
        )
    return executable


def _find_python(environment: Mapping[str, str]) -> Path | None:
    own = own_environment_bin()
    folders = environment.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(f for f in folders if f and (own is None or Path(f) != own))
    executable = shutil.which("python3", path=path)
    return Path(executable) if executable else None


def ask_interpreter(executable: Path) -> BackendPython:
    """Runs the interpreter once to learn what it is. Raises RuntimeUnusable."""
    subject, remedy = (
        f"the models' Python {executable}",
        "set SERVE_BACKEND_PYTHON to an interpreter",
    )
    try:
        question = [str(executable), "-I", "-c", _QUESTION, *_PACKAGES]
        facts = json.loads(ask_command(question, QUESTION_TIMEOUT_S))
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        # Only now: access(2) knows no capabilities, by which a program may be run.
        is_there = shutil.which(executable) or os.path.exists(executable)
        ran = f"it did not run ({read_last_words(error)})"
        reason = ran if is_there else "there is no such program"
        raise RuntimeUnusable(subject, reason, remedy) from error
    packages: dict[str, str] = dict(facts["packages"])
    libraries = Path(facts["library_directory"])
    shared = facts["library"].endswith((".so", ".so.1.0")) and (libraries / facts["library"])
    return BackendPython(
        executable=executable,
        version=facts["version"],
        prefix=Path(facts["prefix"]),
        library_directory=libraries if shared and shared.exists() else None,
        nvtabular=packages.get("nvtabular", ""),
        numpy=packages.get("numpy", ""),
        packages=tuple(packages.items()),
    )


def _stand_ins(root: Path, python_based: bool) -> tuple[str, ...]:
    """Our backends that this runtime has none of its own for, if it can run Python-based ones."""
    own = set(list_backends(root / "backends", python_based=python_based))
    missing = tuple(sorted({path.parent.name for path in STAND_INS.glob("*/model.py")} - own))
    if missing and not python_based:
        log.warning(
            "this tritonserver is too old for Python-based backends; models of these backends"
            " will be refused",
            extra={"backends": ",".join(missing)},
        )
        return ()
    return missing


def _stand_apart(backends: Path, name: str) -> None:
    """Our backend beside the Python backend's library under the name of its own.

    tritonserver then takes it for no Python-based backend, and gives it the config of its own name,
    in which its regions in /dev/shm have another prefix. The library runs the `model.py` beside it.
    """
    (backends / name).mkdir()
    (backends / name / "model.py").symlink_to(STAND_INS / name / "model.py")
    (backends / name / f"libtriton_{name}.so").symlink_to("../python/libtriton_python.so")


def _make_wheel_overlay(
    overlay: Path, root: Path, python: BackendPython, stand_ins: Collection[str]
) -> Path:
    """The wheel's backends with the stub of this Python beside them, in the wheel's own layout.

    The python backend is copied (3 MB): newer tritonservers refuse a backend library that is a
    symbolic link out of its directory, and importing it must not write `__pycache__` into
    site-packages.
    """
    stub = root / "python_backend_stubs" / python.version / STUB
    if not stub.is_file():
        there = sorted(path.parent.name for path in stub.parent.parent.glob(f"*/{STUB}"))
        raise RuntimeUnusable(
            f"tritonserver's Python backend ({root})",
            f"it has no stub for Python {python.version} of {python.executable}",
            f"set SERVE_BACKEND_PYTHON to a Python of {', '.join(there)}",
        )
    check_numpy(stub, python.executable, python.numpy)
    backends = overlay / "pytriton/tritonserver/backends"
    _make_directory(overlay, backends)
    (overlay / WHEEL_LIBRARIES).symlink_to(root.parent.parent / WHEEL_LIBRARIES)
    _link_backends(root, backends, but={"python", *stand_ins})
    (backends / "python").mkdir()
    for name in ("libtriton_python.so", UTILS):
        shutil.copy(root / "backends/python" / name, backends / "python" / name)
    utils = write_faster_utils(root / "backends/python" / UTILS)
    if utils is not None:
        (backends / "python" / UTILS).write_text(utils, "utf-8")
    shutil.copy(stub, backends / "python" / STUB)
    (backends / "python" / STUB).chmod(0o755)
    return backends


def _make_plain_overlay(
    overlay: Path, root: Path, stand_ins: Collection[str], utils: str | None
) -> Path:
    """The runtime's own backends, each as a link, with room for ours beside them.

    utils: in the place of that file of the python backend, which then is a copy (3 MB), since the
    file is looked for beside the library.
    """
    backends = overlay / "backends"
    _make_directory(overlay, backends)
    _link_backends(root, backends, but=stand_ins if utils is None else {"python", *stand_ins})
    if utils is not None:
        copied = shutil.copytree(root / "backends/python", backends / "python")
        (copied / UTILS).unlink()  # it may be read-only, or one file with others
        (copied / UTILS).write_text(utils, "utf-8")
    return backends


def _write_utils(root: Path, work_dir: Path) -> str | None:
    """None where Triton's file is not known, or where the stub, beside it, could not be run."""
    if os.statvfs(work_dir.parent).f_flag & os.ST_NOEXEC:
        return None
    return write_faster_utils(root / "backends/python" / UTILS)


def _make_directory(overlay: Path, backends: Path) -> None:
    shutil.rmtree(overlay, ignore_errors=True)  # left by a container that was killed
    backends.mkdir(parents=True)


def _link_backends(root: Path, backends: Path, but: Collection[str]) -> None:
    for path in sorted((root / "backends").iterdir()):
        if path.is_dir() and path.name not in but:
            (backends / path.name).symlink_to(path)


def check_stub(stub: Path, python: BackendPython | None, environment: Mapping[str, str]) -> None:
    """Raises RuntimeUnusable where the image's one stub does not fit the models' Python.

    In the image's own arrangement that is python3 on PATH. It is not run: that would cost the start
    more than the looks into its folders.
    """
    if not stub.is_file():
        return
    if python is not None:
        check_python(stub, python.executable, python.version)
        check_numpy(stub, python.executable, python.numpy)
    elif (own := _find_python(environment)) and (version := python_of(stub)):
        check_numpy(stub, own, find_installed_numpy(own, version))
