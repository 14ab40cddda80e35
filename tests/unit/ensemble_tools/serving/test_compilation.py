"""Which models' workflows are compiled, and what is published of them."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.inert_pickle import MAX_OPCODES
from ensemble_tools.archive.model_config import parse_leniently, print_model_config
from ensemble_tools.archive.repository import ModelRepository, read_repository
from ensemble_tools.errors import EntryRefused, PayloadBroken, PayloadMissing, WorkflowsUnusable
from ensemble_tools.serving.compilation import Compile, compile_model
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import Choices, PublishedModel, ServingPlan, plan_archive
from ensemble_tools.serving.publish import publish, retract
from tests.support.category_files import with_a_category_twice

DENSE = Path(__file__).parents[4] / "examples/merlin/dense/repository"
STEP = "0_transformworkflowtriton"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of an export, to be changed."""
    return Path(shutil.copytree(DENSE, tmp_path / "repository"))


def planned(repository: Path) -> tuple[ServingPlan, ModelRepository]:
    read = read_repository(repository)
    graph, choices = read_executor_graph(read), Choices(compile=Compile.AUTO)
    return plan_archive(read, graph, Namespace("hash"), choices), read


def unusable(made: ServingPlan, serving: Path) -> str:
    """Why its workflow cannot be published as a program; nothing is left of the attempt."""
    with pytest.raises(WorkflowsUnusable) as error:
        publish(made, serving)
    assert not [*serving.iterdir()]
    return error.value.reasons[STEP]


def step_of(made: ServingPlan) -> PublishedModel:
    return next(model for model in made.models if model.source_name == STEP)


def test_an_export_is_compiled(repository: Path) -> None:
    made = step_of(planned(repository)[0])
    assert made.compiled is not None
    assert made.compiled.program.operators == {
        "Categorify": 1,
        "Normalize": 2,
        "FillMissing": 1,
        "LogOp": 1,
        "Rename": 1,
    }


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
    elif change == "too much to read":
        operator = b"\x80\x04cmerlin.dag.ops.udf\nUDF\n"
        pickled = operator + b"N0" * (MAX_OPCODES // 2) + b"N."
        (version / "workflow/workflow.pkl").write_bytes(pickled)


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
        (
            "too much to read",
            "running it: it has more than 2000000 opcodes (in LambdaOp)",
        ),
    ],
)
def test_other_models_stay_as_they_are(repository: Path, change: str, reason: str) -> None:
    """Served as delivered, and the plan says why."""
    change_config(repository, change)
    change_files(repository, change)
    source = read_repository(repository).models[STEP]
    made = compile_model(PublishedModel("hash", STEP, None), source)
    assert made.compiled is None
    assert reason in made.not_compiled


# --- published ------------------------------------------------------------------------------------


def test_published(repository: Path, tmp_path: Path) -> None:
    """The program, its tables and the runtime; the workflow itself is a link."""
    serving = tmp_path / "serving"
    serving.mkdir()
    made = planned(repository)[0]
    publish(made, serving)
    directory = serving / step_of(made).triton_name / "1"
    assert (directory / "tables/program.json").is_file()
    assert (directory / "compiled_workflow/program.py").is_file()
    assert (directory / "compiled_workflow/operations/scaling.py").is_file()
    assert "compiled_workflow" in (directory / "model.py").read_text()
    assert "nvtabular" in (repository / STEP / "1/model.py").read_text().lower()
    assert not (repository / STEP / "1/tables").exists()


def test_the_runtime_of_all(repository: Path, tmp_path: Path) -> None:
    """Models link to one, which is whole as soon as it is there, and stays when they go."""
    serving, runtime = tmp_path / "serving", tmp_path / "runtime"
    serving.mkdir()
    made = planned(repository)[0]
    with ThreadPoolExecutor(4) as threads:
        repositories = [tmp_path / "serving" / str(number) for number in range(8)]
        for each in repositories:
            each.mkdir()
        list(threads.map(lambda each: publish(made, each, runtime=runtime), repositories))
    for each in repositories:
        link = each / step_of(made).triton_name / "1/compiled_workflow"
        assert link.readlink() == runtime
        assert (link / "operations/scaling.py").is_file()
        retract(made, each)
    assert (runtime / "graph_json.py").is_file()
    assert {*tmp_path.iterdir()} >= {serving, runtime}
    assert not [*tmp_path.glob(".*")]


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
    """Planned and published as delivered then, with the reason."""
    files = repository / STEP / "1/workflow/categories"
    path = files / "unique.item_id.parquet"
    if fault == "twice":
        with_a_category_twice(path)
    made, read = planned(repository)
    if fault == "gone since it was planned":
        path.unlink()
    serving = tmp_path / "serving"
    serving.mkdir()
    reason = unusable(made, serving)
    choices = Choices(compile=Compile.AUTO)
    read = read.with_unusable({STEP: reason})
    made = plan_archive(read, read_executor_graph(read), Namespace("hash"), choices)
    publish(made, serving)
    model = step_of(made)
    assert (model.compiled, model.not_compiled) == (None, reason)
    assert "unique.item_id.parquet" in model.not_compiled
    delivered = tmp_path / "delivered"
    delivered.mkdir()
    publish(plan_archive(read, read_executor_graph(read), Namespace("hash")), delivered)
    assert listed(serving) == listed(delivered)


def listed(serving: Path) -> dict[str, str]:
    """What is published: the places of its files, and their texts; those of links are none."""
    files = (it for it in serving.rglob("*") if ".archive" not in str(it) and not it.is_dir())
    return {
        str(it.relative_to(serving)): "" if it.is_symlink() else it.read_text()
        for it in files
        if not it.relative_to(serving).parts[0].startswith("archive-")
    }


@pytest.mark.parametrize(
    ("groups", "published"),
    [
        ("instance_group { }", "instance_group { kind: KIND_CPU }"),
        ("", "instance_group { kind: KIND_CPU }"),
        (
            "instance_group { count: 3 kind: KIND_GPU gpus: [ 0, 1 ] }",
            "instance_group { count: 3 kind: KIND_CPU }",
        ),
    ],
)
def test_a_compiled_workflow_is_on_the_cpu(
    repository: Path, tmp_path: Path, groups: str, published: str
) -> None:
    """Whatever its config says: numpy has no use for a GPU, and tritonserver would make an instance
    for each. All else of the config is as it was."""
    config = repository / STEP / "config.pbtxt"
    message = parse_leniently(config.read_text())
    del message.instance_group[:]
    message.MergeFrom(parse_leniently(groups))
    config.write_text(print_model_config(message))
    serving = tmp_path / "serving"
    serving.mkdir()
    made = planned(repository)[0]
    publish(made, serving)
    model = step_of(made)
    assert model.compiled is not None
    found = parse_leniently((serving / model.triton_name / "config.pbtxt").read_text())
    del message.instance_group[:]
    message.MergeFrom(parse_leniently(published))
    message.name = found.name
    assert found == message


def test_a_name_that_is_taken(repository: Path, tmp_path: Path) -> None:
    """A directory of the model's own is not written into."""
    (repository / STEP / "1/tables").mkdir()
    serving = tmp_path / "serving"
    serving.mkdir()
    assert "tables/" in unusable(planned(repository)[0], serving)


NO_PICKLE = Path(__file__).parents[3] / "golden/graph_json"


@pytest.mark.parametrize("name", ["dense", "lists"])
def test_a_workflow_without_a_pickle(name: str, tmp_path: Path) -> None:
    """It is compiled whatever release wrote it, and a pickle beside it is not looked at."""
    export = Path(shutil.copytree(NO_PICKLE / name / "repository", tmp_path / "repository"))
    (export / STEP / "1/workflow/workflow.pkl").write_bytes(b"no pickle")
    made, _ = planned(export)
    assert made.json_workflows == 1
    assert step_of(made).json_workflow_path == "1/workflow"
    assert step_of(made).compiled is not None
    (tmp_path / "serving").mkdir()
    publish(made, tmp_path / "serving")


def test_two_workflows_in_one_directory(tmp_path: Path) -> None:
    """Where NVTabular must read one of them, its release decides which: refused."""
    export = Path(shutil.copytree(NO_PICKLE / "lambda/repository", tmp_path / "repository"))
    graph = export / STEP / "1/workflow/graph.json"
    graph.write_text(graph.read_text().replace("lambdaop.LambdaOp", "filter.Filter"))
    made, _ = planned(export)
    assert step_of(made).not_compiled.endswith("it joins columns whose rows are not the same")
    (tmp_path / "serving").mkdir()
    publish(made, tmp_path / "serving")
    shutil.rmtree(tmp_path / "serving")
    (tmp_path / "serving").mkdir()
    (graph.parent / "workflow.pkl").write_bytes(b"")
    with pytest.raises(PayloadBroken, match=r"workflow\.pkl: it lies beside graph\.json"):
        publish(planned(export)[0], tmp_path / "serving")
    assert not list((tmp_path / "serving").iterdir())


@pytest.mark.parametrize(
    ("found", "wanted", "told"),
    [
        ('"format_version": 1', '"format_version": 2', "graph.json: its format_version is 2"),
        ("nvtabular.ops.clip.Clip", "nvtabular.ops.groupby.Groupby", "node 3: op_class is"),
        ("unique.city.parquet", "unique.town.parquet", "unique.town.parquet: there is no such"),
        ("categories/unique.city", "../../../../x", "which is not among the workflow's artifacts"),
    ],
)
def test_a_graph_json_that_nvtabular_cannot_read(
    found: str, wanted: str, told: str, tmp_path: Path
) -> None:
    """The archive is refused, with the file, the node and the field."""
    export = Path(shutil.copytree(NO_PICKLE / "dense/repository", tmp_path / "repository"))
    graph = export / STEP / "1/workflow/graph.json"
    graph.write_text(graph.read_text().replace(found, wanted))
    with pytest.raises((PayloadBroken, PayloadMissing)) as error:
        planned(export)
    assert str(error.value).startswith(str(graph.parent))
    assert told in str(error.value)


def test_an_artifact_behind_a_link_out_of_the_archive(tmp_path: Path) -> None:
    """It is refused, as any such link is."""
    export = Path(shutil.copytree(NO_PICKLE / "dense/repository", tmp_path / "repository"))
    file = export / STEP / "1/workflow/artifacts/node_8/categories/unique.city.parquet"
    shutil.move(file, tmp_path / "far.parquet")
    file.symlink_to(tmp_path / "far.parquet")
    with pytest.raises(EntryRefused, match=r"unique\.city\.parquet"):
        planned(export)
