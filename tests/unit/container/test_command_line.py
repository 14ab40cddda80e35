"""`python -m container`: what is wrong on the command line."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from container.__main__ import main
from tests.support.container import ROOT


def test_an_option_of_serve(capsys: pytest.CaptureFixture[str]) -> None:
    """It has none: the sentence says where settings come from, and where they are listed."""
    with pytest.raises(SystemExit) as leaving:
        main(["serve", "--port", "8090"])
    assert leaving.value.code == 2
    assert capsys.readouterr().err.endswith(
        "error: unrecognized arguments: --port 8090; settings come from environment variables, "
        "which `python -m container settings` lists\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_container_listens_to_any(number: signal.Signals) -> None:
    """It has nothing to clear away yet: exit code 0, and not a word."""
    script = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
class Interrupt:
    def find_spec(self, name, *_):
        if name == "container.entrypoint":
            signal.raise_signal({int(number)})
sys.meta_path.insert(0, Interrupt())
from container.__main__ import main
from tests.support.container import ROOT
sys.exit(main(["serve"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
