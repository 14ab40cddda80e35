"""The command line: which command is asked for, with which options."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from deploy.commands import (
    archives,
    down,
    example,
    invoke,
    policy,
    push,
    put,
    render,
    rollback,
    status,
    up,
)

_DESCRIPTION = """From an export to an autoscaled endpoint of SageMaker. Every command can be called
again: it finishes what was cut off. With AWS_ENDPOINT_URL set to `python -m simulator serve` all of
it runs on this machine."""
#: In the order in which --help lists them.
_COMMANDS = (example, push, put, up, status, invoke, rollback, archives, down, render, policy)


def read_command(program: str) -> Callable[[], int]:
    """What runs the command of this process's arguments and returns its exit code.

    program: the name by which it was called. KeyboardInterrupt comes with what the command leaves.
    """
    parser = argparse.ArgumentParser(prog=program, description=_DESCRIPTION)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in _COMMANDS:
        command.add_parser(commands)
    parser.set_defaults(interrupted="")
    options = parser.parse_args()

    def run() -> int:
        try:
            return int(options.run(options))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(options.interrupted) from None

    return run
