"""merlin-simulator serve | up | replay | plan | s3: a local SageMaker, multi-model endpoints."""

from __future__ import annotations

import signal
import sys

#: What shells say after Ctrl-C.
INTERRUPTED = 130
#: Where its libraries are not, as after `make demo`.
NOT_INSTALLED = 1


def as_program(name: str) -> int:
    """Run one command under the name by which it was called; its exit code.

    130 after Ctrl-C, which may come at any moment.
    """
    try:
        from merlin_simulator.interrupts import leaving_at_once

        with leaving_at_once():
            # What reads the options, and argparse; each command imports what it runs by itself.
            from merlin_simulator.commands.command_line import read_command

            run = read_command(name)
        return run()
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "merlin_simulator":
            raise
        print(
            f"{name}: the Python package {missing.name!r} is not installed; in a checkout "
            "`make setup` installs it, elsewhere pip install ./simulator",
            file=sys.stderr,
        )
        return NOT_INSTALLED
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        # The interpreter's own end would print a second one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def main() -> int:
    """Run the installed command; its exit code."""
    return as_program("merlin-simulator")


if __name__ == "__main__":
    sys.exit(as_program("python -m merlin_simulator"))
