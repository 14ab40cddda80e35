"""`push IMAGE`: an image of this machine comes to ECR."""

from __future__ import annotations

import argparse
import re
import sys
from functools import partial

from deploy.aws.account import Account
from deploy.commands.options import add_dry_run, say, say_beside
from deploy.orderly_end import orderly_end
from deploy.telling import progress_on


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`push` and its options."""
    parser = commands.add_parser(
        "push",
        help="bring an image to ECR, and print its line of CONFIG.toml",
        description="Bring an image of this machine's Docker engine (DOCKER_HOST) to ECR. The "
        "repository is made where there is none. The login goes to the engine with this one push "
        "and is kept nowhere. What the registry has is not sent again. The line for CONFIG.toml "
        "comes on stdout, all else on stderr.",
    )
    parser.add_argument("image", metavar="IMAGE", help="its name on this machine, or its id")
    parser.add_argument(
        "--repository", metavar="NAME", help="of ECR (default: the image's name, without a host)"
    )
    parser.add_argument("--tag", metavar="TAG", help="in ECR (default: the image's, or latest)")
    parser.add_argument("--region", help="default: AWS_REGION, or the profile's")
    parser.add_argument(
        "--registry",
        type=_read_registry,
        metavar="HOST:PORT",
        help="for rehearsals: push there in the place of ECR's host, as `simulator serve "
        "--registry` pulls from there",
    )
    add_dry_run(parser)
    parser.set_defaults(
        run=run, interrupted="layers that are there stay: the same command finishes it"
    )


def run(options: argparse.Namespace) -> int:
    """Until the registry has it."""
    # The Docker SDK: --help, which lists every command, needs none of it.
    from deploy.images.engine import Engine
    from deploy.images.pushing import Wish, push

    wish = Wish(options.image, options.repository, options.tag, options.registry)
    told = say if options.dry_run else say_beside
    engine = Engine()
    account = Account(options.region, told, dry_run=options.dry_run)
    with orderly_end():
        pushed = push(account, engine, wish, told, partial(progress_on, sys.stderr))
    if pushed is not None:
        say_beside("CONFIG.toml, section [endpoint]:")
        say(f'image = "{pushed}"')
    return 0


def _read_registry(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9a-f:]+\]:\d{1,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected HOST:PORT, as 127.0.0.1:5000")
    return text
