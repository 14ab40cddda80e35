"""Which ensembles' steps one process runs, and what is published of them."""

from __future__ import annotations

import ast
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.errors import WorkflowsUnusable
from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.demand import IN_PANDAS, measure_demand
from ensemble_tools.serving.joining import Predictor, join_steps
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import Choices, PublishedModel, ServingPlan, plan_archive
from ensemble_tools.serving.publish import publish, retract
from ensemble_tools.workflows.program import Kept
from tests.support.category_files import with_a_category_twice

MERLIN = Path(__file__).parents[4] / "examples/merlin"
TUTORIALS = Path(__file__).parents[3] / "golden/tutorials"
PREDICTORS = {"pytorch": Predictor("torch", Path("/code/pytorch/torchscript.py"))}
TRANSFORM, PREDICT = "hash.0_transformworkflowtriton", "hash.1_predictpytorchtriton"


def planned(repository: Path) -> ServingPlan:
    read = read_repository(repository)
    graph = read_executor_graph(read)
    return plan_archive(read, graph, Namespace("hash"), Choices(compile=Compile.AUTO))


def join_plan(made: ServingPlan, predictors: Mapping[str, Predictor]) -> ServingPlan:
    """The same plan, joined."""
    models, not_joined = join_steps(made.models, made.called, predictors)
    return replace(made, models=models, not_joined=not_joined)


@pytest.fixture(scope="module")
def dense() -> ServingPlan:
    """Three models, whose last is the ensemble."""
    return planned(MERLIN / "dense/repository")


def literals(model: PublishedModel) -> dict[str, Any]:
    """What stands at the end of its program."""
    text = dict(model.files)["1/served_model.py"]
    found = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in found[-2:]
        if isinstance(node.targets[0], ast.Name)
    }


def test_the_steps_of_an_export_are_joined(dense: ServingPlan) -> None:
    """Into the ensemble's place, with its inputs and outputs."""
    joined = join_plan(dense, PREDICTORS)
    (model,) = joined.models
    assert model.triton_name == joined.entry == "hash"
    assert [step.triton_name for step in model.steps] == [TRANSFORM, PREDICT]
    assert (joined.compiled, joined.not_compiled, joined.not_joined) == (1, (), ())
    assert not model.finalizes
    assert {*joined.source_names} == {*dense.source_names}  # messages name steps

    before = text_format.Parse(dense.models[-1].config_text or "", pb.ModelConfig())
    after = text_format.Parse(model.config_text or "", pb.ModelConfig())
    assert (after.backend, after.platform) == ("python", "")
    assert (after.input, after.output) == (before.input, before.output)
    assert "LIBRARY = 'torch'" in dict(model.files)["1/model.py"]


def test_what_the_program_is_told(dense: ServingPlan) -> None:
    """The order, where each is, and which tensors go where."""
    (model,) = join_plan(dense, PREDICTORS).models
    told = literals(model)
    assert told["ANSWER"] == ["click"]
    transform, predict = told["STEPS"]
    assert transform["model_file"] == f"steps/{TRANSFORM}/1/model.py"
    assert (predict["model_file"], predict["folder"], predict["version"]) == (
        "/code/pytorch/torchscript.py",
        f"steps/{PREDICT}",
        "1",
    )
    assert predict["reads"]["age"] == transform["writes"]["age"]
    assert predict["writes"] == {"click": "click"}
    assert predict["config"]["name"] == PREDICT
    assert predict["config"]["parameters"] == {"INFERENCE_MODE": {"string_value": "true"}}
    assert predict["config"]["input"][0] == {
        "name": "user_id",
        "data_type": "TYPE_INT64",
        "dims": [-1],
    }


@pytest.mark.parametrize("name", ["session", "ragged", "two_workflows"])
def test_every_step_is_in_it(name: str) -> None:
    """Whatever their number; each after those that it reads."""
    made = planned(MERLIN / name / "repository")
    joined = join_plan(made, PREDICTORS)
    (whole,) = [model for model in joined.models if model.steps]
    assert {model.triton_name for model in joined.everything} == {*made.triton_names}
    there = {tensor.name for tensor in parsed(made, whole.triton_name).input}
    for row in literals(whole)["STEPS"]:
        assert {*row["reads"].values()} <= there
        there |= {*row["writes"].values()}


def check_apart(
    made: ServingPlan, why: str = "", predictors: Mapping[str, Predictor] = PREDICTORS
) -> None:
    """It stays what it is, and says why."""
    found = join_plan(made, predictors)
    assert found == replace(made, not_joined=found.not_joined)
    assert found.not_joined
    assert why in " ".join(found.not_joined)


def parsed(made: ServingPlan, triton_name: str) -> pb.ModelConfig:
    (model,) = [model for model in made.models if model.triton_name == triton_name]
    return text_format.Parse(model.config_text or "", pb.ModelConfig())


def batches(config: pb.ModelConfig) -> None:
    config.dynamic_batching.SetInParent()


def batch_dimension(config: pb.ModelConfig) -> None:
    config.max_batch_size = 8


def two_instances(config: pb.ModelConfig) -> None:
    config.instance_group[0].count = 2


def two_groups(config: pb.ModelConfig) -> None:
    config.instance_group.add()


def gpu(config: pb.ModelConfig) -> None:
    config.instance_group[0].kind = pb.ModelInstanceGroup.KIND_GPU


def gpus(config: pb.ModelConfig) -> None:
    config.instance_group[0].gpus.append(0)


def environment(config: pb.ModelConfig) -> None:
    config.parameters["EXECUTION_ENV_PATH"].string_value = "/e.tar.gz"


def reshape(config: pb.ModelConfig) -> None:
    config.input[0].reshape.shape.append(1)


def optional(config: pb.ModelConfig) -> None:
    config.input[0].optional = True


def warm_up(config: pb.ModelConfig) -> None:
    config.model_warmup.add()


def cache(config: pb.ModelConfig) -> None:
    config.response_cache.enable = True


def no_outputs(config: pb.ModelConfig) -> None:
    del config.output[:]


def other_backend(config: pb.ModelConfig) -> None:
    config.backend = "onnxruntime"


def one_input_more(config: pb.ModelConfig) -> None:
    config.input.add(name="more", data_type=pb.TYPE_FP32, dims=[-1])


def unmapped(config: pb.ModelConfig) -> None:
    del config.ensemble_scheduling.step[1].input_map["age"]


def version(config: pb.ModelConfig) -> None:
    config.ensemble_scheduling.step[1].model_version = 2


def twice(config: pb.ModelConfig) -> None:
    config.ensemble_scheduling.step.add().CopyFrom(config.ensemble_scheduling.step[1])


def circle(config: pb.ModelConfig) -> None:
    config.ensemble_scheduling.step[0].input_map["age"] = "click"


def other_type(config: pb.ModelConfig) -> None:
    config.output[0].data_type = pb.TYPE_INT32


def other_rank(config: pb.ModelConfig) -> None:
    config.output[0].dims.append(1)


def input_of_another_type(config: pb.ModelConfig) -> None:
    config.input[0].data_type = pb.TYPE_FP32


def no_such_output(config: pb.ModelConfig) -> None:
    config.ensemble_scheduling.step[0].output_map["nope"] = "nope"


def nobody_reads_it(config: pb.ModelConfig) -> None:
    config.ensemble_scheduling.step[0].output_map["visits_log"] = "unread"


def nobody_reads_the_request(config: pb.ModelConfig) -> None:
    config.input.add(name="unread", data_type=pb.TYPE_FP32, dims=[-1])


def swapped(config: pb.ModelConfig) -> None:
    inputs = config.ensemble_scheduling.step[1].input_map
    inputs["user_id"], inputs["age"] = inputs["age"], inputs["user_id"]


def a_name_with_a_null(config: pb.ModelConfig) -> None:
    config.output[0].name = "click\0x"
    config.ensemble_scheduling.step[1].output_map["click"] = "click\0x"


WIRED = (
    *(other_type, other_rank, input_of_another_type, no_such_output, nobody_reads_it),
    *(nobody_reads_the_request, swapped, a_name_with_a_null),
)


def one_step(config: pb.ModelConfig) -> None:
    del config.ensemble_scheduling.step[0]


@pytest.mark.parametrize(
    ("number", "change"),
    [
        *[
            (1, change)
            for change in (
                *(batches, batch_dimension, two_instances, two_groups, gpu, gpus, environment),
                *(reshape, optional, warm_up, cache, no_outputs, other_backend, one_input_more),
            )
        ],
        *[(0, change) for change in (batches, two_instances, environment)],
        *[(2, change) for change in (cache, unmapped, version, twice, circle, one_step, *WIRED)],
    ],
)
def test_an_ensemble_that_asks_for_more_stays_one(
    dense: ServingPlan, number: int, change: Callable[[pb.ModelConfig], None]
) -> None:
    """tritonserver does between steps what no child does."""
    assert join_plan(dense, PREDICTORS) is not dense
    config = parsed(dense, dense.models[number].triton_name)
    change(config)
    changed = replace(dense.models[number], config_text=text_format.MessageToString(config))
    models = tuple(changed if n == number else it for n, it in enumerate(dense.models))
    other = replace(dense, models=models)
    check_apart(other)


def test_a_step_that_others_use_as_well_stays_a_model(dense: ServingPlan) -> None:
    """Who calls it by its name, or another ensemble."""
    called = replace(dense, called=(PREDICT,))
    check_apart(called, "the step 1_predictpytorchtriton is used more than once")
    second = replace(dense.models[-1], triton_name="hash.second")
    shared = replace(dense, models=(*dense.models, second))
    check_apart(shared)


def test_nothing_is_joined_that_no_child_can_run(dense: ServingPlan) -> None:
    """The archive's own code, NVTabular, a backend of NVIDIA's, a config that is not known."""
    check_apart(dense, "the step 1_predictpytorchtriton is run by the backend 'pytorch'", {})
    for change in (
        {"compiled": None},
        {"config_text": None},
        {"config_text": 'newer_than_we_are: "yes"'},
        {"empty_versions": (2,)},
    ):
        first = replace(dense.models[0], **change)
        other = replace(dense, models=(first, *dense.models[1:]))
        check_apart(other)


def test_a_version_that_is_not_one_stays(dense: ServingPlan) -> None:
    """An answer says which version gave it."""
    for versions in ((3,), (1, 2)):
        last = replace(dense.models[-1], empty_versions=versions)
        check_apart(replace(dense, models=(*dense.models[:-1], last)), "its version is not 1")


def test_a_step_of_the_version_that_is_there(dense: ServingPlan) -> None:
    """An ensemble may name it; of another one the sentence says what there is."""
    config = parsed(dense, dense.models[2].triton_name)
    config.ensemble_scheduling.step[1].model_version = 1
    last = replace(dense.models[2], config_text=text_format.MessageToString(config))
    joined = join_plan(replace(dense, models=(*dense.models[:2], last)), PREDICTORS)
    assert (len(joined.models), joined.not_joined) == (1, ())
    config.ensemble_scheduling.step[1].model_version = 2
    last = replace(dense.models[2], config_text=text_format.MessageToString(config))
    check_apart(
        replace(dense, models=(*dense.models[:2], last)),
        "it asks for version 2 of the step 1_predictpytorchtriton, which has version 1",
    )


def test_an_ensemble_that_is_a_step_stays(dense: ServingPlan) -> None:
    """Beside an erring step of an ensemble tritonserver still starts others."""
    outer = pb.ModelConfig(name="hash.outer", platform="ensemble")
    outer.input.add(name="x", data_type=pb.TYPE_FP32, dims=[-1])
    outer.output.add(name="y", data_type=pb.TYPE_FP32, dims=[-1])
    outer.ensemble_scheduling.step.add(model_name="hash", model_version=-1)
    text = text_format.MessageToString(outer)
    around = replace(dense.models[-1], triton_name="hash.outer", config_text=text)
    check_apart(replace(dense, models=(*dense.models, around)), "it is a step itself")


def behind_each_other(dense: ServingPlan, source: str) -> ServingPlan:
    """A second predictor of a number, which it reads from there."""
    config = parsed(dense, "hash")
    config.output[0].name = "last"
    first = config.ensemble_scheduling.step[1]
    step = config.ensemble_scheduling.step.add(model_name="hash.again", model_version=-1)
    step.input_map["x"], step.output_map["y"] = source, "last"
    if source != first.output_map["click"]:
        config.output.add(name=first.output_map["click"], data_type=pb.TYPE_FP32, dims=[-1])
    again = pb.ModelConfig(name="hash.again", backend="pytorch")
    again.input.add(name="x", data_type=pb.TYPE_FP32, dims=[-1])
    again.output.add(name="y", data_type=pb.TYPE_FP32, dims=[-1])
    made = replace(
        dense.models[1],
        triton_name="hash.again",
        source_name="again",
        config_text=text_format.MessageToString(again),
    )
    last = replace(dense.models[-1], config_text=text_format.MessageToString(config))
    return replace(dense, models=(*dense.models[:-1], made, last))


def test_predictors_that_follow_each_other_are_joined(dense: ServingPlan) -> None:
    """Side by side tritonserver would run them."""
    made = behind_each_other(dense, "click")
    (model,) = join_plan(made, PREDICTORS).models
    assert [step.source_name for step in model.steps][-1] == "again"
    assert len(model.steps) == 3
    config = parsed(dense, "hash")
    tensor = config.ensemble_scheduling.step[0].output_map["age"]
    check_apart(behind_each_other(dense, tensor), "runs its predictors side by side")


def test_predictors_of_two_libraries_stay(dense: ServingPlan) -> None:
    made = behind_each_other(dense, "click")
    text = (made.models[2].config_text or "").replace("pytorch", "tensorflow")
    other = replace(made.models[2], config_text=text)
    models = (*made.models[:2], other, made.models[3])
    both = {**PREDICTORS, "tensorflow": Predictor("tensorflow", Path("/code/saved_model.py"))}
    check_apart(replace(made, models=models), "are of tensorflow, torch", both)


def test_very_many_steps_are_not_looked_at(dense: ServingPlan) -> None:
    """To put them in order would take as long as somebody wishes."""
    config = parsed(dense, "hash")
    for number in range(5_000):
        step = config.ensemble_scheduling.step.add(model_name=f"s{number}", model_version=-1)
        step.input_map["x"], step.output_map["y"] = f"t{number + 1}", f"t{number}"
    long = "# long\n" * 100_000 + (dense.models[-1].config_text or "")
    for text in (text_format.MessageToString(config), long):
        last = replace(dense.models[-1], config_text=text)
        many = replace(dense, models=(*dense.models[:-1], last))
        began = time.process_time()
        check_apart(many)
        assert time.process_time() - began < 5


def test_forests_are_called_by_a_step(dense: ServingPlan) -> None:
    """Which only tritonserver's own stub can."""
    forest = planned(MERLIN / "forest_xgboost/repository")
    fil = {"fil": Predictor("forests", Path("/code/fil/forest.py"))}
    check_apart(forest, "calls other models", fil)


@pytest.fixture(scope="module")
def in_part() -> ServingPlan:
    """A workflow with functions in it, and a predictor behind it."""
    return planned(TUTORIALS / "t4r_end_to_end/repository")


def with_kept(made: ServingPlan, in_nvtabular: bool) -> ServingPlan:
    """Its first workflow, with an operator that is not compiled."""
    model = made.models[0]
    assert model.compiled is not None
    kept = Kept("LambdaOp", ("a",), "it calls a function of yours", in_nvtabular)
    program = replace(model.compiled.program, kept=(kept,))
    compiled = replace(model.compiled, program=program)
    return replace(made, models=(replace(model, compiled=compiled), *made.models[1:]))


def test_functions_run_beside_the_predictor(in_part: ServingPlan) -> None:
    """Where the interpreter has PyTorch and pandas."""
    (model,) = join_plan(in_part, PREDICTORS).models
    assert "LIBRARY = 'torch-pandas'" in dict(model.files)["1/model.py"]
    assert [row["functions"] for row in literals(model)["STEPS"]] == [True, False]
    assert measure_demand(join_plan(in_part, PREDICTORS)).models[0].kind == "pytorch"


def generated(model: PublishedModel, text: str, interpreter: str = "") -> PublishedModel:
    """A step of ours in a predictor's place."""
    config = 'backend: "python"\n' + "".join(
        part
        for part in (model.config_text or "").splitlines(keepends=True)
        if not part.startswith(("backend", "platform"))
    )
    files = (("1/model.py", text),)
    return replace(
        model,
        config_text=config,
        links=(),
        files=files,
        generated=True,
        interpreter=interpreter,
    )


@pytest.mark.parametrize(("interpreter", "library"), [("", "pandas"), ("feast", "feast")])
def test_functions_without_a_predictor(
    interpreter: str, library: str, in_part: ServingPlan
) -> None:
    """They need pandas, which an operator's own library may bring along."""
    behind = generated(in_part.models[1], "# converts", interpreter)
    models = (in_part.models[0], behind, *in_part.models[2:])
    joined = join_plan(replace(in_part, models=models), PREDICTORS)
    (model,) = joined.models
    assert f"LIBRARY = '{library}'" in dict(model.files)["1/model.py"]
    assert measure_demand(joined).models[0].kind == IN_PANDAS


def test_functions_that_stay_in_a_process_of_their_own(
    dense: ServingPlan, in_part: ServingPlan
) -> None:
    """NVTabular's, those beside other workflows or other libraries, or beside random numbers."""
    assert join_plan(with_kept(dense, in_nvtabular=False), PREDICTORS).not_joined == ()
    check_apart(with_kept(dense, in_nvtabular=True), "needs NVTabular")
    two = with_kept(planned(MERLIN / "two_workflows/repository"), in_nvtabular=False)
    check_apart(two, "others beside it")
    tensorflow = {"pytorch": Predictor("tensorflow", Path("/code/tensorflow/saved_model.py"))}
    check_apart(in_part, "its predictor one of tensorflow", tensorflow)
    samples = generated(in_part.models[1], "np.random.uniform(0, 1)")
    models = (in_part.models[0], samples, *in_part.models[2:])
    check_apart(replace(in_part, models=models), "may draw random numbers")


def test_one_directory_is_published(dense: ServingPlan, tmp_path: Path) -> None:
    """The steps' own lie in it, as tritonserver would have them."""
    made = join_plan(dense, PREDICTORS)
    publish(made, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["hash"]
    steps = tmp_path / "hash/1/steps"
    assert (steps / PREDICT / "1/model.pt").resolve().is_file()
    assert (steps / TRANSFORM / "1/tables/program.json").is_file()
    compile(dict(made.models[0].files)["1/served_model.py"], "served_model.py", "exec")
    retract(made, tmp_path)
    assert not [*tmp_path.iterdir()]


def test_a_workflow_that_is_not_compiled_takes_the_steps_apart(tmp_path: Path) -> None:
    """NVTabular serves it, which no other library's child has."""
    archive = tmp_path / "archive"
    shutil.copytree(MERLIN / "dense/repository", archive)
    categories = archive / "0_transformworkflowtriton/1/workflow/categories"
    with_a_category_twice(categories / "unique.item_id.parquet")
    serving = tmp_path / "serving"
    serving.mkdir()
    read = read_repository(archive)
    graph, choices = read_executor_graph(read), Choices(compile=Compile.AUTO)
    joining = replace(choices, warm=True, predictors=PREDICTORS)
    joined = plan_archive(read, graph, Namespace("hash"), joining)
    assert len(joined.models) == 1
    with pytest.raises(WorkflowsUnusable) as unusable:
        publish(joined, serving)
    assert not [*serving.iterdir()]
    read = read.with_unusable(unusable.value.reasons)
    made = plan_archive(read, graph, Namespace("hash"), joining)
    assert [*made.triton_names] == [TRANSFORM, PREDICT, "hash"]
    assert (made.compiled, len(made.not_compiled)) == (0, 1)
    why = "the step 0_transformworkflowtriton is NVTabular itself"
    assert made.not_joined == (f"executor_model: {why}",)
    publish(made, serving)
    assert {path.name for path in serving.iterdir()} == {*made.triton_names}
    retract(made, serving)  # as a load does that fails afterwards
    assert not [*serving.iterdir()]


def test_what_needs_no_gpu_is_on_the_cpu(dense: ServingPlan) -> None:
    """Steps without a predictor; one that has a predictor is where tritonserver puts that."""
    joined = join_plan(dense, PREDICTORS)
    assert measure_demand(joined, gpus=2).models[0].on_gpus == {0: 1, 1: 1}
    lookup = generated(dense.models[1], "# looks features up", "feast")
    models = (dense.models[0], lookup, dense.models[2])
    joined = join_plan(replace(dense, models=models), PREDICTORS)
    assert len(joined.models) == 1, joined.not_joined
    assert measure_demand(joined, gpus=2).models[0].on_gpus == {}


def test_what_it_asks_of_the_machine(dense: ServingPlan) -> None:
    """One predictor, with the files of all; and it is no copy of the ensemble."""
    joined = measure_demand(join_plan(dense, PREDICTORS))
    apart = measure_demand(dense)
    (model,) = joined.models
    assert (model.kind, model.instances) == ("pytorch", 1)
    assert model.payload_bytes == sum(it.payload_bytes for it in apart.models)
    assert joined.identity != apart.identity


def test_steps_of_different_versions_are_one_payload(dense: ServingPlan, tmp_path: Path) -> None:
    """What each serves, together."""
    joined = join_plan(dense, PREDICTORS)
    (model,) = joined.models
    (tmp_path / "model.pt").write_bytes(bytes(1000))
    (tmp_path / "large").write_bytes(bytes(5000))
    first = replace(model.steps[0], links=(("1/large", tmp_path / "large"),))
    second = replace(model.steps[1], links=(("3/model.pt", tmp_path / "model.pt"),))
    other = replace(joined, models=(replace(model, steps=(first, second)),))
    assert measure_demand(other).models[0].payload_bytes == 6000
