"""request: a request that the archive answers, and the call that sends it.

Only the door is here, as in verify.py: what is asked of an archive is made in that room.
"""

from __future__ import annotations

import argparse

NAME, PROGRAM = "request", "verification.making"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """List the command; its own --help tells the rest."""
    commands.add_parser(NAME, help="write a request that the archive answers, and print the call")
