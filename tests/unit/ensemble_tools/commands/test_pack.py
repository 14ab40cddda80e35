"""`pack`: archives that SageMaker takes, equal for equal input, and nothing left on failure."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ensemble_tools import __main__ as command
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.commands.pack import pack
from ensemble_tools.packing.layout import find_packed_tree
from ensemble_tools.packing.source_tree import is_litter
from tests.support.examples import examples

ROOT = Path(__file__).parents[4]
DENSE = ROOT / "examples/merlin/dense/repository"
TENSORS = (
    'input { name: "i" data_type: TYPE_FP32 dims: 1 } '
    'output { name: "o" data_type: TYPE_FP32 dims: 1 }'
)


def model(directory: Path, name: str = "") -> Path:
    """A python model in this directory."""
    (directory / "1").mkdir(parents=True)
    (directory / "1/model.py").write_text("pass")
    declared = f'name: "{name}" ' if name else ""
    (directory / "config.pbtxt").write_text(f'{declared}backend: "python" {TENSORS}')
    return directory


def packed(source: Path, output: Path, *more: str) -> list[tarfile.TarInfo]:
    assert command.main(["pack", str(source), "-o", str(output), *more]) == command.SERVED
    with tarfile.open(output) as archive:
        return archive.getmembers()


def names(members: list[tarfile.TarInfo]) -> list[str]:
    return [member.name for member in members]


def test_members_say_nothing_of_the_machine(tmp_path: Path) -> None:
    """Sorted, relative, of nobody, at no time, plain files and directories alone."""
    members = packed(DENSE, tmp_path / "a.tar.gz")
    assert names(members) == sorted(names(members), key=lambda name: name.split("/"))
    for member in members:
        assert not member.name.startswith(("/", "./", ".."))
        assert (member.uid, member.gid, member.uname, member.gname, member.mtime) == (
            0,
            0,
            "",
            "",
            0,
        )
        assert member.isreg() or member.isdir()
        assert member.mode == (0o755 if member.isdir() else 0o644)
    assert (tmp_path / "a.tar.gz").read_bytes()[4:8] == b"\0\0\0\0"  # gzip's own time


def test_unpacked_is_explained_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What comes out of the archive is what went in."""
    packed(DENSE, tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        archive.extractall(tmp_path / "out", filter="data")
    capsys.readouterr()
    printed = []
    for path in (DENSE, tmp_path / "out"):
        assert command.main(["explain", str(path)]) == command.SERVED
        printed.append(capsys.readouterr().out.replace(str(path), ""))
    assert printed[0] == printed[1]


contents = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=30).filter(
        lambda name: name not in (".", "..") and len(name.encode()) < 200
    ),
    st.binary(max_size=200),
    max_size=5,
)


@settings(max_examples=examples(30))
@given(contents)
def test_equal_input_gives_equal_bytes(
    tmp_path_factory: pytest.TempPathFactory, found: dict[str, bytes]
) -> None:
    """Two copies, made in another order, at another time and with other rights, are one archive."""
    root = tmp_path_factory.mktemp("twice")
    archives = []
    for number, order in enumerate((list(found), list(reversed(found)))):
        version = model(root / str(number) / "m") / "1"
        for name in order:
            (version / name).write_bytes(found[name])
            os.utime(version / name, (number, number))
            (version / name).chmod(0o600 if number else 0o640)
        output = root / f"{number}.tar.gz"
        pack(find_packed_tree(root / str(number)), [output])
        archives.append(output.read_bytes())
    assert archives[0] == archives[1]
    with tarfile.open(root / "0.tar.gz") as archive:
        for name, content in found.items():
            if not is_litter(name):
                member = archive.extractfile(f"m/1/{name}")
                assert member is not None
                assert member.read() == content
    shutil.rmtree(root)


def test_one_model_gets_its_directory(tmp_path: Path) -> None:
    """A model whose files are the top comes under its own name, as AWS's container wants it."""
    members = packed(model(tmp_path / "any", "ranker"), tmp_path / "a.tar.gz")
    assert names(members)[:3] == ["ranker", "ranker/1", "ranker/1/model.py"]


def test_extra_directory_goes(tmp_path: Path) -> None:
    """One directory around the models is dropped; what lies beside them stays."""
    model(tmp_path / "top/inner/m")
    (tmp_path / "top/inner/shared.txt").touch()
    members = packed(tmp_path / "top", tmp_path / "a.tar.gz")
    assert names(members) == ["m", "m/1", "m/1/model.py", "m/config.pbtxt", "shared.txt"]


CLICK = TENSORS.replace('"i"', '"item"')


@pytest.mark.parametrize(
    ("tensors", "found"),
    [
        (TENSORS, ""),
        (TENSORS + ' output { name: "more" data_type: TYPE_FP32 dims: 1 }', ""),
        (CLICK, "it has no input i, which the model has"),
        (
            TENSORS.replace("FP32", "FP64", 1),
            "its input i is FP64 of 1 dimensions, and the model's",
        ),
        (
            TENSORS.replace("dims: 1 }", "dims: [ 1, 1 ] }", 1),
            "its input i is FP32 of 2 dimensions",
        ),
        (
            TENSORS + ' input { name: "j" data_type: TYPE_FP32 dims: 1 }',
            "it needs an input j, which",
        ),
        ("", "is missing"),
    ],
)
def test_candidates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tensors: str, found: str
) -> None:
    """An archive's candidate is packed with it if it can be asked the same; explain tells of it."""
    model(tmp_path / "top/m")
    config = model(tmp_path / "top/candidate/n") / "config.pbtxt"
    config.write_text(config.read_text().replace(TENSORS, tensors))
    code = command.main(["pack", str(tmp_path / "top"), "-o", str(tmp_path / "a.tar.gz")])
    said = capsys.readouterr().err
    assert command.main(["explain", str(tmp_path / "top")]) == command.SERVED
    explained = capsys.readouterr().out
    if not found:
        assert code == command.SERVED
        with tarfile.open(tmp_path / "a.tar.gz") as archive:
            assert "candidate/n/1/model.py" in archive.getnames()
        assert "candidate    served beside it, asked a sample: as delivered" in explained
    else:
        assert code == command.REFUSED
        assert found in said
        assert f"candidate    refused: {tmp_path}/top/candidate" in explained
        assert not (tmp_path / "a.tar.gz").exists()


def test_litter_is_left_out_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What macOS, Python and git leave behind is not shipped; a dot alone makes no litter."""
    version = model(tmp_path / "top/m") / "1"
    for name in ("__pycache__", ".git", "__MACOSX"):
        (version / name).mkdir()
        (version / name / "x").touch()
    for name in (".DS_Store", "._model.py", ".needed"):
        (version / name).touch()
    members = packed(tmp_path / "top", tmp_path / "a.tar.gz")
    assert names(members) == ["m", "m/1", "m/1/.needed", "m/1/model.py", "m/config.pbtxt"]
    printed = "left out: m/1/.DS_Store, m/1/._model.py, m/1/.git, m/1/__MACOSX, m/1/__pycache__\n"
    assert printed in capsys.readouterr().out


def test_links_inside_become_files(tmp_path: Path) -> None:
    """A link to a file or directory of the archive is archived as what it leads to."""
    version = model(tmp_path / "top/m") / "1"
    (tmp_path / "top/shared").mkdir()
    (tmp_path / "top/shared/weights").write_text("w")
    (version / "weights").symlink_to("../../shared/weights")
    (version / "all").symlink_to(tmp_path / "top/shared")
    members = packed(tmp_path / "top", tmp_path / "a.tar.gz")
    assert {"m/1/weights", "m/1/all", "m/1/all/weights"} <= set(names(members))
    assert all(member.isreg() or member.isdir() for member in members)


@pytest.mark.parametrize("target", ["/etc/passwd", "../../../outside", "nowhere", "."])
def test_bad_links_are_refused(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link out of the archive, to nowhere or in a circle is named; nothing is written."""
    version = model(tmp_path / "top/m") / "1"
    (tmp_path / "outside").touch()
    (version / "link").symlink_to(target)
    out = tmp_path / "out"
    out.mkdir()
    assert command.main(["pack", str(tmp_path / "top"), "-o", str(out / "a.tar.gz")]) == 1
    assert "/link: " in capsys.readouterr().err
    assert list(out.iterdir()) == []


def test_a_link_that_leads_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The container passes over it where nothing reads it; nothing can be packed in its place."""
    (model(tmp_path / "top/m") / "1/link").symlink_to("nowhere")
    read_repository(tmp_path / "top")
    arguments = ["pack", str(tmp_path / "top"), "-o", str(tmp_path / "a.tar.gz")]
    assert command.main([*arguments, "--no-check"]) == 1
    assert "it is a link that leads nowhere" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["pack", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "one that leads nowhere is refused, though the container would mind it only" in printed


def test_special_files_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A named pipe would hang the packer; it is named instead."""
    os.mkfifo(model(tmp_path / "top/m") / "1/pipe")
    assert command.main(["pack", str(tmp_path / "top"), "-o", str(tmp_path / "a.tar.gz")]) == 1
    assert "pipe: it is a named pipe" in capsys.readouterr().err


def test_checked_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What could not be served is not packed, unless that is asked for."""
    source = tmp_path / "top"
    (source / "m/1").mkdir(parents=True)
    (source / "m/config.pbtxt").write_text('backend: "python"')
    output = tmp_path / "a.tar.gz"
    assert command.main(["pack", str(source), "-o", str(output)]) == command.REFUSED
    assert "config.pbtxt" in capsys.readouterr().err
    assert not output.exists()
    assert names(packed(source, output, "--no-check")) == ["m", "m/1", "m/config.pbtxt"]


def test_category_files_are_read_as_a_load_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that nothing can read would fail at each request."""
    source = Path(shutil.copytree(ROOT / "examples/merlin/dense/repository", tmp_path / "dense"))
    broken = next(source.rglob("unique.item_id.parquet"))
    os.truncate(broken, 100)
    output = tmp_path / "a.tar.gz"
    assert command.main(["pack", str(source), "-o", str(output)]) == command.REFUSED
    assert f"{broken}: cannot be read" in capsys.readouterr().err
    assert not output.exists()


def test_copies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Copies are files of their own with equal bytes; sizes are told, no bar on a pipe."""
    output = tmp_path / "shop.tar.gz"
    assert command.main(["pack", str(DENSE), "-o", str(output), "--copies", "12"]) == 0
    archives = sorted(tmp_path.iterdir())
    assert [path.name for path in archives] == [f"shop-{number:03}.tar.gz" for number in range(12)]
    assert len({path.read_bytes() for path in archives}) == 1
    assert len({path.stat().st_ino for path in archives}) == 12
    captured = capsys.readouterr()
    assert "12 archives" in captured.out
    assert captured.err == ""


def test_older_archive_stays_until_the_new_one_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fills up leaves the older file, and no hidden one beside it."""
    output = tmp_path / "a.tar.gz"
    output.write_text("older")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(gzip.GzipFile, "write", full)
    assert command.main(["pack", str(DENSE), "-o", str(output)]) == command.REFUSED
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]
    assert output.read_text() == "older"
