"""Exports whose workflow is graph.json, and no pickle, answer Merlin's numbers.

Merlin 23.08 wrote graph_json/ with NVTabular at commit 08e0633, which PyPI does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.container import Container, running
from tests.support.merlins_answers import check_numbers

HERE = Path(__file__).parent / "graph_json"


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    with running(tmp_path_factory.mktemp("work"), SERVE_MODEL_ROOT=str(HERE)) as container:
        yield container


@pytest.mark.parametrize("name", ["dense", "lists"])
def test_merlins_numbers(name: str, container: Container) -> None:
    """The numbers that Merlin computed offline come back, from a program without NVTabular."""
    with container.loaded("model", HERE / name / "repository"):
        answer = container.invoke("model", (HERE / name / "request.json").read_bytes())
    assert answer.status_code == 200, answer.text
    check_numbers(HERE / name, answer.json())
    assert 'compiled="1 of 1' in container.log
