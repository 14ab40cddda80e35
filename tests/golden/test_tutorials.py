"""Workflows with functions answer Merlin's numbers, in whatever form each is served.

tutorials/export.py made them of the notebooks' operators and functions, functions/export.py of
session workflows with a function of each kind.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ensemble_tools.archive.model_config import parse_model_config
from tests.support.container import Container, running
from tests.workflows.compare import EQUAL
from tests.workflows.exchange import CONFIG, INPUTS, REQUESTS, WORKFLOW, Tensors, write_requests
from tests.workflows.run import MODELS_PYTHON, ROOT, again

HERE = Path(__file__).parent
TUTORIALS = sorted(path.parent for path in HERE.glob("tutorials/*/repository"))
FUNCTIONS = sorted(path.parent for path in HERE.glob("functions/*/repository"))
#: float32 has 24 bits; other CPUs, and torch in another process, may take sums in another order.
RELATIVE, ABSOLUTE = 1e-5, 1e-6
#: Those in whose workflows functions and operators of the notebook's own run, beside what is
#: compiled.
IN_PART = (
    "nvt_outbrain",
    "nvt_twitter",
    "t4r_end_to_end",
    "t4r_end_to_end_module",
    "t4r_getting_started",
    "t4r_tutorial",
)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    with running(tmp_path_factory.mktemp("tutorials"), SERVE_MODEL_ROOT=str(HERE)) as container:
        yield container


def test_each_notebook_is_there() -> None:
    """Each of them has its export."""
    notebooks = HERE.glob("tutorials/notebooks/*.py")
    assert sorted(path.stem for path in notebooks) == [path.name for path in TUTORIALS]


def test_each_kind_of_function_is_there() -> None:
    """Before, between and behind the compiled operators."""
    names = ["behind_groupby", "dates", "own_operator", "with_filter", "without"]
    assert [path.name for path in FUNCTIONS] == names


@pytest.mark.parametrize("export", [*TUTORIALS, *FUNCTIONS], ids=lambda path: str(path.name))
def test_merlins_numbers(export: Path, container: Container) -> None:
    """The numbers that Merlin computed offline come back under their names, types and shapes."""
    with container.loaded("model", export / "repository"):
        answer = container.invoke("model", (export / "request.json").read_bytes())
    assert answer.status_code == 200, answer.text
    found = {tensor["name"]: tensor for tensor in answer.json()["outputs"]}
    expected = json.loads((export / "expected.json").read_text())["outputs"]
    assert found.keys() == {tensor["name"] for tensor in expected}
    for tensor in expected:
        other = found[tensor["name"]]
        assert (other["datatype"], other["shape"]) == (tensor["datatype"], tensor["shape"])
        if tensor["datatype"].startswith("FP"):
            assert other["data"] == pytest.approx(tensor["data"], rel=RELATIVE, abs=ABSOLUTE)
        else:
            assert other["data"] == tensor["data"]


def test_sessions_that_the_filter_leaves_out(container: Container) -> None:
    """Merlin fails on a request of none but those; NVTabular is not imported to fail on it."""
    request = json.loads((HERE / "functions/with_filter/request.json").read_text())
    for tensor in request["inputs"]:
        tensor.update(shape=[1, *tensor["shape"][1:]], data=tensor["data"][:1])
    with container.loaded("model", HERE / "functions/with_filter/repository"):
        logged = len(container.log)
        answer = container.invoke("model", json.dumps(request).encode())
        assert answer.status_code == 400
        assert "it has lists, and no rows are left" in answer.text
        assert "NVTabular is imported" not in container.log[logged:]


@pytest.mark.slow
def test_nvtabular_answers_nothing_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a part is compiled, functions run in pandas; the answer is NVTabular's, bit for bit.

    An operator that puts out its whole frame (ItemRecency), or whole numbers where its schema says
    floats (DaysSincePublished), is no reason to leave the request to NVTabular.
    """
    monkeypatch.setenv("PYTHONPATH", str(HERE / "tutorials/modules"))
    cases = [_case(name, tmp_path / f"case_{number}") for number, name in enumerate(IN_PART)]
    original = [str(MODELS_PYTHON), "-m", "tests.workflows.original", *map(str, cases)]
    subprocess.run(original, cwd=ROOT, check=True, capture_output=True)
    results = again(cases)
    assert [bool(one.outcome.kept) for one in results] == [True for _ in IN_PART]
    found = dict(zip(IN_PART, [one.requests for one in results], strict=True))
    assert found == {name: Counter({EQUAL: 1}) for name in IN_PART}


def _case(name: str, case: Path) -> Path:
    """The tutorial's workflow and its request, where random workflows have theirs."""
    step = HERE / "tutorials" / name / "repository/0_transformworkflowtriton"
    shutil.copytree(step / "1/workflow", case / WORKFLOW)
    declared = parse_model_config((step / CONFIG).read_text(), step / CONFIG).inputs
    rows = [
        {"name": tensor.name, "data_type": tensor.data_type, "dims": tensor.dims}
        for tensor in declared.values()
    ]
    (case / INPUTS).write_text(json.dumps(rows))
    written = json.loads((HERE / "tutorials" / name / "request.json").read_text())["inputs"]
    request: Tensors = {
        tensor["name"]: _array(tensor) for tensor in written if tensor["name"] in declared
    }
    write_requests(case / REQUESTS, [request])
    return case


def _array(tensor: dict[str, Any]) -> Any:
    """As Triton's Python backend has it."""
    if tensor["datatype"] == "BYTES":
        return np.array([text.encode() for text in tensor["data"]], object)
    dtype = tensor["datatype"].lower().replace("fp", "float")
    return np.array(tensor["data"], dtype).reshape(tensor["shape"])
