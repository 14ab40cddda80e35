"""A workflow is recognised by what its pickle holds; its label may refuse, and no more."""

from __future__ import annotations

import json
import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.nvtabular_release import (
    Content,
    describe_recognition,
    list_known_classes,
    refuse_label,
)
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.archive.workflow_files import read_workflow_files
from ensemble_tools.errors import PayloadBroken, ReleaseUnfit
from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.opened_archive import Archive, read_archive
from ensemble_tools.serving.plan import Choices, plan_archive
from ensemble_tools.workflows.operators import OPERATORS

ROOT = Path(__file__).parents[4]
EXPORTS = sorted(ROOT.glob("examples/**/workflow.pkl"))
RELEASES = ROOT / "tests/golden/merlin_releases"
STEP = "0_transformworkflowtriton"
#: Of NVTabular from a clone without tags, from a commit after the last release, from no clone.
LABELS = ["0+untagged.1.g08e0633", "23.8.0+4.g0b58cc4", "0+unknown", "", None]


def labelled(label: str | None) -> str:
    return json.dumps({"versions": {} if label is None else {"nvtabular": label}})


def opened(path: Path, workflows: Compile = Compile.AUTO) -> Archive:
    return read_archive(path, "model", workflows=workflows)


@pytest.fixture
def export(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples/merlin/dense/repository", tmp_path / "export"))


def put_label(export: Path, label: str | None) -> None:
    (export / STEP / "1/workflow/metadata.json").write_text(labelled(label))


# --- labels


@pytest.mark.parametrize("label", LABELS)
def test_a_label_that_names_no_release_refuses_nothing(label: str | None, export: Path) -> None:
    """NVTabular 23.08 wrote it, and its classes say so."""
    put_label(export, label)
    archive = opened(export)
    assert archive.plan is not None, archive.refusal
    (compiled,) = [model.compiled for model in archive.plan.models if model.compiled]
    assert compiled.recognised == describe_recognition(label or "")


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("23.08.00", "NVTabular 23.08 by its label (23.08.00) and by what it holds"),
        ("23.8.0+4.g0b58cc4", "NVTabular 23.08 by its label (23.8.0+4.g0b58cc4) and by what it"),
        ("0+unknown", "NVTabular 23.08 by what it holds; its label 0+unknown names no release"),
        ("", "NVTabular 23.08 by what it holds; it has no label"),
    ],
)
def test_what_is_said_of_it(label: str, said: str) -> None:
    """Whether the label said it as well."""
    assert describe_recognition(label).startswith(said)
    assert describe_recognition(label, pickled=False).startswith(f"the operators of {said}")


def test_a_graph_json_is_not_said_to_be_23_08s() -> None:
    """That release writes none: what is recognised is its operators."""
    archive = opened(ROOT / "tests/golden/graph_json/dense/repository")
    assert archive.plan is not None, archive.refusal
    (compiled,) = [model.compiled for model in archive.plan.models if model.compiled]
    assert compiled.recognised.startswith("the operators of NVTabular 23.08 by what it holds")


@pytest.mark.parametrize(
    ("label", "why"),
    [
        ("23.06.00", "is earlier than 23.08"),
        ("23.7.dev0", "is earlier than 23.08"),
        ("23.6.0+12.g4c396ac", "is earlier than 23.08"),
        ("1.8.1", "is earlier than 23.08"),
        ("0.11.0", "is earlier than 23.08"),
        ("23", "is earlier than 23.08"),
        ("23.8.0rc1", "is earlier than 23.08"),
        ("23.8.0.dev3", "is earlier than 23.08"),
        ("23.8.1", "is later than the releases that are known"),
        ("24.04.00", "is later than the releases that are known"),
        ("25.0.0a1+3.g0123abc", "is later than the releases that are known"),
        ("23.8.0+0.g77b94a4.dirty", "has changes that are not known"),
        ("0+untagged.1.g77b94a4.dirty", "has changes that are not known"),
    ],
)
def test_a_label_that_refuses(label: str, why: str, export: Path) -> None:
    """Another release may compute otherwise, whatever its classes are like."""
    assert refuse_label(label) == f"NVTabular {label} {why}"
    if label >= "23.06":  # an earlier one is not served at all
        put_label(export, label)
        archive = opened(export)
        assert archive.plan is not None, archive.refusal
        (why_not,) = archive.plan.not_compiled
        assert (
            f"not known to be written by NVTabular 23.08, which is compiled: NVTabular {label}"
            in why_not
        )
        assert why_not.endswith("; export it again with Merlin 23.08")


@pytest.mark.parametrize(
    "label", ["", "unknown", "0", "0.dev0", "0.0.0", "23.8", "v23.08.00", "23.8.0.post4", "nightly"]
)
def test_a_label_that_may_be_of_it(label: str) -> None:
    assert refuse_label(label) == ""


def test_nvtabular_fails_on_a_workflow_without_a_label(export: Path) -> None:
    """So it is refused wherever NVTabular would read it: not compiled, or not to be compiled."""
    put_label(export, None)
    assert isinstance(opened(export, Compile.OFF).refusal, PayloadBroken)
    shutil.copytree(export / STEP / "1", export / STEP / "2")
    refusal = opened(export).refusal
    assert isinstance(refusal, PayloadBroken)
    assert re.search(
        r"/2/workflow/metadata\.json: it does not say which release of NVTabular", str(refusal)
    )


# --- contents


@pytest.mark.parametrize("path", EXPORTS, ids=lambda path: "-".join(path.parts[-6:-3]))
def test_every_export_of_23_08_is_recognised(path: Path) -> None:
    found = read_workflow_files(path.parent)
    assert found is not None
    assert found.content == Content()


@pytest.mark.parametrize("release", ["0.8", "0.9", "23.02", "23.04", "23.05", "23.06"])
def test_no_export_of_an_earlier_release_is(release: str) -> None:
    """Also where nothing but the pickle tells; those from before 23.06 do not run in 23.08."""
    paths = list(RELEASES.glob(f"{release}_*/repository/*/1/workflow"))
    assert paths
    for path in paths:
        found = read_workflow_files(path)
        assert found is not None
        assert found.content.unlike
        assert found.content.is_old is (release != "23.06")


@pytest.mark.parametrize("label", LABELS[2:])
@pytest.mark.parametrize("release", ["23.05", "23.06"])
def test_an_earlier_release_without_a_label(
    release: str, label: str | None, tmp_path: Path
) -> None:
    """It is not compiled as 23.08's: two columns with one name are joined otherwise."""
    export = tmp_path / "export"
    shutil.copytree(RELEASES / f"{release}_dense_executor/repository", export)
    put_label(export, label)
    archive = opened(export)
    if label:
        assert archive.plan is not None
        assert not any(model.compiled for model in archive.plan.models)
        (why,) = archive.plan.not_compiled
        assert "not known to be written by NVTabular 23.08" in why
    elif label is None:
        assert isinstance(archive.refusal, PayloadBroken)


def test_an_old_workflow_without_a_label_is_refused_by_what_it_holds(tmp_path: Path) -> None:
    """It would load into NVTabular 23.08 and then fail at each request."""
    export = tmp_path / "export"
    shutil.copytree(RELEASES / "23.05_dense_executor/repository", export)
    put_label(export, "0+unknown")
    repository = read_repository(export)
    with pytest.raises(ReleaseUnfit) as error:
        plan_archive(
            repository,
            read_executor_graph(repository),
            Namespace("model"),
            Choices(nvtabular="23.8.0"),
        )
    assert (
        "its workflow was written by an nvtabular from before 23.06 (its nodes are NVTabular's own,"
        " as they were before 23.06), and the models' Python has 23.8.0" in str(error.value)
    )


def test_the_classes_of_every_operator_are_known() -> None:
    """But for LambdaOp, which is merlin.dag's UDF since 23.06."""
    assert set(OPERATORS) - list_known_classes() == {"nvtabular.ops.lambdaop.LambdaOp"}


class _Class:
    """Pickles as an instance of another module's class."""

    def __init__(self, path: str, state: dict[str, Any]) -> None:
        self.path, self.state = path, state

    def written(self) -> bytes:
        module, _, name = self.path.rpartition(".")
        return b"c" + module.encode() + b"\n" + name.encode() + b"\n)\x81"


def pickled(value: Any) -> bytes:
    """Opcodes that make it; protocol 4 without a memo."""
    if isinstance(value, _Class):
        return value.written() + pickled(value.state) + b"b"
    if isinstance(value, dict):
        return b"}(" + b"".join(pickled(part) for item in value.items() for part in item) + b"u"
    if isinstance(value, list):
        return b"](" + b"".join(map(pickled, value)) + b"e"
    return pickle.dumps(value, protocol=2)[2:-1].replace(b"q\x00", b"")


def workflow(**changes: Any) -> Any:
    """A workflow of one LogOp and one Normalize, as 23.08 writes it; changes: of Normalize."""
    operators: list[Any] = [
        _Class("nvtabular.ops.logop.LogOp", {}),
        _Class(
            "nvtabular.ops.normalize.Normalize",
            {"means": {}, "stds": {}, "out_dtype": None, "fitted": True, **changes},
        ),
    ]
    node = None
    for operator in operators:
        node = _Class(
            "merlin.dag.node.Node",
            {
                "parents": [node] if node else [],
                "dependencies": [],
                "children": [],
                "op": operator,
                "_selector": None,
                "input_schema": None,
                "output_schema": None,
            },
        )
    formats = _Class("merlin.dag.operator.DataFormats", {})
    executor = _Class(
        "merlin.dag.executors.LocalExecutor", {"device": None, "_target_format": formats}
    )
    return _Class(
        "nvtabular.workflow.workflow.Workflow",
        {
            "graph": _Class("merlin.dag.graph.Graph", {"output_node": node, "subgraphs": {}}),
            "executor": _Class("merlin.dag.executors.DaskExecutor", {"_executor": executor}),
        },
    )


def unlike(made: Any, directory: Path) -> str:
    (directory / "workflow.pkl").write_bytes(b"\x80\x04" + pickled(made) + b".")
    found = read_workflow_files(directory)
    assert found is not None
    return found.content.unlike


def test_names_and_types_of_attributes(tmp_path: Path) -> None:
    """What is more, what is less, and what is of another type is of another release."""
    assert unlike(workflow(), tmp_path) == ""
    assert unlike(workflow(ddof=1), tmp_path) == (
        "its Normalize has 'ddof', which that of 23.08 has not"
    )
    assert unlike(workflow(means=[]), tmp_path) == (
        "means of its Normalize is of the type 'list', and in 23.08 it is dict"
    )
    made = workflow()
    del made.state["graph"].state["output_node"].state["op"].state["stds"]
    assert unlike(made, tmp_path) == "its Normalize has no stds, as that of 23.08 has"
    made.path = "mine.Workflow"
    assert unlike(made, tmp_path) == (
        "it is 'mine.Workflow', expected nvtabular.workflow.workflow.Workflow"
    )


def test_merlin_cores_executor_tells_23_08_from_23_06(tmp_path: Path) -> None:
    """Its flags moved with the release that joins columns of one name otherwise."""
    made = workflow()
    executor = made.state["executor"].state["_executor"]
    executor.state["_target_format"].path = "merlin.dag.base_operator.DataFormats"
    assert "has no merlin.dag.operator.DataFormats" in unlike(made, tmp_path)
    del executor.state["_target_format"]
    assert unlike(made, tmp_path) == (
        "its LocalExecutor has no _target_format, as that of 23.08 has"
    )


def saved_as_json(tmp_path: Path) -> Path:
    """A copy of an export whose workflow is graph.json."""
    return Path(
        shutil.copytree(ROOT / "tests/golden/graph_json/dense/repository", tmp_path / "json")
    )


@pytest.mark.parametrize("place", ["op_params", "op_state"])
def test_a_parameter_of_a_later_nvtabular(place: str, tmp_path: Path) -> None:
    """graph.json with what 23.08's operator has not may mean another computation."""
    export = saved_as_json(tmp_path)
    path = export / STEP / "1/workflow/graph.json"
    graph = json.loads(path.read_text())
    (clip,) = (node for node in graph["nodes"] if node["op_class"].endswith(".Clip"))
    clip[place]["mode"] = "soft"
    path.write_text(json.dumps(graph))
    archive = opened(export)
    assert archive.plan is not None, archive.refusal
    (why,) = archive.plan.not_compiled
    assert "its Clip has 'mode', which that of 23.08 has not" in why


def test_graph_json_of_an_unknown_release(tmp_path: Path) -> None:
    """Its label refuses, as that of a pickle does; what names no release does not."""
    export = saved_as_json(tmp_path)
    assert opened(export).plan is not None
    put_label(export, "26.10.0")
    archive = opened(export)
    assert archive.plan is not None
    assert "later than the releases that are known" in archive.plan.not_compiled[0]
