"""`rewrite`: a plain Triton repository, found by AWS's frontend, made whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools import Compile
from ensemble_tools import __main__ as command
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.commands import rewrite
from ensemble_tools.commands.atomic_output import DestinationUnusable
from ensemble_tools.commands.rewrite import NotPlain, findable
from ensemble_tools.serving.opened_archive import read_archive
from ensemble_tools.serving.plan import Form, ServingPlan
from ensemble_tools.workflows.program import Kept
from tests.support.category_files import with_a_category_twice

ROOT = Path(__file__).parents[4]
DENSE = ROOT / "examples/merlin/dense/repository"
#: sagemaker_server.h: what the frontend searches each config.pbtxt for.
FRONTEND = re.compile(r'platform:(\s)*"ensemble"')
TENSORS = (
    'input { name: "i" data_type: TYPE_FP32 dims: 1 } '
    'output { name: "o" data_type: TYPE_FP32 dims: 1 }'
)


def step(model: str) -> str:
    return (
        f'ensemble_scheduling {{ step {{ model_name: "{model}" model_version: -1 '
        'input_map { key: "i" value: "i" } output_map { key: "o" value: "o" } } }'
    )


def write(root: Path, name: str, config: str) -> Path:
    (root / name / "1").mkdir(parents=True)
    (root / name / "1/model.py").write_text("pass")
    (root / name / "config.pbtxt").write_text(config)
    return root


def found_by_frontend(repository: Path) -> list[str]:
    """The directories whose config the frontend takes for the ensemble's."""
    return sorted(
        path.parent.name
        for path in repository.glob("*/config.pbtxt")
        if FRONTEND.search(path.read_text())
    )


def test_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An executor export becomes an ensemble of real files under the name that was asked for."""
    rewritten = tmp_path / "made"
    assert command.main(["rewrite", str(DENSE), str(rewritten), "--name", "shop"]) == command.SERVED
    assert sorted(path.name for path in rewritten.iterdir()) == [
        "shop",
        "shop.0_transformworkflowtriton",
        "shop.1_predictpytorchtriton",
    ]
    assert not any(path.is_symlink() for path in rewritten.rglob("*"))
    assert found_by_frontend(rewritten) == ["shop"]
    assert all(any(version.iterdir()) for version in rewritten.glob("*/1"))  # no empty directories
    for path in rewritten.glob("*/config.pbtxt"):
        config = text_format.Parse(path.read_text(), pb.ModelConfig())
        assert config.name in ("", path.parent.name)
    printed = capsys.readouterr().out
    assert "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME=shop" in printed
    assert "--disable-auto-complete-config" in printed


def test_payload_is_the_sources(tmp_path: Path) -> None:
    """Files of the steps come over byte by byte, and no part of the executor does."""
    command.main(["rewrite", str(DENSE), str(tmp_path / "made"), "--compile", "off"])
    for name in ("0_transformworkflowtriton", "1_predictpytorchtriton"):
        for path in (DENSE / name / "1").rglob("*"):
            copy = tmp_path / "made" / f"made.{name}/1" / path.relative_to(DENSE / name / "1")
            assert path.is_dir() or copy.read_bytes() == path.read_bytes()
    assert list(tmp_path.rglob("ensemble.pkl")) == []


def test_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A compiled step has all that it needs beside it, and nothing of NVTabular's."""
    assert command.main(["rewrite", str(DENSE), str(tmp_path / "made")]) == command.SERVED
    model_line = "made.0_transformworkflowtriton  compiled: numpy  (1 Categorify, 2 Normalize, "
    assert model_line in capsys.readouterr().out
    version = tmp_path / "made/made.0_transformworkflowtriton/1"
    assert {path.name for path in version.iterdir()} == {"compiled_workflow", "model.py", "tables"}
    assert not any(path.is_symlink() for path in version.rglob("*"))
    read = "from compiled_workflow.program import LoadedProgram as P; P(pathlib.Path('tables'))"
    isolated = [sys.executable, "-c", f"import pathlib, sys; {read}; print(*sys.modules)"]
    done = subprocess.run(isolated, cwd=version, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "numpy" in loaded
    assert not loaded & {"nvtabular", "merlin", "pandas", "pyarrow", "ensemble_tools"}
    assert str(DENSE) not in (version / "tables/program.json").read_text()


def test_compiled_in_part(tmp_path: Path) -> None:
    """What NVTabular needs for the rest of a workflow stays beside the program."""
    archive = read_archive(DENSE, "shop", workflows=Compile.AUTO)
    assert archive.plan is not None
    first, *others = archive.plan.models
    assert first.compiled is not None
    program = replace(first.compiled.program, kept=(Kept("LambdaOp", (), "its reason"),))
    first = replace(first, compiled=replace(first.compiled, program=program))
    plan = replace(archive.plan, models=(first, *others))
    rewrite.write_repository(plan, DENSE, tmp_path / "made")
    version = tmp_path / "made/shop.0_transformworkflowtriton/1"
    assert {"workflow", "tables", "compiled_workflow"} < {path.name for path in version.iterdir()}
    report = list(rewrite.report_lines(plan, tmp_path / "made", 0, None))
    assert any("is compiled in part, it needs NVTabular" in line for line in report)


def test_tables_that_a_pickle_holds(tmp_path: Path) -> None:
    """JoinExternal's table has no file of its own: it is written from what the workflow holds."""
    source = Path(__file__).parents[3] / "golden/tutorials/nvt_advanced/repository"
    assert command.main(["rewrite", str(source), str(tmp_path / "made")]) == command.SERVED
    tables = tmp_path / "made/made/1/tables"
    written = json.loads((tables / "program.json").read_text())["tables"]
    assert len(written) == len({path.name[0] for path in tables.glob("*.npy")}) == 4


def test_not_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A workflow with an unusable category file stays what it was, and that is said."""
    source = tmp_path / "source"
    shutil.copytree(DENSE, source)
    step = source / "0_transformworkflowtriton/1"
    for path in step.glob("workflow/categories/*.parquet"):
        with_a_category_twice(path)
    assert command.main(["rewrite", str(source), str(tmp_path / "made")]) == command.SERVED
    printed = capsys.readouterr().out
    assert (
        "note: 0_transformworkflowtriton is not compiled, it needs NVTabular in Triton's" in printed
    )
    assert "has a category twice" in printed
    version = tmp_path / "made/made.0_transformworkflowtriton/1"
    assert sorted(path.name for path in version.iterdir()) == ["model.py", "workflow"]
    assert (version / "model.py").read_bytes() == (step / "model.py").read_bytes()


def test_a_category_file_that_nothing_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused in one sentence, and nothing is written."""
    source = tmp_path / "source"
    shutil.copytree(DENSE, source)
    path = source / "0_transformworkflowtriton/1/workflow/categories/unique.item_id.parquet"
    path.write_bytes(b"")
    assert command.main(["rewrite", str(source), str(tmp_path / "made")]) == command.REFUSED
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: {path}: cannot be read (")
    assert printed.endswith("; export it again\n")
    assert not (tmp_path / "made").exists()


def test_rewritten_twice(tmp_path: Path) -> None:
    """What was rewritten is an archive as any other: rewriting it changes names alone."""
    assert command.main(["rewrite", str(DENSE), str(tmp_path / "one"), "--name", "a"]) == 0
    assert (
        command.main(["rewrite", str(tmp_path / "one"), str(tmp_path / "two"), "--name", "b"]) == 0
    )
    assert read_repository(tmp_path / "two").entry.name == "b"
    assert found_by_frontend(tmp_path / "two") == ["b"]


@pytest.mark.parametrize(
    "spelled", ['platform: "ensemble"', "platform:'ensemble'", 'platform : "ens" "emble"', ""]
)
def test_delivered_ensembles_are_found(spelled: str, tmp_path: Path) -> None:
    """However ensembles are spelled, the search finds the outermost and no other."""
    source = tmp_path / "source"
    write(source, "m", f'backend: "python" {TENSORS}')
    write(source, "inner", f'platform: "ensemble" {TENSORS} {step("m")}')
    write(source, "outer", f"{spelled} {TENSORS} {step('inner')}")
    rewritten = tmp_path / "made"
    assert command.main(["rewrite", str(source), str(rewritten), "--name", "e"]) == command.SERVED
    assert found_by_frontend(rewritten) == ["e"]
    for path in rewritten.glob("*/config.pbtxt"):
        assert text_format.Parse(path.read_text(), pb.ModelConfig()).input


def test_comment_does_not_mislead_the_search(tmp_path: Path) -> None:
    """A step whose comment reads like an ensemble is not taken for one."""
    source = tmp_path / "source"
    write(source, "m", f'# not platform: "ensemble"\nbackend: "python" {TENSORS}')
    write(source, "e", f'platform: "ensemble" {TENSORS} {step("m")}')
    assert command.main(["rewrite", str(source), str(tmp_path / "made")]) == command.SERVED
    assert found_by_frontend(tmp_path / "made") == ["made"]


def test_value_that_misleads_the_search() -> None:
    """A value that cannot be spelled otherwise is refused, never changed."""
    text = """parameters { key: "x" value { string_value: 'platform: "ensemble"' } }"""
    with pytest.raises(DestinationUnusable, match="frontend"):
        findable(text, Path("config.pbtxt"), entry=False)


def test_destination(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty directory is filled; one with something in it, or a file, stays as it is."""
    (tmp_path / "empty").mkdir()
    assert command.main(["rewrite", str(DENSE), str(tmp_path / "empty")]) == command.SERVED
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    (tmp_path / "file").touch()
    for name in ("full", "file"):
        assert command.main(["rewrite", str(DENSE), str(tmp_path / name)]) == command.REFUSED
        assert "it exists and is" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "full"]


def test_nothing_is_left_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk that fills up, or Ctrl-C, in the middle leaves neither DEST nor hidden pieces."""
    for error, code in ((OSError(28, "No space left", "x"), 1), (KeyboardInterrupt(), 130)):

        def fail(*_: object, error: BaseException = error) -> None:
            raise error

        monkeypatch.setattr(shutil, "copy", fail)
        assert command.main(["rewrite", str(DENSE), str(tmp_path / "made")]) == code
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "plan",
    [
        ServingPlan("m", Form.EXECUTOR, "m", (), reasons=("an operator runs Python",)),
        ServingPlan("m", Form.AS_DELIVERED, "m", (), called=("m.other",)),
    ],
)
def test_what_needs_this_container_is_refused(plan: ServingPlan) -> None:
    """An executor, or models that call others by name: a plain server would not load those."""
    with pytest.raises(NotPlain, match="would not load them"):
        rewrite.check_plain(Path("archive"), plan)


def test_what_lies_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It comes along where Python of the archive's own may read it and AWS's frontend lets it."""
    source = write(tmp_path / "source", "m", f'backend: "python" {TENSORS}')
    (source / "labels.txt").write_text("labels")
    (source / "common").mkdir()
    (source / "common/words.py").write_text("WORD = 1")
    assert command.main(["rewrite", str(source), str(tmp_path / "made")]) == command.REFUSED
    assert "takes a model that is the only directory" in capsys.readouterr().err
    write(source, "whole", f'platform: "ensemble" {TENSORS} {step("m")}')
    assert command.main(["rewrite", str(source), str(tmp_path / "made")]) == command.SERVED
    assert (tmp_path / "made/labels.txt").read_text() == "labels"
    assert (tmp_path / "made/common/words.py").read_text() == "WORD = 1"
    assert "note: m/ is made.m/ in it" in capsys.readouterr().out


def test_inside_the_source(tmp_path: Path) -> None:
    """DEST inside SOURCE would become a part of it."""
    shutil.copytree(DENSE, tmp_path / "source")
    destination = tmp_path / "source/made"
    assert command.main(["rewrite", str(tmp_path / "source"), str(destination)]) == command.REFUSED
    assert not destination.exists()


def test_incomplete_configs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """AWS's container completes configs, so such an archive is rewritten, with a warning."""
    source = write(tmp_path / "source", "m", 'backend: "python"')
    assert command.main(["rewrite", str(source), str(tmp_path / "made")]) == command.SERVED
    assert "do not switch auto-completion off" in capsys.readouterr().out
