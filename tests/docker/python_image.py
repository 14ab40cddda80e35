"""An image whose /usr/local holds a Python: Docker's own, or this machine's, as Docker has it.

Only that folder is taken from it (stand_in/). Standard library only (see engine.py).
"""

from __future__ import annotations

import json
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.docker.base_image import SUITE, there_or_pulled
from tests.docker.engine import NoEngine
from tests.support.interpreters import interpreters

#: What no image of NVIDIA's has, or what only a compiler wants.
_LEFT_OUT = ("site-packages", "test", "idlelib", "ensurepip", "lib2to3", "tkinter", "turtledemo")
_QUESTION = """
import importlib.util, json, os, sys, sysconfig
found = importlib.util.find_spec("pip")
libraries, library = map(sysconfig.get_config_var, ("LIBDIR", "INSTSONAME"))
print(json.dumps({
    "executable": os.path.realpath(sys.executable),
    "library": os.path.join(libraries, library),
    "stdlib": sysconfig.get_path("stdlib"),
    "pip": found and os.path.dirname(found.origin),
}))
"""
_ASK_TIMEOUT_S = 60.0
_IMPORT_TIMEOUT_S = 300.0


def python_image(host: str, version: str) -> str:
    """The name of an image in that engine; made or pulled unless it is there already.

    version: of Python, as `3.12`.
    """
    named, made = f"python:{version}-slim-{SUITE}", f"merlin-sagemaker-test-base:python{version}"
    if found := there_or_pulled(host, named, made):
        return found
    facts = _facts(version)
    if facts is None:
        raise NoEngine(
            f"{named} cannot be pulled, and there is no Python {version} with pip and a shared "
            "libpython here; put one on PATH, or below PYENV_ROOT"
        )
    _import(host, made, version, facts)
    return made


def _import(host: str, made: str, version: str, facts: Mapping[str, str]) -> None:
    stdlib = f"usr/local/lib/python{version}"
    library = Path(facts["library"])
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        with tarfile.open(file.name, "w") as tar:
            tar.add(facts["executable"], f"usr/local/bin/python{version}")
            _add_link(tar, "usr/local/bin/python3", f"python{version}")
            tar.add(library.resolve(), f"usr/local/lib/{library.name}")
            tar.add(facts["stdlib"], stdlib, filter=_kept)
            tar.add(facts["pip"], f"{stdlib}/site-packages/pip", filter=_kept)
        subprocess.run(
            ["docker", "--host", host, "import", file.name, made],
            check=True,
            capture_output=True,
            timeout=_IMPORT_TIMEOUT_S,
        )


def _facts(version: str) -> dict[str, str] | None:
    """Where the parts of this machine's lie, all of them there; None without one."""
    for executable in interpreters(version):
        asked = subprocess.run(
            [executable, "-I", "-c", _QUESTION],
            check=False,
            capture_output=True,
            text=True,
            timeout=_ASK_TIMEOUT_S,
        )
        facts = json.loads(asked.stdout) if asked.returncode == 0 else {}
        if facts and all(path and Path(path).exists() for path in facts.values()):
            return dict(facts)
    return None


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type, link.linkname = tarfile.SYMTYPE, target
    tar.addfile(link)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    parts = Path(member.name).parts
    is_pips = "site-packages" in parts[:-1]
    name = parts[-1]
    left_out = name == "__pycache__" or name.startswith("config-")
    return None if left_out or (name in _LEFT_OUT and not is_pips) else member
