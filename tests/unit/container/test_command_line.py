"""`python -m container`: what is wrong on the command line."""

from __future__ import annotations

import pytest

from container.__main__ import main


def test_an_option_of_serve(capsys: pytest.CaptureFixture[str]) -> None:
    """It has none: the sentence says where settings come from, and where they are listed."""
    with pytest.raises(SystemExit) as leaving:
        main(["serve", "--port", "8090"])
    assert leaving.value.code == 2
    assert capsys.readouterr().err.endswith(
        "error: unrecognized arguments: --port 8090; settings come from environment variables, "
        "which `python -m container settings` lists\n"
    )
