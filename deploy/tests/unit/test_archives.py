"""Archives: the names that mean them, which go, which a command line names, how parts are sent."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from deploy.tests.support.odd_aws import RawBody
from merlin_deploy.account import Account
from merlin_deploy.archives.aliases import (
    MOST_TARGETS,
    Aliases,
    ArchiveStore,
    is_put,
    make_target_model,
    parse_aliases,
    require_target,
    write_aliases,
)
from merlin_deploy.archives.bucket import Standing, Stored, find_prunable, has_archive, make_rows
from merlin_deploy.archives.put import PART, PackedArchive, upload
from merlin_deploy.archives.sources import find_sources
from merlin_deploy.errors import Refused

WHERE = "s3://bucket/shop/aliases.json"


def test_what_a_name_meant_is_kept_from_new_to_old() -> None:
    """As many as the table holds; what is put again is not there twice."""
    aliases = Aliases({"other": ("other/0",)})
    for number in range(MOST_TARGETS + 2):
        aliases = aliases.with_target("shop-a", f"shop-a/{number}")
    newest = MOST_TARGETS + 1
    assert aliases.targets["shop-a"] == tuple(f"shop-a/{it}" for it in range(newest, 1, -1))
    again = aliases.with_target("shop-a", "shop-a/5")
    assert again.targets["shop-a"][:2] == ("shop-a/5", f"shop-a/{newest}")
    assert len(set(again.targets["shop-a"])) == MOST_TARGETS
    assert again.find("other") == "other/0"


def test_a_name_goes_back_until_there_is_nothing_before() -> None:
    aliases = Aliases({"shop-a": ("shop-a/2", "shop-a/1")})
    assert aliases.find_former("shop-a") == "shop-a/1"
    back = aliases.with_former("shop-a")
    assert (back.find("shop-a"), back.find_former("shop-a")) == ("shop-a/1", None)
    assert back.mentioned == {"shop-a/1"}


def test_a_table_is_read_as_it_was_written() -> None:
    """Equal tables are equal bytes, whichever name came first."""
    aliases = Aliases({"b": ("b/1",), "a": ("a/2", "a/1")})
    assert parse_aliases(write_aliases(aliases), WHERE) == aliases
    other = Aliases(dict(reversed(list(aliases.targets.items()))))
    assert write_aliases(other) == write_aliases(aliases)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (b"{", "Expecting property name"),
        (b"\xff", "can't decode byte"),
        (b"[]", "list indices must be"),
        (b'{"version": 2, "aliases": {}}', "its version is 2"),
        (b'{"version": 1}', "'aliases'"),
        (b'{"version": 1, "aliases": {"a": "a/1"}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"a": []}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"a": [' + b'"a",' * 1000 + b'"b"]}}', "a has 1001 archives"),
        (b'{"version": 1, "aliases": {"a": [1]}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"a": ["a/../b/1"]}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"a": ["\\ud800"]}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"a": ["a\\n"]}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"\\u001b[2J": ["a/1"]}}', "'\\x1b[2J' is no name"),
        (b'{"version": 1, "aliases": {"' + b"a" * 5000 + b'": ["a/1"]}}', "…' is no name"),
    ],
)
def test_what_is_no_table_is_refused(written: bytes, why: str) -> None:
    with pytest.raises(Refused, match="is no table of aliases as `put` writes it") as refused:
        parse_aliases(written, WHERE)
    assert str(refused.value).startswith(WHERE)
    assert why in str(refused.value)


def test_names_are_told_as_far_as_there_is_room() -> None:
    """A table may have thousands."""
    aliases = Aliases({f"n{number:04}": ("t",) for number in range(1000)})
    with pytest.raises(Refused, match=r"there are: n0000, n0001, .*, n0019, and 980 more; `put"):
        require_target(aliases, "c", ArchiveStore("bucket", "shop/"))


def test_a_name_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(Refused, match="there are: a, b; `put CONFIG"):
        require_target(
            Aliases({"b": ("b/1",), "a": ("a/1",)}), "c", ArchiveStore("bucket", "shop/")
        )


def test_places_of_put_are_known_from_others() -> None:
    target = make_target_model("shop-a", "0123456789abcdef" * 4)
    assert target == "shop-a/0123456789abcdef.tar.gz"
    assert is_put(target)
    others = ("shop-a/1.tar.gz", "0123456789abcdef.tar.gz", f"x/{target}", f"{target}.old")
    assert not any(map(is_put, others))


NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
DAY = timedelta(days=1)
TARGET = "shop-a/0123456789abcdef.tar.gz"
NAMED = Aliases({"shop-a": ("shop-a/now", TARGET)})


def stored(age: timedelta, target: str = TARGET) -> dict[str, Stored]:
    """One archive of 7 bytes, by its place."""
    return {target: Stored(target, 7, NOW - age)}


@pytest.mark.parametrize(
    ("age", "aliases", "size", "is_there"),
    [
        (timedelta(minutes=59), Aliases(), 7, True),
        (timedelta(minutes=61), Aliases(), 7, False),
        (timedelta(days=400), NAMED, 7, True),
        (timedelta(), NAMED, 8, False),
    ],
)
def test_what_may_be_removed_meanwhile_is_sent_again(
    age: timedelta, aliases: Aliases, size: int, is_there: bool
) -> None:
    """An archive of no name that is old, and one of another size."""
    assert has_archive(stored(age), aliases, TARGET, size, NOW) is is_there
    assert not has_archive({}, aliases, TARGET, size, NOW)


@pytest.mark.parametrize(
    ("age", "aliases", "served", "goes"),
    [
        (DAY, Aliases(), (), True),
        (DAY - timedelta(seconds=1), Aliases(), (), False),
        (DAY, NAMED, (), False),
        (DAY, Aliases(), (TARGET,), False),
    ],
)
def test_only_what_nobody_needs_goes(
    age: timedelta, aliases: Aliases, served: tuple[str, ...], goes: bool
) -> None:
    rows = make_rows(aliases, stored(age), served)
    assert [item.target_model for item in find_prunable(rows, NOW, DAY)] == [TARGET] * goes


def test_what_put_did_not_bring_stays() -> None:
    rows = make_rows(Aliases(), stored(DAY, "shop-a/1.tar.gz"), ())
    assert [row.standing for row in rows] == [Standing.OTHERS]
    assert list(find_prunable(rows, NOW, DAY)) == []


def test_an_archive_that_is_gone_has_a_row() -> None:
    """By names, and of each from new to old."""
    rows = make_rows(NAMED, stored(DAY), ())
    assert [(row.target_model, row.standing, row.stored is None) for row in rows] == [
        ("shop-a/now", Standing.CURRENT, True),
        (TARGET, Standing.FORMER, False),
    ]


def make_export(folder: Path) -> Path:
    """Write an export of one model."""
    (folder / "0_workflow/1").mkdir(parents=True)
    (folder / "0_workflow/config.pbtxt").touch()
    return folder


def names(*paths: Path, name: str | None = None) -> list[str]:
    return [item.name for item in find_sources(paths, name, print)]


def test_a_folder_with_models_is_one_archive(tmp_path: Path) -> None:
    """Called as the folder is, or as is said."""
    export = make_export(tmp_path / "shop-a")
    assert names(export) == ["shop-a"]
    assert names(export, name="shop-b") == ["shop-b"]
    (single,) = find_sources([export / "0_workflow"], "one", print)
    assert single.path == export / "0_workflow"


def test_any_other_folder_is_what_lies_in_it(tmp_path: Path) -> None:
    """Archives, exports, and what has them one level deeper; but for hidden and other files."""
    make_export(tmp_path / "shop-a")
    make_export(tmp_path / "shop-b/model")
    for file in ("shop-c.tar.gz", "shop-d.tgz", "notes.txt", ".hidden.tar.gz"):
        (tmp_path / file).touch()
    (tmp_path / "__pycache__").mkdir()
    make_export(tmp_path / "__shop")
    said: list[str] = []
    found = find_sources([tmp_path], None, said.append)
    assert said == [f"{tmp_path}: left out, as names of archives end in .tar.gz: notes.txt"]
    assert [item.name for item in found] == ["__shop", "shop-a", "shop-b", "shop-c", "shop-d"]
    assert [item.is_folder for item in found] == [True, True, True, False, False]


def test_a_bare_model_is_one_archive(tmp_path: Path) -> None:
    """A folder of a model's file alone, or of a SavedModel's; not where archives lie beside it."""
    (tmp_path / "ranker/variables").mkdir(parents=True)
    (tmp_path / "ranker/saved_model.pb").touch()
    assert names(tmp_path / "ranker") == ["ranker"]
    (tmp_path / "model.onnx").touch()
    (tmp_path / "shop-a.tar.gz").touch()
    assert names(tmp_path) == ["ranker", "shop-a"]


@pytest.mark.parametrize("name", ["b.tar", "x.zip", "y.tar.bz2", "z.7z"])
def test_an_archive_of_another_kind_is_told(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Left out beside others, and named where nothing else is there."""
    (tmp_path / name).touch()
    with pytest.raises(Refused, match=rf"neither models nor archives in it \({name}\), expected"):
        find_sources([tmp_path], None, print)
    for number in range(12):
        (tmp_path / f"n{number:02}").touch()
    (tmp_path / "a.tar.gz").touch()
    assert names(tmp_path) == ["a"]
    assert capsys.readouterr().out.endswith(" and 3 more\n")


def test_here_is_called_as_the_folder_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = make_export(tmp_path / "shop-a")
    monkeypatch.chdir(export)
    assert names(Path(".")) == ["shop-a"]
    monkeypatch.chdir(export / "0_workflow")
    assert names(Path("..")) == ["shop-a"]


@pytest.mark.parametrize(
    "name",
    ["shop_a", "_a", "1.2", "7", "Shop", "shop a", "a+b=c", "-x", "a.", ".a", "$(ls)", "n" * 255],
)
def test_a_name_is_what_target_model_may_begin_with(tmp_path: Path, name: str) -> None:
    """And what a folder in S3 may be called."""
    assert names(make_export(tmp_path / name)) == [name]


@pytest.mark.parametrize(
    "name", ["é", "日本", " a", "a ", "a..b", ".", "..", "a/b", "a\\b", "a\tb", "", "n" * 256]
)
def test_what_no_archive_is_called(tmp_path: Path, name: str) -> None:
    """What TargetModel does not take, or what leads elsewhere."""
    (tmp_path / "a.tar.gz").touch()
    with pytest.raises(Refused, match=r"--as: found .* printable ASCII characters"):
        names(tmp_path / "a.tar.gz", name=name)


def test_all_mistakes_are_told_together(tmp_path: Path) -> None:
    """Nothing there, neither one nor the other, no name for it, one name for two."""
    for name in ("shop é.tar.gz", "x.zip", "xgb.json", "one/a.tar.gz", "two/a.tar.gz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "empty").mkdir()
    given = ("gone", "x.zip", "xgb.json", "empty", "shop é.tar.gz", "one", "two")
    with pytest.raises(Refused) as refused:
        find_sources([tmp_path / name for name in given], None, print)
    missing, file, model, empty, name, twice = str(refused.value).splitlines()
    assert missing == f"{tmp_path}/gone: there is no such file or folder"
    assert file.startswith(f"{tmp_path}/x.zip: found a file, expected an archive")
    assert model.endswith(f"makes an archive of it: tar -C {tmp_path} -czf xgb.tar.gz xgb.json")
    assert empty.startswith(f"{tmp_path}/empty: found neither models nor archives in it")
    assert "as its name found 'shop é', expected 1 to 255 printable ASCII characters" in name
    assert name.endswith("; put it by itself, with --as")
    assert twice.endswith("are both called a; put one of them by itself, with --as")


def test_one_name_is_for_one_archive(tmp_path: Path) -> None:
    for name in ("a.tar.gz", "b.tar.gz"):
        (tmp_path / name).touch()
    with pytest.raises(Refused) as refused:
        names(tmp_path, name="c")
    two = f"{tmp_path}/a.tar.gz and {tmp_path}/b.tar.gz"
    assert str(refused.value) == f"--as c is for one archive; found 2, such as {two}"
    with pytest.raises(
        Refused, match="--as: found 'a/b', expected 1 to 255 printable ASCII characters"
    ):
        names(tmp_path / "a.tar.gz", name="a/b")


class S3:
    """One upload, as S3 takes it. checksums: of its parts, in base64; whole: all bytes."""

    def __init__(self) -> None:
        self.algorithm: str | None = None
        self.checksums: list[str] = []
        self.whole = b""
        self.completed = False

    def answer(self, request: Any, **_: Any) -> AWSResponse:
        """In the place of the network."""
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        if request.method == "PUT":
            self._take_part(headers, _bytes(request.body))
            return _answer(request.url, b"", ETag=f'"{len(self.checksums)}"')
        if request.url.endswith("?uploads"):
            self.algorithm = headers.get("x-amz-checksum-algorithm")
            return _answer(request.url, b"<R><UploadId>u</UploadId></R>")
        said = re.findall(r"<ChecksumCRC32>(.*?)</ChecksumCRC32>", request.body.decode())
        assert said == self.checksums, "each part's checksum must be said"
        self.completed = True
        return _answer(request.url, b"<R><ETag>e</ETag></R>")

    def _take_part(self, headers: dict[str, str], body: bytes) -> None:
        assert self.algorithm == "CRC32", "Checksum Type mismatch occurred, expected: null"
        right = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
        assert headers["x-amz-checksum-crc32"] == right
        self.checksums.append(right)
        self.whole += body


def _answer(url: str, body: bytes, **headers: str) -> AWSResponse:
    return AWSResponse(url, 200, headers, RawBody(body))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _bytes(body: Any) -> bytes:
    return bytes(body) if isinstance(body, (bytes, bytearray)) else bytes(body.read())


def test_parts_have_checksums_as_s3_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The algorithm is said when it begins, each part's checksum with it, and all at the end."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")
    account, s3 = Account("us-east-1", print), S3()
    account.client("s3").meta.events.register("before-send.s3", s3.answer)
    content, file = bytes(PART) + b"the rest", tmp_path / "a.tar.gz"
    file.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    archive = PackedArchive(file, len(content), digest, "a/1.tar.gz", file, {})
    shares: list[float] = []
    upload(account, ArchiveStore("models", "shop/"), archive, lambda _, share: shares.append(share))
    assert s3.completed
    assert s3.whole == content
    assert len(s3.checksums) == 2
    assert shares == [PART / len(content), 1.0]
