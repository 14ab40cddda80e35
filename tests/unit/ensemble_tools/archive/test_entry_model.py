"""Which of an archive's models is meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensemble_tools.archive.repository import model_directories, read_repository
from ensemble_tools.errors import RepositoryUnusable
from tests.support.model_files import ensemble, make

EXECUTOR = "executor_model/1/ensemble/ensemble.pkl"
OTHER = "other/1/ensemble/ensemble.pkl"
MERLIN = 'platform: "merlin_executor" backend: "python"'
PREDICT = "1_predictpytorchtriton"


@pytest.mark.parametrize(
    ("files", "configs", "entry"),
    [
        (["a/1/x"], {}, "a"),
        ([EXECUTOR, "0_w/1/x", "1_p/1/x"], {"executor_model": MERLIN}, "executor_model"),
        (["my_own/3/ensemble/ensemble.pkl", "my_own/1/x", "0_w/1/x"], {"my_own": MERLIN}, "my_own"),
        ([EXECUTOR, "a/1/x"], {"executor_model": MERLIN, "mine": ensemble("a")}, "mine"),
        (
            [EXECUTOR, "0_w/1/x", "1_p/1/x", "more/1/x"],
            {"executor_model": MERLIN, "mine": ensemble("0_w", "in"), "in": ensemble("1_p")},
            "mine",
        ),
        (
            [EXECUTOR, "0_w/1/x", "real/1/x"],
            {"executor_model": MERLIN, PREDICT: ensemble("real")},
            "executor_model",
        ),
        (
            [EXECUTOR, "0_w/1/x", "real/1/x"],
            {
                "executor_model": MERLIN,
                PREDICT: ensemble("real"),
                "mine": ensemble("0_w", PREDICT),
            },
            "mine",
        ),
        (["a/1/x"], {"outer": ensemble("inner"), "inner": ensemble("a")}, "outer"),
        (["a/1/x"], {"self": ensemble("self", "a")}, "self"),
        (["a/1/x"], {"one": ensemble("two"), "two": ensemble("one")}, "one"),
    ],
)
def test_entry(files: list[str], configs: dict[str, str], entry: str, tmp_path: Path) -> None:
    """The only model, the outermost ensemble, or the executor is meant; of a circle its first."""
    assert read_repository(make(tmp_path, *files, **configs)).entry.name == entry


@pytest.mark.parametrize(
    ("files", "configs"),
    [
        (["a/1/x", "b/1/x"], {}),
        (["a/1/x"], {"one": ensemble("a"), "two": ensemble("a")}),
        ([EXECUTOR, "0_w/1/x"], {}),
    ],
)
def test_no_entry(files: list[str], configs: dict[str, str], tmp_path: Path) -> None:
    """Several models that could be meant are listed, and one of them can be asked for by name."""
    make(tmp_path, *files, **configs)
    with pytest.raises(RepositoryUnusable, match="several models") as refusal:
        read_repository(tmp_path)
    for name in model_directories(tmp_path):
        assert name in str(refusal.value)
        assert read_repository(tmp_path, name).entry.name == name


@pytest.mark.parametrize(
    ("files", "configs"),
    [
        ([EXECUTOR, OTHER], {"executor_model": MERLIN, "other": MERLIN}),
        ([EXECUTOR, "0_w/1/x", "1_p/1/x"], {"executor_model": MERLIN, "other": ensemble("1_p")}),
        ([EXECUTOR, "a/1/x", "b/1/x"], {"executor_model": MERLIN, "other": ensemble("a")}),
        (
            [EXECUTOR, "a/1/x"],
            {"executor_model": MERLIN, "other": ensemble("a"), "third": ensemble("a")},
        ),
    ],
)
def test_executor_or_ensemble(files: list[str], configs: dict[str, str], tmp_path: Path) -> None:
    """An ensemble beside an executor, over some of its models alone, is not chosen by chance."""
    make(tmp_path, *files, **configs)
    with pytest.raises(RepositoryUnusable, match=r"\(executor_model, other.*remove the director"):
        read_repository(tmp_path)


def test_python_model_with_a_graph(tmp_path: Path) -> None:
    """A model is Merlin's executor when its config says so, not by a file that it has."""
    make(tmp_path, EXECUTOR, executor_model='backend: "python"')
    assert read_repository(tmp_path).graph_path is None
    make(tmp_path, "0_w/1/x")
    with pytest.raises(RepositoryUnusable, match=r"executor_model holds .* lacks `platform"):
        read_repository(tmp_path)


def test_named_entry_is_missing(tmp_path: Path) -> None:
    """A name that no model has is answered with the names that there are."""
    make(tmp_path, "a/1/x", "b/1/x")
    with pytest.raises(RepositoryUnusable, match="no model 'c' in it; expected one of a, b"):
        read_repository(tmp_path, "c")
