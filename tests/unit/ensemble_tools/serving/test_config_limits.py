"""What configs ask for: each field that could end tritonserver is refused before it sees it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ensemble_tools.archive.repository import read_repository
from ensemble_tools.errors import DemandRefused
from ensemble_tools.serving.config_limits import Limits
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import Choices, ServingPlan, plan_archive

GIB = 2**30
LIMITS = Limits(memory_bytes=8 * GIB, instances=8)
CONFIG = """backend: "python"
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
"""


def archive(top: Path, config: str, *files: str, name: str = "m") -> Path:
    """A python model with that config, and empty files beside it."""
    for file in ("1/model.py", *files):
        path = top / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (top / name / "config.pbtxt").write_text(config)
    return top


def planned(top: Path, limits: Limits = LIMITS) -> ServingPlan:
    return plan_archive(read_repository(top), None, Namespace("hash"), Choices(limits=limits))


def warm(inputs: str, more: str = "batch_size: 1") -> str:
    value = f'inputs {{ key: "IN" value {{ {inputs} }} }}'
    return f'{CONFIG} model_warmup {{ name: "w" {more} {value} }}'


def tensor(dims: str, kind: str = "FP32", data: str = "zero_data: true") -> str:
    return f"data_type: TYPE_{kind} dims: [{dims}] {data}"


def parameter(key: str, value: str) -> str:
    return f'{CONFIG} parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


SEQUENCES = "sequence_batching {{ {} }}"

REFUSED = {
    "warm-up of 16 GB": (warm(tensor("4000000000")), "model_warmup", "15259 MiB"),
    "warm-up whose size overflows": (
        warm(tensor("4611686018427387904, 4")),
        "model_warmup",
        "more memory than any machine has",
    ),
    "warm-up whose size overflows to nothing": (
        warm(tensor("4611686018427387904, 4611686018427387904, 16", "INT64")),
        "model_warmup",
        "more memory",
    ),
    "warm-up of many dimensions": (warm(tensor("2, " * 9999 + "2")), "model_warmup", "more memory"),
    "warm-up of random values": (
        warm(tensor("3000, 300000", "FP64", "random_data: true")),
        "model_warmup",
        "6867 MiB",
    ),
    "warm-up of texts": (warm(tensor("4000000000", "STRING")), "model_warmup", "15259 MiB"),
    "warm-up by a batch": (warm(tensor("1"), "batch_size: 4000000000"), "model_warmup", "MiB"),
    "warm-up for each instance": (
        warm(tensor("100000000")) + "instance_group { count: 8 }",
        "model_warmup",
        "3052 MiB",
    ),
    "warm-up without an end": (
        warm(tensor("1"), "batch_size: 1 count: 4000000000"),
        "model_warmup.count",
        "4000000000",
    ),
    "warm-up of less than nothing": (warm(tensor("-5")), "model_warmup.inputs.dims", "-5"),
    "warm-up of more rows than a batch": (
        warm(tensor("1"), "batch_size: 2").replace("max_batch_size", "# "),
        "model_warmup['w'].batch_size",
        "at most 1",
    ),
    "warm-up without an input": (
        warm(tensor("1")).replace('key: "IN"', 'key: "in"'),
        "model_warmup['w'].inputs",
        "lacks the model's input 'IN' (found 'in')",
    ),
    "warm-up of another type": (
        warm(tensor("1", "INT32")),
        "model_warmup['w'].inputs['IN'].data_type",
        "is TYPE_INT32; expected TYPE_FP32",
    ),
    "warm-up of another rank": (
        warm(tensor("1, 1")),
        "model_warmup['w'].inputs['IN'].dims",
        "is [1, 1]; expected [-1]",
    ),
    "warm-up of any size": (
        warm(tensor("-1")),
        "model_warmup['w'].inputs['IN'].dims",
        "leaves a size open",
    ),
    "warm-up without values": (
        warm(tensor("1", data="")),
        "model_warmup['w'].inputs['IN']",
        "has no values",
    ),
    "warm-up from no file": (
        warm(tensor("1", data='input_data_file: "gone"')),
        "model_warmup['w'].inputs['IN'].input_data_file",
        "is 'gone', which warmup/ has not",
    ),
    "a tensor of less than nothing": (CONFIG.replace("[-1]", "[-2]"), "input.dims", "-2"),
    "sixty instances": (CONFIG + "instance_group { count: 60 }", "instance_group", "60 instances"),
    "instances in groups": (
        CONFIG + "instance_group { count: 5 } instance_group { count: 4 }",
        "instance_group",
        "9 instances",
    ),
    "instances by GPU": (
        CONFIG + "instance_group { count: 2 kind: KIND_GPU gpus: [0, 1, 2, 3, 0] }",
        "instance_group",
        "10 instances",
    ),
    "instances by version": (
        CONFIG + "version_policy { all { } } instance_group { count: 5 }",
        "instance_group",
        "10 instances",
    ),
    "slots by the batch": (
        CONFIG + "max_batch_size: 10000000 " + SEQUENCES.format("direct { }"),
        "max_batch_size",
        "9766 MiB",
    ),
    "a batch without an end": (CONFIG + "max_batch_size: 2000000000", "max_batch_size", "20000"),
    "a batch of less than nothing": (CONFIG + "max_batch_size: -1", "max_batch_size", "-1"),
    "sequences without an end": (
        CONFIG + SEQUENCES.format("oldest { max_candidate_sequences: 2000000000 }"),
        "sequence_batching.oldest.max_candidate_sequences",
        "1953125 MiB",
    ),
    "states": (
        CONFIG
        + SEQUENCES.format(
            'state { input_name: "A" output_name: "B" data_type: TYPE_FP32 dims: [4000000000] }'
        ),
        "sequence_batching.state.dims",
        "MiB",
    ),
    "a state's beginning": (
        CONFIG
        + SEQUENCES.format(
            'state { input_name: "A" output_name: "B" data_type: TYPE_FP32 dims: [1] initial_state '
            '{ name: "z" data_type: TYPE_FP32 dims: [4000000000] zero_data: true } }'
        ),
        "sequence_batching.state.dims",
        "MiB",
    ),
    "a tensor of dims": (CONFIG.replace("[-1]", "[4000000000]"), "input.dims", "15259 MiB"),
    "a platform that is a path": (
        CONFIG.replace("backend:", "platform:").replace("python", "a/b"),
        "platform",
        "a/b",
    ),
    "libraries of operators": (
        CONFIG + 'model_operations { op_library_filename: "libx.so" }',
        "model_operations.op_library_filename",
        "libx.so",
    ),
    "an agent that is a path": (
        CONFIG + 'model_repository_agents { agents { name: "../x" } }',
        "model_repository_agents.agents.name",
        "../x",
    ),
    "an agent that reads elsewhere": (
        CONFIG + 'model_repository_agents { agents { name: "checksum" parameters '
        '{ key: "MD5:../../x" value: "0" } } }',
        "model_repository_agents.agents.parameters",
        "../../x",
    ),
    "a metric's label that is none": (
        CONFIG + 'metric_tags { key: "no name!" value: "x" }',
        "metric_tags",
        "no name!",
    ),
    "a metric's label that is Prometheus's": (
        CONFIG + 'metric_tags { key: "_x" value: "x" }',
        "metric_tags",
        "'_x'",
    ),
    "an environment elsewhere": (
        parameter("EXECUTION_ENV_PATH", "/tmp/env.tar.gz"),
        "EXECUTION_ENV_PATH",
        "/tmp/env.tar.gz",
    ),
    "an environment from nowhere": (
        parameter("EXECUTION_ENV_PATH", "env.tar.gz"),
        "EXECUTION_ENV_PATH",
        "env.tar.gz",
    ),
    "an environment of a neighbour": (
        parameter("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/../theirs/env.tar.gz"),
        "EXECUTION_ENV_PATH",
        "theirs",
    ),
    "a library of batches": (
        parameter("TRITON_BATCH_STRATEGY_PATH", "/opt/x.so"),
        "TRITON_BATCH_STRATEGY_PATH",
        "x.so",
    ),
    "threads": (
        parameter("intra_op_thread_count", "1000000"),
        "intra_op_thread_count",
        "1000000",
    ),
    "threads by another name": (
        parameter("TF_NUM_INTER_THREADS", "9" * 5000),
        "TF_NUM_INTER_THREADS",
        "999",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    """One sentence with the file, the field, what was found and what is allowed."""
    config, field, found = REFUSED[case]
    with pytest.raises(DemandRefused) as refused:
        planned(archive(tmp_path, config, "2/model.py"))
    sentence = str(refused.value)
    assert sentence.startswith(f"{tmp_path}/m/config.pbtxt: the field `")
    assert field in sentence
    assert found in sentence
    assert ("expected" in sentence) or ("remove it" in sentence) or ("put " in sentence)
    assert sentence.isprintable()
    assert len(sentence) < 600


@pytest.mark.parametrize(
    "library", ["1/libtriton_python.so", "libtriton_mine.so", "1/batchstrategy.so", "1/mine.so"]
)
def test_libraries_for_tritonserver_itself(library: str, tmp_path: Path) -> None:
    """It looks for backends in the version's and the model's directory before its own."""
    config = CONFIG + 'runtime: "mine.so"' if "mine.so" in library else CONFIG
    with pytest.raises(DemandRefused, match=f"load the library '{library}' into itself"):
        planned(archive(tmp_path, config, library))


@pytest.mark.parametrize(
    "config",
    [
        CONFIG + "instance_group { count: 8 }",
        CONFIG + "instance_group { }",
        CONFIG + "instance_group { count: 1 gpus: [0, 1, 2, 3] }",
        warm(tensor("128, 3, 224, 224")).replace("[-1]", "[-1, 3, -1, -1]", 1),
        "max_batch_size: 8 " + warm(tensor("16"), "batch_size: 8 count: 100"),
        warm(tensor("1", data='input_data_file: "data"')),
        CONFIG + "max_batch_size: 1048576 dynamic_batching { priority_levels: 3 }",
        CONFIG + "max_batch_size: 64 " + SEQUENCES.format("direct { }"),
        CONFIG + SEQUENCES.format("oldest { max_candidate_sequences: 1024 }"),
        CONFIG + 'metric_tags { key: "team" value: "a b" }',
        CONFIG.replace("output {", 'output { label_filename: "labels.txt"'),
        parameter("EXECUTION_ENV_PATH", "$$TRITON_MODEL_DIRECTORY/env.tar.gz"),
        parameter("FORCE_CPU_ONLY_INPUT_TENSORS", "no"),
        parameter("intra_op_thread_count", "16"),
        parameter("threads", "auto"),
        CONFIG + 'runtime: "libtriton_python.so"',
        CONFIG + 'model_repository_agents { agents { name: "checksum" parameters '
        '{ key: "MD5:1/model.py" value: "0" } } }',
    ],
)
def test_what_people_ask_for(config: str, tmp_path: Path) -> None:
    """Passes."""
    files = ("labels.txt", "env.tar.gz", "warmup/data", "1/libcudart.so", "1/helpers.py")
    assert planned(archive(tmp_path, config, *files)).models


def test_an_environment_by_its_own_place(tmp_path: Path) -> None:
    """An absolute path is as good as any, if it ends in the archive."""
    config = parameter("EXECUTION_ENV_PATH", f"{tmp_path}/m/env")
    assert planned(archive(tmp_path, config, "env/bin/python")).models


def test_an_environment_beside_the_model(tmp_path: Path) -> None:
    """It is the archive's, wherever it lies there; what lies outside is nobody's."""
    for place in ("../env.tar.gz", "../other/env", "../../" + tmp_path.name + "/env.tar.gz"):
        config = parameter("EXECUTION_ENV_PATH", f"$$TRITON_MODEL_DIRECTORY/{place}")
        top = archive(tmp_path / "archive", config, "../env.tar.gz", "../other/env/bin/activate")
        if place.startswith("../../"):
            with pytest.raises(DemandRefused, match="no file of the archive"):
                planned(top)
        else:
            (model,) = planned(top).models
            name = place.rpartition("/")[2]
            assert f"$$TRITON_MODEL_DIRECTORY/{name}" in str(model.config_text)
            assert (name, top / "m" / place) in model.links
            assert ".." not in str(model.config_text)


def test_files_have_sizes(tmp_path: Path) -> None:
    """A warm-up's file is read for each row of its batch; labels are read as a whole."""
    top = archive(
        tmp_path,
        warm(tensor("1", data='input_data_file: "data"'), "batch_size: 100"),
        "warmup/data",
    )
    with (top / "m/warmup/data").open("wb") as file:
        file.truncate(GIB // 32)
    with pytest.raises(DemandRefused, match="`model_warmup` comes to 3201 MiB"):
        planned(top)
    archive(top, CONFIG.replace("output {", 'output { label_filename: "warmup/data"'))
    with (top / "m/warmup/data").open("wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(DemandRefused, match=r"`output\.label_filename` comes to 65 MiB"):
        planned(top)


def test_processes_of_all_models(tmp_path: Path) -> None:
    """Each model stays below its limit, and all together do not."""
    steps = []
    for number in range(8):
        archive(tmp_path, CONFIG + "instance_group { count: 8 }", name=f"s{number}")
        steps.append(
            f'step {{ model_name: "s{number}" input_map {{ key: "IN" value: "IN" }}'
            f' output_map {{ key: "OUT" value: "{"OUT" if not number else f"t{number}"}" }} }}'
        )
    config = CONFIG.replace('backend: "python"', 'platform: "ensemble"')
    archive(tmp_path, f"{config} ensemble_scheduling {{ {' '.join(steps)} }}", name="e")
    assert len(planned(tmp_path).models) == 9
    with pytest.raises(DemandRefused, match="come to 32 processes; expected at most 26,"):
        planned(tmp_path, Limits(memory_bytes=GIB, instances=8))


@pytest.mark.parametrize("group", ["", "kind: KIND_GPU", "kind: KIND_AUTO"])
def test_instances_on_each_gpu(tmp_path: Path, group: str) -> None:
    """tritonserver makes so many on each GPU, where a config names none."""
    top = archive(tmp_path, f"{CONFIG} instance_group {{ count: 3 {group} }}")
    assert planned(top, replace(LIMITS, gpus=2)).models
    with pytest.raises(DemandRefused, match="9 instances of the model; expected at most 8"):
        planned(top, replace(LIMITS, gpus=3))


def test_models_that_are_not_served(tmp_path: Path) -> None:
    """What tritonserver never sees may ask for anything."""
    archive(tmp_path, CONFIG + "instance_group { count: 60 }", name="other")
    archive(tmp_path, CONFIG, name="m")
    repository = read_repository(tmp_path, "m")
    assert plan_archive(
        repository, None, Namespace("hash"), Choices(limits=LIMITS)
    ).triton_names == ("hash",)


def test_this_machine() -> None:
    """What there is when nobody says so."""
    assert Limits().memory_bytes > GIB // 2
    assert Limits().instances >= 16
