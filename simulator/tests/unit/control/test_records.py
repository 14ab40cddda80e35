"""What is kept, and files among it that somebody else has put there."""

from __future__ import annotations

from pathlib import Path

import pytest

from merlin_simulator.control.records import Records
from merlin_simulator.errors import PlatformFailed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"Name": "a", "Crea', "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "holds no record"),
        ("{}", "lacks Name, Status, so it is none of ours"),
        ('{"Name": "a", "Status": "b", "CreationTime": "noon"}', "has another CreationTime"),
    ],
    ids=["cut", "deep", "list", "empty", "time"],
)
def test_a_file_that_is_no_record_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(PlatformFailed, match=words) as raised:
        Records(tmp_path, "Name", "Status")
    assert f"{tmp_path}/x.json" in str(raised.value)
    assert str(raised.value).endswith("remove it, or name another --state.")
