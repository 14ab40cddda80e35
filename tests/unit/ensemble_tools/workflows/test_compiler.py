"""Which workflows are compiled, and the words with which others are not."""

from __future__ import annotations

import dataclasses
import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.compilation import with_compiled_workflows
from ensemble_tools.errors import PayloadBroken
from ensemble_tools.executor_graph import Column, ExecutorGraph, Node, Operator
from ensemble_tools.graph_reader import read_executor_graph
from ensemble_tools.inert_pickle import read_pickle
from ensemble_tools.namespace import Namespace
from ensemble_tools.plan import Form, PublishedModel, ServingPlan, plan
from ensemble_tools.publish import publish
from ensemble_tools.repository import ModelRepository, read_repository
from ensemble_tools.workflows.compiler import compile_workflow
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.program import Input, Program
from tests.support.category_files import with_a_category_twice

DENSE = Path(__file__).parents[4] / "examples/merlin/dense/repository"
STEP = "0_transformworkflowtriton"

AGE = Column("age", "float64", False, (None,))
TAGS = Column("tags", "int64", True, (None, None))
INPUTS = {
    "age": Input("TYPE_FP64", (-1,)),
    "tags__values": Input("TYPE_INT64", (-1,)),
    "tags__offsets": Input("TYPE_INT32", (-1,)),
}


def graph(column: Column, *operators: Operator) -> ExecutorGraph:
    """A column, and one operator after the other."""
    names = (column.name,)
    nodes = [
        Node(
            0, Operator("merlin.dag.ops.selection.SelectionOp", "SelectionOp", selector=names), (),
            names, names, (), (column,), names, (column,), is_leaf=True,
        )
    ]  # fmt: skip
    for number, operator in enumerate(operators, 1):
        nodes.append(
            Node(number, operator, (number - 1,), names, names, (), (column,), names, (column,))
        )
    return ExecutorGraph(tuple(nodes))


def operator(called: str, module: str = "nvtabular.ops", /, **state: Any) -> Operator:
    inert: Mapping[str, Any] = read_pickle(pickle.dumps(state))
    return Operator(f"{module}.{called}", called.rpartition(".")[2], state=inert)


def compiled(
    *operators: Operator, column: Column = AGE, inputs: Mapping[str, Input] = INPUTS
) -> Program:
    return compile_workflow(graph(column, *operators), inputs, Path("/none"))


LOG = operator("logop.LogOp")


def test_steps() -> None:
    fill = operator("fill.FillMissing", fill_val=0.5, add_binary_cols=False)
    program = compiled(fill, LOG)
    assert [step.operation for step in program.steps] == ["fill", "log1"]
    assert program.operators == {"FillMissing": 1, "LogOp": 1}


def test_nothing_but_columns() -> None:
    assert compiled().steps == ()


CATEGORIES = {
    "encode_type": "joint", "dtype": None, "storage_name": {}, "search_sorted": False,
    "name_sep": "_", "split_out": 1, "cat_cache": "host", "num_buckets": None,
    "single_table": False, "out_path": "/exported",
    "categories": {"age": "/exported/categories/unique.age.parquet"},
}  # fmt: skip


def categorify(**changed: Any) -> Operator:
    return operator("categorify.Categorify", **{**CATEGORIES, **changed})


def test_category_files_lie_in_the_workflow() -> None:
    """Where the exporter had them is of no account."""
    (table,) = compiled(categorify()).tables
    assert table.path == Path("/none/categories/unique.age.parquet")


@pytest.mark.parametrize(
    "path",
    [
        "/elsewhere/unique.age.parquet", "/exported/../../etc/passwd", "/etc/passwd", "",
        "categories/unique.age.parquet", 5, None,
    ],
)  # fmt: skip
def test_category_files_elsewhere_are_not_read(path: Any) -> None:
    with pytest.raises(NotCompiled, match=r"category file|not in a file"):
        compiled(categorify(categories={"age": path}))


@pytest.mark.parametrize(
    "changed",
    [
        {"encode_type": "other"}, {"dtype": "str"}, {"search_sorted": True}, {"split_out": 2},
        {"split_out": {"age": 3}}, {"cat_cache": None}, {"categories": None}, {"categories": {}},
        {"storage_name": ["age"]}, {"single_table": "yes"}, {"num_buckets": {"age": 0}},
        {"num_buckets": {"age": "5"}}, {"num_buckets": {"age": 2**63}}, {"num_buckets": -1},
        {"out_path": ""}, {"out_path": None},
    ],
)  # fmt: skip
def test_categorify_with_other_parameters(changed: dict[str, Any]) -> None:
    with pytest.raises(NotCompiled, match=r"^Categorify of 'age': "):
        compiled(categorify(**changed))


@pytest.mark.parametrize("missing", CATEGORIES)
def test_categorify_of_another_release(missing: str) -> None:
    """A parameter that is not there is not guessed."""
    state = {name: value for name, value in CATEGORIES.items() if name != missing}
    with pytest.raises(NotCompiled, match=f"it has no {missing}: another NVTabular"):
        compiled(operator("categorify.Categorify", **state))


@pytest.mark.parametrize(
    "unknown",
    [
        operator("lambdaop.LambdaOp", f=None),
        operator("filter.Filter", f=None),
        operator("brand_new.Operator"),
        operator("LogOp", "users_code"),
        operator("logop.LogOp", "nvtabular.ops.sub"),
        operator("clip.Clip", min_value="0", max_value=None),
        operator("clip.Clip", min_value=float("nan"), max_value=None),
        operator("clip.Clip", max_value=None),
        operator("normalize.Normalize", means={"age": 0.0}, stds={}, out_dtype=None),
        operator("normalize.Normalize", means=None, stds={"age": 1.0}, out_dtype=None),
        operator("normalize.Normalize", means={"age": 0.0}, stds={"age": None}, out_dtype=None),
        operator("rename.Rename", f=None, postfix=None, name=None),
        operator("bucketize.Bucketize", boundaries=print, use_digitize=True),
        operator("fill.FillMissing", fill_val="x", add_binary_cols=False),
        operator("hash_bucket.HashBucket", num_buckets={"age": 0}),
        operator("difference_lag.DifferenceLag", partition_cols=["gone"], shifts=[1]),
    ],
    ids=lambda one: f"{one.class_name} {list(one.state)}",
)
def test_what_is_not_certain_is_not_compiled(unknown: Operator) -> None:
    """Beside an operator that is, so that it is not the whole that is refused for being all."""
    with pytest.raises(NotCompiled):
        compiled(unknown)


def test_the_reason_names_operator_and_column() -> None:
    with pytest.raises(NotCompiled) as refused:
        compiled(operator("filter.Filter", f=None))
    assert str(refused.value) == "Filter of 'age': a function of yours decides which rows there are"


def test_lists_where_values_are_wanted() -> None:
    clip = operator("clip.Clip", min_value=0, max_value=None)
    with pytest.raises(NotCompiled, match="applied to lists"):
        compiled(clip, column=TAGS)


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({}, "declares no input 'age'"),
        ({"age": Input("TYPE_FP16", (-1,))}, "a column of TYPE_FP16"),
        ({"age": Input("TYPE_UINT64", (-1,))}, "a column of TYPE_UINT64"),
        ({"age": Input("TYPE_FP64", (-1, 2, 2))}, "more than two dimensions"),
    ],
)
def test_declared_inputs(inputs: dict[str, Input], reason: str) -> None:
    with pytest.raises(NotCompiled, match=reason):
        compiled(LOG, inputs=inputs)


def test_lists_need_both_tensors() -> None:
    without = {name: one for name, one in INPUTS.items() if name != "tags__offsets"}
    with pytest.raises(NotCompiled, match="declares no input 'tags__offsets'"):
        compiled(LOG, column=TAGS, inputs=without)
    of_floats = {**INPUTS, "tags__offsets": Input("TYPE_FP32", (-1,))}
    with pytest.raises(NotCompiled, match="offsets are no whole numbers"):
        compiled(LOG, column=TAGS, inputs=of_floats)


@pytest.mark.parametrize("dtype", ["str", "datetime64[ns]", "float16", None, "decimal"])
def test_answers_of_other_types(dtype: str | None) -> None:
    made = graph(AGE, LOG)
    last = dataclasses.replace(made.nodes[-1], output=(dataclasses.replace(AGE, dtype=dtype),))
    with pytest.raises(NotCompiled, match="'age'"):
        compile_workflow(ExecutorGraph((made.nodes[0], last)), INPUTS, Path("/none"))


def test_an_answer_that_nobody_makes() -> None:
    made = graph(AGE, LOG)
    last = dataclasses.replace(made.nodes[-1], output=(AGE, dataclasses.replace(AGE, name="x")))
    with pytest.raises(NotCompiled, match="'x': the workflow does not put it out"):
        compile_workflow(ExecutorGraph((made.nodes[0], last)), INPUTS, Path("/none"))


# --- a model of an export -------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of an export, to be changed."""
    return Path(shutil.copytree(DENSE, tmp_path / "repository"))


def planned(repository: Path) -> tuple[ServingPlan, ModelRepository]:
    read = read_repository(repository)
    served = plan(read, read_executor_graph(read), Namespace("hash"), strict=True)
    return with_compiled_workflows(served, read), read


def step_of(made: ServingPlan) -> PublishedModel:
    return next(model for model in made.models if model.source_name == STEP)


def test_an_export_is_compiled(repository: Path) -> None:
    made = step_of(planned(repository)[0])
    assert made.compiled is not None
    assert made.compiled.program.operators == {
        "Categorify": 1, "Normalize": 2, "FillMissing": 1, "LogOp": 1, "Rename": 1,
    }  # fmt: skip


def change_config(repository: Path, change: str) -> None:
    path = repository / STEP / "config.pbtxt"
    config = text_format.Parse(path.read_text(), pb.ModelConfig())
    if change == "batch":
        config.max_batch_size = 8
    elif change == "output":
        del config.output[0]
    elif change == "input":
        del config.input[0]
    elif change == "cats":
        config.parameters["cats"].string_value = '["not_there"]'
    elif change == "conts":
        config.parameters["conts"].string_value = "[not JSON"
    elif change == "no list":
        config.parameters["conts"].string_value = '{"a": 1}'
    path.write_text(text_format.MessageToString(config))


def change_files(repository: Path, change: str) -> None:
    version = repository / STEP / "1"
    metadata = version / "workflow/metadata.json"
    if change == "other NVTabular":
        metadata.write_text(metadata.read_text().replace("23.08.00", "23.06.00"))
    elif change == "no metadata":
        metadata.unlink()
    elif change == "foreign model.py":
        with (version / "model.py").open("a") as file:
            file.write("\nprint('ours')\n")
    elif change == "several versions":
        shutil.copytree(version, repository / STEP / "2")
    elif change == "no pickle":
        (version / "workflow/workflow.pkl").write_bytes(b"no pickle")
    elif change == "hostile pickle":
        (version / "workflow/workflow.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    elif change == "table in the pickle":  # dask's graphs have tuples as keys
        keyed = b"\x80\x04}(cnvtabular.ops.join_external\nJoinExternal\n"
        (version / "workflow/workflow.pkl").write_bytes(keyed + b"K\x00K\x01\x86K\x02u.")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("batch", "max_batch_size is not 0"),
        ("output", "declares no output"),
        ("input", "declares no input"),
        ("cats", "parameter cats names other columns"),
        ("conts", "parameter conts is no JSON"),
        ("no list", "parameter conts names other columns"),
        ("other NVTabular", "written by NVTabular"),
        ("no metadata", "written by NVTabular"),
        ("foreign model.py", "not the one that merlin-systems exports"),
        ("several versions", "several versions"),
        ("no pickle", "workflow.pkl"),
        ("hostile pickle", "workflow.pkl cannot be read without running it"),
        ("table in the pickle", "JoinExternal: its table is pickled inside of the workflow"),
    ],
)
def test_other_models_stay_as_they_are(repository: Path, change: str, reason: str) -> None:
    """Served as delivered, and the plan says why."""
    change_config(repository, change)
    change_files(repository, change)
    read = read_repository(repository)
    model = PublishedModel("hash", STEP, None)
    made = step_of(
        with_compiled_workflows(ServingPlan("name", Form.AS_DELIVERED, STEP, (model,)), read)
    )
    assert made.compiled is None
    assert reason in made.not_compiled


# --- published ------------------------------------------------------------------------------------


def test_published(repository: Path, tmp_path: Path) -> None:
    """The program, its tables and the runtime; the workflow itself is a link."""
    serving = tmp_path / "serving"
    serving.mkdir()
    made = publish(planned(repository)[0], serving)
    directory = serving / step_of(made).triton_name / "1"
    assert (directory / "tables/program.json").is_file()
    assert (directory / "compiled_workflow/program.py").is_file()
    assert "compiled_workflow" in (directory / "model.py").read_text()
    assert "nvtabular" in (repository / STEP / "1/model.py").read_text().lower()
    assert not (repository / STEP / "1/tables").exists()


@pytest.mark.parametrize("fault", ["cut off", "another schema"])
def test_a_category_file_that_nvtabular_fails_on(
    repository: Path, tmp_path: Path, fault: str
) -> None:
    """Refused with its path, and nothing is left."""
    files = repository / STEP / "1/workflow/categories"
    path = files / "unique.item_id.parquet"
    if fault == "cut off":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        shutil.copy(files / "unique.user_id.parquet", path)
    serving = tmp_path / "serving"
    serving.mkdir()
    with pytest.raises(PayloadBroken) as error:
        publish(planned(repository)[0], serving)
    assert str(error.value).startswith(f"{path}: ")
    assert str(error.value).endswith("; export it again")
    assert not list(serving.iterdir())


@pytest.mark.parametrize("fault", ["gone since it was planned", "twice"])
def test_a_broken_category_file(repository: Path, tmp_path: Path, fault: str) -> None:
    """Published as delivered, with the reason; nothing of the attempt is left."""
    files = repository / STEP / "1/workflow/categories"
    path = files / "unique.item_id.parquet"
    if fault == "twice":
        with_a_category_twice(path)
    made = planned(repository)[0]
    if fault == "gone since it was planned":
        path.unlink()
    serving = tmp_path / "serving"
    serving.mkdir()
    made = publish(made, serving)
    model = step_of(made)
    assert model.compiled is None
    assert "unique.item_id.parquet" in model.not_compiled
    version = serving / model.triton_name / "1"
    delivered = {one.name for one in (repository / STEP / "1").iterdir()}
    assert {one.name for one in version.iterdir()} == delivered
    assert (version / "model.py").resolve() == repository / STEP / "1/model.py"
    assert {one.name for one in serving.iterdir()} == {one.triton_name for one in made.models}


def test_a_name_that_is_taken(repository: Path, tmp_path: Path) -> None:
    """A directory of the model's own is not written into."""
    (repository / STEP / "1/tables").mkdir()
    serving = tmp_path / "serving"
    serving.mkdir()
    model = step_of(publish(planned(repository)[0], serving))
    assert model.compiled is None
    assert "tables/" in model.not_compiled
