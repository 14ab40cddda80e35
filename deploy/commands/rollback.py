"""`rollback CONFIG.toml`: back to what was deployed before, or to what a name meant before."""

from __future__ import annotations

import argparse
import shlex

from deploy.archives.going_back import go_back
from deploy.aws.account import Account
from deploy.commands.options import add_config, add_dry_run, add_timeout, open_account, say, teller
from deploy.config.config import Config
from deploy.config.reading import read_config
from deploy.endpoint.roll_back import roll_back


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`rollback` and its options."""
    parser = commands.add_parser(
        "rollback",
        help="go back to the configuration that the endpoint had before",
        description="Update the endpoint, blue/green, to the configuration that it had before. A "
        "second rollback goes one step further. The next `up` deploys what CONFIG.toml says. With "
        "--archive, a name means the archive that it meant before, and nothing else changes.",
    )
    add_config(parser)
    parser.add_argument(
        "--archive", metavar="NAME", help="the archive of this name goes back, not the endpoint"
    )
    add_dry_run(parser)
    add_timeout(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Until the former configuration serves."""
    config = read_config(options.config)
    account = open_account(config, options)
    if options.archive is not None:
        return _go_back(account, config, options)
    roll_back(account, config, teller(account), timeout_s=options.timeout)
    if not account.dry_run:
        say(f"endpoint {config.endpoint.name} is in service as before")
    return 0


def _go_back(account: Account, config: Config, options: argparse.Namespace) -> int:
    before, now = go_back(account, config, options.archive)
    if not account.dry_run:
        say(f"{options.archive} means {now} again, no longer {before}")
        if config.endpoint.single_model == options.archive:
            file = shlex.quote(str(options.config))
            say(f"  python -m deploy up {file}  # the endpoint takes it over, blue/green")
    return 0
