"""An archive becomes a folder below `into`, whole, or nothing anywhere."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from merlin_simulator.archives.extraction import NotExtractable, extract
from merlin_simulator.errors import PlatformFailed
from merlin_simulator.rules import ExtractionLimits
from simulator.tests.unit.archives.disks import going_on
from tests.support.examples import examples

LIMITS = ExtractionLimits(total_bytes=10_000_000, members=1000, ratio=100, ratio_from_bytes=2**20)
Member = tuple[tarfile.TarInfo, bytes]


def member(name: str, data: bytes = b"", **fields: object) -> Member:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Member:
    return member(name, type=kind, linkname=target)


def folder(name: str) -> Member:
    return member(name, type=tarfile.DIRTYPE)


def tar_of(members: Iterable[Member], form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def packed(*members: Member, form: int = tarfile.PAX_FORMAT) -> bytes:
    return gzip.compress(tar_of(members, form), 1)


def tree_of(root: Path) -> dict[str, object]:
    """Every path below root with what it is: bytes, a link's target, or None for a folder."""
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        if path.is_symlink():
            found[str(path.relative_to(root))] = f"-> {os.readlink(path)}"
        else:
            found[str(path.relative_to(root))] = None if path.is_dir() else path.read_bytes()
    return found


def extracted(
    where: Path,
    archive: bytes,
    limits: ExtractionLimits = LIMITS,
    cancelled: Callable[[], bool] = going_on,
) -> dict[str, object]:
    """What became of the archive; asserts that on failure nothing is left."""
    file, into = where / "archive", where / "into"
    file.write_bytes(archive)
    try:
        extract(file, into, limits, cancelled)
    except BaseException:
        assert sorted(path.name for path in where.iterdir()) == ["archive"]
        raise
    assert sorted(path.name for path in where.iterdir()) == ["archive", "into"]
    return tree_of(into)


# -- good archives


def test_a_gzipped_tar_becomes_its_tree(tmp_path: Path) -> None:
    """Folders, files, empty ones, and folders that the archive does not name; bytes are counted."""
    file = tmp_path / "archive"
    file.write_bytes(packed(folder("m/"), member("m/1/x", b"abc"), member("./e"), folder("./")))
    assert extract(file, tmp_path / "into", LIMITS, going_on) == 3
    assert tree_of(tmp_path / "into") == {"m": None, "m/1": None, "m/1/x": b"abc", "e": b""}


def test_an_uncompressed_tar_is_taken_too(tmp_path: Path) -> None:
    """SageMaker asks for gzip; a plain tar is not mistaken for something broken."""
    assert extracted(tmp_path, tar_of([member("x", b"abc")])) == {"x": b"abc"}


@pytest.mark.parametrize("form", ["gnu", "pax", "ustar", "v7", "oldgnu"])
def test_what_tar_writes_comes_out_the_same(tmp_path: Path, form: str) -> None:
    """Every format of GNU tar: long names, other scripts, links of both kinds, programs."""
    source = tmp_path / "source"
    deep = source / ("d" * 40) / ("e" * 40)
    deep.mkdir(parents=True)
    name = "f" * 80 if form in ("gnu", "pax", "oldgnu") else "f"
    (deep / name).write_bytes(os.urandom(3_000_000))
    (source / "Straße-模").write_bytes(b"umlaut")
    os.link(deep / name, source / "hard")
    (source / "soft").symlink_to(f"{'d' * 40}/../run")
    (source / "run").write_bytes(b"#!/bin/sh\n")
    (source / "run").chmod(0o700)
    command = ["tar", f"--format={form}", "-czf", str(tmp_path / "t"), "-C", str(source), "."]
    subprocess.run(command, check=True)
    archive = (tmp_path / "t").read_bytes()
    expected = tree_of(source)
    (tmp_path / "t").unlink()
    shutil.rmtree(source)
    assert extracted(tmp_path, archive) == expected


def test_modes_are_sane_and_owners_are_ours(tmp_path: Path) -> None:
    """Folders 0755, programs 0755, files 0644, whatever the archive, the umask or setuid say."""
    before = os.umask(0o077)
    try:
        extracted(
            tmp_path,
            packed(
                member("d", type=tarfile.DIRTYPE, mode=0),
                member("f", mode=0o000, uid=12345),
                member("s", mode=0o6777),
                member("w", mode=0o666),
            ),
        )
    finally:
        os.umask(before)
    found = {path.name: path.lstat() for path in [tmp_path / "into", *tmp_path.glob("into/*")]}
    modes = {name: stat.S_IMODE(seen.st_mode) for name, seen in found.items()}
    assert modes == {"into": 0o755, "d": 0o755, "f": 0o644, "s": 0o755, "w": 0o644}
    assert {seen.st_uid for seen in found.values()} == {os.getuid()}


def test_the_last_of_two_members_of_a_name_wins(tmp_path: Path) -> None:
    """As tar has it; a hard link to the first keeps what it had."""
    first = [member("x", b"one"), link("hard", "x", tarfile.LNKTYPE), link("y", "x")]
    then = [member("x", b"two"), member("y", b"file"), folder("d"), folder("d/")]
    assert extracted(tmp_path, packed(*first, *then)) == {
        "x": b"two",
        "hard": b"one",
        "y": b"file",
        "d": None,
    }


def test_links_that_stay_inside_are_kept(tmp_path: Path) -> None:
    """Chained, before their target, dangling, to the top: as long as they end inside."""
    links = [link("a", "b"), link("b", "d/c"), link("d/c", "../x"), link("d/up", "..")]
    found = extracted(tmp_path, packed(*links, link("none", "d/none"), member("x", b"1")))
    assert found["a"] == "-> b"
    assert (tmp_path / "into" / "a").read_bytes() == b"1"


def test_several_gzip_members_and_padding_are_one_stream(tmp_path: Path) -> None:
    """As pigz and tapes write them."""
    tar = tar_of([member("x", b"abc" * 1000)])
    archive = gzip.compress(tar[:700]) + gzip.compress(tar[700:]) + b"\0" * 100
    assert extracted(tmp_path, archive) == {"x": b"abc" * 1000}


def test_a_missing_end_marker_is_excused_by_gzips_checksum_only(tmp_path: Path) -> None:
    """A plain tar without one may be cut off; a gzip'd one is whole."""
    bare = tar_of([member("x", b"abc")])[:1024]
    assert extracted(tmp_path, gzip.compress(bare)) == {"x": b"abc"}
    shutil.rmtree(tmp_path / "into")
    with pytest.raises(NotExtractable, match="cut off"):
        extracted(tmp_path, bare)


# -- refused archives

OUTSIDE = [
    ([member("/etc/x")], "absolute"),
    ([member("../x")], "parent folder"),
    ([member("a/../../x")], "parent folder"),
    ([folder("../d")], "parent folder"),
    ([link("l", "/etc/passwd")], "outside"),
    ([link("l", "../x")], "outside"),
    ([link("d/l", "../../archive")], "outside"),
    ([link("d/l", "../..")], "outside"),
    ([link("d/l", "..//.././into/x")], "outside"),
    # Each link's own text stays inside; together they lead out.
    ([link("d/e/up", ".."), link("d/out", "e/up/../../archive")], "outside"),
    ([folder("a"), link("a/b", ".."), link("c", "a/b/a/b/../archive")], "outside"),
    ([link("l", "d"), folder("d"), member("l/x", b"1")], "below what is no folder"),
    ([member("x"), member("x/y")], "below what is no folder"),
    ([link("l", "."), folder("l")], "below what is no folder"),
    ([folder("d"), member("d", b"1")], "both a folder"),
    ([folder("d"), link("d", ".")], "both a folder"),
    ([link("h", "/etc/passwd", tarfile.LNKTYPE)], "absolute"),
    ([link("h", "../archive", tarfile.LNKTYPE)], "parent folder"),
    ([link("h", "none", tarfile.LNKTYPE)], "no file before it"),
    ([folder("d"), link("h", "d", tarfile.LNKTYPE)], "no file before it"),
    ([link("l", "../x"), link("h", "l", tarfile.LNKTYPE)], "no file before it"),
    ([member("c", type=tarfile.CHRTYPE)], "a character device"),
    ([member("b", type=tarfile.BLKTYPE)], "a block device"),
    ([member("p", type=tarfile.FIFOTYPE)], "a named pipe"),
    ([member("u", type=b"Z")], "of the type b'Z'"),
    ([member("s", type=tarfile.GNUTYPE_SPARSE)], "sparse"),
    ([member("n" * 300)], "File name too long"),
    ([member("d/" * 99 + "x" * 250 + "/y" * 2)], "more than 100 folders"),
    ([member(("d" * 200 + "/") * 30 + "x")], "File name too long"),
    ([link("l", "t/" * 2500)], "File name too long"),
    ([link("l", "")], "target ''"),
    ([link("l", f"d/{'é' * 128}")], "name that no file can have"),
    ([member(".")], "without a name"),
    ([], "no files"),
]


@pytest.mark.parametrize(("members", "found"), OUTSIDE, ids=[found for _, found in OUTSIDE])
def test_hostile_members_are_refused_and_nothing_is_left(
    tmp_path: Path, members: list[Member], found: str
) -> None:
    """The reason names the member and what is wrong with it, in one printable sentence."""
    with pytest.raises(NotExtractable, match=found) as refused:
        extracted(tmp_path, packed(*members))
    assert str(refused.value).isprintable()


def test_an_absolute_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    """Also to a file of the archive itself: the container sees the folder at another path."""
    inside = link("l", str(tmp_path / "into" / "x"))
    with pytest.raises(NotExtractable, match="outside"):
        extracted(tmp_path, packed(member("x"), inside))


def pax(**records: str) -> Member:
    """A member x with these pax records."""
    return member(
        "x", b"abc", pax_headers={key.replace("__", "."): v for key, v in records.items()}
    )


@pytest.mark.parametrize(
    ("records", "found"),
    [
        ({"path": "../x"}, "parent folder"),
        ({"path": "a\0b"}, "NUL"),
        ({"size": "-1"}, "has the size '-1'"),
        ({"size": "9" * 30}, "has the size"),
        ({"size": str(10**15)}, "more than"),
        ({"GNU__sparse__major": "1", "GNU__sparse__realsize": str(10**15)}, "sparse"),
        ({"comment": "c" * 2_000_000}, "extended header of"),
    ],
)
def test_extended_headers_are_believed_only_so_far(
    tmp_path: Path, records: dict[str, str], found: str
) -> None:
    """A name, size or hole given by a pax header is checked as one in the member's own."""
    with pytest.raises(NotExtractable, match=found):
        extracted(tmp_path, packed(pax(**records)))


@pytest.mark.parametrize("record", [b"x", b"5 a=b", b"0 a=b\n", b"99 a=b\n", b"3 \n", b"-6 a=b\n"])
def test_damaged_extended_headers_are_refused(tmp_path: Path, record: bytes) -> None:
    """None of them is guessed at, and none is read for ever."""
    header = member("h", record, type=tarfile.XHDTYPE)
    with pytest.raises(NotExtractable, match="extended headers is damaged"):
        extracted(tmp_path, packed(header, member("x")))


def test_what_is_no_archive_is_told_for_what_it_is(tmp_path: Path) -> None:
    """Users upload zips, and pages of errors that they took for archives."""
    for content, found in [
        (b"", "empty"),
        (b"PK\3\4" + b"\0" * 2000, "a zip file"),
        (b"BZh9" + b"\0" * 2000, "bzip2"),
        (b"<html>" * 500, "no tar archive"),
        (b"short", "no archive"),
        (gzip.compress(b"<html>" * 500, mtime=0), "no tar archive"),
        (gzip.compress(b"", mtime=0), "no files"),
        (b"\0" * 10240, "no files"),
        (b"\x1f\x8b", "cut off"),
        (b"\x1f\x8bjunkjunkjunk", "damaged"),
    ]:
        with pytest.raises(NotExtractable, match=found):
            extracted(tmp_path, content)


def test_a_cut_or_lengthened_gzip_is_refused(tmp_path: Path) -> None:
    """Also where all files were there: the checksum behind them was not."""
    archive = packed(member("x", os.urandom(100_000)))
    for length in (20, len(archive) // 2, len(archive) - 9, len(archive) - 1):
        with pytest.raises(NotExtractable, match="cut off"):
            extracted(tmp_path, archive[:length])
    with pytest.raises(NotExtractable, match="damaged"):
        extracted(tmp_path, archive + b"garbage")


def test_a_damaged_header_in_the_middle_is_not_the_end(tmp_path: Path) -> None:
    """tarfile would take it for the archive's end, and the files behind it would be missing."""
    tar = bytearray(tar_of([member("x", b"abc"), member("y", b"def")]))
    tar[1024 + 10] ^= 1
    with pytest.raises(NotExtractable, match="headers is damaged"):
        extracted(tmp_path, bytes(tar))


# -- limits


class Watched:
    """A cancelled() that notes how many bytes lay below a folder whenever it was asked."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.most = folder, 0

    def __call__(self) -> bool:
        sizes = (path.lstat().st_size for path in self.folder.rglob("*") if path.is_file())
        self.most = max(self.most, sum(sizes))
        return False


@pytest.mark.parametrize(
    "limits",
    [
        replace(LIMITS, total_bytes=2_000_000),
        replace(LIMITS, ratio=1, ratio_from_bytes=1_500_000),
    ],
)
def test_a_bomb_is_refused_before_it_is_written(tmp_path: Path, limits: ExtractionLimits) -> None:
    """Total size and ratio: never more than the limit lay on the disk."""
    bomb = packed(*(member(f"zeros{i}", b"\0" * 900_000) for i in range(5)))
    watched = Watched(tmp_path / "into")
    with pytest.raises(NotExtractable, match="more than"):
        extracted(tmp_path, bomb, limits, watched)
    assert 900_000 <= watched.most <= 2_000_000


def test_a_size_that_is_only_claimed_is_refused_at_once(tmp_path: Path) -> None:
    """A petabyte in the header is not waited for."""
    info, _ = member("x")
    info.size = 10**15
    archive = gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + b"\0" * 2048)
    with pytest.raises(NotExtractable, match="more than 1048576 bytes"):
        extracted(tmp_path, archive)


@pytest.mark.parametrize("kind", [tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.REGTYPE])
def test_the_number_of_members_is_limited(tmp_path: Path, kind: bytes) -> None:
    """Every kind counts, folders that no member names as well."""
    flat = packed(*(member(f"m{i}", type=kind, linkname="x") for i in range(11)))
    same = packed(*(member("m", type=kind, linkname="x") for i in range(11)))
    deep = packed(member("a/b/c/d/e/f/g/h/i/j/k"))
    limits = replace(LIMITS, members=10)
    for archive in (flat, same, deep):
        with pytest.raises(NotExtractable, match="more than 10 members"):
            extracted(tmp_path, archive, limits)
    assert extracted(tmp_path, packed(member("a/b/c/d/e/f/g/h/i/j")), limits)


def test_what_is_no_file_is_limited_too(tmp_path: Path) -> None:
    """Headers and what follows the tar's end inflate as well as files do."""
    limits = replace(LIMITS, members=10, ratio_from_bytes=1000, ratio=1)
    padding = gzip.compress(tar_of([member("x")]) + b"\0" * 5_000_000)
    with pytest.raises(NotExtractable, match="more than"):
        extracted(tmp_path, padding, limits)


def test_cancelled_it_stops_and_leaves_nothing(tmp_path: Path) -> None:
    """In the middle of a file, too."""
    answers = iter([False] * 4 + [True] * 1000)
    with pytest.raises(PlatformFailed, match="given up"):
        extracted(
            tmp_path, packed(member("x", os.urandom(5_000_000))), LIMITS, lambda: next(answers)
        )


# -- large input spaces

NAMES = st.lists(
    st.sampled_from(["a", "b", "c", "..", ".", "", "into", "archive", "x" * 256, "\0", "é"]),
    max_size=4,
).map("/".join)
#: Regular, hard link, symbolic link (twice as often), folder, named pipe, and V7's file.
KINDS = [b"0", b"1", b"2", b"2", b"5", b"6", b"\0"]
MEMBERS = st.builds(
    lambda name, target, kind, data, mode: member(
        name, data if kind == tarfile.REGTYPE else b"", type=kind, linkname=target, mode=mode
    ),
    NAMES,
    NAMES,
    st.sampled_from(KINDS),
    st.binary(max_size=700),
    st.integers(0, 0o7777),
)
FUZZ = settings(
    max_examples=examples(300),
    suppress_health_check=list(HealthCheck),
    database=None,
)


def attempted(archive: bytes) -> bool:
    """Extract in a guarded place; asserts that nothing beside `into` changed. Whether it came."""
    with TemporaryDirectory() as place:
        guarded = Path(place) / "guarded"
        (guarded / "a" / "b").mkdir(parents=True)
        (guarded / "x").write_bytes(b"untouched")
        (guarded / "archive").write_bytes(archive)
        before, into = tree_of(Path(place)), guarded / "into"
        try:
            extract(guarded / "archive", into, LIMITS, going_on)
        except NotExtractable:
            assert tree_of(Path(place)) == before
            return False
        check_inside(into)
        shutil.rmtree(into)
        assert tree_of(Path(place)) == before
        return True


def check_inside(into: Path) -> None:
    """No link below it ends outside, and nothing but files, folders and links is there."""
    for path in into.rglob("*"):
        assert Path(os.path.realpath(path)).is_relative_to(into)  # a circle ends inside
        mode = path.lstat().st_mode
        assert stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)
        assert stat.S_ISLNK(mode) or not mode & 0o7000


@given(st.lists(MEMBERS, max_size=6), st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
@FUZZ
def test_no_archive_writes_outside(members: list[Member], form: int) -> None:
    """It comes out below its folder, or NotExtractable is raised and the folder is gone."""
    attempted(packed(*members, form=form))


GOOD = tar_of([folder("d"), member("d/f", b"data" * 200), link("l", "d/f"), pax(comment="c")])


@given(st.data(), st.booleans())
@FUZZ
def test_a_damaged_archive_comes_out_or_is_refused(data: st.DataObject, compressed: bool) -> None:
    """Bits flipped and ends cut off raise nothing else; gzip's checksum finds all but a few."""
    archive = bytearray(gzip.compress(GOOD) if compressed else GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        archive[data.draw(st.integers(0, len(archive) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    length = data.draw(st.one_of(st.just(len(archive)), st.integers(0, len(archive))))
    attempted(bytes(archive[:length]))


@given(st.binary(max_size=512), st.binary(max_size=1500))
@FUZZ
def test_random_blocks_with_good_checksums_come_out_or_are_refused(
    block: bytes, rest: bytes
) -> None:
    """The checksum keeps fuzz out of the fields: here it is right."""
    header = bytearray(block.ljust(512, b"\0"))
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    attempted(bytes(header) + rest.ljust(1536, b"\0") + b"\0" * 1024)
