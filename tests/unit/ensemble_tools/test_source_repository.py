"""A directory on disk into a ModelRepository: layouts, litter, and which model is meant."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ensemble_tools.errors import ConfigUnreadable, EntryRefused, RepositoryUnusable
from ensemble_tools.repository import MAX_CONFIG_BYTES, model_directories, read_repository


def make(root: Path, *files: str, **configs: str) -> Path:
    """Files (or directories, with a `/` at the end) and config.pbtxt files by model name."""
    for name in files:
        path = root / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.touch()
    for model, text in configs.items():
        (root / model).mkdir(parents=True, exist_ok=True)
        (root / model / "config.pbtxt").write_text(text)
    return root


def ensemble(*steps: str) -> str:
    listed = " ".join(f'step {{ model_name: "{step}" }}' for step in steps)
    return f'platform: "ensemble" ensemble_scheduling {{ {listed} }}'


MODEL = ("config.pbtxt", "1/model.py")


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


def test_versions(tmp_path: Path) -> None:
    """Versions are directories with plain numbers; everything else in a model is an entry."""
    names = ["1/a", "10/b/", "2/", "01/x", "0/x", "-1/x", "x/y", "٣/x", "3", "config.pbtxt"]
    make(tmp_path, *(f"m/{name}" for name in names))
    model = read_repository(tmp_path).entry
    assert model.versions == (1, 2, 10)
    assert model.payload == {1: {"a"}, 2: frozenset(), 10: {"b/"}}
    assert set(model.entries) == {name.split("/")[0] for name in names}


@pytest.mark.parametrize(
    ("made", "found"),
    [([], "nothing"), (["a.txt"], "a.txt"), (["a/b/1/x", "c/"], "a, c"), (["a/b/c/1/x"], "a")],
)
def test_no_models(made: list[str], found: str, tmp_path: Path) -> None:
    """Without a model directory the message says what was found and what was expected."""
    make(tmp_path, *made)
    with pytest.raises(RepositoryUnusable, match=rf"found {found}\); expected directories"):
        read_repository(tmp_path)


def test_no_directory(tmp_path: Path) -> None:
    """A path that is not there, or a file, is refused."""
    (tmp_path / "file").touch()
    for name in ("nothing", "file"):
        with pytest.raises(RepositoryUnusable, match="no such directory"):
            read_repository(tmp_path / name)


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


POLICIES = {
    "": 10, "all {}": 10, "latest { num_versions: 2 }": 10, "latest { num_versions: 1 }": 10,
    "specific { versions: [1] }": 1, "specific { versions: [2, 1] }": 2,
    "specific { versions: [1, 7] }": 1,
}  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
def test_version_policy(policy: str, tmp_path: Path) -> None:
    """The graph, as all else, is that of the version to which Triton sends requests without one."""
    make(tmp_path, *(f"e/{version}/ensemble/ensemble.pkl" for version in (1, 2, 10)))
    make(tmp_path, e=f"{MERLIN} version_policy {{ {policy} }}")
    repository = read_repository(tmp_path)
    assert repository.entry.served_version == POLICIES[policy]
    expected = tmp_path / "e" / str(POLICIES[policy]) / "ensemble/ensemble.pkl"
    assert repository.graph_path == expected


def test_named_entry_is_missing(tmp_path: Path) -> None:
    """A name that no model has is answered with the names that there are."""
    make(tmp_path, "a/1/x", "b/1/x")
    with pytest.raises(RepositoryUnusable, match="no model 'c' in it; expected one of a, b"):
        read_repository(tmp_path, "c")


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
