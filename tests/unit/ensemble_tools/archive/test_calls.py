"""Which models a python model calls by name: found, loaded in order, and which one is meant."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ensemble_tools.archive import python_files
from ensemble_tools.archive.python_files import (
    MAX_BYTES,
    MAX_ENTRIES,
    MAX_FILE_BYTES,
    PythonFiles,
    read_python_files,
)
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.errors import EnsembleInvalid, RepositoryUnusable
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import plan_archive
from ensemble_tools.serving.publish import publish
from ensemble_tools.serving.selection import find_called_by_name, gather_steps

TENSORS = (
    'input { name: "i" data_type: TYPE_FP32 dims: 1 } '
    'output { name: "o" data_type: TYPE_FP32 dims: 1 }'
)
PYTHON = f'backend: "python" {TENSORS}'
REQUEST = "pb_utils.InferenceRequest(model_name=name)\n"


def calling(*names: str) -> str:
    """The source of a model that makes requests and holds these names."""
    return REQUEST + "".join(f"NAME = {name!r}\n" for name in names)


def python(root: Path, name: str, source: str = "", parameter: str | None = None) -> Path:
    """A python model; parameter is the text of one in its config."""
    more = f'parameters {{ key: "k" value {{ string_value: {parameter!r} }} }}' if parameter else ""
    (root / name / "1").mkdir(parents=True)
    (root / name / "config.pbtxt").write_text(f"{PYTHON} {more}")
    (root / name / "1/model.py").write_text(source)
    return root


def ensemble(root: Path, name: str, *steps: str) -> Path:
    """An ensemble of steps in a row."""
    tensors = ["i", *(f"t{number}" for number in range(1, len(steps))), "o"]
    rows = [
        f'step {{ model_name: "{step}" model_version: -1 input_map {{ key: "i" value: "{taken}" }} '
        f'output_map {{ key: "o" value: "{put_out}" }} }}'
        for step, taken, put_out in zip(steps, tensors, tensors[1:], strict=False)
    ]
    (root / name / "1").mkdir(parents=True)
    (root / name / "config.pbtxt").write_text(
        f'platform: "ensemble" {TENSORS} ensemble_scheduling {{ {" ".join(rows)} }}'
    )
    return root


@pytest.mark.parametrize(
    ("source", "parameter", "calls"),
    [
        (REQUEST + 'NAME = "b"', None, ("b",)),
        (REQUEST + "NAMES = ['b', \"c\"]", None, ("b", "c")),
        ("InferenceRequest(model_name='b')  # and c", None, ("b",)),
        (REQUEST + '"b or c"', None, ("b", "c")),
        (REQUEST + '"B", "b.", "/b"', None, ("b", "c")),
        (REQUEST + '"a"', None, ("b", "c")),
        (REQUEST + "b = 1", None, ("b", "c")),
        ("getattr(pb_utils, 'InferenceRequest')(model_name='c')", None, ("c",)),
        ("open('names.txt', 'b')", None, None),
        ("NAMES = ['b', \"c\"]", None, None),
        ("", "b", ("b",)),
        ("", " b ", ("b",)),
        ("", "b,c", ("b", "c")),
        ("", "x b\tc", ("b", "c")),
        ("", '["b", "c"]', ("b", "c")),
        ("", '{"ranker": "c"}', ("c",)),
        ("", "bc", None),
        ("'b'", "c", ("c",)),
        (REQUEST + "'b'", "c", ("b", "c")),
        (REQUEST, None, ("b", "c")),
        (REQUEST + "'b'", None, ("b",)),
        (REQUEST, "c", ("c",)),
        ("from triton_python_backend_utils import InferenceRequest as R", None, ("b", "c")),
        ("# InferenceRequest", None, None),
        ('"""Receives a list of pb_utils.InferenceRequest."""', None, None),
    ],
)
def test_traces(
    source: str, parameter: str | None, calls: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """A whole string of a model that makes requests, or an item of a parameter, is a name.

    Requests without a name may go to all.
    """
    python(tmp_path, "a", source, parameter)
    python(python(tmp_path, "b"), "c")
    assert read_repository(tmp_path, "a").calls.get("a") == calls


def test_steps_are_not_taken_for_called_models(tmp_path: Path) -> None:
    """A model that may call anything calls what is no ensemble's step."""
    python(tmp_path, "a", REQUEST)
    python(python(ensemble(tmp_path, "e", "b"), "b"), "c")
    assert read_repository(tmp_path, "a").calls == {"a": ("c", "e")}


def test_names_that_are_put_together(tmp_path: Path) -> None:
    """What nobody else needs is called by the only model that calls others; it is the entry."""
    python(tmp_path, "a", calling("pre") + "NAME = f'part_{number}'\n")
    python(python(tmp_path, "pre", calling("table")), "table")
    python(python(tmp_path, "part_0"), "part_1")
    repository = read_repository(tmp_path)
    assert repository.entry.name == "a"
    assert repository.calls == {"a": ("part_0", "part_1", "pre"), "pre": ("table",)}
    assert read_repository(tmp_path, "a").calls["a"] == ("pre",)  # somebody says what is meant
    python(tmp_path, "z", calling("part_0"))
    with pytest.raises(RepositoryUnusable, match=r"in `parameters` of its config"):
        read_repository(tmp_path)


def test_an_ensemble_beside_a_caller_is_not_called(tmp_path: Path) -> None:
    """An ensemble that nobody needs is meant itself."""
    python(python(ensemble(tmp_path, "e", "s"), "s"), "a", calling("s"))
    assert read_repository(tmp_path, "a").calls == {"a": ("s",)}


def test_models_of_other_backends_call_nothing(tmp_path: Path) -> None:
    """Python files beside a model of another backend are its data."""
    python(python(tmp_path, "a", calling("b")), "b")
    (tmp_path / "a/config.pbtxt").write_text(f'backend: "pytorch" {TENSORS}')
    assert read_repository(tmp_path, "a").calls == {}


def test_files_beside_the_model_count(tmp_path: Path) -> None:
    """Names may stand in any .py file of the served version, in packages too, and nowhere else."""
    python(python(python(tmp_path, "a", REQUEST), "b"), "c")
    (tmp_path / "a/1/package/inner").mkdir(parents=True)
    (tmp_path / "a/1/package/inner/names.py").write_text("'b'")
    (tmp_path / "a/1/names.txt").write_text("'c'")
    (tmp_path / "a/0").mkdir()
    (tmp_path / "a/0/model.py").write_text("'c'")
    assert read_repository(tmp_path, "a").calls == {"a": ("b",)}


@pytest.mark.parametrize("place", ["common/calling.py", "calling.py", "a/calling.py", "a/x/y.py"])
def test_modules_that_make_the_requests(place: str, tmp_path: Path) -> None:
    """Where a module beside the model or the models does, strings of the model's files are names.

    What lies beside all models is no reason that each may call anything.
    """
    python(tmp_path, "a", "from calling import call\ncall('b')")
    python(python(tmp_path, "b", "'no name'"), "c")
    assert read_repository(tmp_path, "a").calls == {}
    (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / place).write_text(f"NAMES = ['c']\n{REQUEST}")
    calls = ("b", "c") if place.startswith("a/") else ("b",)
    assert read_repository(tmp_path, "a").calls == {"a": calls}


def test_names_put_together_for_a_module_beside(tmp_path: Path) -> None:
    """The only caller calls the rest, whoever makes its requests."""
    python(tmp_path, "a", "call('b'), call(f'part_{k}')")
    python(python(tmp_path, "b"), "part_1")
    (tmp_path / "calling.py").write_text(REQUEST)
    assert read_repository(tmp_path).calls == {"a": ("b", "part_1")}


def test_opened_for_appending(tmp_path: Path) -> None:
    """The mode of a file is no call of the sibling that has its name: both stand side by side."""
    python(tmp_path, "logs", 'with open("log.txt", "a") as file:\n    file.write("b")\n')
    python(python(tmp_path, "a"), "b")
    repository = read_repository(tmp_path, "logs")
    assert repository.calls == {}
    plan = plan_archive(repository, None, Namespace("m"))
    assert (plan.triton_names, plan.called) == (("m",), ())


# --- what archives may hold


HOSTILE = {
    "no python": b"def (:\n 'b'",
    "null bytes": b"'b'\0",
    "no utf-8": b"x = '\xff'",
    "unknown encoding": b"# coding: nowhere\n'b'",
    "deep brackets": b"(" * 100_000 + b")" * 100_000,
    "deep calls": b"x" + b"(x" * 50_000,
    "deep minus": b"-" * 100_000 + b"1",
    "deep sum": b"1" + b"+1" * 50_000,
    "deep attributes": b"x" + b".a" * 50_000,
    "deep not": b"not " * 50_000 + b"x",
    "many elifs": b"if x: pass\n" + b"elif x: pass\n" * 20_000,
    "deep indent": b"".join(b" " * n + b"if x:\n" for n in range(500)),
    "lambdas": b"lambda: " * 30_000 + b"1",
    "f-strings": b'f"{' * 1000 + b"x",
    "large number": b"x = " + b"9" * 200_000,
    "too large": b"'b'\n" + b"#" * MAX_FILE_BYTES,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_hostile_files(name: str, tmp_path: Path) -> None:
    """What is no program of a plausible size says nothing, and takes nothing but a moment."""
    (tmp_path / "model.py").write_bytes(HOSTILE[name])
    (tmp_path / "other.py").write_bytes(b"'c'")
    started = time.process_time()
    assert read_python_files(tmp_path) == PythonFiles(frozenset({"c"}))
    assert time.process_time() - started < 10


def test_many_files(tmp_path: Path) -> None:
    """All files together are bounded in bytes and in number; those at the top come first."""
    line = b"# " + b"-" * (MAX_FILE_BYTES - 100) + b"\n"
    for number in range(MAX_BYTES // MAX_FILE_BYTES + 2):
        (tmp_path / f"f{number}.py").write_bytes(line + b"'n%d'" % number)
    found = read_python_files(tmp_path).strings
    assert found == {f"n{number}" for number in range(MAX_BYTES // MAX_FILE_BYTES)}


@pytest.mark.slow
def test_many_entries(tmp_path: Path) -> None:
    """Directories without end are not walked to their end."""
    (tmp_path / "model.py").write_text("'b'")
    (tmp_path / "data").mkdir()
    for number in range(MAX_ENTRIES):
        (tmp_path / f"data/{number}").touch()
    (tmp_path / "data/late").mkdir()
    (tmp_path / "data/late/names.py").write_text("'c'")
    assert read_python_files(tmp_path).strings == {"b"}


def test_links_and_what_is_no_file(tmp_path: Path) -> None:
    """Links to directories are not followed, pipes are not opened, a file may be a link."""
    (tmp_path / "version").mkdir()
    (tmp_path / "elsewhere.py").write_text("'b'")
    (tmp_path / "version/model.py").symlink_to(tmp_path / "elsewhere.py")
    (tmp_path / "version/loop").symlink_to(tmp_path)
    (tmp_path / "version/gone.py").symlink_to(tmp_path / "nowhere.py")
    os.mkfifo(tmp_path / "version/pipe.py")
    assert read_python_files(tmp_path / "version").strings == {"b"}
    assert read_python_files(tmp_path / "nowhere") == PythonFiles()


def test_long_strings_are_no_names(tmp_path: Path) -> None:
    """What could not be a directory's name is not kept."""
    (tmp_path / "model.py").write_text(f"'{'x' * 256}', '{'y' * 255}', b'z', 1")
    assert read_python_files(tmp_path).strings == {"y" * 255}


# --- what is loaded, and in which order


def order(root: Path, entry: str | None = None) -> tuple[list[str], list[str]]:
    """The names of the models of a plan, and those that are called, in their order."""
    repository = read_repository(root, entry)
    models = gather_steps([repository.entry], repository.models, repository.calls)
    called = find_called_by_name(models, repository.calls)
    return [model.name for model in models], list(called)


def test_called_models_come_first(tmp_path: Path) -> None:
    """Everything that is reached through steps and calls, each model after what it needs."""
    python(tmp_path, "top", calling("e"))
    python(ensemble(tmp_path, "e", "first", "second"), "first")
    python(python(tmp_path, "second", calling("lookup")), "lookup")
    assert order(tmp_path) == (["first", "lookup", "second", "e", "top"], ["lookup", "e"])


def test_calls_in_a_circle(tmp_path: Path) -> None:
    """Models may name each other; the way back is no reason to refuse them."""
    python(python(tmp_path, "a", calling("b")), "b", calling("c"))
    python(tmp_path, "c", calling("b", "a"))
    assert order(tmp_path, "a") == (["c", "b", "a"], ["c", "b"])


def test_a_step_names_its_ensemble(tmp_path: Path) -> None:
    """An ensemble's own step that names it does not make it a called model."""
    python(python(ensemble(tmp_path, "e", "a", "b"), "a"), "b", calling("e"))
    assert order(tmp_path) == (["a", "b", "e"], [])
    assert order(tmp_path, "b") == (["a", "e", "b"], ["e"])


def test_ensembles_in_a_circle_are_refused(tmp_path: Path) -> None:
    """Calls do not hide an ensemble that contains itself."""
    python(tmp_path, "top", calling("e"))
    ensemble(ensemble(tmp_path, "e", "f"), "f", "e")
    with pytest.raises(EnsembleInvalid, match="contains itself"):
        order(tmp_path, "top")


# --- which one is meant


def test_entry_model(tmp_path: Path) -> None:
    """The only model that no other one calls is meant, also over ensembles, at any depth."""
    python(python(python(tmp_path, "a", calling("b", "c")), "b"), "c", calling("b"))
    assert read_repository(tmp_path).entry.name == "a"
    ensemble(tmp_path, "e", "c")
    assert read_repository(tmp_path).entry.name == "e"  # an ensemble that nothing calls
    python(tmp_path, "over", calling("e"))
    assert read_repository(tmp_path).entry.name == "over"
    ensemble(tmp_path, "whole", "over")
    assert read_repository(tmp_path).entry.name == "whole"


@pytest.mark.parametrize("sources", [("", ""), (calling("b"), calling("a")), (REQUEST, REQUEST)])
def test_no_entry_model(sources: tuple[str, str], tmp_path: Path) -> None:
    """Models beside each other, or models that call each other: nothing says which is meant."""
    python(python(tmp_path, "a", sources[0]), "b", sources[1])
    with pytest.raises(RepositoryUnusable, match="one python model that calls the others by name"):
        read_repository(tmp_path)


def test_a_stray_caller_beside_an_ensemble(tmp_path: Path) -> None:
    """A model that calls a step does not take the ensemble's place."""
    python(python(ensemble(tmp_path, "e", "s"), "s"), "stray", calling("s"))
    assert read_repository(tmp_path).entry.name == "e"


# --- what is published


def test_published(tmp_path: Path) -> None:
    """A generated file runs each version of a model; what there is beside it is the archive's."""
    source = python(python(tmp_path / "archive", "top", calling("plus")), "plus")
    (source / "top/2").mkdir()
    (source / "top/2/model.py").write_text(calling("plus"))
    (source / "top/3").mkdir()
    (source / "top/3/data").touch()
    (source / "top/config.pbtxt").write_text(
        f"{PYTHON} version_policy {{ specific {{ versions: 2 }} }}"
    )
    serving = tmp_path / "serving"
    serving.mkdir()
    plan = plan_archive(read_repository(source, "top"), None, Namespace("m.1"))
    assert (plan.entry, plan.called) == ("m=_1", ("m=_1.plus",))
    publish(plan, serving)
    for place in ("m=_1/1", "m=_1/2", "m=_1.plus/1"):
        generated = serving / place / "model.py"
        assert not generated.is_symlink()
        assert [path.name for path in generated.parent.iterdir()] == ["model.py"]
        assert generated.read_text().splitlines()[-5:] == [
            "_NAMES = {'plus': 'm=_1.plus', 'top': 'm=_1'}",
            "_LAYOUT = '../../m=_1/.archive'",
            f"_MODEL = 'm=_1/{'plus' if 'plus' in place else 'top'}'",
            f"_ARCHIVE = {str(source)!r}",
            "_Delivered(_LAYOUT, _MODEL, _ARCHIVE, _NAMES).run()",
        ]
    assert {path.name for path in (serving / "m=_1/3").iterdir()} == {"data"}
    assert (serving / "m=_1/.archive/m=_1/plus/1/model.py").readlink().is_relative_to(source)
    assert (source / "top/1/model.py").read_text() == calling("plus")


def test_named_file(tmp_path: Path) -> None:
    """The file that default_model_filename names is the one that is run."""
    source = python(python(tmp_path, "top", "'not this'"), "plus")
    (source / "top/1/mine.py").write_text(calling("plus"))
    (source / "top/config.pbtxt").write_text(f'{PYTHON} default_model_filename: "mine.py"')
    plan = plan_archive(read_repository(source, "top"), None, Namespace("m"))
    (top,) = (model for model in plan.models if model.triton_name == "m")
    assert top.own_code is not None
    assert top.own_code.files == ("1/mine.py",)


CHAINS = {
    "attributes": "x" + ".b" * 170_000,
    "calls": "x" + "()" * 250_000,
    "items": "x" + "[0]" * 170_000,
    "sums": "1" + "+1" * 250_000,
    "types": "x:" + "a|" * 200_000 + "b",
    "inside of a text": "f'{x" + ".b" * 170_000 + "}'",
    "behind an escaped quote": '"""\\\\"""; x' + ".b" * 170_000 + '; """ """',
    "in another encoding": "# coding: utf-7\nx" + "+AC4-b" * 80_000,
    "in another encoding, said late": "#!python\n# vim: set fileencoding=utf-7 :\n" + "x" * 90_000,
    "behind brackets": "(" * 50 + "x" + ".b" * 170_000 + ")" * 50,
}


@pytest.mark.parametrize("chain", CHAINS)
def test_expressions_that_end_a_parser(chain: str, tmp_path: Path) -> None:
    """Python 3.10's ends the process at some 100,000 links of a chain: it is not given them."""
    (tmp_path / "model.py").write_text(CHAINS[chain])
    assert python_files.is_chained((tmp_path / "model.py").read_bytes())
    assert read_python_files(tmp_path) == PythonFiles()


@pytest.mark.parametrize(
    "source",
    [
        "t = [" + "'a', " * 60_000 + "]",
        "t = {" + "'a': -1.5e-3,\n" * 20_000 + "}",
        "x = a.b.c(d)[0] + 1\n" * 15_000,
        "# " + "a.b " * 50_000,
        "# -*- coding: UTF-8 -*-\n" + "x = 1\n" * 15_000,
        "'''" + "a.b.c\\'" * 40_000 + "'''",
    ],
    ids=["a list", "a dict", "a program", "a comment", "an encoding", "a text"],
)
def test_tables_are_no_chains(source: str) -> None:
    """What people write, however long, is read."""
    assert len(source) > 2 * python_files.MAX_CHAIN
    assert not python_files.is_chained(source.encode())
