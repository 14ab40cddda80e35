"""verify: executor and serving form side by side in one tritonserver.

Only the door is here. The command runs models, which this library does not: it is a room of its own
above the container (decision 12), and this process becomes that one.
"""

from __future__ import annotations

import argparse

NAME, PROGRAM = "verify", "verification"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """List the command; its own --help tells the rest."""
    commands.add_parser(
        NAME, help="run executor and serving form in one tritonserver and compare every number"
    )
