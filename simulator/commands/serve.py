"""python -m simulator serve: SageMaker's control plane on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import difflib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from simulator.api.wire_errors import REGION
from simulator.archives.local_s3 import make_local_client
from simulator.commands.machines import add_machine_options, machines
from simulator.commands.serving import Failures, listen, make_url, serve_app
from simulator.commands.up_options import add_rules_options, read_port, read_rules
from simulator.control.clock import Clock
from simulator.control.json_api import read_service_model
from simulator.control.moto import running
from simulator.control.plane import Plane, Setup
from simulator.control.records import held, newest_time
from simulator.control.sagemaker.quotas import DEFAULT_MOST
from simulator.errors import SimulatorError
from simulator.runners.leftovers import end_left, note
from simulator.sizes import read_room
from simulator.watch.console import make_console, tell_event
from simulator.watch.events import Event, EventLog

#: Of the service model: the types that a variant may have.
_INSTANCE_TYPE = "ProductionVariantInstanceType"
#: Where the containers that run are noted, below the work folder.
_PIDS = "pids"
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
    parser.set_defaults(run=run)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    parser.add_argument(
        "--port", type=read_port, default=8090, help="default: 8090; 0: any free one"
    )
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FOLDER",
        help="where everything is kept that survives a restart (default: nothing does)",
    )
    parser.add_argument(
        "--region",
        default=os.environ.get("AWS_DEFAULT_REGION", REGION),
        help=f"of what is not signed (AWS_DEFAULT_REGION, or {REGION})",
    )
    parser.add_argument(
        "--memory-of",
        action="append",
        default=[],
        type=_read_memory,
        metavar="TYPE=SIZE",
        help="memory of an instance type, such as ml.c5.xlarge=4GB (default: AWS's)",
    )
    parser.add_argument(
        "--quota",
        action="append",
        default=[],
        type=_read_quota,
        metavar="TYPE=N",
        help=f"instances of a type for all endpoints together (default: {DEFAULT_MOST})",
    )
    parser.add_argument(
        "--time-scale",
        type=_read_scale,
        default=1.0,
        metavar="60",
        help="how many seconds of the platform's metrics, alarms, cooldowns and schedules a "
        "second takes (1)",
    )
    add_machine_options(parser.add_argument_group("instances"))
    add_rules_options(parser.add_argument_group("the platform's rules"))


def run(options: argparse.Namespace) -> int:
    """Until Ctrl-C or SIGTERM; 1 with one sentence where it cannot start."""
    # Until it serves: whatever was made goes, as it does later.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with ExitStack() as stack:
            socket = stack.enter_context(listen(options.host, options.port))
            if options.state is not None:
                stack.enter_context(held(options.state))
            _check_types([*options.memory_of, *options.quota])
            work_dir = _work_dir(options.state, stack)
            url = make_url(options.host, socket.getsockname()[1])
            make_machine = stack.enter_context(machines(options))
            moto_url = stack.enter_context(running(work_dir / "moto", options.state))
            log = EventLog()
            log.listen(make_console(partial(print, flush=True), options.verbose))
            setup = Setup(
                state=options.state or work_dir / "state",
                work_dir=work_dir / "instances",
                region=options.region,
                rules=read_rules(options),
                memory=dict(options.memory_of),
                quotas=dict(options.quota),
                clock=Clock(options.time_scale, earliest=_newest(options.state)),
                make_machine=make_machine,
                s3=make_local_client(moto_url),
                moto_url=moto_url,
                registry=options.registry,
            )
            plane, ending = Plane(setup, log), asyncio.Event()
            plane.endpoints.listeners.event += [
                partial(tell_event, partial(print, flush=True), options.verbose),
                partial(_note, work_dir / _PIDS),
            ]
            print(
                f"SageMaker at {url}: AWS_ENDPOINT_URL={url}; its page is {url}/; Ctrl-C ends it",
                flush=True,
            )
            serve_app(plane.app(), socket, ending, plane.refuse, Failures())
    except (SimulatorError, OSError, ValueError) as error:
        print(f"simulator: {error}", file=sys.stderr)
        return 1
    return 0


def _work_dir(state: Path | None, stack: ExitStack) -> Path:
    """What is not kept; beside the state, where there is one: what a killed one left is removed."""
    if state is None:
        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="simulator-")))
    work_dir = state.absolute() / "work"
    if ended := end_left(work_dir / _PIDS):
        print(f"{ended} containers that a killed simulator left were ended", flush=True)
    try:
        shutil.rmtree(work_dir, ignore_errors=True)
        work_dir.mkdir(parents=True)
    except OSError as error:
        raise OSError(
            f"--state {state}: no folder can be made there ({error.strerror}): name another"
        ) from error
    return work_dir


def _newest(state: Path | None) -> float:
    """The newest time that is kept, so that the platform's clock does not go back."""
    return 0.0 if state is None else newest_time(state)


def _check_types(given: Sequence[tuple[str, int]]) -> None:
    """Raises ValueError for an instance type that SageMaker does not have."""
    known: Sequence[str] = ()
    for name, _ in given:
        known = known or read_service_model("sagemaker").shape_for(_INSTANCE_TYPE).enum
        if name not in known:
            nearest = difflib.get_close_matches(name, known, 1)
            meant = f"; did you mean {nearest[0]}?" if nearest else ""
            raise ValueError(f"{name!r} is no instance type of SageMaker's endpoints{meant}")


def _note(folder: Path, _: str, event: Event) -> None:
    pid = event.fields.get("pid")
    if event.kind == "instance_starting" and isinstance(pid, int):
        note(folder, pid)


def _pair(text: str, example: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("ml."):
        raise argparse.ArgumentTypeError(f"{text!r}: expected {example}")
    return name, value


def _read_memory(text: str) -> tuple[str, int]:
    name, size = _pair(text, "TYPE=SIZE, as ml.c5.xlarge=4GB")
    try:
        return name, read_room(size)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _read_quota(text: str) -> tuple[str, int]:
    name, count = _pair(text, "TYPE=N, as ml.c5.xlarge=4")
    if not count.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of instances")
    return name, int(count)


def _read_scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 1 <= scale <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 1 to 10000")
    return scale
