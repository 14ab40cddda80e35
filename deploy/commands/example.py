"""`example`: a CONFIG.toml with every choice and its reason."""

from __future__ import annotations

import argparse

from deploy.config.example import make_example


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`example`."""
    parser = commands.add_parser(
        "example",
        help="print a CONFIG.toml with every choice and its reason",
        description="Print a CONFIG.toml with every choice and its reason. What is commented out "
        "is the default, or an example where there is none.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print it."""
    print(make_example(), end="")
    return 0
