"""An image of the fake container, made in seconds and of this machine alone: nothing is fetched.

It has the Python that runs the tests, with the libraries that it is linked to at their places, the
packages of the fake container, and nothing else: no shell.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from merlin_deploy.engine import LABEL
from tests.docker.base_image import ROOT

_FAKE = ROOT / "tests/fakes/mme_container.py"
_PACKAGES = ("starlette", "uvicorn", "anyio", "h11", "click", "idna", "typing_extensions")
#: Parts of the standard library that the fake does not import: most of its megabytes.
_LEFT_OUT = ("site-packages", "test", "idlelib", "ensurepip", "lib2to3", "tkinter", "__pycache__")
_LEFT_OUT_BEGIN = ("config-", "_test", "distutils", "unittest", "pydoc")
_IMPORT_TIMEOUT_S = 120.0
_PYTHON = Path(sys.executable).resolve()


def make_image(host: str, name: str, entrypoint: str) -> None:
    """An image of that engine. entrypoint: a JSON array, as of a Dockerfile; {python} is filled in.

    `--port 8080 --host 0.0.0.0` of /fake.py are its own to say.
    """
    libraries = sorted(set(_libraries()))
    search = ":".join(sorted({str(Path(path).parent) for path in libraries}))
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        with tarfile.open(file.name, "w") as tar:
            for path in libraries:
                tar.add(Path(path).resolve(), path)
            tar.add(_PYTHON, str(_PYTHON))
            tar.add(_standard_library(), str(_standard_library()), filter=_kept)
            tar.add(_FAKE, "/fake.py")
            for package in _PACKAGES:
                _add_package(tar, package)
        command = ["docker", "--host", host, "import"]
        for change in (
            f"ENTRYPOINT {entrypoint.format(python=_PYTHON)}",
            f"ENV LD_LIBRARY_PATH={search} PYTHONPATH=/packages PYTHONUNBUFFERED=1",
            f"LABEL {LABEL}=true",
        ):
            command += ["--change", change]
        subprocess.run(
            [*command, file.name, name],
            check=True,
            capture_output=True,
            timeout=_IMPORT_TIMEOUT_S,
        )


def _add_package(tar: tarfile.TarFile, package: str) -> None:
    found = distribution(package)
    for path in found.files or ():
        if path.suffix == ".py" and ".." not in path.parts:
            tar.add(str(found.locate_file(path)), f"/packages/{path}")


def _standard_library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    name = Path(member.name).name
    return None if name in _LEFT_OUT or name.startswith(_LEFT_OUT_BEGIN) else member


def _libraries() -> Iterator[str]:
    """All that the interpreter and its modules are linked to, and the loader itself."""
    for path in (_PYTHON, *(_standard_library() / "lib-dynload").glob("*.so")):
        linked = subprocess.run(["ldd", str(path)], check=False, capture_output=True, text=True)
        yield from re.findall(r"(/\S+) \(0x", linked.stdout)
