"""Which Pythons serve Merlin's numbers: of the server, and of the models, each with each.

    .venv/bin/python -m tests.pythons [--keep DIR]

Environments are made of the locks and kept under DIR (build/pythons). Prints a table; what it says
stands in docs/images.md. Exit code 0: every pair that is here answers Merlin's numbers; 1: one does
not; 3: no pair is here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.pythons import environments
from tests.pythons.asking import ask
from tests.support.container import ROOT

SERVERS = ("3.10", "3.11", "3.12")
MODELS = ("3.10", "3.11", "3.12", "3.13")


def main(argv: Sequence[str]) -> int:
    """Asks every pair."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", type=Path, default=ROOT / "build/pythons", metavar="DIR")
    parser.add_argument("--servers", default=",".join(SERVERS), metavar="VERSIONS")
    parser.add_argument("--models", default=",".join(MODELS), metavar="VERSIONS")
    options = parser.parse_args(argv)
    servers = _made(options.servers, environments.server, options.keep)
    models = _made(options.models, environments.models, options.keep)
    print(f"| server's Python | {' | '.join(f'models {it}' for it in models)} |")
    print("|---" * (len(models) + 1) + "|")
    faults: list[str] = []
    for version, server in servers.items():
        cells = []
        for other, python in models.items():
            fault = ask(server, python)
            faults += [f"server {version}, models {other}: {fault}"] if fault else []
            cells.append("differs" if fault else "Merlin's numbers")
        print(f"| {version} | {' | '.join(cells)} |", flush=True)
    print("\n".join(faults), file=sys.stderr)
    if not (servers and models):
        return 3
    return 1 if faults else 0


def _made(versions: str, make: Callable[[str, Path], Path], folder: Path) -> dict[str, Path]:
    """The environments that can be made here; what cannot is said."""
    made: dict[str, Path] = {}
    for version in versions.split(","):
        try:
            made[version] = make(version, folder)
        except environments.NotThere as error:
            print(f"left out: {error}", file=sys.stderr)
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
