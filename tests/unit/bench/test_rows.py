"""The table of rows, and the command line that names them."""

from __future__ import annotations

import pytest

from bench.__main__ import main
from bench.rows import SUITES


@pytest.mark.parametrize("suite", SUITES)
def test_rows_have_names_of_their_own(suite: str) -> None:
    """And say in sentences how they are measured."""
    rows = SUITES[suite].rows
    assert len({row.name for row in rows}) == len(rows)
    assert all(row.how.endswith(".") and row.title for row in rows)


@pytest.mark.parametrize("suite", SUITES)
def test_list_names_every_row(suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is started for it."""
    assert main([suite, "--list"]) == 0
    printed = capsys.readouterr().out
    assert all(row.name in printed for row in SUITES[suite].rows)


def test_the_first_suite_is_measured_where_none_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As before there were others."""
    assert main(["--list"]) == 0
    assert "small_json_p50" in capsys.readouterr().out


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


def test_rows_of_another_suite_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Each suite has its own."""
    with pytest.raises(SystemExit) as ended:
        main(["workflows", "--rows", "small_json_p50"])
    assert ended.value.code == 2
    assert "workflow_dense" in capsys.readouterr().err


def test_a_report_that_cannot_be_written_is_said_before_anything_starts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Half an hour later would be late."""
    assert main(["--rows", "unload", "--out", "/proc/nothing"]) == 1
    assert "--out /proc/nothing: nothing can be written there" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--rounds", "--seconds"])
@pytest.mark.parametrize("value", ["0", "x", "-1", "1001", ""])
def test_numbers_that_are_none(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence says what was expected."""
    with pytest.raises(SystemExit) as ended:
        main([option, value])
    assert ended.value.code == 2
    assert f"{option}: found '{value}', expected a " in capsys.readouterr().err
