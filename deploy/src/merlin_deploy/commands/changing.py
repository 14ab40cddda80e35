"""The commands that change something in AWS: push, put, up, rollback, archives, down."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial

from merlin_deploy.account import Account, open_account
from merlin_deploy.archives.aliases import read_aliases, read_place
from merlin_deploy.archives.bucket import (
    Row,
    find_prunable,
    find_stored,
    go_back,
    make_rows,
    prune_archives,
)
from merlin_deploy.archives.put import Put, put_archives
from merlin_deploy.archives.sources import find_sources
from merlin_deploy.cleanup import clean_up_at_end
from merlin_deploy.config.catalog import describe_ami
from merlin_deploy.config.reading import read_config
from merlin_deploy.config.sections import Config
from merlin_deploy.desired import make_desired
from merlin_deploy.endpoint.changes import list_what_stays, take_down
from merlin_deploy.endpoint.resources import find_facts, find_single_archives
from merlin_deploy.endpoint.rollback import roll_back
from merlin_deploy.endpoint.state import Job
from merlin_deploy.endpoint.up import bring_up
from merlin_deploy.terminal import Say, progress_on, say, say_beside, show_bytes, show_duration


def push(options: argparse.Namespace) -> int:
    """Print the line of CONFIG.toml on stdout once the registry has the image."""
    from merlin_deploy.engine import Engine  # the Docker SDK: no other command needs it
    from merlin_deploy.push import PushOptions, push_image

    chosen = PushOptions(options.image, options.repository, options.tag, options.registry)
    tell = say if options.dry_run else say_beside
    engine = Engine()
    account = Account(options.region, tell, dry_run=options.dry_run)
    with clean_up_at_end():
        pushed = push_image(account, engine, chosen, tell, partial(progress_on, sys.stderr))
    if pushed is not None:
        say_beside("CONFIG.toml, section [endpoint]:")
        say(f'image = "{pushed}"')
    return 0


def put(options: argparse.Namespace) -> int:
    """Print what each name means once the table of aliases says so."""
    config = read_config(options.config)
    sources = find_sources(options.paths, options.name, say_beside)
    account = open_account(config, say, dry_run=options.dry_run)
    with clean_up_at_end(), progress_on(sys.stderr) as tell:
        done = put_archives(
            account, config, sources, _sayer(account), tell, check=not options.no_check
        )
    if not account.dry_run:
        for line in _report_put(config, shlex.quote(str(options.config)), done):
            say(line)
    return 0


def up(options: argparse.Namespace) -> int:
    """Return once the endpoint serves by what CONFIG.toml says."""
    config = read_config(options.config)
    if chosen := describe_ami(config.instances.type, config.instances.ami):
        say_beside(chosen)
    account = open_account(config, say, dry_run=options.dry_run)
    desired = make_desired(config, find_facts(account, config, say))
    bring_up(_start(account, config, options), desired, keep=config.deployment.keep)
    if not account.dry_run:
        say(f"endpoint {config.endpoint.name} is in service in {account.region}")
    return 0


def rollback(options: argparse.Namespace) -> int:
    """Return once the former configuration serves, or a name means its former archive."""
    config = read_config(options.config)
    account = open_account(config, say, dry_run=options.dry_run)
    if options.archive is not None:
        return _go_back(account, config, options)
    roll_back(_start(account, config, options), config)
    if not account.dry_run:
        say(f"endpoint {config.endpoint.name} is in service as before")
    return 0


def archives(options: argparse.Namespace) -> int:
    """List archives, or delete those that nobody needs."""
    config = read_config(options.config)
    account = open_account(config, say, dry_run=options.dry_run)
    place = read_place(config.endpoint.archives)
    urls = find_single_archives(account, config.endpoint.name)
    served = frozenset(url.removeprefix(place.archives_url) for url in urls)
    if options.prune:
        gone = prune_archives(account, place, served, _sayer(account), options.min_age)
        if not account.dry_run:
            say(f"{show_bytes(gone)} were deleted" if gone else "no archive was to go")
        return 0
    rows = make_rows(read_aliases(account, place), find_stored(account, place), served)
    for line in _table(rows, datetime.now(timezone.utc), options.min_age):
        say(line)
    return 0


def down(options: argparse.Namespace) -> int:
    """Return once the endpoint is gone, and all that led to it."""
    config = read_config(options.config)
    account = open_account(config, say, dry_run=options.dry_run)
    take_down(_start(account, config, options))
    if not account.dry_run:
        for line in list_what_stays(config):
            say(line)
    return 0


def _start(account: Account, config: Config, options: argparse.Namespace) -> Job:
    return Job(account, config.endpoint.name, _sayer(account), options.timeout)


def _sayer(account: Account) -> Say:
    """Says what was done. With --dry-run nothing was: the account says the calls instead."""
    return (lambda line: None) if account.dry_run else say


def _report_put(config: Config, file: str, done: tuple[Put, ...]) -> Iterator[str]:
    """What each name means now, and the command that asks it."""
    single = config.endpoint.single_model
    if single is None and len(done) > 1:
        sent = sum(archive.sent for archive in done)
        size = show_bytes(sum(archive.size for archive in done))
        yield f"{len(done)} archives, {size}: {sent} uploaded, {len(done) - sent} were there"
        yield f"  python -m deploy invoke {file} --model NAME --request FILE"
        return
    for archive in done:
        yield f"{archive.name}  {archive.target_model}  {show_bytes(archive.size)}"
        if single is None:
            # A name that begins like an option is taken only behind an equals sign.
            sign = "=" if archive.name.startswith("-") else " "
            model = f"--model{sign}{shlex.quote(archive.name)}"
            yield f"  python -m deploy invoke {file} {model} --request FILE"
        elif archive.name != single:
            yield f"  not served: endpoint.single_model is {single}"
        elif archive.meant == archive.target_model:
            yield f"  python -m deploy invoke {file} --request FILE"
        else:
            yield f"  python -m deploy up {file}  # the endpoint takes it over, blue/green"


def _go_back(account: Account, config: Config, options: argparse.Namespace) -> int:
    before, now = go_back(account, config, options.archive)
    if not account.dry_run:
        say(f"{options.archive} means {now} again, no longer {before}")
        if config.endpoint.single_model == options.archive:
            file = shlex.quote(str(options.config))
            say(f"  python -m deploy up {file}  # the endpoint takes it over, blue/green")
    return 0


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
    yield f"{len(there)} archive{'' if len(there) == 1 else 's'}, {show_bytes(sum(there))}"
    prunable = [archive.size for archive in find_prunable(rows, now, least_age)]
    if prunable:
        yield f"--prune deletes {len(prunable)} of them, {show_bytes(sum(prunable))}"
