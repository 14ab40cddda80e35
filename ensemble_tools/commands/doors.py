"""Commands of packages above this library: here are their names, and the process becomes them.

What runs models, or makes requests of them, this library does not know (decision 26).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from ensemble_tools.signals import hold

#: Commands -> the modules that run them, and what --help says of them; their own tells the rest.
_MODULES = {
    "verify": (
        "verification",
        "run executor and serving form in one tritonserver and compare every number",
    ),
    "compare": (
        "verification.compare_command",
        "ask two archives the same requests, and tell how alike they recommend",
    ),
    "drift": (
        "verification.drift_command",
        "tell how far what a container's models are given is from what they were fitted to",
    ),
    "request": (
        "verification.request_command",
        "write a request that the archive answers, and print the call",
    ),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """List the commands."""
    for name, (_, purpose) in _MODULES.items():
        commands.add_parser(name, help=purpose)


def run_other_command(command: Sequence[str]) -> None:
    """Replace this process by a command of another package; return for any other command.

    It is isolated if we are, as in images.
    """
    if command and command[0] in _MODULES:
        module, _ = _MODULES[command[0]]
        hold()
        isolated = ["-I"] if sys.flags.isolated else []
        os.execv(sys.executable, [sys.executable, *isolated, "-m", module, *command[1:]])
