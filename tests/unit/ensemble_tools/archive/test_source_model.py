"""A model directory: its versions, its config, its graph."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ensemble_tools.archive.repository import read_repository
from ensemble_tools.archive.source_model import MAX_CONFIG_BYTES
from ensemble_tools.errors import ConfigUnreadable, EntryRefused
from tests.support.model_files import make

MERLIN = 'platform: "merlin_executor" backend: "python"'
POLICIES = {
    "": 10,
    "all {}": 10,
    "latest { num_versions: 2 }": 10,
    "latest { num_versions: 1 }": 10,
    "specific { versions: [1] }": 1,
    "specific { versions: [2, 1] }": 2,
    "specific { versions: [1, 7] }": 1,
}


def test_versions(tmp_path: Path) -> None:
    """Versions are directories with plain numbers; everything else in a model is an entry."""
    names = ["1/a", "10/b/", "2/", "01/x", "0/x", "-1/x", "x/y", "٣/x", "3", "config.pbtxt"]
    make(tmp_path, *(f"m/{name}" for name in names))
    model = read_repository(tmp_path).entry
    assert model.versions == (1, 2, 10)
    assert model.payload == {1: {"a"}, 2: frozenset(), 10: {"b/"}}
    assert set(model.entries) == {name.split("/")[0] for name in names}


@pytest.mark.parametrize("policy", POLICIES)
def test_version_policy(policy: str, tmp_path: Path) -> None:
    """The graph, as all else, is that of the version to which Triton sends requests without one."""
    make(tmp_path, *(f"e/{version}/ensemble/ensemble.pkl" for version in (1, 2, 10)))
    make(tmp_path, e=f"{MERLIN} version_policy {{ {policy} }}")
    repository = read_repository(tmp_path)
    assert repository.entry.served_version == POLICIES[policy]
    expected = tmp_path / "e" / str(POLICIES[policy]) / "ensemble/ensemble.pkl"
    assert repository.graph_path == expected


def test_graph_of_the_served_version(tmp_path: Path) -> None:
    """The executor's graph is the highest version's; without one there it is no executor."""
    make(tmp_path, "e/1/ensemble/ensemble.pkl", "e/2/ensemble/ensemble.pkl", e=MERLIN)
    assert read_repository(tmp_path).graph_path == tmp_path / "e/2/ensemble/ensemble.pkl"
    make(tmp_path, "e/3/model.py")
    assert read_repository(tmp_path).graph_path is None


@pytest.mark.parametrize(
    ("content", "line"),
    [(b'name: "a"\n\n\xff', 3), (b"name: {\n", None), (b"\0", None), (b"\xef\xbb\xbfname: 1", 1)],
)
def test_unreadable_config(content: bytes, line: int | None, tmp_path: Path) -> None:
    """A config that is no text, or no config, is refused by file and line."""
    make(tmp_path, m="")
    (tmp_path / "m/config.pbtxt").write_bytes(content)
    with pytest.raises(ConfigUnreadable, match=r"m/config\.pbtxt") as refusal:
        read_repository(tmp_path)
    assert line in (None, refusal.value.line)


def test_config_that_is_no_file(tmp_path: Path) -> None:
    """A directory, a pipe or a huge file in the config's place is refused, and not waited for."""
    for number, make_it in enumerate((Path.mkdir, os.mkfifo, huge)):
        make(tmp_path / str(number), "m/1/x")
        make_it(tmp_path / str(number) / "m/config.pbtxt")  # type: ignore[operator]  # of one shape
        with pytest.raises((ConfigUnreadable, EntryRefused), match=r"m/config\.pbtxt"):
            read_repository(tmp_path / str(number))


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(MAX_CONFIG_BYTES + 1)


def test_links_that_lead_nowhere(tmp_path: Path) -> None:
    """Broken and circular links in an archive are entries like any other."""
    make(tmp_path, "m/1/x")
    (tmp_path / "m/broken").symlink_to("nothing")
    (tmp_path / "m/circle").symlink_to("circle")
    assert read_repository(tmp_path).entry.entries == ("1", "broken", "circle")


def test_empty_version_beside_the_graph(tmp_path: Path) -> None:
    """export(version=3) leaves an empty 3/ensemble: the version that counts has the graph."""
    executor = tmp_path / "executor_model"
    (executor / "1/ensemble").mkdir(parents=True)
    (executor / "1/ensemble/ensemble.pkl").touch()
    (executor / "3/ensemble").mkdir(parents=True)
    (executor / "config.pbtxt").write_text('platform: "merlin_executor"\nbackend: "python"\n')
    model = read_repository(tmp_path).entry
    assert model.versions == (1,)
    assert model.graph_path == executor / "1/ensemble/ensemble.pkl"
    assert model.entries == ("1", "config.pbtxt")


def test_texts_that_do_not_end_and_a_great_many_versions(tmp_path: Path) -> None:
    """Neither is looked at twice: each took minutes, and names stayed taken meanwhile."""
    directory = tmp_path / "m"
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text('backend: "python"\n')
    for name, quote in (("a", '"'), ("b", "'"), ("c", '"""'), ("d", "'''")):
        (directory / f"1/{name}.py").write_text(quote + ("\\" + quote[0]) * 200_000 + "\n")
    for version in range(2, 4000):
        (directory / str(version)).mkdir()
    (directory / "1/model.py").write_text("class TritonPythonModel: pass\n")
    started = time.process_time()
    assert read_repository(tmp_path).entry.name == "m"
    assert time.process_time() - started < 10  # 0.4 s on an idle machine
