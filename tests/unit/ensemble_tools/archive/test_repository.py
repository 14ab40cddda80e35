"""A directory on disk into a ModelRepository: layouts and litter."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensemble_tools.archive.repository import model_directories, read_repository
from ensemble_tools.errors import RepositoryUnusable
from tests.support.model_files import make


@pytest.mark.parametrize("around", ["", "archive/"])
@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["m/config.pbtxt", "m/1/model.py"], "m"),
        (["m/1/model.py"], "m"),
        (["config.pbtxt", "1/model.py"], "model"),
        (["1/model.py"], "model"),
        (["m/config.pbtxt"], "m"),
    ],
)
def test_layouts(around: str, files: list[str], name: str, tmp_path: Path) -> None:
    """Model directories or a single model's files, at the top or inside one directory: served."""
    make(tmp_path, *(around + file for file in files))
    repository = read_repository(tmp_path)
    assert repository.entry.name in {name, around.strip("/")}
    assert (repository.entry.directory / files[0].removeprefix("m/")).exists()


def test_single_model_has_its_own_name(tmp_path: Path) -> None:
    """A single model at the top bears the name that its config declares."""
    make(tmp_path, "1/model.py")
    (tmp_path / "config.pbtxt").write_text('name: "mine"')
    assert read_repository(tmp_path).entry.name == "mine"


def test_litter(tmp_path: Path) -> None:
    """What archivers, file systems and people leave beside the models is passed over."""
    make(
        tmp_path, "m/1/model.py", "__MACOSX/m/1/x", "lost+found/", ".git/1/x", "README.md", "docs/"
    )
    repository = read_repository(tmp_path)
    assert list(repository.models) == ["m"]
    assert model_directories(tmp_path) == ("m",)


@pytest.mark.parametrize("around", ["", "archive/"])
@pytest.mark.parametrize(
    ("files", "has_candidate"),
    [
        (["m/1/model.py", "candidate/n/1/model.py"], True),
        (["m/1/model.py", "candidate/export/n/1/model.py", "data/x"], True),
        (["m/1/model.py", "candidate/1/model.py"], False),
        (["m/1/model.py", "candidate/config.pbtxt"], False),
        (["m/1/model.py", "candidate/items.parquet"], False),
        (["1/model.py", "candidate/n/1/model.py"], False),
    ],
)
def test_candidates(around: str, files: list[str], has_candidate: bool, tmp_path: Path) -> None:
    """A directory `candidate` with model directories in it, beside model directories, is one; with
    a config or a version of its own it is a model, and else a folder like others."""
    make(tmp_path, *(around + file for file in files))
    repository = read_repository(tmp_path, "m" if files[0].startswith("m/") else None)
    assert repository.candidate == (tmp_path / around / "candidate" if has_candidate else None)
    is_model = "candidate" in repository.models
    assert is_model == files[1].startswith(("candidate/1/", "candidate/config"))
    is_beside = "candidate/" in repository.beside
    assert is_beside == (files[1] == "candidate/items.parquet")


@pytest.mark.parametrize(
    ("files", "found"),
    [([], "nothing"), (["a.txt"], "a.txt"), (["a/b/x", "c/"], "a, c"), (["a/b/c/x/y"], "a")],
)
def test_no_models(files: list[str], found: str, tmp_path: Path) -> None:
    """Without a model directory the message says what was found and what was expected."""
    make(tmp_path, *files)
    with pytest.raises(RepositoryUnusable, match=rf"found {found}\); expected directories"):
        read_repository(tmp_path)


def test_no_directory(tmp_path: Path) -> None:
    """A path that is not there, or a file, is refused."""
    (tmp_path / "file").touch()
    for name in ("nothing", "file"):
        with pytest.raises(RepositoryUnusable, match="no such directory"):
            read_repository(tmp_path / name)


@pytest.mark.parametrize("around", ["one/two", "one/two/three/four"])
def test_models_that_lie_too_deep(tmp_path: Path, around: str) -> None:
    """Named, with what is to be packed in the place of it."""
    model = tmp_path / around / "m"
    (model / "1").mkdir(parents=True)
    (model / "config.pbtxt").touch()
    with pytest.raises(RepositoryUnusable) as caught:
        read_repository(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: its model directory {around}/m/ lies too deep; expected at most one "
        f"directory around the models: pack what is in {around}/"
    )


@pytest.mark.parametrize("name", ["model.tar.gz", "export.zip"])
def test_an_archive_of_an_archive(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(RepositoryUnusable, match=r"but another archive \(") as caught:
        read_repository(tmp_path)
    assert str(caught.value).endswith("pack the model directories, not an archive of them")
