"""What a plan's models ask of a machine."""

from __future__ import annotations

import base64
import errno
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from ensemble_tools import (
    Demand,
    Namespace,
    measure_demand,
    plan_archive,
    read_executor_graph,
    read_repository,
)
from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.plan import Choices, Compiled, Form, PublishedModel, ServingPlan
from ensemble_tools.workflows.program import Program, Table, Values
from tests.support.category_files import parquet

ROOT = Path(__file__).parents[4]
DENSE = ROOT / "examples/merlin/dense/repository"
TENSORS = (
    'input { name: "i" data_type: TYPE_FP32 dims: 1 } '
    'output { name: "o" data_type: TYPE_FP32 dims: 1 }'
)


def archive(directory: Path, config: str, **files: int) -> Path:
    """One model with files of these sizes."""
    for name, size in {"1/model.py": 10, **files}.items():
        path = directory / "model" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)
    (directory / "model/config.pbtxt").write_text(f"{config} {TENSORS}")
    return directory


def load_plan(directory: Path, name: str = "m") -> ServingPlan:
    """The plan of a load."""
    repository = read_repository(directory)
    graph = read_executor_graph(repository)
    return plan_archive(repository, graph, Namespace(name), Choices(compile=Compile.AUTO))


@pytest.mark.parametrize(
    ("policy", "instances"),
    [
        ("", 2),
        ("all {}", 6),
        ("specific { versions: [1, 3] }", 4),
        ("latest { num_versions: 9 }", 6),
    ],
)
def test_every_version_that_is_served_counts(tmp_path: Path, policy: str, instances: int) -> None:
    """tritonserver makes each instance of each."""
    config = 'backend: "python" instance_group { count: 2 kind: KIND_CPU }'
    config += f" version_policy {{ {policy} }}" if policy else ""
    directory = archive(tmp_path, config, **{"2/model.py": 10, "3/model.py": 10})
    assert demand(directory).models[0].instances == instances


def demand(directory: Path, name: str = "m") -> Demand:
    """What the archive asks, as a load would find it."""
    return measure_demand(load_plan(directory, name))


@pytest.mark.parametrize(("number", "is_shortage"), [(errno.EMFILE, True), (errno.EACCES, False)])
def test_what_cannot_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, is_shortage: bool
) -> None:
    """It has no size; but a lack of the machine says nothing about the archive."""
    made = load_plan(archive(tmp_path, 'backend: "python"'))

    def failing(_: object) -> list[str]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "listdir", failing)
    if is_shortage:
        with pytest.raises(OSError, match="open files"):
            measure_demand(made)
    else:
        assert [model.payload_bytes for model in measure_demand(made).models] == [0]


PYTHON, NATIVE = 'backend: "python"', 'backend: "custom"'


@pytest.mark.parametrize(
    ("config", "kind", "on_cpu", "on_two"),
    [
        (PYTHON, "python", 1, {0: 1, 1: 1}),
        (f"{PYTHON} instance_group {{ }}", "python", 1, {0: 1, 1: 1}),
        (f"{PYTHON} instance_group {{ count: 3 }}", "python", 3, {0: 3, 1: 3}),
        (f"{PYTHON} instance_group {{ kind: KIND_GPU }}", "python", 1, {0: 1, 1: 1}),
        (f"{NATIVE} instance_group {{ count: 2 kind: KIND_GPU gpus: 1 }}", "custom", 2, {1: 2}),
        (f"{NATIVE} instance_group {{ kind: KIND_CPU }}", "custom", 1, {}),
        (NATIVE, "custom", 1, {0: 1, 1: 1}),
    ],
)
def test_configs(
    tmp_path: Path, config: str, kind: str, on_cpu: int, on_two: dict[int, int]
) -> None:
    """Kind, instances and GPUs are what tritonserver makes of the config on such a machine; what
    is for any device is on each GPU, Python models too (triton core, NormalizeInstanceGroup)."""
    made = load_plan(archive(tmp_path, config))
    (without,), (with_two,) = measure_demand(made).models, measure_demand(made, gpus=2).models
    assert (without.kind, with_two.kind) == (kind, kind)
    assert (without.instances, with_two.on_gpus) == (on_cpu, on_two)
    assert with_two.instances == (sum(on_two.values()) or on_cpu)


def test_each_version_has_instances_on_each_gpu(tmp_path: Path) -> None:
    """Two versions of two instances on each of three GPUs are twelve."""
    config = f"{PYTHON} instance_group {{ count: 2 }} version_policy {{ all {{ }} }}"
    made = load_plan(archive(tmp_path, config, **{"2/model.py": 10}))
    (model,) = measure_demand(made, gpus=3).models
    assert (model.instances, model.on_gpus) == (12, {0: 4, 1: 4, 2: 4})


def test_a_merlin_export_on_a_machine_with_gpus() -> None:
    """Its configs name no kind. The workflow is a program of numpy, and stays on the CPU; where it
    is NVTabular itself, each GPU has one, as it has the predictor."""
    repository = read_repository(DENSE)
    graph = read_executor_graph(repository)
    for compiles, workflow in ((Compile.AUTO, {}), (Compile.OFF, {0: 1, 1: 1})):
        made = plan_archive(repository, graph, Namespace("m"), Choices(compile=compiles))
        found = {model.kind: model.on_gpus for model in measure_demand(made, gpus=2).models}
        assert [*found.values()] == [workflow, {0: 1, 1: 1}, {}]


def planned(model: Path) -> ServingPlan:
    """A plan with all of a model directory, whatever a reader of archives would say of it."""
    links = tuple((child.name, child) for child in sorted(model.iterdir()))
    published = PublishedModel("m", "m", 'backend: "python"', links)
    return ServingPlan("m", Form.AS_DELIVERED, "m", (published,))


def test_sizes(tmp_path: Path) -> None:
    """Of the largest version, files below directories and behind links included."""
    (tmp_path / "elsewhere").write_bytes(b"x" * 5)
    made = archive(
        tmp_path / "a", 'backend: "python"', **{"1/w": 100, "2/model.py": 7, "2/x/y/w": 200, "z": 9}
    )
    (made / "model/2/link").symlink_to(tmp_path / "elsewhere")
    (made / "model/2/nowhere").symlink_to(tmp_path / "missing")
    (model,) = measure_demand(planned(made / "model")).models
    assert model.payload_bytes == 212


def test_links_that_multiply_take_no_time(tmp_path: Path) -> None:
    """`1/a -> .` and `1/b -> .` lead on for ever; a FIFO is not opened."""
    made = archive(tmp_path, 'backend: "python"')
    for name in "abcd":
        (made / f"model/1/{name}").symlink_to(".")
    os.mkfifo(made / "model/1/pipe")
    started = time.process_time()
    measure_demand(planned(made / "model"))
    assert time.process_time() - started < 10


def test_copies_are_one(tmp_path: Path) -> None:
    """Whatever their names and times; not one with a file of another size, or one file more."""
    first = archive(tmp_path / "a", 'backend: "python"', **{"1/w": 100})
    shutil.copytree(first, tmp_path / "b")
    other = archive(tmp_path / "c", 'backend: "python"', **{"1/w": 101})
    more = archive(tmp_path / "d", 'backend: "python"', **{"1/w": 100, "1/v": 0})
    wider = archive(tmp_path / "e", 'backend: "python" instance_group { count: 2 }', **{"1/w": 100})
    same = {demand(first).identity, demand(tmp_path / "b", "another").identity}
    assert len(same) == 1
    assert len({*same, *(demand(it).identity for it in (other, more, wider))}) == 4


def test_a_merlin_export() -> None:
    """A compiled workflow, a PyTorch model and the ensemble over them."""
    found = demand(ROOT / "examples/merlin/dense/repository")
    assert [(model.triton_name, model.kind) for model in found.models] == [
        ("m.0_transformworkflowtriton", "compiled workflow"),
        ("m.1_predictpytorchtriton", "pytorch"),
        ("m", "ensemble"),
    ]
    assert found.models[1].payload_bytes > 1000


def test_it_costs_a_load_little() -> None:
    """A millisecond or two for an export, on an idle machine."""
    repository = read_repository(ROOT / "examples/merlin/dense/repository")
    made = plan_archive(
        repository, read_executor_graph(repository), Namespace("m"), Choices(strict=True)
    )
    took = []
    for _ in range(10):
        started = time.process_time()
        measure_demand(made)
        took.append(time.process_time() - started)
    assert min(took) < 0.02


def test_rows_of_category_files(tmp_path: Path) -> None:
    """A file of a KB becomes many times that; what has more rows than are served counts little."""
    root = Path(shutil.copytree(ROOT / "examples/merlin/dense/repository", tmp_path / "export"))
    place = root / "0_transformworkflowtriton/1/workflow/categories/unique.item_id.parquet"

    def table_bytes() -> int:
        return sum(model.table_bytes for model in demand(root).models)

    parquet(place, item_id=np.zeros(0, np.int64))
    before = table_bytes()
    parquet(place, item_id=np.arange(1_000_000))
    assert table_bytes() - before == 90_000_000
    parquet(place, item_id=np.zeros(9_000_000, np.int8))
    assert table_bytes() - before == 360_000_000
    parquet(place, item_id=[f"{number:036}" for number in range(1000)])
    assert table_bytes() - before == pytest.approx(90_000 + 10 * 40_000, rel=0.2)
    parquet(place, item_id=[f"{number:02000}" for number in range(1000)])
    assert table_bytes() - before == pytest.approx(10 * 2_000_000, rel=0.2)
    place.write_bytes(b"no parquet")
    assert table_bytes() == before


def test_a_table_in_a_pickle() -> None:
    """It counts while lookups are written of it; then it is let go."""
    given = (Values("<i8", base64.b64encode(bytes(9000)).decode()),)
    table = Table(Path("workflow.pkl"), ("user",), ("whole",), given=given)
    program = Program((), (), (), 0, (table,))
    compiled = Compiled(program, "1/model.py")
    model = PublishedModel("m", "m", 'backend: "python"', compiled=compiled)
    found = measure_demand(ServingPlan("m", Form.AS_DELIVERED, "m", (model,)))
    assert found.models[0].table_bytes == 54_000
