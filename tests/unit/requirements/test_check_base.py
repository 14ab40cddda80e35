"""What a build says of a base image that it cannot stand on: one sentence."""

from __future__ import annotations

import shutil
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
        self.backend("python")
        self._program(self.triton / "bin/tritonserver", "#!/bin/sh\n")
        self.python("3.12")

    def python(self, version: str, venv: int = 0, pip: int = 0) -> None:
        """The exit codes of its modules."""
        text = PYTHON.format(version=version, venv=venv, pip=pip)
        self._program(self.bin / "python3", text)

    def _program(self, path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def backend(self, name: str, file: str = "libtriton_{}.so") -> None:
        """A folder of backends with that file in it."""
        path = self.triton / "backends" / name / file.format(name)
        path.parent.mkdir(exist_ok=True)
        path.touch()

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
    """What it has is said."""
    base.python(version)
    code, said = base.check()
    assert code == 0
    assert said.startswith(
        f"BASE_IMAGE has tritonserver of an unknown version, Python {version} and the backends: "
        "python\n"
    )


#: Of a framework that a base has no backend for: what is said of it.
LACKING = {
    "pytorch": "PyTorch exports need torch in the models' Python, or another base, as "
    "nvcr.io/nvidia/merlin/merlin-pytorch:23.12 (docs/images.md)",
    "tensorflow": "TensorFlow exports need tensorflow in the models' Python, or another base, as "
    "nvcr.io/nvidia/merlin/merlin-tensorflow:23.12 (docs/images.md)",
    "fil": "forests need xgboost, lightgbm or treelite in the models' Python, or another base, as "
    "nvcr.io/nvidia/merlin/merlin-pytorch:23.12 on x86_64 (docs/images.md)",
}


@pytest.mark.parametrize("framework", LACKING)
def test_each_framework_without_a_backend(framework: str, base: Base) -> None:
    """Merlin's images have one framework each: the base that has the other one is named."""
    for other in LACKING.keys() - {framework}:
        base.backend(other)
    (base.triton / "TRITON_VERSION").write_text("2.39.0\n")
    others = sorted({*LACKING, "python"} - {framework})
    assert base.check() == (
        0,
        f"BASE_IMAGE has tritonserver 2.39.0, Python 3.12 and the backends: {' '.join(others)}\n"
        f"BASE_IMAGE has no backend {framework}, so {LACKING[framework]}\n",
    )


def test_a_base_whose_version_is_empty(base: Base) -> None:
    """As one without the file."""
    (base.triton / "TRITON_VERSION").write_text("")
    assert base.check()[1].startswith("BASE_IMAGE has tritonserver of an unknown version, ")


@pytest.mark.parametrize("version", ["2.35.0", "2.38.0", "2.9.1"])
def test_a_base_that_runs_no_stand_ins(version: str, base: Base) -> None:
    """A library in the models' Python is no remedy before 2.39."""
    (base.triton / "TRITON_VERSION").write_text(version)
    code, said = base.check()
    assert code == 0
    assert "so TensorFlow exports need another base, as nvcr.io" in said
    assert "models' Python" not in said


def test_awss_container(base: Base) -> None:
    """It is NVIDIA's with AWS's agent beside tritonserver, which is no backend."""
    (base.triton / "TRITON_VERSION").write_text("2.67.0\n")
    for backend in ("pytorch", "onnxruntime", "fil", "dali", "openvino", "tensorrt"):
        base.backend(backend)
    (base.triton / "amazon_cloudwatch_agent").mkdir()
    (base.bin / "serve").write_text("#!/bin/bash\n")
    assert base.check() == (
        0,
        "BASE_IMAGE has tritonserver 2.67.0, Python 3.12 and the backends: "
        "dali fil onnxruntime openvino python pytorch tensorrt\n"
        f"BASE_IMAGE has no backend tensorflow, so {LACKING['tensorflow']}\n",
    )


def test_folders_that_are_no_backends(base: Base) -> None:
    """A LICENSE alone, and a link to nowhere, as Merlin's images have them; model.py is one."""
    base.backend("fil", "LICENSE")
    base.backend("tensorflow", "libtensorflow_cc.so.2")
    base.backend("vllm", "model.py")
    (base.triton / "backends/hps").symlink_to("/usr/local/hugectr/backends/hps")
    code, said = base.check()
    assert code == 0
    assert said.splitlines()[0].endswith(" and the backends: python vllm")
    assert {line.split(",")[0] for line in said.splitlines()[1:]} == {
        f"BASE_IMAGE has no backend {name}" for name in LACKING
    }


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
    shutil.rmtree(base.triton / "backends/python")
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
