"""`explain`, `pack` and `verify` of several archives: each by itself, and a table at the end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ensemble_tools import __main__ as command
from ensemble_tools.commands.several import Row, summarize_in_lines
from verification.__main__ import main as verify

EXAMPLES = Path(__file__).parents[4] / "examples"
DENSE, SESSION = (EXAMPLES / f"merlin/{name}/repository" for name in ("dense", "session"))
VISION = EXAMPLES / "vision/repository"


def run(*words: object) -> int:
    return command.main([str(word) for word in words])


@pytest.fixture
def exports(tmp_path: Path) -> list[Path]:
    """Two that can be served, and one between them that cannot be read."""
    for name, source in (("a", DENSE), ("c", SESSION)):
        shutil.copytree(source, tmp_path / "in" / name)
    (tmp_path / "in/b").mkdir()
    return sorted((tmp_path / "in").iterdir())


def test_each_is_explained(exports: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """One that fails does not stop the others; the exit code is the worst."""
    assert run("explain", *exports) == command.REFUSED
    said = capsys.readouterr()
    assert said.out.count("\narchive      ") + said.out.startswith("archive      ") == 2
    count, head, *rows = said.out.splitlines()[-5:]
    assert count == "3 archives: 2 well, 1 not"
    assert head.split() == ["ARCHIVE", "RESULT", "WHY"]
    assert [row.split()[:2] for row in rows] == [
        [str(exports[0]), "pure"],
        [str(exports[1]), "failed"],
        [str(exports[2]), "pure"],
    ]
    assert "no model directory in it" in rows[1]
    first, _, error, third = said.err.splitlines()
    assert (first, third) == (f"[1 of 3] {exports[0]}", f"[3 of 3] {exports[2]}")
    assert error.startswith(f"error: {exports[1]}: no model directory")
    assert run("explain", exports[0], exports[2]) == command.SERVED


def test_json_of_several(
    exports: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One object, in which each archive has what it has alone; a file of it is whole."""
    assert run("explain", exports[0], "--format", "json") == command.SERVED
    alone = json.loads(capsys.readouterr().out)
    assert run("explain", *exports, "-o", tmp_path / "all.json") == command.REFUSED
    found = json.loads((tmp_path / "all.json").read_text())
    assert (found["format"], found["version"]) == ("merlin-sagemaker-explain-several", 1)
    assert found["code"] == command.REFUSED
    good, bad, _ = found["archives"]
    assert good["document"] == alone
    assert (good["code"], good["result"]) == (0, "pure ensemble")
    assert (bad["code"], bad["result"], bad["document"]) == (1, "failed", None)
    assert str(exports[1]) in bad["why"]


@pytest.mark.parametrize("more", [("--format", "png"), ("-o", "x.svg"), ("--format", "mermaid")])
def test_a_picture_shows_one(
    exports: list[Path], more: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as misused:
        run("explain", *exports, *more)
    assert misused.value.code == command.MISUSED
    assert "found 3 paths" in capsys.readouterr().err


def test_each_is_packed(
    exports: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under its own name, with the bytes that it has alone."""
    out = tmp_path / "out"
    out.mkdir()
    assert run("pack", *exports, "-o", out) == command.REFUSED
    count, _, *rows = capsys.readouterr().out.splitlines()[-5:]
    assert count == "3 archives: 2 well, 1 not"
    assert rows[0].endswith(f"{out}/a.tar.gz")
    assert sorted(path.name for path in out.iterdir()) == ["a.tar.gz", "c.tar.gz"]
    assert run("pack", exports[0], "-o", tmp_path / "alone.tar.gz") == command.SERVED
    assert (tmp_path / "alone.tar.gz").read_bytes() == (out / "a.tar.gz").read_bytes()
    assert run("pack", out / "c.tar.gz", "-o", tmp_path) == command.SERVED
    assert (tmp_path / "c.tar.gz").read_bytes() == (out / "c.tar.gz").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("a", "other/a", "-o", "out"),
            "would both be out/a.tar.gz; nothing was written: pack one",
        ),
        (("a", "a.tar.gz", "-o", "out"), "would both be"),
        (("a", "c", "-o", "x.tar.gz"), "expected a directory"),
        (("a", "c", "-o", "x.zip"), "expected a directory"),
        (("a", "c", "-o", "file"), "expected a directory"),
        (("one/repository", "two/repository", "-o", "out"), "name the folders above, one and two"),
        (("a", "c", "-o", "out", "--copies", "2"), "--copies is for one archive"),
    ],
)
def test_nothing_is_packed_over_another(
    words: tuple[str, ...],
    said: str,
    exports: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It is told before any is written."""
    monkeypatch.chdir(exports[0].parent)
    Path("out").mkdir()
    Path("file").touch()
    for name in ("one", "two"):
        shutil.copytree("a", f"{name}/repository")
    with pytest.raises(SystemExit) as misused:
        run("pack", *words)
    assert misused.value.code == command.MISUSED
    assert said in capsys.readouterr().err
    assert not list(Path("out").iterdir())


def test_a_directory_is_made_for_several(exports: list[Path], tmp_path: Path) -> None:
    """But not inside of what is packed."""
    assert run("pack", exports[0], exports[2], "-o", tmp_path / "new/er") == command.SERVED
    assert sorted(path.name for path in (tmp_path / "new/er").iterdir()) == ["a.tar.gz", "c.tar.gz"]
    assert run("pack", exports[0], exports[2], "-o", exports[2] / "new") == command.REFUSED
    assert not (exports[2] / "new").exists()


def test_notes_reach_the_table(exports: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """An archive that goes well with a note is counted, and the note is in its line."""
    (exports[0] / "words.txt").touch()
    assert run("explain", exports[0], exports[2]) == command.SERVED
    count, _, noted, other = capsys.readouterr().out.splitlines()[-4:]
    assert count == "2 archives: 2 well (1 with notes), 0 not"
    assert "  note: beside the models there is words.txt" in noted
    assert "note:" not in other
    run("explain", exports[0], exports[2], "--format", "json")
    first, second = json.loads(capsys.readouterr().out)["archives"]
    assert first["notes"] == first["document"]["notes"]
    assert second["notes"] == []
    run("pack", exports[0], exports[2], "-o", exports[1])
    assert "(1 with notes)" in capsys.readouterr().out


def test_a_folder_of_archives_is_not_one(
    exports: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The sentence names what lies in it, and how all of them are given."""
    (exports[0].parent / "d.tar.gz").touch()
    folder = exports[0].parent
    for name in ("explain", "pack", "rewrite"):
        assert run(name, folder, *{"pack": ("-o", "x.tgz"), "rewrite": ("x",)}.get(name, ())) == 1
        assert (
            f"{folder}: it is a folder of 3 archives (a, c, d.tar.gz); expected one of them, such "
            f"as {folder}/a; explain, verify and pack take several: {folder}/*"
        ) in capsys.readouterr().err


@pytest.mark.parametrize("name", ["explain", "pack", "rewrite"])
def test_nothing_is_there(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A packed archive is taken as well, and the sentence says so."""
    more = {"pack": ("-o", "x.tgz"), "rewrite": ("x",)}.get(name, ())
    assert run(name, tmp_path / "gone", *more) == command.REFUSED
    assert (
        "gone: there is no such file or directory; expected an archive: a directory, or its "
        in (capsys.readouterr().err)
    )


def test_each_is_verified(exports: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Here none needs a tritonserver: nothing is there to compare, or to read."""
    assert verify([str(exports[1]), str(VISION)]) == 1
    *_, count, _, bad, good = capsys.readouterr().out.splitlines()
    assert count == "2 archives: 1 well, 1 not"
    assert bad.split()[:2] == [str(exports[1]), "failed"]
    assert "nothing to compare" in good
    assert verify([str(VISION), str(VISION), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["format"] == "merlin-sagemaker-verify-several"
    assert [it["document"] for it in found["archives"]] == [None, None]


def test_a_reason_takes_one_line_of_the_table() -> None:
    """However long it is, and whatever is in it."""
    rows = [Row("a", 1, "failed", "one\ntwo \x1b[2J" + "w" * 1000)]
    *_, line = summarize_in_lines(rows)
    assert line.startswith("a        failed  one two \\x1b[2Jwww")
    assert len(line) < 440
