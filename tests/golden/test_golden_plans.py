"""Repositories and graphs into expected configs, compared as protobufs.

plans/<name>.pbtxt is the entry model's config under the model name `model`. A plan that changed on
purpose is written anew by hand or with `python -m ensemble_tools`, and read before it is committed.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.repository import ModelRepository, read_repository
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import Form, ServingPlan, plan_archive
from tests.golden.cases import CASES

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
#: Workflows beside others: they wait for one, by an input that they do not read.
WAITING = {
    "two_workflows": {"1_transformworkflowtriton"},
    "two_branches": {"1_items"},
    "later_overrides": {"1_other"},
    "like_named_tensors": {"y.z"},
}
EXPORTS = ("dense", "ragged", "two_workflows", "session")


def planned(name: str, tmp_path: Path) -> tuple[ModelRepository, ServingPlan]:
    if name in CASES:
        case = CASES[name]()
        repository = read_repository(case.write(tmp_path))
        return repository, plan_archive(repository, case.graph, Namespace("model"))
    repository = read_repository(ROOT / "examples/merlin" / name / "repository")
    return repository, plan_archive(repository, read_executor_graph(repository), Namespace("model"))


def config(text: str | None) -> pb.ModelConfig:
    return text_format.Parse(text or "", pb.ModelConfig())


@pytest.mark.parametrize("name", [*EXPORTS, *CASES])
def test_entry(name: str, tmp_path: Path) -> None:
    """The entry model is the ensemble that is written down beside this test."""
    _, made = planned(name, tmp_path)
    assert made.form is Form.PURE_ENSEMBLE
    assert made.entry == made.triton_names[-1] == "model"
    assert made.models[-1].empty_versions == (1,)
    assert made.models[-1].links == ()
    golden = (HERE / "plans" / f"{name}.pbtxt").read_text()
    assert config(made.models[-1].config_text) == config(golden)


@pytest.mark.parametrize("name", [*EXPORTS, *CASES])
def test_steps(name: str, tmp_path: Path) -> None:
    """A step is what was delivered, under its new name: config, and a link for all else."""
    repository, made = planned(name, tmp_path)
    for model in made.models[:-1]:
        source = repository.models[model.source_name]
        assert source.config is not None
        expected = pb.ModelConfig()
        expected.CopyFrom(source.config.message)
        expected.name = model.triton_name
        if model.source_name in WAITING.get(name, ()):
            after = config(model.config_text).input[-1]
            assert after.name == "after"
            expected.input.append(after)
        assert config(model.config_text) == expected
        assert model.triton_name == f"model.{model.source_name}"
        assert dict(model.links) == {
            path.name: path for path in source.directory.iterdir() if path.name != "config.pbtxt"
        }


def test_every_golden_file_is_a_case() -> None:
    """No golden file is left over from a case that is gone."""
    assert {path.stem for path in (HERE / "plans").iterdir()} == {*EXPORTS, *CASES}
