"""What the stories share."""

from __future__ import annotations

import sys

import pytest

from examples.story import run


def test_a_command_that_does_not_end_ends_the_story() -> None:
    """With one sentence, as one that fails does."""
    command = [sys.executable, "-c", "import signal; signal.pause()"]
    with pytest.raises(SystemExit, match=r"signal\.pause\(\)` did not end within 0\.1 s"):
        run(command, 0.1)
    with pytest.raises(SystemExit, match=r"` ended with 3:\nso"):
        run([sys.executable, "-c", "import sys; print('so'); sys.exit(3)"], 60.0)
