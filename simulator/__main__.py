"""python -m simulator up | replay | s3: a local SageMaker for multi-model endpoints."""

from __future__ import annotations

import argparse
import sys

from simulator.commands import replay, s3, up


def main() -> int:
    """Run one command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m simulator", description=_DESCRIPTION)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (up, replay, s3):
        command.add_parser(commands)
    options = parser.parse_args()
    return int(options.run(options))


_DESCRIPTION = """A local SageMaker: plays the platform's side of the multi-model contract, so that
an unmodified boto3 client, the AWS CLI or curl talks to a multi-model endpoint on this machine."""


if __name__ == "__main__":
    sys.exit(main())
