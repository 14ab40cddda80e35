"""`archives CONFIG.toml`: which archives there are, what they are called, and what may go."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone

from deploy.archives.overview import Row, find_needless, make_rows
from deploy.archives.places import Place, read_place
from deploy.archives.pruning import prune_archives
from deploy.archives.stored import find_stored
from deploy.archives.table import read_aliases
from deploy.aws.account import Account
from deploy.commands.options import add_config, add_dry_run, open_account, say, teller
from deploy.config.config import Config
from deploy.config.reading import read_config
from deploy.endpoint.model_archives import find_model_archives
from deploy.quantities import show_bytes, show_duration

_HOURS = 24.0


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`archives` and its options."""
    parser = commands.add_parser(
        "archives",
        help="list archives by their names, with sizes and ages; delete what no name means",
        description="List the archives of endpoint.archives: what each name means now and meant "
        "before, sizes and ages. --prune deletes those that `put` brought and that no name means "
        "or meant, as aliases.json has it, but for those that a model of this endpoint has alone.",
    )
    add_config(parser)
    parser.add_argument("--prune", action="store_true", help="delete what no name means or meant")
    parser.add_argument(
        "--min-age",
        type=_hours,
        default=timedelta(hours=_HOURS),
        metavar="HOURS",
        help=f"--prune leaves what is younger ({_HOURS:.0f}): its `put` may not be done yet",
    )
    add_dry_run(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """List them, or delete."""
    config = read_config(options.config)
    account = open_account(config, options)
    place = read_place(config.endpoint.archives)
    served = _find_served(account, config, place)
    if options.prune:
        gone = prune_archives(account, place, served, teller(account), options.min_age)
        if not account.dry_run:
            say(f"{show_bytes(gone)} were deleted" if gone else "no archive was to go")
        return 0
    rows = make_rows(read_aliases(account, place), find_stored(account, place), served)
    for line in _table(rows, datetime.now(timezone.utc), options.min_age):
        say(line)
    return 0


def _find_served(account: Account, config: Config, place: Place) -> frozenset[str]:
    """As TargetModel has them."""
    urls = find_model_archives(account, config.endpoint.name)
    return frozenset(url.removeprefix(place.archives_url) for url in urls)


def _table(rows: Sequence[Row], now: datetime, least_age: timedelta) -> Iterator[str]:
    cells = [("NAME", "ARCHIVE", "SIZE", "AGE", "")]
    name = ""
    for row in rows:
        size, age = "is gone", ""
        if row.stored is not None:
            size = show_bytes(row.stored.size)
            age = show_duration(max(0.0, (now - row.stored.modified).total_seconds()))
        shown = row.name if row.name != name else ""
        cells.append((shown, row.target_model, size, age, row.standing.value))
        name = row.name
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()
    there = [row.stored.size for row in rows if row.stored is not None]
    yield f"{len(there)} archives, {show_bytes(sum(there))}"
    needless = [one.size for one in find_needless(rows, now, least_age)]
    if needless:
        yield f"--prune deletes {len(needless)} of them, {show_bytes(sum(needless))}"


def _hours(raw: str) -> timedelta:
    try:
        value = float(raw)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e6:
        raise argparse.ArgumentTypeError(f"found {raw!r}, expected a number of hours from 0 up")
    return timedelta(hours=value)
