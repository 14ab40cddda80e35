"""Exports session workflows with functions in the middle, each with a request and Merlin's answer.

    .venv-merlin/bin/python -m tests.golden.functions.export DEST [NAME ...]

DEST/<name>/repository      what merlin.systems' Ensemble.export wrote, untouched
DEST/<name>/request.json    rows as a v2 inference request, unseen categories among them
DEST/<name>/expected.json   the fitted workflow's answer, without tritonserver

Of 55 events in 8 sessions each makes lists: of the categories of texts, of the price, and of a sine
of the weekday. cells.py has their graphs:

dates            the sine by three lambdas, two of them of dates
behind_groupby   the same, and a lambda behind Groupby
own_operator     the same as `dates`, and an item's age by an operator of one's own
with_filter      the same as `dates`, and a Filter of short sessions
without          no function: the seconds, scaled, in the place of the sine
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.golden.tutorials.export import Notebook, write

CELLS = Path(__file__).with_name("cells.py")


def main(argv: list[str]) -> int:
    """Export those that are named, or all."""
    notebook = Notebook.run(CELLS)
    names = list(notebook.GRAPHS)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", metavar="DEST", type=Path)
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(names))
    arguments = parser.parse_args(argv)
    for name in arguments.names or names:
        print(name, flush=True)
        write(arguments.destination.resolve() / name, notebook, notebook.GRAPHS[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
