"""`status CONFIG.toml`: what the endpoint does now, in one screen."""

from __future__ import annotations

import argparse
import shutil
import sys
import time

from deploy.aws.account import Account
from deploy.commands.options import add_config, open_account, say_beside
from deploy.config.config import Config
from deploy.config.reading import read_config
from deploy.errors import Unreachable
from deploy.status.gathering import gather
from deploy.status.report import Report, write_document
from deploy.status.text import write_text
from ensemble_tools.errors import printable

_MINUTES, _MOST_MINUTES = 60, 24 * 60
#: With --watch, between two looks, in seconds: CloudWatch has something new each minute.
_EVERY_S = 10.0
_CLEARED = "\x1b[H\x1b[2J"
_NARROWEST, _WIDEST = 60, 120


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`status` and its options."""
    parser = commands.add_parser(
        "status",
        help="what the endpoint does now: instances, traffic, alarms, archives, what costs",
        description="Show the endpoint, whether it is what CONFIG.toml says, its instances, "
        "traffic, alarms, archives, and what costs. It changes nothing. Exit code 1 where there "
        "is no endpoint.",
    )
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document, for programs")
    parser.add_argument(
        "--minutes",
        type=_minutes,
        default=_MINUTES,
        help=f"of the traffic that is shown ({_MINUTES}; at most {_MOST_MINUTES})",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help=f"again every {_EVERY_S:.0f} s, until Ctrl-C; with --json one document a line",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Once, or until Ctrl-C."""
    config = read_config(options.config)
    account = open_account(config, options)
    report = gather(account, config, minutes=options.minutes)
    if options.watch:
        return _watch(account, config, report, options)
    print(_show(report, options, indent=2))
    return 0


def _watch(account: Account, config: Config, report: Report, options: argparse.Namespace) -> int:
    """Where AWS is not reached once, the next look may reach it."""
    try:
        while True:
            clear = _CLEARED if sys.stdout.isatty() and not options.json else ""
            print(clear + _show(report, options, indent=None), flush=True)
            time.sleep(_EVERY_S)
            try:
                report = gather(account, config, minutes=options.minutes)
            except Unreachable as error:
                say_beside(f"{error}; what was shown is old")
    except KeyboardInterrupt:
        return 0


def _show(report: Report, options: argparse.Namespace, *, indent: int | None) -> str:
    return write_document(report, indent=indent) if options.json else printable(_write(report))


def _write(report: Report) -> str:
    """Elsewhere than on a terminal lines are as long as they are, for grep."""
    if not sys.stdout.isatty():
        return write_text(report, columns=None, pictures=False)
    columns = min(_WIDEST, max(_NARROWEST, shutil.get_terminal_size().columns))
    can_draw = "utf" in (sys.stdout.encoding or "").lower()
    return write_text(report, columns=columns, pictures=can_draw)


def _minutes(raw: str) -> int:
    try:
        value = int(raw)
    except ValueError:
        value = 0
    if not 1 <= value <= _MOST_MINUTES:
        raise argparse.ArgumentTypeError(
            f"found {raw!r}, expected a whole number of minutes from 1 to {_MOST_MINUTES}"
        )
    return value
