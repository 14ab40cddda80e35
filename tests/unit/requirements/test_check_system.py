"""What `make` looks for before it downloads: one line to type, or apt where root runs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SYSTEM = ROOT / "requirements/system.sh"
FIND = ROOT / "requirements/find_python.sh"
COREUTILS = ("sh", "cat", "dirname", "grep", "id", "mktemp", "rm", "sleep", "sort", "tail")
TESTS_NEED = "prometheus chromium redis-server default-jdk-headless curl graphviz"
#: apt installs what it is told to: programs that do nothing.
APT = """#!/bin/sh
echo "$*" >> {log}
for each in "$@"; do
    case $each in
        chromium | redis-server | curl) names=$each ;;
        default-jdk-headless) names=javac ;;
        prometheus) names="prometheus promtool" ;;
        graphviz) names=dot ;;
        *) names= ;;
    esac
    for name in $names; do cp {bin}/true {bin}/$name; done
done
"""


class Machine:
    """A system whose programs are these, and no others; its pythons say what version they are."""

    def __init__(self, directory: Path) -> None:
        self.bin, self.log = directory / "bin", directory / "apt.log"
        self.bin.mkdir()
        for name in (*COREUTILS, "cp"):
            path = shutil.which(name)
            assert path is not None
            (self.bin / name).symlink_to(path)
        self.has("true", "#!/bin/sh\n")
        self.has("apt-get", APT.format(log=self.log, bin=self.bin))

    def has(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(script)
        path.chmod(0o755)

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=ROOT,
            env={"PATH": str(self.bin), **environment},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
        )

    @property
    def installed(self) -> list[str]:
        """apt-get's calls."""
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def ours(machine: Machine) -> Machine:
    """With the Python that runs us, 3.11 as make setup has it."""
    if sys.version_info[:2] != (3, 11):
        pytest.skip("make setup takes Python 3.11")
    machine.has("python3.11", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    return machine


def test_a_python_of_the_versions_is_found(machine: Machine) -> None:
    """A name that runs nothing, as pyenv's, is passed over; PYTHON is looked at first."""
    machine.has("python3.11", "#!/bin/sh\nexit 127\n")
    machine.has("python3", "#!/bin/sh\necho 3.13\n")
    machine.has("python3.12", "#!/bin/sh\necho 3.12\n")
    machine.has("other", "#!/bin/sh\necho 3.10\n")
    assert machine.run(FIND, "3.10", "3.11", "3.12").stdout == "python3.12\n"
    assert machine.run(FIND, "3.10", "3.12", PYTHON="other").stdout == "other\n"
    assert machine.run(FIND, "3.11", PYTHON="other").returncode == 1


def test_nothing_is_said_where_all_is_there(ours: Machine) -> None:
    """The second make costs nothing and shows nothing."""
    for purpose in ("demo", "setup"):
        done = ours.run(SYSTEM, purpose)
        assert (done.returncode, done.stdout) == (0, "")


def test_one_line_says_what_to_type(ours: Machine) -> None:
    """All that is missing, at once; nothing is installed that nobody asked for."""
    done = ours.run(SYSTEM, "test", NO_APT="1")
    sudo = "" if os.geteuid() == 0 else "sudo "
    told = f"This installs it: {sudo}apt-get install {TESTS_NEED}"
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == told
    assert ours.installed == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs")
def test_root_gets_it_from_apt(ours: Machine) -> None:
    """It is said before, and what has come is looked at again."""
    done = ours.run(SYSTEM, "test")
    assert done.returncode == 0, done.stdout
    assert f"apt-get installs {TESTS_NEED}" in done.stdout
    assert ours.installed == ["update -qq", f"install -y -qq {TESTS_NEED}"]


def test_a_python_that_does_not_fit_is_named(machine: Machine) -> None:
    """What no package mends is said, and apt is not asked."""
    version = "3.9"
    machine.has("old", f"#!/bin/sh\necho Python 3.11 is needed, found {version} >&2\nexit 2\n")
    done = machine.run(SYSTEM, "demo", PYTHON="old")
    assert done.returncode == 1
    assert done.stdout == f"Python 3.11 is needed, found {version}\n"
    assert machine.installed == []


def test_without_merlins_python_the_demo_is_pointed_at(machine: Machine) -> None:
    """Python 3.11 has one sentence, with how to get it where the system has no package of it."""
    done = machine.run(SYSTEM, "setup", NO_APT="1")
    assert done.returncode == 1
    assert "Python 3.11 is missing, which Merlin 23.08 needs (make demo does not)" in done.stdout
