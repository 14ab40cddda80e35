"""python -m deploy: from an export to an autoscaled endpoint."""

from __future__ import annotations

import os
import signal
import sys

from ensemble_tools.signals import drop_output, open_outputs, reader_is_gone

#: What shells say after Ctrl-C.
INTERRUPTED = 130
#: Something was refused: one sentence says what.
REFUSED = 1
#: Packages of this project, which are there or broken.
_OURS = {"deploy", "ensemble_tools"}


def as_program(name: str) -> int:
    """Run one command under the name by which it was called; its exit code.

    130 after Ctrl-C, which may come at any moment: the next call finishes what it cut off.
    """
    open_outputs()
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        from deploy.commands.command_line import read_command
        from deploy.errors import DeployError
        from ensemble_tools.errors import printable, sentence_of

        try:
            run = read_command(name)
            # Nothing has begun: while libraries are imported, Ctrl-C has nothing to clear away.
            signal.signal(signal.SIGINT, before)
            code = run()
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            return reader_is_gone()
        except DeployError as error:
            print(printable(f"error: {error}"), file=sys.stderr)
            return REFUSED
        except OSError as error:  # of AWS and of files it is translated: this is the output's own
            drop_output()
            print(f"error: stdout: {sentence_of(error)}", file=sys.stderr)
            return REFUSED
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in _OURS:
            raise
        print(
            f"{name}: the Python package {missing.name!r} is not installed; in a checkout "
            "`make setup` installs it, elsewhere pip install '.[deploy]'",
            file=sys.stderr,
        )
        return REFUSED
    except KeyboardInterrupt as interrupted:
        print("; ".join(filter(None, ("interrupted", str(interrupted)))), file=sys.stderr)
        return INTERRUPTED
    finally:
        # The interpreter's own end would print a second one.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(as_program("python -m deploy"))
