"""Exports of workflows alone answer Merlin's numbers, compiled and by NVTabular itself.

workflows/export.py made them. Other Pythons, and images without Merlin, are held against the same
numbers (tests/pythons, tests/docker/test_plain_image.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.container import Container, running
from tests.support.merlins_answers import check_numbers

HERE = Path(__file__).parent / "workflows"
NAMES = sorted(path.parent.name for path in HERE.glob("*/repository"))


@pytest.fixture(scope="module", params=["auto", "off"])
def container(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    """That compiles workflows, or has NVTabular run them."""
    settings = {"SERVE_MODEL_ROOT": str(HERE), "SERVE_COMPILE": request.param}
    with running(tmp_path_factory.mktemp(request.param), **settings) as container:
        yield container
        assert ('compiled="1 of 1' in container.log) == (request.param == "auto")


def test_each_kind_of_column_is_there() -> None:
    """Columns of one value, lists of any length, sessions made of events."""
    assert NAMES == ["dense", "ragged", "session"]


@pytest.mark.parametrize("name", NAMES)
def test_merlins_numbers(name: str, container: Container) -> None:
    """The numbers that Merlin computed offline come back under their names, types and shapes."""
    with container.loaded("model", HERE / name / "repository"):
        answer = container.invoke("model", (HERE / name / "request.json").read_bytes())
    assert answer.status_code == 200, answer.text
    check_numbers(HERE / name, answer.json())
