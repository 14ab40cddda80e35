"""Asks the Python backend's stub which Python it runs, and which numpy it can read.

It reads arrays through pybind11, which up to 2.11 knows numpy 1 alone. numpy 2 keeps the size of an
array's elements elsewhere: such a stub gives wrong numbers without an error (tried on 2.51: INT32
[0 6 7 9 15 19] arrives as six zeros). tritonserver has a newer pybind11 from 2.52 (24.11) on.
"""

from __future__ import annotations

import re
from pathlib import Path

from container.errors import RuntimeUnusable

STUB = "triton_python_backend_stub"

_LINKED = re.compile(rb"libpython(3\.\d+)\.so")
#: Where pybind11 imports numpy's C functions from: up to 2.11 this one name (seen in the stubs of
#: 2.36 and 2.51), from 2.12 on a name that is put together, of the second one where numpy is 2.
_NUMPY_1, _NUMPY_2 = b"numpy.core.multiarray", b"numpy._core"
_METADATA = re.compile(r"numpy-(\d[\w.]*?)\.(?:dist|egg)-info")


def python_of(stub: Path) -> str | None:
    """The version of Python whose library it links, as `3.11`; None where it does not say."""
    linked = _LINKED.search(stub.read_bytes())
    return linked[1].decode() if linked else None


def reads_numpy_2(stub: Path) -> bool:
    """Whether it reads numpy 2's arrays rightly; one with neither name in it is let pass (1 ms)."""
    content = stub.read_bytes()
    return _NUMPY_2 in content or _NUMPY_1 not in content


def find_installed_numpy(executable: Path, version: str) -> str:
    """numpy's version in the folders of an interpreter that is not run; empty where none is found.

    version: the interpreter's, as `3.11`. The folders are those of a virtual environment, of an
    installation, and Debian's two, in the order in which Python looks into them.
    """
    prefix = executable.parent.parent
    if not (prefix / "pyvenv.cfg").is_file():
        prefix = executable.resolve().parent.parent
    for folder in (
        f"local/lib/python{version}/dist-packages",
        f"lib/python{version}/site-packages",
        "lib/python3/dist-packages",
    ):
        names = sorted(path.name for path in (prefix / folder).glob("numpy-*"))
        for match in filter(None, map(_METADATA.fullmatch, names)):
            return match[1]
    return ""


def read_version(root: Path) -> str:
    """tritonserver's, as `2.41.0`, where NVIDIA's images have it; empty elsewhere."""
    file = root / "TRITON_VERSION"
    return file.read_text().strip() if file.is_file() else ""


def check_python(stub: Path, executable: Path, version: str) -> None:
    """An image's one stub runs one version of Python: raises RuntimeUnusable for another."""
    runs = python_of(stub)
    if runs not in {None, version}:
        raise RuntimeUnusable(
            f"SERVE_BACKEND_PYTHON {executable}",
            f"it is Python {version}, and {stub} runs {runs} only",
            "use an interpreter of that version",
        )


def check_numpy(stub: Path, executable: Path, numpy: str) -> None:
    """Raises RuntimeUnusable where every tensor of every Python model would be wrong.

    numpy: the version that the interpreter has, empty for none.
    """
    if not re.match(r"[2-9]|\d\d", numpy) or reads_numpy_2(stub):
        return
    version = read_version(stub.parents[2])
    server = f"tritonserver {version}" if version else "this tritonserver"
    raise RuntimeUnusable(
        f"the models' Python {executable}",
        f"found numpy {numpy}, with which the Python backend of {server} ({stub}) gives wrong "
        "numbers, expected numpy below 2, or tritonserver from 2.52 on",
        "install 'numpy<2' there, or set SERVE_BACKEND_PYTHON to an interpreter that has it",
    )
