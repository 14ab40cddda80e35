"""Archives of copies, and the questions that belong to them."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from merlin_simulator.replay.asking import (
    NamedAsking,
    RepeatedAsking,
    find_difference,
    read_expected,
)
from merlin_simulator.replay.copies import (
    NAMED_MODEL,
    find_source_models,
    make_asking,
    make_names,
    write_archive,
    write_copies,
)
from merlin_simulator.replay.settings import UnusableModel


def files_of(archive: Path) -> dict[str, bytes]:
    """Read as a stream, which takes one gzip member only."""
    with tarfile.open(archive, "r|gz") as tar:
        read = ((entry.name, tar.extractfile(entry)) for entry in tar if entry.isfile())
        return {name: file.read() for name, file in read if file}


def export(folder: Path, weights: bytes, expected: object = None) -> Path:
    """An export with its request."""
    version = folder / "repository/net/1"
    version.mkdir(parents=True)
    (version / "weights.bin").write_bytes(weights)
    (version.parent / "config.pbtxt").write_text('backend: "python"\n')
    (folder / "request.json").write_text('{"inputs": []}')
    if expected is not None:
        (folder / "expected.json").write_text(json.dumps(expected))
    return folder


def answer(*outputs: tuple[str, object]) -> bytes:
    return json.dumps(
        {"outputs": [{"name": n, "datatype": "FP32", "shape": [1], "data": d} for n, d in outputs]}
    ).encode()


def test_names_sort_by_rank() -> None:
    """Names are distinct and as long as the last one, so that they sort by rank."""
    names = make_names(1000)
    assert names[0] == "model-0001"
    assert names[-1] == "model-1000"
    assert list(names) == sorted(set(names))


def test_each_named_copy_has_its_name(tmp_path: Path) -> None:
    """N archives, alike but for the name in them."""
    names = make_names(12)
    told: list[int] = []
    write_copies(names, (), tmp_path, told.append)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{n}.tar.gz" for n in names]
    assert told == [1] * 12
    for name in names:
        found = files_of(tmp_path / f"{name}.tar.gz")
        assert found.pop("named/1/name.txt") == name.encode()
        assert found == {
            "named/config.pbtxt": (NAMED_MODEL / "config.pbtxt").read_bytes(),
            "named/1/model.py": (NAMED_MODEL / "1/model.py").read_bytes(),
        }


@pytest.mark.parametrize("size", [0, 1, 511, 512, 100_000])
def test_an_archive_is_one_gzip_member(tmp_path: Path, size: int) -> None:
    """Its checksum and size are those of the whole: gzip and tar of the system take it."""
    (tmp_path / "in").mkdir()
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    (tmp_path / "in/common.bin").write_bytes(content)
    archive = tmp_path / "archive.tar.gz"
    write_archive(archive, tmp_path / "in", "a/", {"a/own.txt": b"mine"})
    subprocess.run(["gzip", "-t", archive], check=True)
    listed = subprocess.run(["tar", "-tzf", archive], check=True, capture_output=True, text=True)
    assert listed.stdout.split() == ["a/common.bin", "a/own.txt"]
    assert files_of(archive) == {"a/common.bin": content, "a/own.txt": b"mine"}


def test_a_folder_is_packed_without_owner_time_or_cache(tmp_path: Path) -> None:
    """The same content is the same archive, whoever packs it and when; links are files."""
    folder = tmp_path / "in"
    (folder / "net/__pycache__").mkdir(parents=True)
    (folder / "net/__pycache__/x.pyc").write_bytes(b"x")
    (folder / "net/weights").write_bytes(b"w")
    (folder / "net/link").symlink_to("weights")
    write_archive(tmp_path / "one.tar.gz", folder)
    (folder / "net/weights").touch()
    write_archive(tmp_path / "two.tar.gz", folder)
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    assert files_of(tmp_path / "one.tar.gz") == {"net/link": b"w", "net/weights": b"w"}
    with tarfile.open(tmp_path / "one.tar.gz") as tar:
        entries = tar.getmembers()
    assert {(entry.mtime, entry.uid, entry.uname) for entry in entries} == {(0, 0, "")}


def test_copies_take_turns_with_the_exports(tmp_path: Path) -> None:
    """With two exports every other archive has the same content, and is asked its request."""
    for name, weights in (("a", b"1"), ("b", b"2")):
        export(tmp_path / "in" / name, weights)
    sources = find_source_models(tmp_path / "in", None)
    (tmp_path / "out").mkdir()
    names = make_names(5)
    write_copies(names, sources, tmp_path / "out", lambda count: None)
    found = [files_of(tmp_path / f"out/{name}.tar.gz")["net/1/weights.bin"] for name in names]
    assert found == [b"1", b"2", b"1", b"2", b"1"]


def test_exports_as_they_are_written_take_turns(tmp_path: Path) -> None:
    """Of folders side by side each that has models is one: in repository/, at its top, or with one
    directory around them. request.json lies in each, or beside them for the rest."""
    folder = tmp_path / "in"
    export(folder / "a", b"1")
    export(tmp_path / "b", b"2").joinpath("repository").rename(folder / "b")
    (folder / "c").mkdir()
    (tmp_path / "b/request.json").rename(folder / "b/request.json")
    export(tmp_path / "c", b"3").joinpath("repository").rename(folder / "c/model")
    for name in (".hidden/net", "notes", "__pycache__"):
        (folder / name).mkdir(parents=True)
    (folder / ".hidden/net/config.pbtxt").touch()
    (folder / "readme.txt").touch()
    (folder / "request.json").write_text('{"of": "the rest"}')
    sources = find_source_models(folder, None)
    found = [folder / "a/repository", folder / "b", folder / "c"]
    assert [variant.repository for variant in sources] == found
    own: object = {"inputs": []}
    rest: object = {"of": "the rest"}
    assert [json.loads(variant.request) for variant in sources] == [own, own, rest]


@pytest.mark.parametrize("given", ["export", "export/repository", "export/repository/net"])
def test_a_model_folder_is_an_export_or_a_repository_or_a_model(tmp_path: Path, given: str) -> None:
    """request.json is looked for in the export, or beside the folder."""
    folder = export(tmp_path / "export", b"w", {"outputs": [{"name": "Y", "data": [1.0]}]})
    (folder / "repository/request.json").write_text('{"of": "the model"}')
    (one,) = find_source_models(tmp_path / given, None)
    beside_model = given.endswith("net")
    assert one.repository == folder / "repository" / ("net" if beside_model else "")
    expected: object = {"of": "the model"} if beside_model else {"inputs": []}
    assert json.loads(one.request) == expected
    assert (one.expected is None) == beside_model


def test_a_request_given_by_name_is_sent(tmp_path: Path) -> None:
    """--request wins over the file beside the repository, and brings its own expected answer."""
    export(tmp_path / "export", b"w", {"outputs": [{"name": "Y", "data": [1.0]}]})
    (tmp_path / "other.json").write_text("[]")
    (one,) = find_source_models(tmp_path / "export", tmp_path / "other.json")
    assert one.request == b"[]"
    assert one.expected is None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        ("request.json", "no readable file"),
        ("request.json=", "no JSON"),
        ("expected.json={}", "no outputs"),
        ("repository", "expected a Triton model repository"),
    ],
)
def test_an_unusable_folder_is_refused(tmp_path: Path, spoil: str, said: str) -> None:
    """What is missing or wrong is named, before anything is started."""
    folder = export(tmp_path / "export", b"w")
    name, wrong, content = spoil.partition("=")
    if wrong:
        (folder / name).write_text(content)
    else:
        (folder / name).rename(tmp_path / "gone")
    with pytest.raises(UnusableModel, match=said):
        find_source_models(folder, None)


def test_a_named_answer_must_be_the_models_and_the_requests() -> None:
    """Another model's name, another request's ids and anything else are told apart."""
    asking = NamedAsking(["model-1", "model-2"])
    assert json.loads(asking.request(1, 7)[0])["inputs"][0]["data"] == [7, 1]
    right = answer(("NAME", ["model-2"]), ("ECHO", [7, 1]))
    assert asking.fault(1, 7, right) is None
    assert "model-1" in str(asking.fault(0, 7, right))
    assert "[7, 1]" in str(asking.fault(1, 8, right))
    assert "expected outputs" in str(asking.fault(1, 7, b"<html>"))


def test_an_answer_is_compared_with_the_expected_one_or_the_first() -> None:
    """Rounding is no difference; another value is, and each model has its own first answer."""
    asking = RepeatedAsking([b"{}"] * 3, {0: read_expected(answer(("Y", [1.0])).decode())})
    assert asking.fault(0, 0, answer(("Y", [1.00001]))) is None
    assert "Y[0]: found 2.0" in str(asking.fault(0, 1, answer(("Y", [2.0]))))
    assert asking.fault(1, 2, answer(("Y", [2.0]))) is None
    assert asking.fault(1, 3, answer(("Y", [2.0]))) is None
    assert asking.fault(1, 4, answer(("Y", [1.0]))) is not None
    assert asking.fault(2, 5, answer(("Y", [1.0]))) is None


DRAWN = (
    '{"outputs": [{"name": "ids", "datatype": "INT32", "data": [7, 8, 9]}, '
    '{"name": "scores", "datatype": "FP32", "data": [0.5, 0.25, 0.125]}], '
    '"drawn": {"best": "ids", "how": "scores"}}'
)


@pytest.mark.parametrize(
    ("ids", "scores", "said"),
    [
        ([9, 7], [0.125, 0.5000001], None),
        ([7, 7], [0.5, 0.5], "best, how[1]: found (7, 0.5), expected one of those drawn"),
        ([7], [0.25], "best, how[0]: found (7, 0.25), expected one of those drawn"),
        ([6], [0.5], "best, how[0]: found (6, 0.5)"),
        ([7, 8], [0.5], "best, how: found [2, 1] values, expected as many of each"),
    ],
)
def test_an_answer_that_is_drawn(ids: list[int], scores: list[float], said: str | None) -> None:
    """Values that stand together stand together in what they are drawn of, each once."""
    expected = read_expected(DRAWN)
    outputs: dict[str, dict[str, object]] = {
        "best": {"datatype": "INT32", "shape": [1, len(ids)], "data": ids},
        "how": {"datatype": "FP32", "shape": [1, len(scores)], "data": scores},
    }
    found = expected.find_fault(outputs)
    assert found is None if said is None else said in str(found)
    outputs["best"]["datatype"] = "INT64"
    assert "best: found datatype INT64, expected INT32" in str(expected.find_fault(outputs))
    del outputs["how"]
    assert "expected how too" in str(expected.find_fault(outputs))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"data": [], "shape": [0]}, "best: found [] with shape [0], expected values"),
        ({"data": [7], "shape": [9]}, "best: found 1 values, expected those of its shape [9]"),
        ({"shape": [1]}, "best: found None with shape [1], expected values"),
    ],
)
def test_a_drawn_answer_without_values(wrong: dict[str, object], said: str) -> None:
    """Nothing is no right answer."""
    right = {"datatype": "FP32", "shape": [1], "data": [0.5]}
    found = {"best": {"datatype": "INT32", **wrong}, "how": right}
    assert read_expected(DRAWN).find_fault(found) == said


def test_what_is_beside_what_is_drawn() -> None:
    """It is compared as ever."""
    more = '"outputs": [{"name": "n", "datatype": "INT32", "shape": [1], "data": [3]}, '
    expected = read_expected(DRAWN.replace('"outputs": [', more))
    outputs = {
        "best": {"datatype": "INT32", "shape": [1], "data": [7]},
        "how": {"datatype": "FP32", "shape": [1], "data": [0.5]},
        "n": {"datatype": "INT32", "shape": [1], "data": [4]},
    }
    assert "n[0]: found 4, expected 3" in str(expected.find_fault(outputs))


def test_drawn_of_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="drawn names what is no output"):
        read_expected(DRAWN.replace('"scores"}}', '"score"}}'))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, "Y too"),
        ({"Y": {"datatype": "FP64", "shape": [1], "data": [1.0]}}, "datatype"),
        ({"Y": {"datatype": "FP32", "shape": [2], "data": [1.0]}}, "shape"),
        ({"Y": {"datatype": "FP32", "shape": [1], "data": [1.0, 2.0]}}, "2 values"),
        ({"Y": {"datatype": "FP32", "shape": [1], "data": ["x"]}}, "found x"),
        ({"Y": {"datatype": "FP32", "shape": [1], "data": [float("nan")]}}, "nan"),
    ],
)
def test_every_kind_of_difference_is_one(found: dict[str, object], said: str) -> None:
    """Outputs, types, shapes, counts and values."""
    right = read_expected(answer(("Y", [1.0])).decode()).outputs
    assert said in str(find_difference(found, right))
    assert find_difference(right, right) is None


def test_without_a_model_the_named_one_is_asked() -> None:
    """The way of asking fits what is in the archives."""
    assert isinstance(make_asking(make_names(2), ()), NamedAsking)
