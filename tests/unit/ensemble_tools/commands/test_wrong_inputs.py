"""What somebody new gives by mistake is told in a sentence that names it, and what to do."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from ensemble_tools import __main__ as command

DENSE = Path(__file__).parents[4] / "examples/merlin/dense/repository"
FOREST = Path(__file__).parents[4] / "examples/merlin/forest_xgboost/repository"
GRAPH = Path("executor_model/1/ensemble/ensemble.pkl")
MODEL = Path("1_predictpytorchtriton")
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
PULL = "it is a pointer of Git LFS (`git lfs pull` fetches the file)"


def pointed(*places: str) -> Callable[[Path], object]:
    """Git LFS's pointers in the place of files."""
    return lambda export: [(export / place).write_bytes(POINTER) for place in places]


@pytest.mark.parametrize(
    ("source", "damage", "said"),
    [
        (DENSE, pointed(str(GRAPH)), f"ensemble.pkl: {PULL}"),
        (DENSE, pointed("0_transformworkflowtriton/1/workflow/workflow.pkl"), f"pkl: {PULL}"),
        (
            DENSE,
            pointed(f"{MODEL}/1/model.pt"),
            f"model.pt: {PULL}; put the model's file",
        ),
        (FOREST, pointed("1_filtriton/1/xgboost.json"), f"xgboost.json: {PULL}"),
        (
            FOREST,
            lambda export: (export / "1_filtriton/1/xgboost.json").write_bytes(b""),
            "xgboost.json: it is empty; put the model's file there",
        ),
        (
            DENSE,
            lambda export: (export / GRAPH).unlink(),
            "(executor_model is an executor by its config, and lacks ensemble/ensemble.pkl)",
        ),
        *(
            (
                DENSE,
                lambda export, name=name: (export / MODEL / "config.pbtxt").rename(
                    export / MODEL / name
                ),
                f"config.pbtxt: there is no such file; rename {name} to it",
            )
            for name in ("config.pbtxt.txt", "Config.pbtxt", "config.pbtxt~")
        ),
    ],
)
def test_an_export_with_a_wrong_file(
    source: Path,
    damage: Callable[[Path], object],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whichever command is given it."""
    export = Path(shutil.copytree(source, tmp_path / "export"))
    damage(export)
    assert command.main(["explain", str(export)]) == command.REFUSED
    told = capsys.readouterr()
    assert said in told.out + told.err
    assert command.main(["pack", str(export), "-o", str(tmp_path / "x.tgz")]) == command.REFUSED
    assert said in capsys.readouterr().err


def test_what_nothing_loads_is_no_matter(tmp_path: Path) -> None:
    """A pointer, or an empty file, beside the model's."""
    export = Path(shutil.copytree(DENSE, tmp_path / "export"))
    pointed(f"{MODEL}/1/README.md")(export)
    (export / MODEL / "1/.keep").touch()
    assert command.main(["explain", str(export)]) == command.SERVED


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("zip", "it is a zip archive"),
        ("bz2", "it is packed with bzip2"),
        ("xz", "it is packed with xz"),
        ("pointer", PULL),
        ("text", "it is no archive, or a damaged one"),
    ],
)
def test_an_archive_of_another_kind(
    kind: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By what is in it: its name may be as expected."""
    archive = tmp_path / "shop.tar.gz"
    if kind == "zip":
        Path(shutil.make_archive(str(tmp_path / "made"), "zip", DENSE)).rename(archive)
    elif kind in ("bz2", "xz"):
        with tarfile.open(archive, f"w:{kind}") as writing:  # type: ignore[call-overload]  # kind: two of its words
            writing.add(DENSE, ".")
    else:
        archive.write_bytes(POINTER if kind == "pointer" else b"# Merlin\n" * 100)
    assert command.main(["explain", str(archive)]) == command.REFUSED
    told = capsys.readouterr().err
    assert told.startswith(f"error: {archive}: {said}")
    assert "expected a directory, or a .tar.gz of one" in told


@pytest.mark.parametrize("name", ["model.onnx", "net.1.onnx"])
def test_a_models_file_in_the_place_of_an_archive(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said ends with a command, as a shell takes it, which makes an archive of it."""
    path = tmp_path / "my models" / name
    path.parent.mkdir()
    shutil.copy(Path(__file__).parents[3] / "golden/bare/torch_2_13.onnx", path)
    assert command.main(["explain", str(path)]) == command.REFUSED
    _, said, packing = capsys.readouterr().err.partition("this makes an archive of it: ")
    assert said
    monkeypatch.chdir(tmp_path)
    subprocess.run(packing, shell=True, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    assert command.main(["explain", str(archive)]) == command.SERVED


def test_what_is_called_an_archive_is_no_models_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = tmp_path / "shop.tar.gz"
    archive.write_bytes(b"# Merlin")
    assert command.main(["explain", str(archive)]) == command.REFUSED
    assert "a model's file" not in capsys.readouterr().err


def test_rewrite_makes_a_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive's name is misuse, and the next command is one that a shell takes."""
    with pytest.raises(SystemExit) as misused:
        command.main(["rewrite", str(DENSE), str(tmp_path / "shop.tar.gz")])
    assert misused.value.code == command.MISUSED
    assert "`pack` makes an archive of it" in capsys.readouterr().err
    assert command.main(["rewrite", str(DENSE), str(tmp_path / "my shop")]) == command.SERVED
    assert f"pack '{tmp_path}/my shop' -o my_shop.tar.gz" in capsys.readouterr().out


@pytest.mark.parametrize("path", ["", "s3://bucket/shop.tar.gz"])
def test_what_is_no_path(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty text would be the directory where the command is run."""
    with pytest.raises(SystemExit):
        command.main(["explain", path])
    said = capsys.readouterr().err
    assert "the path is empty" in said or "download the archive first" in said


def test_a_pipe_as_the_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "shop.tar.gz")
    assert command.main(["explain", str(tmp_path / "shop.tar.gz")]) != command.SERVED
    assert "neither a directory nor a regular file" in capsys.readouterr().err


def test_a_file_that_no_backend_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No setting lets Triton find out what reads it."""
    (tmp_path / "m/1").mkdir(parents=True)
    (tmp_path / "m/1/model.joblib").write_bytes(b"x")
    assert command.main(["explain", str(tmp_path)]) != command.SERVED
    said = capsys.readouterr().out
    assert "names the backend: nothing that is there tells it (found model.joblib)" in said
    (tmp_path / "m/config.pbtxt").write_text('name: "m"')
    assert command.main(["explain", str(tmp_path)]) != command.SERVED
    said = capsys.readouterr().out
    assert "(no backend, version 1)" in said
    assert "add it, and `backend`" in said
