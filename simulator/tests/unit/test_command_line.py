"""`python -m simulator`: what is wrong on the command line."""

from __future__ import annotations

import sys

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
