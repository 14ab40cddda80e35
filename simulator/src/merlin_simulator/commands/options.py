"""Options that several commands have: rules, ports, durations, and where instances run."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from merlin_simulator.measuring.quantities import read_room, read_size
from merlin_simulator.rules import MIB, CacheSetting, Rules, WithoutMemory
from merlin_simulator.runners.attached import Attachment, read_attachment

_DEFAULTS = Rules()


def add_options(parser: argparse.ArgumentParser) -> None:
    """In three groups."""
    _add_endpoint_options(parser.add_argument_group("the endpoint"))
    _add_instance_options(parser.add_argument_group("instances"))
    rules = parser.add_argument_group("the platform's rules")
    _add_room_options(rules)
    add_rules_options(rules)


def _add_endpoint_options(group: argparse._ArgumentGroup) -> None:
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
        "--endpoint-name", type=_read_name, default="local", metavar="NAME", help="default: local"
    )
    group.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    group.add_argument(
        "--port", type=read_port, default=8090, help="default: 8090; 0: any free one"
    )
    group.add_argument(
        "--public-url",
        metavar="URL",
        help="what callers ask, where it is another address than --host and --port: that of a "
        "published port of Docker; it is told, and its host is taken",
    )
    group.add_argument(
        "--single-model",
        metavar="ARCHIVE",
        help="a single-model endpoint for this archive of --models; an archive with several "
        "models needs SAGEMAKER_TRITON_DEFAULT_MODEL_NAME in the environment, which the container "
        "has, too (for a Merlin export executor_model)",
    )


def _add_instance_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--instances", type=_read_count, metavar="N", help="default: 1")
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
        type=_read_attachment,
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
        help="extracted archives and the containers' logs (default: temporary, removed at the end; "
        "the logs of a container that never started are kept)",
    )


def _add_room_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--memory", type=_read_room, metavar="4GB", help="of each instance; default: not looked at"
    )
    group.add_argument(
        "--disk", type=_read_room, metavar="20GB", help="of each instance, for extracted archives"
    )
    group.add_argument(
        "--cache",
        choices=[setting.value for setting in CacheSetting],
        default=_DEFAULTS.cache.value,
        help="ModelCacheSetting; Disabled unloads and deletes after each invocation",
    )


def add_rules_options(group: argparse._ArgumentGroup) -> None:
    """Those of any endpoint; see read_rules."""
    group.add_argument(
        "--memory-threshold",
        type=_read_share,
        default=_DEFAULTS.memory_threshold,
        metavar="0.9",
        help="part of an instance's memory above which a load unloads other models first",
    )
    group.add_argument(
        "--evictions",
        type=_read_count,
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
        type=_read_count,
        default=_DEFAULTS.busy_at,
        metavar="N",
        help="requests of one model on each of its instances that make another load a copy",
    )
    group.add_argument(
        "--loads-at-once",
        type=_read_count,
        default=_DEFAULTS.loads_at_once,
        metavar="N",
        help="loads that an instance does at the same time (twice the cores: "
        f"{_DEFAULTS.loads_at_once})",
    )
    group.add_argument(
        "--max-payload",
        type=_read_size,
        default=_DEFAULTS.payload_bytes,
        metavar="SIZE",
        help=f"of an invocation's body at most ({_DEFAULTS.payload_bytes // MIB}MB)",
    )
    _add_seconds(
        group, "--invoke-timeout", _DEFAULTS.invoke_timeout_s, "for the container's answer"
    )
    _add_seconds(group, "--cold-wait", _DEFAULTS.cold_wait_s, "until ModelNotReadyException")
    _add_seconds(group, "--load-timeout", _DEFAULTS.load_timeout_s, "for a load")
    _add_seconds(group, "--unload-timeout", _DEFAULTS.unload_timeout_s, "for an unload")
    _add_seconds(group, "--startup-timeout", _DEFAULTS.startup_s, "until a container is healthy")
    _add_seconds(group, "--ping-every", _DEFAULTS.ping_every_s, "between two health checks")
    group.add_argument("--verbose", action="store_true", help="a line for each invocation, too")


def _add_seconds(group: argparse._ArgumentGroup, name: str, default: float, subject: str) -> None:
    group.add_argument(
        name,
        type=read_duration,
        default=default,
        metavar="S",
        help=f"seconds {subject} ({default:g})",
    )


def find_conflict(options: argparse.Namespace) -> str | None:
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
    return _find_shared_folder(options.instance)


def _find_shared_folder(attachments: Sequence[Attachment]) -> str | None:
    roots = [attachment.root.resolve() for attachment in attachments]
    shared = next((root for root in roots if roots.count(root) > 1), None)
    if shared is None:
        return None
    return (
        f"{shared} is the folder of more than one --instance, and each empties its own: "
        "give each container another (a host name of several containers needs one only)"
    )


def read_rules(options: argparse.Namespace) -> Rules:
    """The platform's rules, as the options change them."""
    rules = replace(
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
        busy_at=options.busy_at,
        loads_at_once=options.loads_at_once,
    )
    return replace(rules, cache=CacheSetting(getattr(options, "cache", rules.cache.value)))


def read_port(text: str) -> int:
    """0 to 65535."""
    if not text.isdecimal() or not 0 <= int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected 0 to 65535")
    return int(text)


def _read_share(text: str) -> float:
    share = _read_number(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected more than 0, and 1 at most")
    return share


def read_duration(text: str) -> float:
    """Seconds, more than 0 and not without end."""
    seconds = _read_number(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected seconds, more than 0")
    return seconds


def _read_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number") from None


def _read_name(text: str) -> str:
    """CreateEndpoint's pattern."""
    if not re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", text):
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected up to 63 letters, digits and inner hyphens, as SageMaker"
        )
    return text


def _read_count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a whole number from 1 on")
    return int(text)


def _read_size(text: str) -> int:
    try:
        return read_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _read_room(text: str) -> int:
    try:
        return read_room(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _read_attachment(text: str) -> Attachment:
    try:
        return read_attachment(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


HERE, DOCKER = "this-machine", "docker"
_PULL_S = 1800.0


def add_machine_options(group: argparse._ArgumentGroup) -> None:
    """Where instances run; see machines.py."""
    group.add_argument(
        "--instances-on",
        choices=[HERE, DOCKER],
        default=HERE,
        help=f"{HERE}: containers are processes of this project, whatever Image says (default). "
        f"{DOCKER}: containers of the Docker engine of this machine (DOCKER_HOST, or "
        "/var/run/docker.sock), made of the model's Image, with the memory of their instance "
        "type; an image that the engine does not have is pulled. All of them are removed at the "
        "end; those of a simulator that was killed, at the next start",
    )
    group.add_argument(
        "--container",
        metavar="COMMAND",
        help="the processes' command; {port} and {models} in it are filled in (default: this "
        "project's own, python -m container serve)",
    )
    group.add_argument(
        "--registry",
        type=_read_registry,
        metavar="HOST:PORT",
        help=f"with {DOCKER}: where images of ECR are pulled from, so that "
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/NAME:TAG is HOST:PORT/NAME:TAG, unless the "
        "engine has one of the long name; 127.0.0.1:5000, a registry of this machine, needs no "
        "TLS; ECR's calls about images tell what it has (default: ECR itself, with what docker "
        "login has kept)",
    )
    group.add_argument(
        "--pull-timeout",
        type=read_duration,
        default=_PULL_S,
        metavar="SECONDS",
        help=f"with {DOCKER}: how long an image may be pulled ({_PULL_S:g})",
    )


def _read_registry(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9a-f:]+\]:\d{1,5}", text):
        raise argparse.ArgumentTypeError(f"{text!r}: expected HOST:PORT, as 127.0.0.1:5000")
    return text
