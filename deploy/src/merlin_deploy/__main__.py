"""merlin-deploy: from an export to an autoscaled endpoint."""

from __future__ import annotations

import os
import signal
import sys

#: What shells say after Ctrl-C.
INTERRUPTED = 130
#: A command was refused, or failed: a sentence says why.
REFUSED = 1


def main() -> int:
    """The command that `pip install` brings."""
    return as_program("merlin-deploy")


def as_program(name: str) -> int:
    """Run one command under the name by which it was called; its exit code.

    130 after Ctrl-C, which may come at any moment: the next call finishes what it cut off.
    """
    # While libraries are imported nothing has begun, and Ctrl-C has nothing to clear away.
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        from ensemble_tools import shipping

        shipping.open_outputs()
        from merlin_deploy.command_line import read_command
        from merlin_deploy.errors import DeployError

        try:
            run = read_command(name)
            signal.signal(signal.SIGINT, before)
            code = run()
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            return shipping.reader_is_gone()
        except DeployError as error:
            print(shipping.printable(f"error: {error}"), file=sys.stderr)
            return REFUSED
        except OSError as error:  # only the output's: AWS's and files' errors are translated
            shipping.drop_output()
            print(f"error: stdout: {shipping.sentence_of(error)}", file=sys.stderr)
            return REFUSED
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] == "merlin_deploy":  # the installation is broken
            raise
        print(
            f"{name}: the Python package {missing.name!r} is not installed; in a checkout "
            "`make setup` installs it, elsewhere pip install . ./deploy",
            file=sys.stderr,
        )
        return REFUSED
    except KeyboardInterrupt as interrupted:
        print("; ".join(filter(None, ("interrupted", str(interrupted)))), file=sys.stderr)
        return INTERRUPTED
    finally:
        # A second Ctrl-C would print a traceback while Python ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(as_program("python -m merlin_deploy"))
