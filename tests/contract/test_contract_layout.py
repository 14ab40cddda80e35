"""What archives hold beside their models, and how their files are laid out and called."""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contract.conftest import Archive
from tests.support import models
from tests.support.container import Container
from tests.support.protocol import infer, values
from tests.support.tritons import BOTH

#: Reads a number beside itself by each way that a model may know where it is, and adds them up; it
#: writes, and looks for models of others.
READING = """
import inspect
import sys
from pathlib import Path

from .helper import ONE


class TritonPythonModel(Each):
    def initialize(self, args):
        super().initialize(args)
        given, here = Path(args["model_repository"]), Path(__file__)
        tops = [
            given.parent,
            here.parent.parent.parent,
            here.resolve().parent.parent.parent,
            Path(inspect.getfile(type(self))).parents[2],
            Path(pb_utils.get_model_dir()).parents[1],
        ]
        files = [top / "pre/labels.txt" for top in tops]
        files += [Path(f"{given}/../pre/labels.txt"), Path(f"{given}/1/../../to_pre/labels.txt")]
        assert [float(file.read_text()) for file in files] == [10.0] * len(files)
        for top, name in ((given.parent, "shared_one"), (here.resolve().parents[2], "shared_two")):
            sys.path.insert(0, str(top / "common"))
            assert __import__(name).ONE == ONE
        assert "witness" not in (given.parent / "pre/config.pbtxt").read_text()
        names = {it.name for it in given.parent.iterdir()}
        assert names == {"both", "common", "pre", "to_pre", "top"}
        others = [given / ("../" * ups) / "witness" for ups in range(9)]
        assert not any(path.exists() for path in others), others
        (given / "1/written").write_text("")
        (given.parent / "common/written").write_text("")
        self.sum = sum(float(file.read_text()) for file in files)

    def answer(self, request, given):
        return respond(request, given + self.sum)
"""


def test_what_lies_beside(container: Container, archive: Archive) -> None:
    """A model finds its archive as it was delivered, nothing of others', and changes none of it."""
    directory = archive(
        both=models.Chain(("pre", "top")), top=models.PythonModel(READING), pre=models.identity
    )
    (directory / "pre/labels.txt").write_text("10")
    (directory / "top/1/helper.py").write_text("ONE = 1")
    (directory / "to_pre").symlink_to("pre")
    (directory / "common").mkdir()
    for name in ("shared_one", "shared_two"):
        (directory / f"common/{name}.py").write_text("ONE = 1")
    before = _list(directory)
    with container.loaded("m1", directory):
        assert values(container.invoke("m1", infer([1]))) == [71.0]
    assert _list(directory) == before
    assert not [*container.serving.parent.glob("archive-*/m1")]


#: Says which environment its process was started in.
PLACED = """
class TritonPythonModel(Each):
    def answer(self, request, given):
        return respond(request, given + float(os.environ.get("OF_THE_TESTS_ENVIRONMENT", 0)))
"""


@BOTH
@pytest.mark.parametrize("place", ["env.tar.gz", "pre/env.tar.gz"])
def test_an_environment_beside_the_model(
    place: str, container: Container, archive: Archive
) -> None:
    """Packages that several models of an archive share lie in it once."""
    named = f"$$TRITON_MODEL_DIRECTORY/../{place}"
    placed = models.PythonModel(PLACED, parameters={"EXECUTION_ENV_PATH": named})
    directory = archive(both=models.Chain(("pre", "top")), top=placed, pre=models.identity)
    with tarfile.open(directory / place, "w:gz") as packed:
        for name, text in {
            "bin/activate": "export OF_THE_TESTS_ENVIRONMENT=30",
            "lib/x": "",
        }.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            packed.addfile(entry, io.BytesIO(text.encode()))
    with container.loaded("m1", directory):
        assert values(container.invoke("m1", infer([1]))) == [31.0]


def test_links_that_stay_inside(container: Container, archive: Archive) -> None:
    """They are served: relative, absolute, and to directories."""
    directory = archive(m=models.identity)
    model = directory / "m"
    (directory / "shared").mkdir()
    (model / "1/model.py").rename(directory / "shared/model.py")
    (model / "1/model.py").symlink_to("../../shared/model.py")
    (model / "1/data").symlink_to(directory / "shared")
    with container.loaded("m1", directory):
        assert values(container.invoke("m1", infer([5]))) == [5.0]


@BOTH
def test_names_that_a_shell_would_read(container: Container, archive: Archive) -> None:
    """tritonserver starts a step's process through one; it is no shell that reads the name.

    Nor that of a group of instances, which tritonserver gives to it as well.
    """
    here = Path(os.readlink(f"/proc/{container.triton()}/cwd"))
    names = ("my step", "a&b", "(c)", "it's", "w$(touch armed-by-a-name)", "x; exit 1", "ü")
    steps = {name: models.adder(2**number) for number, name in enumerate(names)}
    group = 'instance_group [{ name: "$(touch armed-by-a-group)", kind: KIND_CPU }]\n'
    steps["a&b"] = replace(steps["a&b"], more=group)
    directory = archive()
    models.write_archive(directory, {**steps, "sum": models.Chain(names)})
    with container.loaded("a.shell.", directory):
        assert values(container.invoke("a.shell.", infer([1]))) == [128.0]
        served = [name for name in container.published() if name.startswith("a=_shell=_.")]
        assert len(served) == len(names)
        assert all(container.stubs(name) for name in served)
    assert not (here / "armed-by-a-name").exists()
    assert not (here / "armed-by-a-group").exists()


def _list(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))
