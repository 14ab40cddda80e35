"""`render CONFIG.toml`: the endpoint as a CloudFormation template."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from deploy.commands.options import add_config, say_beside
from deploy.config.drivers import describe_ami
from deploy.config.reading import read_config
from deploy.errors import Refused
from deploy.template.template import render


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`render` and its options."""
    parser = commands.add_parser(
        "render",
        help="print the endpoint as a CloudFormation template",
        description="Print a CloudFormation template, in JSON, with what `up` makes: for those "
        "who deploy by stacks. AWS is not asked. Either a stack has an endpoint, or `up`: `up`, "
        "`rollback` and `down` do not touch one that a stack made.",
    )
    add_config(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write it there, and not to stdout"
    )
    parser.add_argument(
        "--with-role",
        action="store_true",
        help="the template makes the execution role, too, with the least rights; the stack needs "
        "--capabilities CAPABILITY_IAM then",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Say on stderr what CloudFormation cannot have."""
    config = read_config(options.config)
    rendered = render(config, with_role=options.with_role)
    if chosen := describe_ami(config.instances.type, config.instances.ami):
        say_beside(chosen)
    for one in rendered.left_out:
        say_beside(f"left out: {one}")
    written = json.dumps(rendered.template, indent=2)
    if options.output is None:
        print(written)
        return 0
    try:
        options.output.write_text(f"{written}\n")
    except OSError as error:
        raise Refused(
            f"{options.output}: {error.strerror}; expected a file that can be written (-o)"
        ) from error
    return 0
