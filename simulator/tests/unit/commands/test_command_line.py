"""`python -m simulator`: what is wrong on the command line."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from merlin_simulator.commands.command_line import read_command


def test_an_option_that_the_command_does_not_have(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told beside those that it has."""
    monkeypatch.setattr(sys, "argv", ["simulator", "serve", "--prot", "8090"])
    with pytest.raises(SystemExit) as leaving:
        read_command("simulator")
    assert leaving.value.code == 2
    printed = capsys.readouterr().err
    assert "[--port PORT]" in printed
    assert printed.endswith("simulator serve: error: unrecognized arguments: --prot 8090\n")


@pytest.mark.parametrize("text", ["+8", " 8", "8_0", "٨", "-8", "8.0", ""])
@pytest.mark.parametrize(
    ("command", "option", "expected"),
    [
        ("serve", "--port", "0 to 65535"),
        ("up", "--instances", "a whole number from 1"),
        ("plan", "--seed", "a whole number from 0, of at most 18 digits"),
    ],
)
def test_whole_numbers_are_digits_alone(
    command: str,
    option: str,
    expected: str,
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Python's int() takes more, such as signs and underscores."""
    monkeypatch.setattr(sys, "argv", ["simulator", command, f"{option}={text}"])
    with pytest.raises(SystemExit):
        read_command("simulator")
    assert f"argument {option}: found {text!r}, expected {expected}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("s3://b/p", "s3://b/p is no path; copy it first: aws s3 sync s3://b/p DIR"),
        ("https://host/r.jsonl", "https://host/r.jsonl is no path; download it first"),
        ("", "found "),
    ],
)
def test_an_address_of_a_capture_is_no_path(
    text: str,
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As option of a replay, and as trace of a plan; nor is a text that is empty."""
    plan = tmp_path / "plan.toml"
    plan.write_text(f"[demand]\ntrace = {json.dumps(text)}\n")
    monkeypatch.setattr(sys, "argv", ["simulator", "replay", "--capture", text])
    with pytest.raises(SystemExit, match="2"):
        read_command("simulator")
    assert f"argument --capture: {sentence}" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["simulator", "plan", str(plan)])
    assert read_command("simulator")() != 0
    assert f"demand.trace: {sentence}" in capsys.readouterr().err
