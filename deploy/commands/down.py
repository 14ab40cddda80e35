"""`down CONFIG.toml`: everything that `up` made goes."""

from __future__ import annotations

import argparse

from deploy.commands.options import add_change_options, open_account, say, teller
from deploy.config.reading import read_config
from deploy.endpoint.take_down import take_down, what_stays


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`down` and its options."""
    parser = commands.add_parser(
        "down",
        help="remove everything that `up` made, and say what stays",
        description="Remove the endpoint, its autoscaling, its alarms, and all its configurations "
        "and models. Archives, images, logs and the role stay: it says how they go.",
    )
    add_change_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Until it is gone."""
    config = read_config(options.config)
    account = open_account(config, options)
    take_down(account, config.endpoint.name, teller(account), timeout_s=options.timeout)
    if not account.dry_run:
        for line in what_stays(config):
            say(line)
    return 0
