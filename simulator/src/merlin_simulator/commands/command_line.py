"""The command line: which command is asked for, with which options."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from merlin_simulator.commands import plan, replay, s3, serve, up


class _CommandParser(argparse.ArgumentParser):
    """Of one command: an option that it does not have is told beside those that it has."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """The options, and nothing that is none of them."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown


def read_command(program: str) -> Callable[[], int]:
    """A function that runs the command of this process's arguments and returns its exit code.

    program: the name by which it was called.
    """
    parser = argparse.ArgumentParser(prog=program, description=_DESCRIPTION)
    kind: type[argparse.ArgumentParser] = _CommandParser
    commands = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", parser_class=kind
    )
    for command in (serve, up, replay, plan, s3):
        command.add_parser(commands)
    options = parser.parse_args()
    return lambda: int(options.run(options))


_DESCRIPTION = """A local SageMaker: plays the platform's side of the multi-model contract, so that
an unmodified boto3 client, the AWS CLI or curl talks to a multi-model endpoint on this machine:
serve has the control plane, too, up starts one endpoint, replay sends traffic to one, and plan
reckons what one would do without starting it."""
