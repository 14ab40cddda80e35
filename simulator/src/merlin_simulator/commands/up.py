"""python -m simulator up: an endpoint on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
from functools import partial

from merlin_simulator.commands.options import add_options, find_conflict
from merlin_simulator.interrupts import leaving_at_once


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`up` and its options."""
    parser = commands.add_parser(
        "up",
        help="start an endpoint",
        description="Start an endpoint on this machine: containers as processes (no Docker), or "
        "containers that run already (--instance). It ends with Ctrl-C.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=partial(_checked_run, parser))
    add_options(parser)


_EXAMPLES = """examples:
  python -m simulator up --models archives --endpoint-name demo --port 8090
  python -m simulator up --models s3://bucket/models --s3-endpoint-url http://127.0.0.1:9000 \\
      --endpoint-name demo --port 8090 --instances 2 --memory 4GB --disk 20GB

  aws sagemaker-runtime invoke-endpoint --endpoint-url http://127.0.0.1:8090 \\
      --endpoint-name demo --target-model dense.tar.gz --body fileb://request.json answer.json
"""


def _checked_run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    conflict = find_conflict(options)
    if conflict is not None:
        parser.error(conflict)
    with leaving_at_once():
        # The server, and all that an endpoint is: other commands start without them.
        from merlin_simulator.commands.one_endpoint import serve_endpoint
    return serve_endpoint(options)
