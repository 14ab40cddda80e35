"""The folder of objects' bytes: what stays, what goes, and files that are none of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from merlin_simulator.control.persistence.s3_objects import (
    PIECE,
    ObjectFolder,
    WrittenFile,
    open_mapped,
)
from merlin_simulator.errors import PlatformFailed


def _record(fresh: WrittenFile) -> dict[str, Any]:
    return {"bytes": fresh.path.name, "size": len(fresh)}


def test_bytes_stay_until_their_record_is_replaced(tmp_path: Path) -> None:
    """A process that is killed between the two leaves the old object whole."""
    object_folder = ObjectFolder(tmp_path, keeps=True)
    old, new = object_folder.write([b"old"]), object_folder.write([b"new"])
    object_folder.put("bucket", "key", _record(old))
    object_folder.drop(old.path)
    assert old.path.read_bytes() == b"old"
    object_folder.put("bucket", "key", _record(new))
    assert not old.path.exists()
    assert new.path.read_bytes() == b"new"
    object_folder.drop(new.path)
    object_folder.remove("bucket", "key")
    assert not new.path.exists()


def test_without_records_bytes_go_at_once(tmp_path: Path) -> None:
    object_folder = ObjectFolder(tmp_path, keeps=False)
    fresh = object_folder.write([b"x"])
    object_folder.put("bucket", "key", _record(fresh))
    object_folder.drop(fresh.path)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_what_was_being_written_is_swept(tmp_path: Path) -> None:
    object_folder = ObjectFolder(tmp_path, keeps=True)
    kept = object_folder.write([b"kept"])
    object_folder.put("bucket", "key", _record(kept))
    object_folder.write([b"never named"])
    again = ObjectFolder(tmp_path, keeps=True)
    assert [(record["key"], fresh.path) for record, fresh in again.restore()] == [
        ("key", kept.path)
    ]
    again.sweep()
    assert list((tmp_path / "bytes").iterdir()) == [kept.path]


def test_long_names_do_not_meet(tmp_path: Path) -> None:
    object_folder = ObjectFolder(tmp_path, keeps=True)
    keys = {"x" * 1000 + end for end in "ab"}
    for key in keys:
        object_folder.put("bucket", key, _record(object_folder.write([key.encode()])))
    again = ObjectFolder(tmp_path, keeps=True)
    assert {record["key"] for record, _ in again.restore()} == keys


def test_a_file_is_read_in_pieces(tmp_path: Path) -> None:
    body = bytes(range(256)) * (PIECE // 64)
    mapped = open_mapped(ObjectFolder(tmp_path, keeps=False).write([body]).path)
    assert b"".join(mapped) == body
    assert max(map(len, mapped)) == PIECE
    assert mapped[5:9] == body[5:9]
    window = mapped[7 : PIECE * 3 + 7]
    assert len(window) == PIECE * 3
    assert b"".join(window) == body[7 : PIECE * 3 + 7]


@pytest.mark.parametrize(
    "changed",
    [
        {"bytes": "not-there"},
        {"size": 7},
        {"key": "other"},
        {"bytes": None},
        {"bucket": 1},
    ],
)
def test_a_damaged_record_is_named(tmp_path: Path, changed: dict[str, Any]) -> None:
    object_folder = ObjectFolder(tmp_path, keeps=True)
    object_folder.put("bucket", "key", _record(object_folder.write([b"x"])))
    path = tmp_path / "objects/bucket/key.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(PlatformFailed, match=f"{path} holds no object of this simulator"):
        list(ObjectFolder(tmp_path, keeps=True).restore())
