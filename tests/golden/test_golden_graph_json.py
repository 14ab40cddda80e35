"""Exports whose workflow is graph.json, and no pickle, answer Merlin's numbers.

Merlin 23.08 wrote graph_json/ with NVTabular at commit 08e0633, which PyPI does not have: what
NVTabular runs here, 23.08 runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.container import Container, running
from tests.support.merlins_answers import check_numbers

HERE = Path(__file__).parent / "graph_json"
TWO = Path(__file__).parents[2] / "examples/merlin/two_workflows"
STEP = "0_transformworkflowtriton/1"
DOUBLE = "def double(x):\n    return x * 2\n"
pytestmark = pytest.mark.xdist_group("golden-graph-json")


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    with running(tmp_path_factory.mktemp("work"), SERVE_MODEL_ROOT="/") as container:
        yield container


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A copy of the one whose LambdaOp calls nvt_functions.double."""
    return Path(shutil.copytree(HERE / "lambda/repository", tmp_path / "repository"))


def rename_function(export: Path, module: str, qualname: str) -> None:
    path = export / STEP / "workflow/graph.json"
    text = path.read_text().replace('"nvt_functions"', f'"{module}"')
    path.write_text(text.replace('"double"', f'"{qualname}"'))


def write_function(export: Path, module: str) -> None:
    place = export / STEP / f"{module.replace('.', '/')}.py"
    place.parent.mkdir(exist_ok=True)
    place.write_text(DOUBLE)


@pytest.mark.parametrize("name", ["dense", "lists"])
def test_merlins_numbers(name: str, container: Container) -> None:
    """The numbers that Merlin computed offline come back, from a program without NVTabular."""
    with container.loaded("model", HERE / name / "repository"):
        answer = container.invoke("model", (HERE / name / "request.json").read_bytes())
    assert answer.status_code == 200, answer.text
    check_numbers(HERE / name, answer.json())
    assert 'compiled="1 of 1 workflows" from_graph_json="1 workflows' in container.log


def test_both_formats_in_one_graph(container: Container, tmp_path: Path) -> None:
    """One of two workflows is a pickle, as exports with Groupby are: all of it is compiled."""
    export = Path(shutil.copytree(TWO / "repository", tmp_path / "repository"))
    shutil.rmtree(export / STEP / "workflow")
    shutil.copytree(HERE / "mixed/workflow", export / STEP / "workflow")
    with container.loaded("mixed", export):
        answer = container.invoke("mixed", (TWO / "request.json").read_bytes())
    assert answer.status_code == 200, answer.text
    check_numbers(TWO, answer.json())
    assert 'compiled="2 of 2 workflows" from_graph_json="1 workflows' in container.log


@pytest.mark.parametrize("module", ["nvt_functions", "our_package.inner"])
def test_a_function_of_a_module_beside_the_step(
    module: str, container: Container, export: Path
) -> None:
    """It is the archive's own, a file or a package, and NVTabular's operators run with it."""
    rename_function(export, module, "double")
    write_function(export, module)
    with container.loaded("model", export):
        answer = container.invoke("model", (HERE / "lambda/request.json").read_bytes())
    assert answer.status_code == 200, answer.text
    check_numbers(HERE / "lambda", answer.json())


def test_modules_of_one_name(container: Container, export: Path, tmp_path: Path) -> None:
    """Each archive has its own, beside another archive's that is loaded."""
    other = Path(shutil.copytree(export, tmp_path / "other"))
    write_function(export, "nvt_functions")
    (other / STEP / "nvt_functions.py").write_text(DOUBLE.replace("* 2", "* -2"))
    request = (HERE / "lambda/request.json").read_bytes()
    with container.loaded("one", export), container.loaded("other", other):
        answers = [container.invoke(name, request).json() for name in ("one", "other", "one")]
    twice, turned, again = (answer["outputs"][0]["data"] for answer in answers)
    assert twice == again == [-value for value in turned]


@pytest.mark.parametrize(
    ("module", "qualname", "told"),
    [
        (
            "nvt_functions",
            "double",
            "LambdaOp of its workflow calls double of the module nvt_functions, which the models' "
            "Python does not have: put nvt_functions.py, or the package nvt_functions/, into the "
            "archive beside the step's model.py, or install it into the image",
        ),
        (
            "os",
            "system.<locals>.x",
            "op_params: f: qualname is 'system.<locals>.x', expected names",
        ),
        ("math", "inner.log2", "calls inner.log2 of the module math, which has no inner.log2"),
        ("our", "double", "calls double of the module our, which has no double"),
        ("json", "double", "calls double of the module json, whose name another module has here"),
        ("lacking", "double", "No module named 'nowhere_to_be_found'; install it into"),
        ("fails", "double", "module 'math' has no attribute 'log3'"),
    ],
)
def test_a_function_that_is_not_there(
    module: str, qualname: str, told: str, container: Container, export: Path
) -> None:
    """The load is refused, with the module's name and what to do."""
    rename_function(export, module, qualname)
    texts = {"our": "", "json": DOUBLE, "lacking": "import nowhere_to_be_found"}
    for name, text in {**texts, "fails": "import math; math.log3"}.items():
        (export / STEP / f"{name}.py").write_text(text)
    refused = container.load("model", export)
    assert refused.status_code == 400, refused.text
    assert told in refused.json()["error"]


def test_a_pickles_module_that_is_not_there(container: Container, tmp_path: Path) -> None:
    """The load is refused with the operator, the module and its place, as without a pickle."""
    tutorial = HERE.parent / "tutorials/t4r_end_to_end_module/repository"
    export = Path(shutil.copytree(tutorial, tmp_path / "repository"))
    (export / STEP / "session_functions.py").unlink()
    refused = container.load("model", export)
    assert refused.status_code == 400, refused.text
    assert (
        "No module named 'session_functions'; Filter calls 'is_long_enough' of the module "
        f"'session_functions', which does not lie beside {STEP}/model.py: put "
        "session_functions.py, or the package session_functions/, there, or install it into "
    ) in refused.json()["error"]


@pytest.mark.slow
def test_what_nvtabular_must_run_itself(tmp_path: Path) -> None:
    """NVTabular 23.08 knows no graph.json, and the load says which one does; a pickle that an
    earlier export left there is not served in its place.
    """
    export = Path(shutil.copytree(HERE / "dense/repository", tmp_path / "repository"))
    with running(tmp_path, SERVE_MODEL_ROOT="/", SERVE_COMPILE="off") as container:
        refused = container.load("model", export)
        shutil.copy(export / "executor_model/1/ensemble/ensemble.pkl", tmp_path / "workflow.pkl")
        shutil.move(tmp_path / "workflow.pkl", export / STEP / "workflow/workflow.pkl")
        both = container.load("both", export)
    assert refused.status_code == both.status_code == 400
    assert (
        f"{STEP}/workflow/graph.json: NVTabular must run this workflow (workflows are not compiled "
        "here), and the one here knows no graph.json, which NVTabular reads from its commit "
        "08e0633 (March 2026) on; install that one into"
    ) in refused.json()["error"]
    assert (
        f"{STEP}/workflow/workflow.pkl: it lies beside graph.json, and NVTabular reads the one or "
        "the other by its release; take out the older one"
    ) in both.json()["error"]
