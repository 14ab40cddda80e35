"""Where an archive may lie: inside the model root, after links are followed, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from serve.errors import BadRequest
from serve.models.model_url import check_source_directory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A model root with an archive in it, and a directory beside it."""
    (tmp_path / "models/hash/model").mkdir(parents=True)
    (tmp_path / "models-other/model").mkdir(parents=True)
    (tmp_path / "models/file").write_text("")
    (tmp_path / "models/out").symlink_to(tmp_path / "models-other")
    (tmp_path / "models/in").symlink_to(tmp_path / "models/hash")
    (tmp_path / "models/loop").symlink_to(tmp_path / "models/loop")
    (tmp_path / "models/dangling").symlink_to(tmp_path / "models/nowhere")
    return tmp_path / "models"


@pytest.mark.parametrize("url", ["hash/model", "in/model", "hash/../hash/model/", "./hash//model"])
def test_inside(root: Path, url: str) -> None:
    """Found, also through links that stay inside and dots that come back."""
    assert check_source_directory(f"{root}/{url}", root) == root / "hash/model"


def test_a_root_that_is_a_link(root: Path, tmp_path: Path) -> None:
    """Both the url and the root are taken after links, whichever of them has some."""
    (tmp_path / "link").symlink_to(root)
    for url in (root, tmp_path / "link"):
        for base in (root, tmp_path / "link"):
            assert check_source_directory(f"{url}/hash/model", base) == root / "hash/model"


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("{root}", "the model root itself"),
        ("{root}/", "the model root itself"),
        ("{root}/hash/..", "the model root itself"),
        ("{root}-other/model", "outside"),
        ("{root}/../models-other/model", "outside"),
        ("{root}/out/model", "outside"),
        ("/", "outside"),
        ("/etc", "outside"),
        ("{root}/hash/missing", "no directory"),
        ("{root}/file", "no directory"),
        ("{root}/loop", "no directory"),
        ("{root}/dangling", "no directory"),
        ("{root}/" + "x" * 5000, "no directory"),
        ("hash/model", "an absolute path"),
        ("", "an absolute path"),
        (" {root}/hash/model", "an absolute path"),
        ("file://{root}/hash/model", "an absolute path"),
        ("s3://bucket/key", "an absolute path"),
        ("{root}/hash\0/model", "an absolute path"),
        ("{root}/hash/\ud800", "an absolute path"),
        ("{root}/a\nb", "no directory"),
    ],
)
def test_refused(root: Path, url: str, found: str) -> None:
    """Outside, not there, no directory, or no path at all: one short line says which."""
    with pytest.raises(BadRequest, match=f"the field `url`.*{found}") as refused:
        check_source_directory(url.replace("{root}", str(root)), root)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_root_that_is_not_there(tmp_path: Path) -> None:
    """Nothing lies in it."""
    with pytest.raises(BadRequest, match="outside"):
        check_source_directory("/etc", tmp_path / "missing")


def test_what_sets_the_root_is_named(root: Path, tmp_path: Path) -> None:
    """Where somebody has said what it is."""
    outside = f"{tmp_path}/models-other/model"
    with pytest.raises(BadRequest, match=r"\(set THE_ROOT to change the root\)$"):
        check_source_directory(outside, root, "THE_ROOT")
    with pytest.raises(BadRequest, match=r"expected a directory under [^(]*$"):
        check_source_directory(outside, root)
