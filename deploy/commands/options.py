"""What several commands are asked for in the same way."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from deploy.aws.account import Account, Say
from deploy.config.config import Config
from ensemble_tools.errors import printable

_TIMEOUT_S = 3600.0


def add_config(parser: argparse.ArgumentParser) -> None:
    """CONFIG.toml."""
    parser.add_argument(
        "config",
        type=Path,
        metavar="CONFIG.toml",
        help="what the endpoint is to be; `python -m deploy example` prints one",
    )


def add_dry_run(parser: argparse.ArgumentParser) -> None:
    """--dry-run."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="change nothing: look, and print the calls as lines of the AWS CLI",
    )


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """--timeout."""
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=_TIMEOUT_S,
        metavar="SECONDS",
        help=f"how long to wait for the endpoint ({_TIMEOUT_S:.0f}); it goes on after that",
    )


def add_change_options(parser: argparse.ArgumentParser) -> None:
    """Of a command that changes an endpoint, and waits for it."""
    add_config(parser)
    add_dry_run(parser)
    add_timeout(parser)


def open_account(config: Config, options: argparse.Namespace) -> Account:
    """The account in the region of a configuration. Raises DeployError."""
    return Account(config.endpoint.region, say, dry_run=getattr(options, "dry_run", False))


def teller(account: Account) -> Say:
    """What tells of each thing that is done; silent where nothing is: the calls are told then."""
    return _say_nothing if account.dry_run else say


def say(line: str) -> None:
    """A line of what happens, at once; what others say of it is shown as text."""
    print(printable(line), flush=True)


def say_beside(line: str) -> None:
    """As say, on stderr: stdout has an answer alone."""
    print(printable(line), file=sys.stderr, flush=True)


def _say_nothing(line: str) -> None:
    """Nothing was done."""


def _seconds(raw: str) -> float:
    try:
        value = float(raw)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"found {raw!r}, expected a number of seconds above 0")
    return value
