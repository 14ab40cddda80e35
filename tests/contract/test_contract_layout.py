"""Python models that read what lies beside them in their archive."""

from __future__ import annotations

import io
import tarfile
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


def _list(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))
