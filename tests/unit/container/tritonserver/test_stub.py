"""What the Python backend's stub tells of itself, and numpy that it would read wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from container.errors import RuntimeUnusable
from container.tritonserver.runtime import find_tritonserver
from container.tritonserver.stub import (
    STUB,
    check_numpy,
    check_python,
    find_installed_numpy,
    python_of,
    reads_numpy_2,
)
from tests.unit.container.conftest import WHEEL_2_36

OLD, NEW = b"\0numpy.core.multiarray\0", b"\0numpy.core\0numpy._core\0multiarray\0"


def made(root: Path, content: bytes, version: str = "") -> Path:
    """A stub in the layout of NVIDIA's image, and what that says of its version."""
    stub = root / "backends/python" / STUB
    stub.parent.mkdir(parents=True)
    stub.write_bytes(content)
    if version:
        (root / "TRITON_VERSION").write_text(f"{version}\n")
    return stub


def installed(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)


@pytest.mark.parametrize("program", [WHEEL_2_36, find_tritonserver(None, {"PATH": ""})])
def test_the_real_stubs(program: Path) -> None:
    """Those of 2.36 and 2.51 know numpy 1 alone, and each runs the Python that it is for."""
    stubs = list(program.parents[1].glob(f"python_backend_stubs/*/{STUB}"))
    assert len(stubs) > 3
    for stub in stubs:
        assert not reads_numpy_2(stub)
        assert python_of(stub) == stub.parent.name


@pytest.mark.parametrize(("content", "reads"), [(OLD, False), (NEW, True), (b"", True)])
def test_what_pybind11_left_in_it(tmp_path: Path, content: bytes, reads: bool) -> None:
    """The newer one knows numpy's new name; of a stub with neither nothing is said."""
    assert reads_numpy_2(made(tmp_path, content)) is reads


@pytest.mark.parametrize("numpy", ["2.0.0rc1", "2.1.0", "3.0", "10.1"])
def test_numpy_of_which_every_number_would_be_wrong(tmp_path: Path, numpy: str) -> None:
    """The sentence says what was found, what was expected and what to do."""
    stub = made(tmp_path, OLD, "2.41.0")
    python = Path("/usr/bin/python3")
    with pytest.raises(RuntimeUnusable) as caught:
        check_numpy(stub, python, numpy)
    assert str(caught.value) == (
        f"the models' Python /usr/bin/python3: found numpy {numpy}, with which the Python backend "
        f"of tritonserver 2.41.0 ({stub}) gives wrong numbers, expected numpy below 2, or "
        "tritonserver from 2.52 on; install 'numpy<2' there, or set SERVE_BACKEND_PYTHON to an "
        "interpreter that has it"
    )


@pytest.mark.parametrize("numpy", ["", "1.26.4", "1.9"])
def test_numpy_that_it_reads(tmp_path: Path, numpy: str) -> None:
    """And a Python without numpy, whose models may do without."""
    check_numpy(made(tmp_path, OLD), Path("/usr/bin/python3"), numpy)


def test_another_python_than_it_links(tmp_path: Path) -> None:
    """It is refused; a stub that does not say what it links is not."""
    stub = made(tmp_path, b"\0libpython3.10.so.1.0\0")
    check_python(stub, Path("/usr/bin/python3"), "3.10")
    with pytest.raises(RuntimeUnusable, match=r"is Python 3\.11, and .* runs 3\.10 only"):
        check_python(stub, Path("/usr/bin/python3"), "3.11")
    check_python(made(tmp_path / "silent", b""), Path("/usr/bin/python3"), "3.11")


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("lib/python3.11/site-packages", "numpy-2.1.0.dist-info"),
        ("local/lib/python3.11/dist-packages", "numpy-2.1.0.dist-info"),
        ("lib/python3/dist-packages", "numpy-2.1.0.egg-info"),
    ],
)
def test_folders_of_an_interpreter(tmp_path: Path, folder: str, name: str) -> None:
    """An installation's and Debian's; python3 may be a link to the version's own program."""
    installed(tmp_path / folder, name)
    installed(tmp_path / folder, "numpy-stubs-1.0.dist-info")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3.11").touch()
    python = tmp_path / "elsewhere/bin/python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(tmp_path / "bin/python3.11")
    assert find_installed_numpy(python, "3.11") == "2.1.0"
    assert find_installed_numpy(python, "3.12") == ("2.1.0" if "python3/" in folder else "")


def test_the_first_folder_counts(tmp_path: Path) -> None:
    """Debian's own numpy stands behind what was installed after it."""
    installed(tmp_path / "lib/python3/dist-packages", "numpy-1.24.2.egg-info")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").touch()
    assert find_installed_numpy(tmp_path / "bin/python3", "3.11") == "1.24.2"
    installed(tmp_path / "local/lib/python3.11/dist-packages", "numpy-2.1.0.dist-info")
    assert find_installed_numpy(tmp_path / "bin/python3", "3.11") == "2.1.0"


def test_a_virtual_environments_own_folders(tmp_path: Path) -> None:
    """Its python3 is a link into an installation, whose packages are not the models'."""
    installed(tmp_path / "usr/lib/python3/dist-packages", "numpy-1.24.2.egg-info")
    installed(tmp_path / "own/lib/python3.11/site-packages", "numpy-2.1.0.dist-info")
    for home in ("usr/bin", "own/bin"):
        (tmp_path / home).mkdir()
    (tmp_path / "usr/bin/python3").touch()
    (tmp_path / "own/bin/python3").symlink_to(tmp_path / "usr/bin/python3")
    assert find_installed_numpy(tmp_path / "own/bin/python3", "3.11") == "1.24.2"
    (tmp_path / "own/pyvenv.cfg").touch()
    assert find_installed_numpy(tmp_path / "own/bin/python3", "3.11") == "2.1.0"
