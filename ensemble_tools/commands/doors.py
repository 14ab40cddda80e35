"""Commands of rooms above this library, which this process becomes: only their doors are here.

What runs models, or makes requests of them, this library does not know (decision 12).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ensemble_tools.signals import hold

#: Commands -> the programs that they are, and what --help says of them; their own tells the rest.
_DOORS = {
    "verify": (
        "verification",
        "run executor and serving form in one tritonserver and compare every number",
    ),
    "compare": (
        "verification.compare_command",
        "ask two archives the same requests, and tell how alike they recommend",
    ),
    "request": (
        "verification.request_command",
        "write a request that the archive answers, and print the call",
    ),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """List the commands."""
    for name, (_, purpose) in _DOORS.items():
        commands.add_parser(name, help=purpose)


def enter_another_room(command: Sequence[str]) -> None:
    """Become the program of a command that only has its door here; returns for any other one.

    It is isolated if we are, as in images.
    """
    if command and command[0] in _DOORS:
        program, _ = _DOORS[command[0]]
        hold()
        isolated = ["-I"] if sys.flags.isolated else []
        os.execv(sys.executable, [sys.executable, *isolated, "-m", program, *command[1:]])
