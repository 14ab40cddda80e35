"""A packed archive becomes a directory that is gone afterwards; what is hostile becomes a sentence."""  # noqa: E501

from __future__ import annotations

import contextlib
import gzip
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ensemble_tools.archive.packed import ExtractionLimits, opened
from ensemble_tools.errors import PackedArchive
from tests.support.examples import examples

SMALL = ExtractionLimits(total_bytes=10_000, members=20, ratio=50.0, ratio_from_bytes=5_000)


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary directories are made: nothing may stay in it."""
    directory = tmp_path / "temporary"
    directory.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(directory))
    yield directory
    assert list(directory.iterdir()) == []


def file(name: str, content: bytes = b"x", mode: int = 0o600) -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    header.size, header.mode = len(content), mode
    return header, content


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header, b""


def packed(
    directory: Path, *members: tuple[tarfile.TarInfo, bytes], name: str = "shop.tar.gz"
) -> Path:
    path = directory / name
    with tarfile.open(path, "w:gz" if name.endswith("gz") else "w") as archive:
        for header, content in members:
            archive.addfile(header, io.BytesIO(content))
    return path


LINK, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE


@pytest.mark.parametrize("name", ["shop.tar.gz", "shop.tar"])
def test_files_directories_and_links(tmp_path: Path, name: str) -> None:
    """They are as they were packed, but for owners and the finer modes."""
    path = packed(
        tmp_path,
        special("./", tarfile.DIRTYPE),
        file("m/1/model.py", b"first"),
        file("m/1/model.py", b"last"),
        file("m/run", mode=0o777),
        special("m/latest", LINK, "1"),
        special("m/again", HARD, "m/1/model.py"),
        name=name,
    )
    with opened(path) as directory:
        assert directory.name == "shop"
        assert (directory / "m/latest/model.py").read_bytes() == b"last"
        assert (directory / "m/again").read_bytes() == b"last"
        assert os.access(directory / "m/run", os.X_OK)
        assert (directory / "m/1/model.py").stat().st_mode & 0o777 == 0o644


def test_a_directory_is_taken_as_it_is(tmp_path: Path) -> None:
    with opened(tmp_path) as directory:
        assert directory == tmp_path


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([special("m", LINK, "/etc")], "absolute path"),
        ([special("m", LINK, "../../etc")], "would link to"),
        ([special("a/b", LINK, ".."), special("c", LINK, "a/b/../..")], "leads to 'a/b/../..'"),
        ([special("m", LINK, "sub"), file("m/x")], "it lies below a link"),
        ([file("m"), file("m/x")], "it lies below a file"),
        ([file("m/x"), file("m")], "it is a directory, too"),
        ([special("m", HARD, "/etc/passwd")], "absolute path"),
        ([special("m", HARD, "gone")], "it is a link to no file before it"),
        ([file("a"), special("l", LINK, "a"), special("m", HARD, "l")], "a link to no file before"),
        ([file("../x")], "outside the destination"),
        ([special("m", tarfile.CHRTYPE)], "is a special file"),
        ([special("m", tarfile.FIFOTYPE)], "is a special file"),
        ([file("d/" * 101 + "x")], "it lies too deep"),
        ([file(str(number)) for number in range(21)], "it has more than 20 members"),
        ([file("zeros", bytes(9_000))], "it takes more than"),
        ([file(f"{n}", os.urandom(6_000)) for n in range(2)], "it takes more than 10000 bytes"),
        ([file("n" * 2_000_000)], "a member's headers take more than 1048576 bytes"),
        ([], "there are no files in it"),
    ],
)
def test_what_is_refused(
    tmp_path: Path, members: list[tuple[tarfile.TarInfo, bytes]], said: str
) -> None:
    """In one sentence that names the archive; and nothing is written outside of it."""
    path = packed(tmp_path, *members)
    with pytest.raises(PackedArchive) as refused, opened(path, SMALL):
        pass
    sentence = str(refused.value)
    assert sentence.startswith(f"{path}: ")
    assert said in sentence
    assert str(tmp_path / "temporary") not in sentence
    assert "\n" not in sentence
    assert len(sentence) < 1000
    assert {one.name for one in tmp_path.iterdir()} == {"shop.tar.gz", "temporary"}


@pytest.mark.parametrize("fault", ["cut off", "no checksum", "header", "text", "empty", "zip"])
def test_damaged_archives(tmp_path: Path, fault: str) -> None:
    """Half of an archive is none, also where tarfile takes a damaged header for its end."""
    path = packed(tmp_path, file("a", os.urandom(900)), file("b", os.urandom(900)))
    content = path.read_bytes()
    tar = bytearray(gzip.decompress(content))
    tar[512 * 3 + 5] ^= 255
    damaged = {
        "cut off": content[:1200],
        "no checksum": content[:-6],
        "header": gzip.compress(bytes(tar)),
        "text": b"hello\n" * 200,
        "empty": b"",
        "zip": b"PK\x03\x04" * 200,
    }
    path.write_bytes(damaged[fault])
    with pytest.raises(PackedArchive, match=r"damaged|no archive"), opened(path):
        pass


def header(kind: bytes, content: bytes, name: str = "x") -> bytes:
    """One, and what it says of the next, in blocks."""
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content)
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def record(key: str, value: str) -> bytes:
    """Of an extended header: its own length stands before it."""
    rest = len(f" {key}={value}\n")
    length = next(n for n in range(rest, rest + 9) if len(str(n)) + rest == n)
    return f"{length} {key}={value}\n".encode()


_SPARSE = record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0")
_HOLES = b"3000000\n" + b"1\n" * 3_000_000


@pytest.mark.parametrize(
    "headers",
    [
        header(tarfile.XGLTYPE, record("a", "b")) * 3000,
        header(tarfile.XHDTYPE, record("a", "b")) * 1100,
        header(tarfile.GNUTYPE_LONGNAME, b"name\0") * 1100,
        header(tarfile.XHDTYPE, _SPARSE) + header(tarfile.REGTYPE, _HOLES),
        header(tarfile.XHDTYPE, _SPARSE) + header(tarfile.REGTYPE, b"2\n1\n"),
        header(tarfile.XHDTYPE, record("path", "a\0b")),
        header(tarfile.XHDTYPE, record("size", "-1")),
        header(tarfile.XHDTYPE, record("size", "9" * 30)),
        header(tarfile.XGLTYPE, b"".join(record(f"key{n}", "v") for n in range(101))),
    ],
    ids=["global", "extended", "names", "holes", "few holes", "NUL", "less", "endless", "keys"],
)
def test_headers_that_are_read_within_each_other(tmp_path: Path, headers: bytes) -> None:
    """However many, and whatever tarfile makes of them: one sentence, soon, and no memory."""
    path = tmp_path / "shop.tar.gz"
    path.write_bytes(gzip.compress(headers + header(tarfile.REGTYPE, b"abc") + bytes(1024)))
    with pytest.raises(PackedArchive), opened(path):
        pass


def test_headers_that_archives_have(tmp_path: Path) -> None:
    """A comment of all members, as git writes it, and a file larger than headers may be."""
    content = os.urandom(3_000_000)
    path = tmp_path / "shop.tar"
    path.write_bytes(
        header(tarfile.XGLTYPE, record("comment", "c" * 40))
        + header(tarfile.XHDTYPE, record("path", "d/" + "n" * 200))
        + header(tarfile.REGTYPE, content)
        + bytes(1024)
    )
    with opened(path) as directory:
        assert (directory / "d" / ("n" * 200)).read_bytes() == content


@settings(
    max_examples=examples(200),
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.binary(max_size=512), st.binary(max_size=1500))
def test_random_blocks_with_good_checksums(block: bytes, rest: bytes) -> None:
    """They come out below their directory or are refused; nothing else is raised."""
    start = bytearray(block.ljust(512, b"\0"))
    start[148:156] = b" " * 8
    start[148:156] = b"%06o\0 " % sum(start)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "shop.tar")
        path.write_bytes(bytes(start) + rest.ljust(1536, b"\0") + bytes(1024))
        with contextlib.suppress(PackedArchive, OSError), opened(path):
            pass
        assert [one.name for one in Path(place).iterdir()] == ["shop.tar"]
