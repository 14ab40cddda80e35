"""python -m ensemble_tools: look at archives, rewrite and pack them, before they are shipped."""

from __future__ import annotations

from ensemble_tools.signals import ignore, leave_at_once, leave_in_order

if __name__ == "__main__":
    leave_at_once()

# What follows takes a while to import.

import argparse
import os
import sys
from collections.abc import Sequence

from ensemble_tools.commands import explain, pack, rewrite, verify
from ensemble_tools.commands.exit_codes import (
    EPILOG,
    INTERRUPTED,
    MISUSED,
    PIPE_CLOSED,
    REFUSED,
    SERVED,
)
from ensemble_tools.errors import EnsembleToolsError

__all__ = ["MISUSED", "REFUSED", "SERVED", "main"]

#: In the order in which --help lists them.
COMMANDS = (explain, rewrite, verify, pack)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code says how it went (exit_codes.py)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == [verify.NAME]:
        verify.hand_over(words[1:])
    try:
        options = _parser().parse_args(words)
        code = int(options.run(options))
        sys.stdout.flush()
    except (EnsembleToolsError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            return _pipe_closed()
        print(f"error: {_sentence(error)}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _sentence(error: Exception) -> str:
    """What is wrong with which file; OSError's own text begins with a number."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _pipe_closed() -> int:
    """Whoever reads our output has seen enough (`| head`): no traceback when Python flushes it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m ensemble_tools",
        description="Look at a model archive as the container would, rewrite it, verify it, pack "
        "it. Nothing in an archive is run but by verify: its pickles are read as data.",
        epilog=EPILOG,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def _run_to_the_end() -> int:
    """main as a program; half of an output is removed when it is interrupted."""
    leave_in_order()
    try:
        return main()
    except KeyboardInterrupt:  # it came where main does not look for it
        return INTERRUPTED
    finally:
        ignore()


if __name__ == "__main__":
    sys.exit(_run_to_the_end())
