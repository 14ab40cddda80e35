"""The table of rows, and the command line that names them."""

from __future__ import annotations

import pytest

from bench.__main__ import main
from bench.rows import ROWS


def test_rows_have_names_of_their_own() -> None:
    """And say in sentences how they are measured."""
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert all(row.how.endswith(".") and row.title for row in ROWS)


def test_list_names_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started for it."""
    assert main(["--list"]) == 0
    printed = capsys.readouterr().out
    assert all(row.name in printed for row in ROWS)


def test_missing_wrk_is_said_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence with the remedy, and exit code 1."""
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["--short"]) == 1
    assert "apt-get install wrk" in capsys.readouterr().err


def test_unknown_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The names that there are are listed."""
    with pytest.raises(SystemExit) as ended:
        main(["--rows", "no_such_row"])
    assert ended.value.code == 2
    assert "small_json_p50" in capsys.readouterr().err
