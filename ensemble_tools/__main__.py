"""python -m ensemble_tools: look at archives, rewrite and pack them, before they are shipped."""

from __future__ import annotations

import sys

from ensemble_tools.command_start import start_command
from ensemble_tools.commands.doors import run_other_command
from ensemble_tools.signals import INTERRUPTED, open_outputs, reader_is_gone, to_the_end

if __name__ == "__main__":
    start_command("python -m ensemble_tools", "tools")
    open_outputs()
    run_other_command(sys.argv[1:])

# What follows takes a while to import.

import argparse
from collections.abc import Sequence
from typing import Any

from ensemble_tools.commands import doors, explain, pack, rewrite
from ensemble_tools.commands.exit_codes import (
    EPILOG,
    MISUSED,
    REFUSED,
    SERVED,
)
from ensemble_tools.commands.path_argument import open_path
from ensemble_tools.errors import EnsembleToolsError, printable, sentence_of

__all__ = ["MISUSED", "REFUSED", "SERVED", "main"]

#: In the order in which --help lists them.
COMMANDS = (explain, rewrite, doors, pack)


def as_program(name: str) -> int:
    """Run one command under the name by which it was called, as a process of its own."""
    open_outputs()
    run_other_command(sys.argv[1:])
    return to_the_end(lambda: main(program=name))


def main(arguments: Sequence[str] | None = None, program: str = "python -m ensemble_tools") -> int:
    """Run one command; the exit code says how it went (exit_codes.py)."""
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = _make_parser(program).parse_args(command_line)
        code = _run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        return reader_is_gone()
    except (EnsembleToolsError, OSError) as error:
        print(printable(f"error: {sentence_of(error)}"), file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _run(options: argparse.Namespace) -> int:
    """The command; options.given is what the caller named, options.path a directory."""
    paths = getattr(options, "paths", None)
    if paths is not None and len(paths) > 1:
        return int(options.run_several(options))
    options.given = options.path if paths is None else paths[0]
    with open_path(options.given) as options.path:
        return int(options.run(options))


class _CommandParser(argparse.ArgumentParser):
    """The parser of a command: an option that it lacks is told beside those that it has."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """The options, and nothing that is none of them."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown


def _make_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Look at a model archive, packed or extracted, as the container would, rewrite "
        "it, verify it, compare it with another, pack it, make a request for it. Nothing in an "
        "archive is run but by verify and compare: its pickles are read as data.",
        epilog=f"{EPILOG} Those of verify, compare, drift and request are their own, such as 3 of "
        "compare where the archives are not alike enough: COMMAND --help has them.",
    )
    kind: type[argparse.ArgumentParser] = _CommandParser
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="command", parser_class=kind
    )
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


if __name__ == "__main__":
    sys.exit(as_program("python -m ensemble_tools"))
