"""`rollback CONFIG.toml`: back to what was deployed before."""

from __future__ import annotations

import argparse

from deploy.commands.options import add_change_options, open_account, say, teller
from deploy.config.reading import read_config
from deploy.endpoint.roll_back import roll_back


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`rollback` and its options."""
    parser = commands.add_parser(
        "rollback",
        help="go back to the configuration that the endpoint had before",
        description="Update the endpoint, blue/green, to the configuration that it had before. A "
        "second rollback goes one step further. The next `up` deploys what CONFIG.toml says.",
    )
    add_change_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Until the former configuration serves."""
    config = read_config(options.config)
    account = open_account(config, options)
    roll_back(account, config, teller(account), timeout_s=options.timeout)
    if not account.dry_run:
        say(f"endpoint {config.endpoint.name} is in service as before")
    return 0
