"""The exit codes of all commands. After a signal: signals.py."""

from __future__ import annotations

#: Done; the archive can be served.
SERVED = 0
#: The archive is refused, or a file could not be read or written; stderr or the output says why.
REFUSED = 1
#: The command line is wrong; argparse's own number.
MISUSED = 2

#: Printed under --help of the commands of this library; the others have their own.
EPILOG = (
    "Exit codes: 0 it can be served, 1 it cannot, or a file cannot be read or written (the reason "
    "is printed), 2 misuse; 130 after Ctrl-C."
)
