"""python -m ensemble_tools: look at archives, rewrite and pack them, before they are shipped."""

from __future__ import annotations

import argparse
import os
import signal
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
    TERMINATED,
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


def _terminated(number: int, frame: object) -> None:
    sys.exit(TERMINATED)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _terminated)  # so that half of an output is removed
    sys.exit(main())
