"""Which archives a command line names, and what they are called."""

from __future__ import annotations

from pathlib import Path

import pytest

from merlin_deploy.archives.sources import find_sources
from merlin_deploy.errors import Refused


def make_export(folder: Path) -> Path:
    """Of one model."""
    (folder / "0_workflow/1").mkdir(parents=True)
    (folder / "0_workflow/config.pbtxt").touch()
    return folder


def names(*paths: Path, name: str | None = None) -> list[str]:
    return [one.name for one in find_sources(paths, name, print)]


def test_a_folder_with_models_is_one_archive(tmp_path: Path) -> None:
    """Called as the folder is, or as is said."""
    export = make_export(tmp_path / "shop-a")
    assert names(export) == ["shop-a"]
    assert names(export, name="shop-b") == ["shop-b"]
    (single,) = find_sources([export / "0_workflow"], "one", print)
    assert single.path == export / "0_workflow"


def test_any_other_folder_is_what_lies_in_it(tmp_path: Path) -> None:
    """Archives, exports, and what has them one level deeper; but for hidden and other files."""
    make_export(tmp_path / "shop-a")
    make_export(tmp_path / "shop-b/model")
    for file in ("shop-c.tar.gz", "shop-d.tgz", "notes.txt", ".hidden.tar.gz"):
        (tmp_path / file).touch()
    (tmp_path / "__pycache__").mkdir()
    make_export(tmp_path / "__shop")
    said: list[str] = []
    found = find_sources([tmp_path], None, said.append)
    assert said == [f"{tmp_path}: left out, as names of archives end in .tar.gz: notes.txt"]
    assert [one.name for one in found] == ["__shop", "shop-a", "shop-b", "shop-c", "shop-d"]
    assert [one.is_folder for one in found] == [True, True, True, False, False]


def test_a_bare_model_is_one_archive(tmp_path: Path) -> None:
    """A folder of a model's file alone, or of a SavedModel's; not where archives lie beside it."""
    (tmp_path / "ranker/variables").mkdir(parents=True)
    (tmp_path / "ranker/saved_model.pb").touch()
    assert names(tmp_path / "ranker") == ["ranker"]
    (tmp_path / "model.onnx").touch()
    (tmp_path / "shop-a.tar.gz").touch()
    assert names(tmp_path) == ["ranker", "shop-a"]


@pytest.mark.parametrize("name", ["b.tar", "x.zip", "y.tar.bz2", "z.7z"])
def test_an_archive_of_another_kind_is_told(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Left out beside others, and named where nothing else is there."""
    (tmp_path / name).touch()
    with pytest.raises(Refused, match=rf"neither models nor archives in it \({name}\), expected"):
        find_sources([tmp_path], None, print)
    for number in range(12):
        (tmp_path / f"n{number:02}").touch()
    (tmp_path / "a.tar.gz").touch()
    assert names(tmp_path) == ["a"]
    assert capsys.readouterr().out.endswith(" and 3 more\n")


def test_here_is_called_as_the_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = make_export(tmp_path / "shop-a")
    monkeypatch.chdir(export)
    assert names(Path(".")) == ["shop-a"]
    monkeypatch.chdir(export / "0_workflow")
    assert names(Path("..")) == ["shop-a"]


@pytest.mark.parametrize(
    "name",
    ["shop_a", "_a", "1.2", "7", "Shop", "shop a", "a+b=c", "-x", "a.", ".a", "$(ls)", "n" * 255],
)
def test_a_name_is_what_target_model_may_begin_with(tmp_path: Path, name: str) -> None:
    """And what a folder in S3 may be called."""
    assert names(make_export(tmp_path / name)) == [name]


@pytest.mark.parametrize(
    "name", ["é", "日本", " a", "a ", "a..b", ".", "..", "a/b", "a\\b", "a\tb", "", "n" * 256]
)
def test_what_no_archive_is_called(tmp_path: Path, name: str) -> None:
    """What TargetModel does not take, or what leads elsewhere."""
    (tmp_path / "a.tar.gz").touch()
    with pytest.raises(Refused, match=r"--as: found .* printable ASCII characters"):
        names(tmp_path / "a.tar.gz", name=name)


def test_all_mistakes_are_told_together(tmp_path: Path) -> None:
    """Nothing there, neither one nor the other, no name for it, one name for two."""
    for name in ("shop é.tar.gz", "x.zip", "xgb.json", "one/a.tar.gz", "two/a.tar.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    given = ("gone", "x.zip", "xgb.json", "empty", "shop é.tar.gz", "one", "two")
    with pytest.raises(Refused) as refused:
        find_sources([tmp_path / name for name in given], None, print)
    gone, file, model, empty, name, twice = str(refused.value).splitlines()
    assert gone == f"{tmp_path}/gone: there is no such file or folder"
    assert file.startswith(f"{tmp_path}/x.zip: found a file, expected an archive")
    assert model.endswith(f"makes an archive of it: tar -C {tmp_path} -czf xgb.tar.gz xgb.json")
    assert empty.startswith(f"{tmp_path}/empty: found neither models nor archives in it")
    assert "as its name found 'shop é', expected 1 to 255 printable ASCII characters" in name
    assert name.endswith("; put it by itself, with --as")
    assert twice.endswith("are both called a; put one of them by itself, with --as")


def test_one_name_is_for_one_archive(tmp_path: Path) -> None:
    for name in ("a.tar.gz", "b.tar.gz"):
        (tmp_path / name).touch()
    with pytest.raises(Refused) as refused:
        names(tmp_path, name="c")
    two = f"{tmp_path}/a.tar.gz and {tmp_path}/b.tar.gz"
    assert str(refused.value) == f"--as c is for one archive; found 2, such as {two}"
    with pytest.raises(
        Refused, match="--as: found 'a/b', expected 1 to 255 printable ASCII characters"
    ):
        names(tmp_path / "a.tar.gz", name="a/b")
