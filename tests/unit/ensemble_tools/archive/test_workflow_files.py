"""What a workflow's directory says of itself, and what is refused for it before anything runs."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.inert_pickle import MAX_OPCODES
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.archive.workflow_files import (
    MAX_METADATA_BYTES,
    WorkflowFiles,
    find_category_path,
    read_workflow_files,
)
from ensemble_tools.errors import PayloadBroken, PayloadMissing, ReleaseUnfit
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import Choices, Form, Rewrite, ServingPlan, plan_archive

EXPORT = Path(__file__).parents[4] / "examples/merlin/dense/repository"
WORKFLOW = "0_transformworkflowtriton/1/workflow"
CATEGORIES = f"{WORKFLOW}/categories"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """A copy of a real export."""
    return Path(shutil.copytree(EXPORT, tmp_path / "export"))


def planned(root: Path, nvtabular: str = "23.8.0", rewrite: Rewrite = Rewrite.AUTO) -> ServingPlan:
    repository = read_repository(root)
    graph = read_executor_graph(repository)
    return plan_archive(
        repository, graph, Namespace("model"), Choices(rewrite=rewrite, nvtabular=nvtabular)
    )


def categorify(categories: Any, out_path: Any = "/exported") -> bytes:
    """A pickle with an object of nvtabular's class, which is not there when it is read."""
    state = pickle.dumps({"categories": categories, "out_path": out_path}, protocol=2)
    body = state[2:].removesuffix(b".")  # without PROTO and STOP
    # A list keeps the memo's numbers in order: the class has none.
    return b"\x80\x02](cnvtabular.ops.categorify\nCategorify\n)\x81" + body + b"be."


def test_real_export() -> None:
    """The release that wrote it is known, and every file that it was fitted into is there."""
    found = read_workflow_files(EXPORT / WORKFLOW)
    there = tuple(sorted((EXPORT / CATEGORIES).glob("unique.*")))
    assert found == WorkflowFiles("23.08.00", categories=there)
    assert planned(EXPORT).form is Form.PURE_ENSEMBLE


def test_no_workflow(tmp_path: Path) -> None:
    """A directory without a workflow, and none at all."""
    assert read_workflow_files(tmp_path) is None
    assert read_workflow_files(tmp_path / "nowhere") is None
    (tmp_path / "workflow.pkl").mkdir()
    assert read_workflow_files(tmp_path) is None


# --- category files


@pytest.mark.parametrize("rewrite", [Rewrite.AUTO, Rewrite.EXECUTOR])
def test_category_file_gone(rewrite: Rewrite, export: Path) -> None:
    """A load is refused with the file's name: the workflow would fail at each request."""
    gone = export / CATEGORIES / "unique.user_id.parquet"
    gone.unlink()
    with pytest.raises(PayloadMissing) as error:
        planned(export, rewrite=rewrite)
    assert str(error.value) == (
        f"{gone}: there is no such file, and it is part of the workflow; export it again, or add it"
    )


@pytest.mark.parametrize("name", ["workflow.pkl", "metadata.json"])
def test_part_of_the_workflow_gone(name: str, export: Path) -> None:
    """Merlin's workflow step does not load without it."""
    gone = export / WORKFLOW / name
    gone.unlink()
    with pytest.raises(PayloadMissing, match=f"^{gone}: there is no such file") as error:
        planned(export)
    assert error.value.path == gone


def test_workflow_gone(export: Path) -> None:
    """All of it."""
    shutil.rmtree(export / WORKFLOW)
    with pytest.raises(PayloadMissing, match=r"workflow\.pkl: there is no such file"):
        planned(export)


def test_directory_of_that_name_in_another_model(export: Path) -> None:
    """A step that is not Merlin's knows itself what it reads."""
    (export / WORKFLOW / "workflow.pkl").unlink()
    with (export / WORKFLOW).parent.joinpath("model.py").open("a") as file:
        file.write("CHANGED = 1\n")
    assert planned(export).form is Form.PURE_ENSEMBLE


def test_category_file_gone_as_delivered(export: Path, tmp_path: Path) -> None:
    """A workflow that is an archive of its own is looked at in the same way."""
    shutil.rmtree(export / CATEGORIES)
    alone = tmp_path / "alone"
    shutil.move(export / "0_transformworkflowtriton", alone / "w")
    with pytest.raises(PayloadMissing, match=r"unique\.item_id\.parquet: there is no such file"):
        planned(alone)


def test_other_versions_do_not_count(export: Path) -> None:
    """The served version's workflow answers; an older one may be broken."""
    model = export / "0_transformworkflowtriton"
    shutil.copytree(model / "1", model / "2")
    shutil.rmtree(model / "1/workflow/categories")
    assert planned(export).form is Form.PURE_ENSEMBLE
    shutil.rmtree(model / "2/workflow/categories")
    with pytest.raises(PayloadMissing, match="/2/workflow/categories/"):
        planned(export)


@pytest.mark.parametrize(
    ("path", "out_path", "place"),
    [
        (
            "/exported/categories/unique.a.parquet",
            "/exported",
            "workflow/categories/unique.a.parquet",
        ),
        ("/exported//categories/a", "/exported", "workflow/categories/a"),
        (
            "/exportedcategories/unique.a.parquet",
            "/exported",
            "workflowcategories/unique.a.parquet",
        ),
        ("out/a.parquet", "out", "workflow/a.parquet"),
        ("/exported/../../../etc/a.parquet", "/exported", None),
        ("/exported/" + "x" * 5000, "/exported", None),
        ("/exported/two\nlines", "/exported", None),
        ("/exported/a\0b", "/exported", None),
        ("/far/away/unique.a.parquet", "/exported", None),
        ("/exported/a", None, None),
        ("/exported/a", "", None),
        (3, "/exported", None),
        (None, "/exported", None),
    ],
)
def test_place(path: Any, out_path: Any, place: str | None, tmp_path: Path) -> None:
    """Where NVTabular looks, by what its `_copy_storage` makes of a path's text."""
    found = find_category_path(path, out_path, tmp_path / "workflow")
    assert found == (None if place is None else tmp_path / place)


@pytest.mark.parametrize("categories", [["x.parquet"], None, {"a": 3, "b": None}, {"a": ""}])
def test_what_is_no_path(categories: Any, tmp_path: Path) -> None:
    """Another NVTabular may have written it."""
    (tmp_path / "workflow.pkl").write_bytes(categorify(categories))
    assert read_workflow_files(tmp_path) == WorkflowFiles()


def test_files_outside_of_the_archive(tmp_path: Path) -> None:
    """NVTabular reads a file of this machine, as Merlin does; one that is not here is told of."""
    here = tmp_path / "vocabulary.parquet"
    here.touch()
    workflow = tmp_path / "1/workflow"
    workflow.mkdir(parents=True)
    pickled = workflow / "workflow.pkl"
    pickled.write_bytes(categorify({"a": str(here), "b": "/far/b.parquet", "c": "c.parquet"}))
    assert read_workflow_files(workflow) == WorkflowFiles(
        elsewhere=(("Categorify", "/far/b.parquet"), ("Categorify", "c.parquet")),
        categories=(here,),
    )


def test_load_with_files_outside_of_the_archive(export: Path) -> None:
    """It is refused, with advice by which the next export can be loaded."""
    (export / WORKFLOW / "workflow.pkl").write_bytes(categorify({"a": "/far/b.parquet"}))
    with pytest.raises(PayloadMissing) as error:
        planned(export)
    assert str(error.value) == (
        f"{export / '0_transformworkflowtriton'}: Categorify of its workflow reads /far/b.parquet, "
        "which is not in the archive: NVTabular copies what lies under out_path alone; give "
        "Categorify out_path='/far' (or vocabs as pandas Series), and export it again"
    )


def test_name_that_is_too_long_in_bytes(tmp_path: Path) -> None:
    """A name of 255 characters may have more bytes than a file's name: then it is missing."""
    name = "é" * 240 + ".parquet"
    (tmp_path / "workflow.pkl").write_bytes(categorify({"a": f"/exported/categories/{name}"}))
    assert read_workflow_files(tmp_path) == WorkflowFiles("", (tmp_path / "categories" / name,))


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no pickle",
        pickle.dumps(1)[:-1],
        b"cos\nsystem\n(S'touch made-by-a-pickle'\ntR.",
        b"]" * 2_000_000,
        categorify({"a": "x.parquet"})[:-20],
    ],
)
def test_hostile_pickle(data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs, nothing is raised; what is wrong with it, the step itself says at its load."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "workflow.pkl").write_bytes(data)
    assert read_workflow_files(tmp_path) == WorkflowFiles()
    assert os.listdir(tmp_path) == ["workflow.pkl"]


def test_pickle_that_holds_itself(tmp_path: Path) -> None:
    """Circles and deep lists are walked once."""
    circle: list[Any] = []
    circle.append(circle)
    (tmp_path / "workflow.pkl").write_bytes(pickle.dumps(circle))
    assert read_workflow_files(tmp_path) == WorkflowFiles()
    (tmp_path / "workflow.pkl").write_bytes(b"(l" * 50_000 + b"a" * 49_999 + b".")
    assert read_workflow_files(tmp_path) == WorkflowFiles()


# --- the release that wrote it


def metadata(version: Any) -> str:
    return json.dumps({"versions": {"nvtabular": version}})


@pytest.mark.parametrize(
    ("metadata", "version"),
    [
        (metadata("23.08.01"), "23.08.01"),
        (metadata("nightly"), "nightly"),
        (metadata("x" * MAX_METADATA_BYTES), ""),
    ],
)
def test_metadata(metadata: str, version: str, export: Path) -> None:
    """What is no older release is served."""
    (export / WORKFLOW / "metadata.json").write_text(metadata)
    found = read_workflow_files(export / WORKFLOW)
    assert found is not None
    assert found.nvtabular == version
    assert planned(export).form is Form.PURE_ENSEMBLE


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        (metadata(23.05), "does not say which release"),
        (metadata(None), "does not say which release"),
        (metadata(["23.05"]), "does not say which release"),
        ('{"versions": "23.05"}', "does not say which release"),
        ('{"versions": {}}', "does not say which release"),
        ("{}", "does not say which release"),
        ("[]", "does not say which release"),
        ("null", "does not say which release"),
        ("", "is no JSON"),
        ("{", "is no JSON"),
        ("[" * 60_000, "is no JSON"),
        ("\xff", "is no JSON"),
    ],
)
def test_metadata_that_nvtabular_cannot_read(metadata: str, found: str, export: Path) -> None:
    """Workflow.load fails on it, after seconds of imports; another program may not read it."""
    (export / WORKFLOW / "metadata.json").write_bytes(metadata.encode("latin-1"))
    with pytest.raises(PayloadBroken, match=rf"metadata\.json: it {found}.*; export it again"):
        planned(export)
    with (export / WORKFLOW).parent.joinpath("model.py").open("a") as file:
        file.write("CHANGED = 1\n")
    assert planned(export).form is Form.PURE_ENSEMBLE


def test_program_of_another_name(export: Path) -> None:
    """It is the program that Triton runs which wants the files, whatever lies beside it."""
    step = export / WORKFLOW.split("/")[0]
    with (step / "config.pbtxt").open("a") as file:
        file.write('\ndefault_model_filename: "mine.py"\n')
    (step / "1/workflow").rename(step / "1/mine")
    (step / "1/mine.py").write_text("class TritonPythonModel: pass\n")
    assert planned(export).form is Form.PURE_ENSEMBLE
    (step / "1/model.py").rename(step / "1/mine.py")
    with pytest.raises(PayloadMissing, match=r"workflow\.pkl: there is no such file"):
        planned(export)


@pytest.mark.parametrize("kept", [0, 1, 2000, -1])
def test_truncated_pickle(kept: int, export: Path) -> None:
    """Nothing can read it."""
    pickled = export / WORKFLOW / "workflow.pkl"
    pickled.write_bytes(pickled.read_bytes()[:kept])
    with pytest.raises(PayloadBroken, match=r"workflow\.pkl: it is truncated or no pickle"):
        planned(export)


def test_what_is_no_pickle(export: Path) -> None:
    """A file of another kind under its name."""
    (export / WORKFLOW / "workflow.pkl").write_bytes(b"PK\x03\x04" + bytes(range(256)))
    with pytest.raises(PayloadBroken, match=r"workflow\.pkl: it is truncated or no pickle"):
        planned(export)


def test_pickle_that_takes_too_much_to_look_at(export: Path) -> None:
    """It is not called truncated: NVTabular may read it."""
    program = (export / WORKFLOW).parent / "model.py"
    pickled = export / WORKFLOW / "workflow.pkl"
    pickled.write_bytes(b"\x80\x04" + b"N0" * (MAX_OPCODES // 2) + b"N.")
    expected = WorkflowFiles("23.08.00", merlins_step=True)
    assert read_workflow_files(export / WORKFLOW, program) == expected


def test_metadata_gone_from_another_program(export: Path) -> None:
    """Nobody knows which release wrote it, nor whether the program reads it: it is served."""
    (export / WORKFLOW / "metadata.json").unlink()
    with (export / WORKFLOW).parent.joinpath("model.py").open("a") as file:
        file.write("CHANGED = 1\n")
    found = read_workflow_files(export / WORKFLOW)
    assert found is not None
    assert found.nvtabular == ""
    assert planned(export).form is Form.PURE_ENSEMBLE


@pytest.mark.parametrize(
    "version",
    [
        "23.x.y",
        "²3.05",
        "9" * 5000 + ".1",
        "9" * 30,
        "24",
        "",
        "23.",
        ".",
        "-1.0",
        "23.05\n",
        "23.05." + "x" * 5000,
        "23.05.\udc80",
        "v23.05",
        "23.6.0+cpu",
    ],
)
def test_odd_versions(version: str, export: Path) -> None:
    """What is no older release, or no version at all, refuses nothing."""
    (export / WORKFLOW / "metadata.json").write_text(metadata(version))
    assert planned(export).form is Form.PURE_ENSEMBLE


@pytest.mark.parametrize("version", ["1.8.1", "23", "23.5", "23.05.00", "23.5.0+cpu", "23.05.dev1"])
def test_older_versions(version: str, export: Path) -> None:
    """The sentence names the model, both versions and the remedy."""
    (export / WORKFLOW / "metadata.json").write_text(metadata(version))
    with pytest.raises(ReleaseUnfit) as error:
        planned(export)
    assert str(error.value) == (
        f"{export / '0_transformworkflowtriton'}: its workflow was written by nvtabular {version}, "
        "and the models' Python has 23.8.0, which cannot run workflows from before 23.06; export "
        "it again with Merlin 23.08, or use an image of its own release"
    )


@pytest.mark.parametrize(
    ("pad", "elements", "is_refused"),
    [
        (True, 1_000_000, False),
        (True, 1_000_001, True),
        (1, 2**63 - 1, True),
        (False, 2**63 - 1, False),
    ],
)
def test_lists_that_are_filled_up(export: Path, pad: bool, elements: int, is_refused: bool) -> None:
    """Gigabytes for each row of a request, whoever fills them: refused before there is one."""
    state = pickle.dumps({"pad": pad, "max_elements": elements}, protocol=2)
    body = state[2:].removesuffix(b".")
    content = b"\x80\x02](cnvtabular.ops.list_slice\nListSlice\n)\x81" + body + b"be."
    (export / WORKFLOW / "workflow.pkl").write_bytes(content)
    if is_refused:
        with pytest.raises(PayloadBroken, match=f"fills each list up to {elements} elements"):
            planned(export)
    else:
        planned(export)


def test_an_archive_behind_two_dots(tmp_path: Path) -> None:
    """How the archive's own directory is named makes no difference to what lies in it."""
    (tmp_path / "other").mkdir()
    directory = tmp_path / "other" / ".." / "workflow"
    found = find_category_path("/exported/categories/a", "/exported", directory)
    assert found == directory / "categories/a"
    assert find_category_path("/exported/../a", "/exported", directory) is None
