"""The tutorials' workflows answer Merlin's numbers, in whatever form each is served.

tutorials/export.py made them of the notebooks' operators and functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.container import Container, running

HERE = Path(__file__).parent / "tutorials"
NAMES = sorted(path.parent.name for path in HERE.glob("*/repository"))
#: float32 has 24 bits; other CPUs, and torch in another process, may take sums in another order.
RELATIVE, ABSOLUTE = 1e-5, 1e-6


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    with running(tmp_path_factory.mktemp("tutorials"), SERVE_MODEL_ROOT=str(HERE)) as container:
        yield container


def test_each_notebook_is_there() -> None:
    """Each of them has its export."""
    assert sorted(path.stem for path in HERE.glob("notebooks/*.py")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_merlins_numbers(name: str, container: Container) -> None:
    """The numbers that Merlin computed offline come back under their names, types and shapes."""
    with container.loaded("model", HERE / name / "repository"):
        answer = container.invoke("model", (HERE / name / "request.json").read_bytes())
    assert answer.status_code == 200, answer.text
    found = {tensor["name"]: tensor for tensor in answer.json()["outputs"]}
    expected = json.loads((HERE / name / "expected.json").read_text())["outputs"]
    assert found.keys() == {tensor["name"] for tensor in expected}
    for tensor in expected:
        other = found[tensor["name"]]
        assert (other["datatype"], other["shape"]) == (tensor["datatype"], tensor["shape"])
        if tensor["datatype"].startswith("FP"):
            assert other["data"] == pytest.approx(tensor["data"], rel=RELATIVE, abs=ABSOLUTE)
        else:
            assert other["data"] == tensor["data"]
