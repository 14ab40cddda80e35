"""The command line: which command is asked for, with which options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib import import_module

_DESCRIPTION = """From an export to an autoscaled endpoint of SageMaker. Every command can be called
again: it finishes what was cut off. With AWS_ENDPOINT_URL set to `python -m simulator serve` all of
it runs on this machine."""
#: Modules beside this one, in the order in which --help lists them.
COMMANDS = (
    *("example", "push", "put", "up", "status", "invoke", "rollback", "archives", "down"),
    *("render", "policy"),
)


def read_command(program: str) -> Callable[[], int]:
    """What runs the command of this process's arguments and returns its exit code.

    A command that is named is imported alone, as some of them need half a second of libraries.
    program: the name by which it was called. KeyboardInterrupt comes with what the command leaves.
    """
    parser = argparse.ArgumentParser(prog=program, description=_DESCRIPTION)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    named = [name for name in sys.argv[1:2] if name in COMMANDS]
    for name in named or COMMANDS:
        import_module(f"{__package__}.{name}").add_parser(commands)
    parser.set_defaults(interrupted="")
    options = parser.parse_args()

    def run() -> int:
        try:
            return int(options.run(options))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(options.interrupted) from None

    return run
