"""verify: executor and serving form side by side in one tritonserver.

Only the door is here. The command runs models, which this library does not: it is a room of its own
above the container (docs/decisions/0012), and this process becomes that one.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ensemble_tools.signals import hold

NAME = "verify"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """List the command; its own --help tells the rest."""
    commands.add_parser(
        NAME, help="run executor and serving form in one tritonserver and compare every number"
    )


def hand_over(arguments: Sequence[str]) -> None:
    """Become `python -m verification`; does not return."""
    hold()
    os.execv(sys.executable, [sys.executable, "-m", "verification", *arguments])
