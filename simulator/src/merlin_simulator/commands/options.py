"""Options that several commands have: the platform's rules, and where instances run."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from merlin_simulator.commands import arguments
from merlin_simulator.rules import MIB, CacheSetting, Rules, WithoutMemory
from merlin_simulator.runners.attached import Attachment, read_attachment

_DEFAULTS = Rules()
#: CreateEndpoint's pattern.
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_REGISTRY = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9a-f:]+\]:\d{1,5}")


def add_options(parser: argparse.ArgumentParser) -> None:
    """In three groups."""
    _add_endpoint_options(parser.add_argument_group("the endpoint"))
    _add_instance_options(parser.add_argument_group("instances"))
    rules = parser.add_argument_group("the platform's rules")
    _add_room_options(rules)
    add_rules_options(rules)


def add_address_options(group: argparse._ActionsContainer) -> None:
    """Where a server listens."""
    group.add_argument("--host", default="127.0.0.1", help="address to listen at (127.0.0.1)")
    group.add_argument(
        "--port", type=arguments.port, default=8090, help="default: 8090; 0: any free one"
    )


def _add_endpoint_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    models = "where the archives (.tar.gz) lie"
    add("--models", required=True, metavar="FOLDER|s3://BUCKET/PREFIX", help=models)
    add("--s3-endpoint-url", metavar="URL", help="another S3 than AWS's (default: boto3's choice)")
    name = arguments.make_reader(
        str,
        "up to 63 letters, digits and inner hyphens, as SageMaker",
        lambda text: _NAME.fullmatch(text) is not None,
    )
    add("--endpoint-name", type=name, default="local", metavar="NAME", help="default: local")
    add_address_options(group)
    add(
        "--public-url",
        metavar="URL",
        help="what callers ask, where it is another address than --host and --port: that of a "
        "published port of Docker; it is told, and its host is taken",
    )
    add(
        "--single-model",
        metavar="ARCHIVE",
        help="a single-model endpoint for this archive of --models; an archive with several "
        "models needs SAGEMAKER_TRITON_DEFAULT_MODEL_NAME in the environment, which the container "
        "has, too (for a Merlin export executor_model)",
    )


def _add_instance_options(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--instances", type=arguments.count, metavar="N", help="default: 1")
    add(
        "--container",
        metavar="COMMAND",
        help="the container's command; {port} and {models} in it are filled in, and its "
        "environment has SAGEMAKER_MULTI_MODEL and SAGEMAKER_BIND_TO_PORT "
        "(default: this project's own, python -m container serve)",
    )
    add(
        "--instance",
        action="append",
        default=[],
        type=arguments.keep_sentence(read_attachment),
        metavar="URL=FOLDER",
        help="a container that runs already, and the folder that both see as its "
        "/opt/ml/models (URL=FOLDER=AS_SEEN_THERE where the paths differ); may be repeated; a "
        "host name with several addresses is several instances",
    )
    engine = "the engine that runs the --instance containers, to see their memory"
    add("--docker-socket", metavar="URL", help=engine)
    add(
        "--work-dir",
        type=Path,
        metavar="FOLDER",
        help="extracted archives and the containers' logs (default: temporary, removed at the end; "
        "the logs of a container that never started are kept)",
    )


def _add_room_options(group: argparse._ArgumentGroup) -> None:
    add, room = group.add_argument, arguments.room
    add("--memory", type=room, metavar="4GB", help="of each instance; default: not looked at")
    add("--disk", type=room, metavar="20GB", help="of each instance, for extracted archives")
    add(
        "--cache",
        choices=[setting.value for setting in CacheSetting],
        default=_DEFAULTS.cache.value,
        help="ModelCacheSetting; Disabled unloads and deletes after each invocation",
    )


#: Option, field of Rules, reader of its value, metavar, help.
_RULES = (
    ("--memory-threshold", "memory_threshold", arguments.part, "0.9",
     "part of an instance's memory above which a load unloads other models first"),
    ("--evictions", "evictions_per_call", arguments.count, "N",
     "models unloaded for one load or invocation at most (%(default)s)"),
    ("--busy-at", "busy_at", arguments.count, "N",
     "requests of one model on each of its instances that make another load a copy"),
    ("--loads-at-once", "loads_at_once", arguments.count, "N",
     "loads that an instance does at the same time (twice the cores: %(default)s)"),
    ("--max-payload", "payload_bytes", arguments.size, "SIZE",
     f"of an invocation's body at most ({_DEFAULTS.payload_bytes // MIB}MB)"),
    ("--invoke-timeout", "invoke_timeout_s", arguments.seconds, "S",
     "seconds for the container's answer (%(default)g)"),
    ("--cold-wait", "cold_wait_s", arguments.seconds, "S",
     "seconds until ModelNotReadyException (%(default)g)"),
    ("--load-timeout", "load_timeout_s", arguments.seconds, "S",
     "seconds for a load (%(default)g)"),
    ("--unload-timeout", "unload_timeout_s", arguments.seconds, "S",
     "seconds for an unload (%(default)g)"),
    ("--startup-timeout", "startup_s", arguments.seconds, "S",
     "seconds until a container is healthy (%(default)g)"),
    ("--ping-every", "ping_every_s", arguments.seconds, "S",
     "seconds between two health checks (%(default)g)"),
)  # fmt: skip


def add_rules_options(group: argparse._ArgumentGroup) -> None:
    """Those of any endpoint; see read_rules."""
    for option, field, read, metavar, text in _RULES:
        default = getattr(_DEFAULTS, field)
        group.add_argument(
            option, dest=field, type=read, default=default, metavar=metavar, help=text
        )
    group.add_argument(
        "--without-memory",
        choices=[answer.value for answer in WithoutMemory],
        default=_DEFAULTS.without_memory.value,
        help="what the caller gets when unloading others made no room",
    )
    group.add_argument("--verbose", action="store_true", help="a line for each invocation, too")


def read_rules(options: argparse.Namespace) -> Rules:
    """The platform's rules, as the options change them."""
    return replace(
        _DEFAULTS,
        **{field: getattr(options, field) for _, field, *_ in _RULES},
        without_memory=WithoutMemory(options.without_memory),
        cache=CacheSetting(getattr(options, "cache", _DEFAULTS.cache.value)),
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


HERE, DOCKER = "this-machine", "docker"


def add_machine_options(group: argparse._ArgumentGroup) -> None:
    """Where instances run; see control_plane.py."""
    add = group.add_argument
    add(
        "--instances-on",
        choices=[HERE, DOCKER],
        default=HERE,
        help=f"{HERE}: containers are processes of this project, whatever Image says (default). "
        f"{DOCKER}: containers of the Docker engine of this machine (DOCKER_HOST, or "
        "/var/run/docker.sock), made of the model's Image, with the memory of their instance "
        "type; an image that the engine does not have is pulled. All of them are removed at the "
        "end; those of a simulator that was killed, at the next start",
    )
    add(
        "--container",
        metavar="COMMAND",
        help="the processes' command; {port} and {models} in it are filled in (default: this "
        "project's own, python -m container serve)",
    )
    registry = arguments.make_reader(
        str, "HOST:PORT, as 127.0.0.1:5000", lambda text: _REGISTRY.fullmatch(text) is not None
    )
    add(
        "--registry",
        type=registry,
        metavar="HOST:PORT",
        help=f"with {DOCKER}: where images of ECR are pulled from, so that "
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/NAME:TAG is HOST:PORT/NAME:TAG, unless the "
        "engine has one of the long name; 127.0.0.1:5000, a registry of this machine, needs no "
        "TLS; ECR's calls about images tell what it has (default: ECR itself, with what docker "
        "login has kept)",
    )
    add(
        "--pull-timeout",
        type=arguments.seconds,
        default=1800.0,
        metavar="SECONDS",
        help=f"with {DOCKER}: how long an image may be pulled (%(default)g)",
    )
