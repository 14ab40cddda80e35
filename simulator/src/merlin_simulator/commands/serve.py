"""python -m simulator serve: SageMaker's control plane on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from merlin_simulator.api.wire import REGION
from merlin_simulator.commands import arguments
from merlin_simulator.commands.options import (
    add_address_options,
    add_machine_options,
    add_rules_options,
)
from merlin_simulator.control.sagemaker.resources import DEFAULT_MOST
from merlin_simulator.interrupts import leaving_at_once
from merlin_simulator.measuring.quantities import read_capacity

_EXAMPLES = """examples:
  python -m simulator serve --port 8090
  python -m simulator serve --state ~/sagemaker --memory-of ml.c5.xlarge=4GB --time-scale 60

  export AWS_ENDPOINT_URL=http://127.0.0.1:8090 AWS_DEFAULT_REGION=us-east-1
  export AWS_ACCESS_KEY_ID=any AWS_SECRET_ACCESS_KEY=any
  aws s3 cp dense.tar.gz s3://models/shop/     # and every script of boto3, unchanged
"""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`serve` and its options."""
    parser = commands.add_parser(
        "serve",
        help="start a whole SageMaker: models, endpoints, scaling, metrics, for AWS's clients",
        description="Start SageMaker's control plane on this machine. Clients of AWS work with "
        "AWS_ENDPOINT_URL set to it and nothing else changed: sagemaker, sagemaker-runtime, "
        "application-autoscaling, cloudwatch, s3, ecr, iam, sts, logs. It ends with Ctrl-C.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=_run)
    add = parser.add_argument
    add_address_options(parser)
    add(
        "--state",
        type=Path,
        metavar="FOLDER",
        help="where everything is kept that survives a restart (default: nothing does)",
    )
    add(
        "--region",
        default=os.environ.get("AWS_DEFAULT_REGION", REGION),
        help=f"of what is not signed (AWS_DEFAULT_REGION, or {REGION})",
    )
    add(
        "--memory-of",
        action="append",
        default=[],
        type=arguments.keep_sentence(_read_memory),
        metavar="TYPE=SIZE",
        help="memory of an instance type, such as ml.c5.xlarge=4GB (default: AWS's)",
    )
    add(
        "--quota",
        action="append",
        default=[],
        type=arguments.keep_sentence(_read_quota),
        metavar="TYPE=N",
        help=f"instances of a type for all endpoints together (default: {DEFAULT_MOST})",
    )
    add(
        "--time-scale",
        type=arguments.make_reader(
            float, "a number from 1 to 10000", lambda scale: 1 <= scale <= 10_000
        ),
        default=1.0,
        metavar="60",
        help="how many seconds of the platform's metrics, alarms, cooldowns and schedules a "
        "second takes (1)",
    )
    add_machine_options(parser.add_argument_group("instances"))
    add_rules_options(parser.add_argument_group("the platform's rules"))


def _run(options: argparse.Namespace) -> int:
    with leaving_at_once():
        # The server and every service: other commands start without them.
        from merlin_simulator.commands.control_plane import serve_control_plane
    return serve_control_plane(options)


def _read_memory(text: str) -> tuple[str, int]:
    name, size = _split_type(text, "TYPE=SIZE, as ml.c5.xlarge=4GB")
    return name, read_capacity(size)


def _read_quota(text: str) -> tuple[str, int]:
    name, count = _split_type(text, "TYPE=N, as ml.c5.xlarge=4")
    if not count.isdecimal():
        raise ValueError(f"{text!r}: expected a number of instances")
    return name, int(count)


def _split_type(text: str, expected: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("ml."):
        raise ValueError(f"{text!r}: expected {expected}")
    return name, value
