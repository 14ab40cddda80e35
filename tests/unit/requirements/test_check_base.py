"""What a build says of a base image that it cannot stand on: one sentence."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WANTED = "Python 3.10, 3.11 or 3.12"
BACKEND = "tritonserver's Python backend, which workflows run in"
#: A python3 of that version, which has these modules.
PYTHON = """#!/bin/sh
case "$*" in
    *version_info*) echo {version} ;;
    *venv*) exit {venv} ;;
    *pip*) exit {pip} ;;
esac
"""


class Base:
    """An image's tritonserver and python3."""

    def __init__(self, root: Path) -> None:
        self.triton, self.bin = root / "tritonserver", root / "bin"
        for folder in (self.triton / "bin", self.triton / "backends/python", self.bin):
            folder.mkdir(parents=True)
        self._program(self.triton / "bin/tritonserver", "#!/bin/sh\n")
        self.python("3.12")

    def python(self, version: str, venv: int = 0, pip: int = 0) -> None:
        """The exit codes of its modules."""
        text = PYTHON.format(version=version, venv=venv, pip=pip)
        self._program(self.bin / "python3", text)

    def _program(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def check(self) -> tuple[int, str]:
        """The exit code, and what is said."""
        done = subprocess.run(
            ["/bin/sh", ROOT / "requirements/check_base.sh", self.triton],
            env={"PATH": str(self.bin)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
        )
        return done.returncode, done.stdout


@pytest.fixture
def base(tmp_path: Path) -> Base:
    return Base(tmp_path)


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12"])
def test_a_base_that_fits(version: str, base: Base) -> None:
    """Nothing is said of it."""
    base.python(version)
    assert base.check() == (0, "")


def refused(base: Base, found: str, expected: str) -> None:
    code, said = base.check()
    assert code == 1
    assert len(said.splitlines()) == 1
    assert said.startswith(
        f"BASE_IMAGE does not fit: found {found}, expected {expected}; take one of"
    )
    assert "nvcr.io/nvidia/tritonserver:25.02-py3" in said


def test_no_tritonserver(base: Base) -> None:
    """A plain Debian, or NVIDIA's image for clients alone."""
    (base.triton / "bin/tritonserver").unlink()
    refused(base, f"no {base.triton}/bin/tritonserver", "a tritonserver")


def test_no_python_backend(base: Base) -> None:
    """Nearly every Merlin export has Python models."""
    (base.triton / "backends/python").rmdir()
    refused(base, f"no {base.triton}/backends/python", BACKEND)


def test_no_python(base: Base) -> None:
    """Or one that does not start."""
    (base.bin / "python3").unlink()
    refused(base, "no python3 that runs", WANTED)


@pytest.mark.parametrize("version", ["3.8", "3.13", "3.1"])
def test_a_python_of_another_version(version: str, base: Base) -> None:
    """Older images have 3.8."""
    base.python(version)
    refused(base, f"Python {version}", WANTED)


@pytest.mark.parametrize("module", ["venv", "pip"])
def test_a_python_without_its_modules(module: str, base: Base) -> None:
    """What it lacks is named."""
    base.python("3.12", **{module: 1})
    refused(base, f"Python 3.12 without {module}", "one with it, which installs the server")
