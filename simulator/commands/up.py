"""python -m simulator up: an endpoint on this machine, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import logging
import math
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

import uvicorn

from simulator.app import Runner, build_app
from simulator.archives import archives_at
from simulator.assembly import Wanted, assemble
from simulator.attached import Attachment, read_attachment
from simulator.console import console
from simulator.endpoint import Endpoint
from simulator.errors import PlatformFailed, SimulatorError
from simulator.events import EventLog
from simulator.holdings import Budget
from simulator.rules import CacheSetting, Rules, WithoutMemory
from simulator.sizes import read_size

_logger = logging.getLogger(__name__)
_DEFAULTS = Rules()


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
    _what(parser.add_argument_group("the endpoint"))
    _where(parser.add_argument_group("instances"))
    _how(parser.add_argument_group("the platform's rules"))


_EXAMPLES = """examples:
  python -m simulator up --models archives --endpoint-name demo --port 8090
  python -m simulator up --models s3://bucket/models --s3-endpoint-url http://127.0.0.1:9000 \\
      --endpoint-name demo --port 8090 --instances 2 --memory 4GB --disk 20GB

  aws sagemaker-runtime invoke-endpoint --endpoint-url http://127.0.0.1:8090 \\
      --endpoint-name demo --target-model dense.tar.gz --body fileb://request.json answer.json
"""


def _what(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--models",
        required=True,
        metavar="FOLDER|s3://BUCKET/PREFIX",
        help="where the archives (.tar.gz) lie",
    )
    group.add_argument(
        "--s3-endpoint-url", metavar="URL", help="another S3 than AWS's (default: boto3's choice)"
    )
    group.add_argument(
        "--endpoint-name", type=_name, default="local", metavar="NAME", help="default: local"
    )
    group.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    group.add_argument("--port", type=_port, default=8090, help="default: 8090; 0: any free one")
    group.add_argument(
        "--single-model",
        metavar="ARCHIVE",
        help="a single-model endpoint for this archive of --models; an archive with several "
        "models needs SAGEMAKER_TRITON_DEFAULT_MODEL_NAME in the environment, which the container "
        "has, too (for a Merlin export executor_model)",
    )


def _where(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--instances", type=_count, metavar="N", help="default: 1")
    group.add_argument(
        "--container",
        metavar="COMMAND",
        help="the container's command; {port} and {models} in it are filled in, and its "
        "environment has SAGEMAKER_MULTI_MODEL and SAGEMAKER_BIND_TO_PORT "
        "(default: this project's own, python -m container serve)",
    )
    group.add_argument(
        "--instance",
        action="append",
        default=[],
        type=_attachment,
        metavar="URL=FOLDER",
        help="a container that runs already, and the folder that both see as its "
        "/opt/ml/models (URL=FOLDER=AS_SEEN_THERE where the paths differ); may be repeated; a "
        "host name with several addresses is several instances",
    )
    group.add_argument(
        "--docker-socket",
        metavar="URL",
        help="the engine that runs the --instance containers, to see their memory",
    )
    group.add_argument(
        "--work-dir",
        type=Path,
        metavar="FOLDER",
        help="extracted archives and the containers' logs (default: temporary, removed at the end)",
    )


def _how(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--memory", type=_size, metavar="4GB", help="of each instance; default: not looked at"
    )
    group.add_argument(
        "--memory-threshold",
        type=_share,
        default=_DEFAULTS.memory_threshold,
        metavar="0.9",
        help="part of --memory above which a load unloads other models first",
    )
    group.add_argument(
        "--disk", type=_size, metavar="20GB", help="of each instance, for extracted archives"
    )
    group.add_argument(
        "--cache",
        choices=[setting.value for setting in CacheSetting],
        default=_DEFAULTS.cache.value,
        help="ModelCacheSetting; Disabled unloads and deletes after each invocation",
    )
    group.add_argument(
        "--evictions",
        type=_count,
        default=_DEFAULTS.evictions_per_call,
        metavar="N",
        help=f"models unloaded for one load or invocation at most ({_DEFAULTS.evictions_per_call})",
    )
    group.add_argument(
        "--without-memory",
        choices=[answer.value for answer in WithoutMemory],
        default=_DEFAULTS.without_memory.value,
        help="what the caller gets when that made no room",
    )
    group.add_argument(
        "--busy-at",
        type=_count,
        default=_DEFAULTS.busy_at,
        metavar="N",
        help="requests of one model on each of its instances that make another load a copy",
    )
    group.add_argument(
        "--loads-at-once",
        type=_count,
        default=_DEFAULTS.loads_at_once,
        metavar="N",
        help="loads that an instance does at the same time (twice the cores: "
        f"{_DEFAULTS.loads_at_once})",
    )
    group.add_argument("--max-payload", type=_size, default=_DEFAULTS.payload_bytes, metavar="6MB")
    _seconds(group, "--invoke-timeout", _DEFAULTS.invoke_timeout_s, "for the container's answer")
    _seconds(group, "--cold-wait", _DEFAULTS.cold_wait_s, "until ModelNotReadyException")
    _seconds(group, "--load-timeout", _DEFAULTS.load_timeout_s, "for a load")
    _seconds(group, "--unload-timeout", _DEFAULTS.unload_timeout_s, "for an unload")
    _seconds(group, "--startup-timeout", _DEFAULTS.startup_s, "until a container is healthy")
    _seconds(group, "--ping-every", _DEFAULTS.ping_every_s, "between two health checks")
    group.add_argument("--verbose", action="store_true", help="a line for each invocation, too")


def _seconds(group: argparse._ArgumentGroup, name: str, default: float, what: str) -> None:
    group.add_argument(
        name, type=_duration, default=default, metavar="S", help=f"seconds {what} ({default:g})"
    )


def _checked_run(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    refused = _against_each_other(options)
    if refused is not None:
        parser.error(refused)
    return run(options)


def _against_each_other(options: argparse.Namespace) -> str | None:
    """Why these options cannot be had together; None where they can."""
    if not options.instance:
        if options.docker_socket is not None:
            return "--docker-socket is for the containers of --instance: give that, too"
        return None
    for name in ("instances", "container", "work_dir", "single_model"):
        if getattr(options, name) is not None:
            return (
                f"--{name.replace('_', '-')} is for containers that are started here, and "
                "--instance for those that run already: leave one of them out"
            )
    return _shared_folder(options.instance)


def _shared_folder(attachments: Sequence[Attachment]) -> str | None:
    roots = [attachment.root.resolve() for attachment in attachments]
    shared = next((root for root in roots if roots.count(root) > 1), None)
    if shared is None:
        return None
    return (
        f"{shared} is the folder of more than one --instance, and each empties its own: "
        "give each container another (a host name of several containers needs one only)"
    )


def run(options: argparse.Namespace) -> int:
    """Until Ctrl-C or SIGTERM; 1 with one sentence where it cannot start."""
    try:
        store = archives_at(options.models, options.s3_endpoint_url)
        with ExitStack() as stack:
            listening = stack.enter_context(_listening(options.host, options.port))
            work_dir = _work_dir(options, stack)
            log = EventLog()
            log.listen(console(partial(print, flush=True), options.verbose))
            endpoint, runners = assemble(_wanted(options, work_dir), store, log)
            _say_ready(options, listening.getsockname()[1])
            _serve(endpoint, runners, listening)
    except (SimulatorError, OSError) as error:
        print(f"simulator: {error}", file=sys.stderr)
        return 1
    return 0


class _Server(uvicorn.Server):
    """Says that it stops before it waits for its open answers."""

    def __init__(self, config: uvicorn.Config, ending: asyncio.Event, endpoint: Endpoint) -> None:
        super().__init__(config)
        self._ending, self._endpoint = ending, endpoint

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Event streams end, callers of models that are coming are told, then all else ends."""
        print("ending: requests that are being answered, then the containers", flush=True)
        self._ending.set()
        await self._endpoint.stop()
        await super().shutdown(sockets)


def _serve(endpoint: Endpoint, runners: Sequence[Runner], listening: socket.socket) -> None:
    """Until a signal, or until a runner fails: then raises what it failed with."""
    ending, failures = asyncio.Event(), list[BaseException]()

    def failed(error: BaseException) -> None:
        failures.append(error)
        server.should_exit = True

    config = uvicorn.Config(
        build_app(endpoint, runners, ending, failed),
        # asyncio's own loop: it starts processes without running Python in a forked child.
        loop="asyncio",
        http="httptools",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    # uvicorn raises a signal again once it has stopped for it: by then it has done its work.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    server = _Server(config, ending, endpoint)
    server.run(sockets=[listening])
    if failures:
        raise _told(failures[0])


def _told(error: BaseException) -> Exception:
    """An error as `run` tells it; the log says where one of the simulator's own is from."""
    if isinstance(error, SimulatorError | OSError):
        return error
    _logger.error("the simulator failed", exc_info=error)
    return PlatformFailed(f"it failed ({type(error).__name__}: {error}), by its own fault")


def _wanted(options: argparse.Namespace, work_dir: Path) -> Wanted:
    return Wanted(
        endpoint_name=options.endpoint_name,
        rules=_rules(options),
        budget=Budget(options.memory, options.disk),
        work_dir=work_dir,
        instances=options.instances or 1,
        container=options.container,
        single_model=options.single_model,
        attachments=tuple(options.instance),
        docker_socket=options.docker_socket,
    )


def _rules(options: argparse.Namespace) -> Rules:
    return replace(
        _DEFAULTS,
        invoke_timeout_s=options.invoke_timeout,
        load_timeout_s=options.load_timeout,
        unload_timeout_s=options.unload_timeout,
        cold_wait_s=options.cold_wait,
        startup_s=options.startup_timeout,
        ping_every_s=options.ping_every,
        payload_bytes=options.max_payload,
        memory_threshold=options.memory_threshold,
        evictions_per_call=options.evictions,
        without_memory=WithoutMemory(options.without_memory),
        cache=CacheSetting(options.cache),
        busy_at=options.busy_at,
        loads_at_once=options.loads_at_once,
    )


def _work_dir(options: argparse.Namespace, stack: ExitStack) -> Path:
    if options.work_dir is None:
        # A download that was left behind may still write: its file is gone all the same.
        temporary = tempfile.TemporaryDirectory(prefix="simulator-", ignore_cleanup_errors=True)
        return Path(stack.enter_context(temporary))
    work_dir: Path = options.work_dir.absolute()
    work_dir.mkdir(parents=True, exist_ok=True)
    return work_dir


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(
            f"port {port} of {host} cannot be listened at ({error.strerror}): choose another --port"
        ) from error


def _say_ready(options: argparse.Namespace, port: int) -> None:
    url = f"http://{_reached_at(options.host)}:{port}"
    print(
        f"endpoint {options.endpoint_name} at {url} (the page: {url}/); Ctrl-C ends it", flush=True
    )


def _reached_at(host: str) -> str:
    """What callers on this machine say for an address that is listened at."""
    host = {"0.0.0.0": "localhost", "": "localhost", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected 0 to 65535")
    return int(text)


def _share(text: str) -> float:
    share = _number(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected more than 0, and 1 at most")
    return share


def _duration(text: str) -> float:
    seconds = _number(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected seconds, more than 0")
    return seconds


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number") from None


def _name(text: str) -> str:
    """CreateEndpoint's pattern."""
    if not re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", text):
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected up to 63 letters, digits and inner hyphens, as SageMaker"
        )
    return text


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from 1 on")
    return int(text)


def _size(text: str) -> int:
    try:
        return read_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _attachment(text: str) -> Attachment:
    try:
        return read_attachment(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
