"""Real exports of merlin-systems 0.8 to 23.06: read as their release reads them, planned, served.

merlin_releases/export.py made them, each with its release's own packages, and says with which. The
models' environment here is 23.08's. Of the older workflows and model.py files it runs 23.06's and
no others, so that the numbers of the rest were compared in an environment of their release
(export.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools.archive.executor_graph import ExecutorGraph, SchemaColumn
from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.model_config import ModelConfig, parse_model_config
from ensemble_tools.archive.repository import ModelRepository, read_repository
from ensemble_tools.ensembles.producers import FromRequest
from ensemble_tools.ensembles.wiring import Source, wire
from ensemble_tools.errors import GraphNotServable, ReleaseUnfit
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import Choices, Form, Rewrite, ServingPlan, plan_archive
from tests.support.container import Container, running

HERE = Path(__file__).parent / "merlin_releases"
NAMES = sorted(path.parent.name for path in HERE.glob("*/repository"))
EXECUTORS = [name for name in NAMES if name.endswith("_executor")]
ENSEMBLES = [name for name in NAMES if name.endswith("_ensemble")]
#: float32 has 24 bits; other CPUs may take sums in another order.
RELATIVE, ABSOLUTE = 1e-6, 1e-7

WORKFLOW, PYTORCH = "0_transformworkflowtriton", "1_predictpytorchtriton"
#: What the releases with shapes in their schemas become, by case: the form and Merlin's own steps.
SINCE_23_04: dict[str, tuple[Form, set[str]]] = {
    "dense": (Form.PURE_ENSEMBLE, {WORKFLOW, PYTORCH}),
    "fixed": (Form.PURE_ENSEMBLE, {WORKFLOW, PYTORCH}),
    "ragged": (Form.PURE_ENSEMBLE, {WORKFLOW, PYTORCH}),
    "workflow": (Form.PURE_ENSEMBLE, {WORKFLOW}),
    "unroll": (Form.STEPPED_ENSEMBLE, {WORKFLOW, PYTORCH}),
    "filter": (Form.EXECUTOR, set()),
}
#: Before, a workflow answers [rows, 1] and a PyTorch model takes [rows], so that the release's own
#: executor answers neither `dense` nor `unroll`.
BEFORE: dict[str, tuple[Form, set[str]]] = {
    "workflow": (Form.PURE_ENSEMBLE, {WORKFLOW}),
    "filter": (Form.EXECUTOR, set()),
}
AS_IT_IS = (Form.EXECUTOR, {WORKFLOW, PYTORCH})
PLANNED = {
    f"{release}_{case}_executor": expected
    for releases, cases in (
        (("23.06",), {**SINCE_23_04, "filter": (Form.STEPPED_ENSEMBLE, set())}),
        # Their executors convert columns in other ways than the generated steps do.
        (("23.04", "23.05"), {**SINCE_23_04, "unroll": AS_IT_IS}),
        (("0.9", "23.02"), {**BEFORE, "dense": AS_IT_IS, "unroll": AS_IT_IS}),
        (("0.8",), {"filter": BEFORE["filter"]}),
    )
    for release in releases
    for case, expected in cases.items()
}
#: List columns of theirs fail in the executor of the release itself.
NOT_SERVABLE = [
    f"{release}_{case}_executor"
    for release in ("0.8", "0.9", "23.02")
    for case in ("fixed", "ragged")
]

Endpoint = tuple[str, str]


def repository_of(name: str) -> ModelRepository:
    return read_repository(HERE / name / "repository")


def planned(name: str) -> ServingPlan:
    repository = repository_of(name)
    return plan_archive(repository, read_executor_graph(repository), Namespace("model"))


def read(name: str, file: str) -> Any:
    return json.loads((HERE / name / file).read_text())


def test_every_release_is_there() -> None:
    """Six releases; the runtime for ensembles is 0.8's and 0.9's alone."""
    assert {name.partition("_")[0] for name in EXECUTORS} == {
        "0.8",
        "0.9",
        "23.02",
        "23.04",
        "23.05",
        "23.06",
    }
    assert {name.partition("_")[0] for name in ENSEMBLES} == {"0.8", "0.9"}


# --- read -----------------------------------------------------------------------------------------


def columns(schema: tuple[SchemaColumn, ...]) -> list[list[Any]]:
    return [
        [one.name, one.dtype, one.is_ragged, None if one.dims is None else [*one.dims]]
        for one in schema
    ]


def as_json(graph: ExecutorGraph) -> list[dict[str, Any]]:
    return [
        {
            "class": node.operator.class_name,
            "model": node.operator.model_name,
            "upstream": [*node.upstream],
            "selection": [*node.selection],
            "inputs": [*node.inputs],
            "output": columns(node.output),
            "operator_in": columns(node.operator.columns_in),
            "operator_out": columns(node.operator.columns_out),
        }
        for node in graph.nodes
    ]


@pytest.mark.parametrize("name", EXECUTORS)
def test_graph(name: str) -> None:
    """Operators, edges, selections, data types, raggedness and sizes are what the release sees."""
    graph = read_executor_graph(repository_of(name))
    assert graph is not None
    assert as_json(graph) == read(name, "graph.json")
    assert not graph.customised


@pytest.mark.parametrize("name", ENSEMBLES)
def test_ensemble_has_no_graph(name: str) -> None:
    """0.8's and 0.9's own ensembles are entered by the ensemble, and hold no executor graph."""
    repository = repository_of(name)
    assert repository.entry.name == "ensemble_model"
    assert read_executor_graph(repository) is None


def test_what_schemas_say() -> None:
    """The reader tells a data type and a fixed size in each release's own words for them."""
    for release in ("0.8", "0.9", "23.02", "23.04", "23.05", "23.06"):
        graph = read_executor_graph(repository_of(f"{release}_fixed_executor"))
        assert graph is not None
        (workflow,) = (node for node in graph.nodes if "Workflow" in node.operator.label)
        found = {column.name: column for column in workflow.operator.columns_out}
        assert (found["quad"].dtype, found["age"].dtype) == ("int64", "float32")
        assert not found["quad"].is_ragged
        assert len(found["quad"].dims or ()) == 2


# --- planned --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PLANNED)
def test_plan(name: str) -> None:
    """Each executor gets the form that its release's configs allow, over its own children."""
    form, steps = PLANNED[name]
    made = planned(name)
    delivered = repository_of(name).models.keys() - {"executor_model"}
    assert made.form is form
    assert {model.source_name for model in made.models} & delivered == steps


@pytest.mark.parametrize("name", NOT_SERVABLE)
def test_not_servable(name: str) -> None:
    """What the release's own executor fails on is refused, with the column."""
    with pytest.raises(GraphNotServable, match=r"quad|genres"):
        planned(name)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_ensemble_plan(name: str) -> None:
    """A Triton ensemble of NVIDIA's exporter is served as delivered, with all of its steps."""
    made = planned(name)
    assert made.form is Form.AS_DELIVERED
    assert {model.source_name for model in made.models} == repository_of(name).models.keys()
    assert made.entry == made.triton_names[-1] == "model"


def edges(config: ModelConfig, names: dict[str, str]) -> dict[Endpoint, Endpoint]:
    """Reader -> writer, as (model, tensor); the request and the answer are the model ''."""
    writers = {name: ("", name) for name in config.inputs}
    for step in config.steps:
        for tensor, ensemble_tensor in step.output_map.items():
            writers[ensemble_tensor] = (names[step.model_name], tensor)
    found = {
        (names[step.model_name], tensor): writers[ensemble_tensor]
        for step in config.steps
        for tensor, ensemble_tensor in step.input_map.items()
    }
    return found | {("", name): writers[name] for name in config.outputs}


def entry_edges(name: str) -> dict[Endpoint, Endpoint]:
    made = planned(name)
    text = made.models[-1].config_text
    assert text is not None
    return edges(parse_model_config(text, HERE / name), dict(made.source_names))


DENSE = {
    (WORKFLOW, "user_id"): ("", "user_id"),
    (WORKFLOW, "age"): ("", "age"),
    (PYTORCH, "user_id"): (WORKFLOW, "user_id"),
    (PYTORCH, "age"): (WORKFLOW, "age"),
    ("", "click"): (PYTORCH, "click"),
}
RAGGED = {
    (WORKFLOW, "genres__values"): ("", "genres__values"),
    (WORKFLOW, "genres__offsets"): ("", "genres__offsets"),
    (PYTORCH, "genres__values"): (WORKFLOW, "genres__values"),
    (PYTORCH, "genres__offsets"): (WORKFLOW, "genres__offsets"),
    ("", "click"): (PYTORCH, "click"),
}


@pytest.mark.parametrize("release", ["23.04", "23.05", "23.06"])
def test_wiring(release: str) -> None:
    """Columns that keep their names, and both tensors of a ragged one, come from the workflow."""
    assert entry_edges(f"{release}_dense_executor") == DENSE
    assert entry_edges(f"{release}_ragged_executor") == RAGGED


def test_wiring_of_the_workflow_alone() -> None:
    """0.9 exported one graph both ways: our ensemble has the edges of NVIDIA's own."""
    assert entry_edges("0.9_workflow_executor") == entry_edges("0.9_workflow_ensemble")


def producer_name(source: Source) -> str:
    return "" if isinstance(source.producer, FromRequest) else source.producer.key


@pytest.mark.parametrize("case", ["dense", "workflow"])
def test_nvidia_wires_alike(case: str) -> None:
    """Each column's source is the one that 0.9's exporter for ensembles wired from that graph."""
    repository = repository_of(f"0.9_{case}_executor")
    graph, executor = read_executor_graph(repository), repository.entry
    assert graph is not None
    assert executor.config is not None
    assert executor.graph_path is not None
    wiring = wire(
        graph, (*executor.config.inputs,), (*executor.config.outputs,), executor.graph_path
    )
    ours = {
        (call.model_name, column): (producer_name(source), source.column)
        for call in wiring.calls
        for column, source in call.sources.items()
    } | {
        ("", column): (producer_name(source), source.column)
        for column, source in wiring.answer.items()
    }
    assert ours == entry_edges(f"0.9_{case}_ensemble")


# --- served ---------------------------------------------------------------------------------------

SERVED = [f"23.06_{case}_executor" for case in ("dense", "fixed", "ragged", "workflow")]
#: Its graph's modules are not in 23.08's environment; a step without Merlin answers.
WITHOUT_MERLIN = "23.06_filter_executor"
#: What stands in the way in 23.08's environment: modules that moved, attributes that came later.
NOT_SERVED = {
    "0.8_filter_ensemble": "DictArray",
    "0.8_filter_executor": "DictArray",
    "0.9_filter_ensemble": r"merlin\.systems\.dag\.op_runner",
}
#: What 23.08's nvtabular loads and then fails on at each request, or does not load.
UNFIT = [
    name
    for name in NAMES
    if not name.startswith("23.06") and [*(HERE / name / "repository").glob("*/1/workflow")]
    if name not in NOT_SERVABLE
]

#: What is said of them.
_UNFIT = (
    r"/\d_\w+: its workflow was written by nvtabular {}, and the models' Python has 23\.\S+, which "
    r"cannot run workflows from before 23\.06; export it again with Merlin 23\.08, or use"
)


def written_by(name: str) -> str:
    """The version of nvtabular that wrote the workflow."""
    (said,) = (HERE / name / "repository").glob("*/1/workflow/metadata.json")
    return str(json.loads(said.read_text())["versions"]["nvtabular"])


@pytest.mark.parametrize("name", UNFIT)
def test_unfit_release(name: str) -> None:
    """A workflow from before 23.06 is refused for models' Python since then, and for no other."""
    repository = repository_of(name)
    graph = read_executor_graph(repository)
    for rewrite in (Rewrite.AUTO, Rewrite.EXECUTOR):
        with pytest.raises(ReleaseUnfit) as error:
            plan_archive(
                repository, graph, Namespace("model"), Choices(rewrite=rewrite, nvtabular="23.8.0")
            )
        assert re.search(_UNFIT.format(re.escape(written_by(name))), str(error.value))
    for installed in ("", "23.5.0", "23.05.00", "unknown"):
        made = plan_archive(repository, graph, Namespace("model"), Choices(nvtabular=installed))
        assert made.entry == "model"


@pytest.mark.parametrize("name", SERVED)
def test_fit_release(name: str) -> None:
    """23.06's workflows run in later releases."""
    repository = repository_of(name)
    graph = read_executor_graph(repository)
    for installed in ("23.6.0", "23.8.0", "24.1"):
        made = plan_archive(repository, graph, Namespace("model"), Choices(nvtabular=installed))
        assert made.form is Form.PURE_ENSEMBLE


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    with running(tmp_path_factory.mktemp("releases"), SERVE_MODEL_ROOT=str(HERE)) as container:
        yield container


@pytest.mark.parametrize("name", [*SERVED, WITHOUT_MERLIN])
def test_numbers(name: str, container: Container) -> None:
    """The release's own numbers, computed offline, come back under their names and types."""
    with container.loaded("model", HERE / name / "repository"):
        answer = container.invoke("model", read(name, "request.json"))
    assert answer.status_code == 200, answer.text
    found = {tensor["name"]: tensor for tensor in answer.json()["outputs"]}
    expected = read(name, "expected.json")["outputs"]
    assert found.keys() == {tensor["name"] for tensor in expected}
    for tensor in expected:
        other = found[tensor["name"]]
        assert (other["datatype"], other["shape"]) == (tensor["datatype"], tensor["shape"])
        assert other["data"] == pytest.approx(tensor["data"], rel=RELATIVE, abs=ABSOLUTE)


@pytest.mark.parametrize("name", NOT_SERVED)
def test_no_number_from_another_release(name: str, container: Container) -> None:
    """Where 23.08's packages do not run the model, that is said and no number is given."""
    answer = container.load("model", HERE / name / "repository")
    if answer.status_code == 200:
        answer = container.invoke("model", read(name, "request.json"))
        assert container.unload("model").status_code == 200
    assert answer.status_code in (400, 500)
    (said,) = answer.json().values()
    assert re.search(NOT_SERVED[name], said), said


@pytest.mark.parametrize("name", UNFIT)
def test_unfit_release_is_refused_at_load(name: str, container: Container) -> None:
    """The container asks the models' Python for its nvtabular, and says so before anything runs."""
    answer = container.load("model", HERE / name / "repository")
    assert answer.status_code == 400, answer.text
    (said,) = answer.json().values()
    assert re.search(_UNFIT.format(re.escape(written_by(name))), said), said
