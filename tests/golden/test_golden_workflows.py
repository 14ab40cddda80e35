"""Exports of workflows alone answer Merlin's numbers, compiled and by NVTabular itself.

workflows/export.py made them. Other Pythons, and images without Merlin, are held against the same
numbers (tests/pythons, tests/docker/test_plain_image.py).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.container import Container, running
from tests.support.merlins_answers import check_numbers

HERE = Path(__file__).parent / "workflows"
NAMES = sorted(path.parent.name for path in HERE.glob("*/repository"))
#: How NVTabular calls itself in a clone without tags, after its last release, and outside of one.
LABELS = ["0+untagged.1.g08e0633", "23.8.0+4.g0b58cc4", "0+unknown"]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exports, and one of them for each label, and for none."""
    root = tmp_path_factory.mktemp("archives")
    for name in NAMES:
        shutil.copytree(HERE / name / "repository", root / name)
    for label in (*LABELS, ""):
        export = Path(shutil.copytree(HERE / "session/repository", root / f"labelled{label}"))
        (metadata,) = export.glob("*/1/workflow/metadata.json")
        said = json.loads(metadata.read_text())
        del said["versions"]["nvtabular"]
        if label:
            said["versions"]["nvtabular"] = label
        metadata.write_text(json.dumps(said))
    return root


@pytest.fixture(scope="module", params=["auto", "off"])
def container(
    request: pytest.FixtureRequest, archives: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    """That compiles workflows, or has NVTabular run them."""
    settings = {"SERVE_MODEL_ROOT": str(archives), "SERVE_COMPILE": request.param}
    with running(tmp_path_factory.mktemp(request.param), **settings) as container:
        yield container
        compiled = container.log.count('compiled="1 of 1')
        assert compiled == (len(NAMES) + len(LABELS) + 1 if request.param == "auto" else 0)


def test_each_kind_of_column_is_there() -> None:
    """Columns of one value, lists of any length, sessions made of events."""
    assert NAMES == ["dense", "ragged", "session"]


@pytest.mark.parametrize("name", NAMES)
def test_merlins_numbers(name: str, archives: Path, container: Container) -> None:
    """The numbers that Merlin computed offline come back under their names, types and shapes."""
    with container.loaded("model", archives / name):
        answer = container.invoke("model", (HERE / name / "request.json").read_bytes())
    assert answer.status_code == 200, answer.text
    check_numbers(HERE / name, answer.json())


@pytest.mark.parametrize("label", LABELS)
def test_a_label_without_a_release(label: str, archives: Path, container: Container) -> None:
    """The workflow is 23.08's by what it holds: it is compiled, and NVTabular 23.08 runs it."""
    with container.loaded("model", archives / f"labelled{label}"):
        answer = container.invoke("model", (HERE / "session/request.json").read_bytes())
    assert answer.status_code == 200, answer.text
    check_numbers(HERE / "session", answer.json())


def test_no_label(request: pytest.FixtureRequest, archives: Path, container: Container) -> None:
    """Compiled it answers; NVTabular fails on it, so that it is refused where that is to run it."""
    answer = container.load("model", archives / "labelled")
    if request.node.callspec.params["container"] == "off":
        assert answer.status_code == 400
        assert "metadata.json: it does not say which release of NVTabular wrote it" in answer.text
        return
    answer = container.invoke("model", (HERE / "session/request.json").read_bytes())
    assert container.unload("model").status_code == 200
    check_numbers(HERE / "session", answer.json())
