"""The shelf of objects' bytes: what stays, what goes, and files that are none of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from merlin_simulator.control.persistence.s3_objects import PIECE, Fresh, Shelf, open_mapped
from merlin_simulator.errors import PlatformFailed


def _record(fresh: Fresh) -> dict[str, Any]:
    return {"bytes": fresh.path.name, "size": len(fresh)}


def test_bytes_stay_until_their_record_is_replaced(tmp_path: Path) -> None:
    """A process that is killed between the two leaves the old object whole."""
    shelf = Shelf(tmp_path, keeps=True)
    old, new = shelf.write([b"old"]), shelf.write([b"new"])
    shelf.put("bucket", "key", _record(old))
    shelf.drop(old.path)
    assert old.path.read_bytes() == b"old"
    shelf.put("bucket", "key", _record(new))
    assert not old.path.exists()
    assert new.path.read_bytes() == b"new"
    shelf.drop(new.path)
    shelf.remove("bucket", "key")
    assert not new.path.exists()


def test_without_records_bytes_go_at_once(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, keeps=False)
    fresh = shelf.write([b"x"])
    shelf.put("bucket", "key", _record(fresh))
    shelf.drop(fresh.path)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))


def test_what_was_being_written_is_swept(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, keeps=True)
    kept = shelf.write([b"kept"])
    shelf.put("bucket", "key", _record(kept))
    shelf.write([b"never named"])
    again = Shelf(tmp_path, keeps=True)
    assert [(record["key"], fresh.path) for record, fresh in again.restore()] == [
        ("key", kept.path)
    ]
    again.sweep()
    assert list((tmp_path / "bytes").iterdir()) == [kept.path]


def test_long_names_do_not_meet(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, keeps=True)
    keys = {"x" * 1000 + end for end in "ab"}
    for key in keys:
        shelf.put("bucket", key, _record(shelf.write([key.encode()])))
    again = Shelf(tmp_path, keeps=True)
    assert {record["key"] for record, _ in again.restore()} == keys


def test_a_file_is_read_in_pieces(tmp_path: Path) -> None:
    body = bytes(range(256)) * (PIECE // 64)
    mapped = open_mapped(Shelf(tmp_path, keeps=False).write([body]).path)
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
    shelf = Shelf(tmp_path, keeps=True)
    shelf.put("bucket", "key", _record(shelf.write([b"x"])))
    path = tmp_path / "objects/bucket/key.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(PlatformFailed, match=f"{path} holds no object of this simulator"):
        list(Shelf(tmp_path, keeps=True).restore())
