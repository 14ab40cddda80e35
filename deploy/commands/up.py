"""`up CONFIG.toml`: the endpoint, with its autoscaling and its alarms."""

from __future__ import annotations

import argparse

from deploy.commands.options import add_change_options, open_account, say, say_beside, teller
from deploy.config.drivers import describe_ami
from deploy.config.reading import read_config
from deploy.endpoint.bring_up import bring_up
from deploy.endpoint.facts import find_facts
from deploy.wanted.wanted import make_wanted


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`up` and its options."""
    parser = commands.add_parser(
        "up",
        help="make the endpoint what CONFIG.toml says; change only what differs",
        description="Make the model, the endpoint configuration, the endpoint, its autoscaling and "
        "its alarms what CONFIG.toml says, and wait until it serves. What is right already is left "
        "alone; a new model or configuration takes over blue/green. A call that was cut off is "
        "finished by the next one.",
    )
    add_change_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Until it is in service."""
    config = read_config(options.config)
    if chosen := describe_ami(config.instances.type, config.instances.ami):
        say_beside(chosen)
    account = open_account(config, options)
    wanted = make_wanted(config, find_facts(account, config, say))
    bring_up(
        account, wanted, teller(account), keep=config.deployment.keep, timeout_s=options.timeout
    )
    if not account.dry_run:
        say(f"endpoint {config.endpoint.name} is in service in {account.region}")
    return 0
