"""Every command with its options. Libraries are imported once a command is chosen."""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

_DESCRIPTION = """From an export to an autoscaled endpoint of SageMaker. Every command can be called
again: it finishes what was cut off. With AWS_ENDPOINT_URL set to `python -m simulator serve` all of
it runs on this machine."""
#: Waiting for an endpoint, in seconds; traffic that `status` shows, in minutes; requests of
#: `invoke`; the age in hours that `archives --prune` leaves alone.
_TIMEOUT_S, _LEAST_S = 3600.0, sys.float_info.min
_MINUTES, _MOST_MINUTES = 60, 24 * 60
_MOST_REPEATS = 100_000
_HOURS, _MOST_HOURS = 24.0, 1e6
#: Between two looks of `status --watch`, in seconds: CloudWatch has something new each minute.
_WATCH_S = 10.0
POLICIES = ("trust", "role", "deploy", "tenant")


class Parser(argparse.ArgumentParser):
    """The parser of one command: it answers an unknown option with the usage of the command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """The options. An argument that is none of them ends the program with the usage."""
        options, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return options, unknown


@dataclass(frozen=True)
class Command:
    """One command and its options."""

    help: str
    description: str
    add_options: Callable[[Parser], None]
    interrupted: str = ""  # a sentence about what Ctrl-C leaves


def read_command(program: str) -> Callable[[], int]:
    """A function that runs the command of sys.argv, and returns its exit code.

    program: the name by which it was called. KeyboardInterrupt comes with what the command leaves.
    """
    parser = argparse.ArgumentParser(prog=program, description=_DESCRIPTION)
    parsers = parser.add_subparsers(
        title="commands",
        required=True,
        metavar="COMMAND",
        dest="command",
        parser_class=Parser,
    )
    for name, command in COMMANDS.items():
        command.add_options(
            parsers.add_parser(name, help=command.help, description=command.description)
        )
    options = parser.parse_args()
    from merlin_deploy import commands

    carry_out = getattr(commands, options.command)

    def run() -> int:
        try:
            return int(carry_out(options))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(COMMANDS[options.command].interrupted) from None

    return run


def _add_config(parser: Parser) -> None:
    parser.add_argument(
        "config",
        type=Path,
        metavar="CONFIG.toml",
        help="what the endpoint is to be; `python -m deploy example` prints one",
    )


def _add_dry_run(parser: Parser) -> None:
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="change nothing: look, and print the calls as lines of the AWS CLI",
    )


def _add_change_options(parser: Parser) -> None:
    """Options of a command that changes an endpoint, and waits for it."""
    _add_config(parser)
    _add_dry_run(parser)
    parser.add_argument(
        "--timeout",
        type=partial(_read_number, expected="a number of seconds above 0", least=_LEAST_S),
        default=_TIMEOUT_S,
        metavar="SECONDS",
        help=f"how long to wait for the endpoint ({_TIMEOUT_S:.0f}); it goes on after that",
    )


def _add_push_options(parser: Parser) -> None:
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
    _add_dry_run(parser)


def _add_put_options(parser: Parser) -> None:
    _add_config(parser)
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="ARCHIVE|DIR",
        help="a .tar.gz; a folder with models, which is packed; or a folder of such archives and "
        "folders, each of which is one (other files in it are left out, and told)",
    )
    parser.add_argument(
        "--as",
        dest="name",
        metavar="NAME",
        help="what it is called, for one archive (default: its own name, without .tar.gz): "
        "printable ASCII characters but for slashes",
    )
    parser.add_argument(
        "--no-check", action="store_true", help="put them even if they could not be served"
    )
    _add_proof_options(
        parser.add_argument_group(
            "a comparison that the archive has to pass",
            "docs/compare.md has the measures, and what ranks. What is kept of it is a report, at "
            "comparisons/NAME/DIGEST.json and .html below endpoint.archives.",
        )
    )
    _add_dry_run(parser)


def _add_proof_options(group: argparse._ArgumentGroup) -> None:
    """Options of `python -m ensemble_tools compare`, which get there as they are."""
    group.add_argument(
        "--compared-with",
        metavar="current|OLD",
        help="put it only if it may take the place of this archive: that which its name means "
        "now, or OLD, a file or a folder of this machine. The models of both are run HERE, in a "
        "tritonserver: do it only with archives that you trust",
    )
    group.add_argument(
        "--requests",
        metavar="FILE|DIR",
        help="what both are asked, as `compare` takes it",
    )
    for name, metavar, meaning in (
        ("--at-least", "MEASURE=X", "as in overlap@10=0.8; may be given several times"),
        ("--scores", "NAME", "the output that has scores; may be given several times"),
        ("--ids", "NAME", "the output that lists ids of items, best first"),
        ("--user", "NAME", "the input that names the user of each row"),
    ):
        group.add_argument(
            name,
            dest="compare_options",
            action="append",
            default=[],
            type=f"{name}={{}}".format,
            metavar=metavar,
            help=meaning,
        )


def _add_status_options(parser: Parser) -> None:
    _add_config(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document, for programs")
    parser.add_argument(
        "--minutes",
        type=partial(
            _read_whole,
            expected=f"a whole number of minutes from 1 to {_MOST_MINUTES}",
            most=_MOST_MINUTES,
        ),
        default=_MINUTES,
        help=f"of the traffic that is shown ({_MINUTES}; at most {_MOST_MINUTES})",
    )
    parser.add_argument(
        "--watch",
        action="store_const",
        const=_WATCH_S,
        help=f"again every {_WATCH_S:.0f} s, until Ctrl-C; with --json one document a line",
    )


def _add_invoke_options(parser: Parser) -> None:
    _add_config(parser)
    archive = parser.add_mutually_exclusive_group()
    archive.add_argument(
        "--model", metavar="NAME", help="a name of `put --as`; needless if only one"
    )
    archive.add_argument("--target-model", metavar="KEY", help="an archive as TargetModel has it")
    parser.add_argument(
        "--request", required=True, metavar="FILE", help="the request's body; - is stdin"
    )
    parser.add_argument(
        "--content-type", metavar="TYPE", help="of the body; left out: it is found out"
    )
    parser.add_argument(
        "--header-size",
        type=_read_header_size,
        metavar="BYTES",
        help='how many bytes of a binary body are its JSON; "auto", the default: it is found out',
    )
    parser.add_argument("--pretty", action="store_true", help="indent a JSON answer")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the answer there")
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--stream", action="store_true", help="print parts as they come (single-model endpoints)"
    )
    how.add_argument(
        "--repeat",
        type=partial(
            _read_whole, expected=f"a number from 1 to {_MOST_REPEATS}", most=_MOST_REPEATS
        ),
        default=1,
        metavar="N",
        help="send it N times, one after the other; the first answer is printed, and p50 and p99",
    )


def _add_rollback_options(parser: Parser) -> None:
    _add_change_options(parser)
    parser.add_argument(
        "--archive", metavar="NAME", help="the archive of this name goes back, not the endpoint"
    )


def _add_archives_options(parser: Parser) -> None:
    _add_config(parser)
    parser.add_argument("--prune", action="store_true", help="delete what no name means or meant")
    parser.add_argument(
        "--min-age",
        type=_read_hours,
        default=timedelta(hours=_HOURS),
        metavar="HOURS",
        help=f"--prune leaves what is younger ({_HOURS:.0f}): its `put` may not be done yet",
    )
    _add_dry_run(parser)


def _add_render_options(parser: Parser) -> None:
    _add_config(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write it there, and not to stdout"
    )
    parser.add_argument(
        "--with-role",
        action="store_true",
        help="the template makes the execution role, too, with the least rights; the stack needs "
        "--capabilities CAPABILITY_IAM then",
    )


def _add_policy_options(parser: Parser) -> None:
    _add_config(parser)
    parser.add_argument("whom", nargs="?", choices=POLICIES, help="whose rights")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the tenant's, as `put --as` has it"
    )
    parser.add_argument(
        "--aliases",
        action="store_true",
        help="the tenant may read which archive each name means; it sees all names then",
    )


def _read_number(raw: str, expected: str, least: float, most: float = sys.float_info.max) -> float:
    """A reader for argparse; raises ArgumentTypeError."""
    try:
        number = float(raw)
    except ValueError:
        number = math.nan
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"found {raw!r}, expected {expected}")
    return number


def _read_whole(raw: str, expected: str, most: int = sys.maxsize) -> int:
    """From 1 on. Raises ArgumentTypeError."""
    number = int(raw) if raw.isdecimal() else 0
    if not 1 <= number <= most:
        raise argparse.ArgumentTypeError(f"found {raw!r}, expected {expected}")
    return number


def _read_hours(raw: str) -> timedelta:
    return timedelta(hours=_read_number(raw, "a number of hours from 0 up", 0, _MOST_HOURS))


def _read_header_size(raw: str) -> int | None:
    return None if raw == "auto" else _read_whole(raw, "auto, or a number of bytes above 0")


def _read_registry(raw: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9a-f:]+\]:\d{1,5}", raw):
        raise argparse.ArgumentTypeError(f"{raw!r}: expected HOST:PORT, as 127.0.0.1:5000")
    return raw


_FINISHED_BY_NEXT = "what was begun goes on: the same command finishes it"
#: In the order in which --help lists them.
COMMANDS: Mapping[str, Command] = {
    "example": Command(
        "print a CONFIG.toml with every choice and its reason",
        "Print a CONFIG.toml with every choice and its reason. What is commented out is the "
        "default, or an example where there is none.",
        lambda _: None,
    ),
    "push": Command(
        "bring an image to ECR, and print its line of CONFIG.toml",
        "Bring an image of this machine's Docker engine (DOCKER_HOST) to ECR. The repository is "
        "made where there is none. The login goes to the engine with this one push and is kept "
        "nowhere. What the registry has is not sent again. The line for CONFIG.toml comes on "
        "stdout, all else on stderr.",
        _add_push_options,
        "layers that are there stay: the same command finishes it",
    ),
    "put": Command(
        "check archives, bring them to S3, and give them their names",
        "Check archives by the rules of a load, pack those that are folders, and bring them to "
        "endpoint.archives. Each lies under its digest, NAME/DIGEST.tar.gz: new content is a new "
        "archive, which running instances load at the next request for it. NAME means the new one "
        "from then on, for `invoke` and in aliases.json; `rollback --archive NAME` goes back. What "
        "is there is not sent again. One archive that would be refused stops all, before anything "
        "is sent.",
        _add_put_options,
        "what came to S3 stays: the same command finishes it",
    ),
    "up": Command(
        "make the endpoint what CONFIG.toml says; change only what differs",
        "Make the model, the endpoint configuration, the endpoint, its autoscaling and its alarms "
        "what CONFIG.toml says, and wait until it serves. What is right already is left alone; a "
        "new model or configuration takes over blue/green. A call that was cut off is finished by "
        "the next one.",
        _add_change_options,
        _FINISHED_BY_NEXT,
    ),
    "status": Command(
        "what the endpoint does now: instances, traffic, alarms, archives, what costs",
        "Show the endpoint, whether it is what CONFIG.toml says, its instances, traffic, alarms, "
        "archives, and what costs. It changes nothing. Exit code 1 where there is no endpoint.",
        _add_status_options,
    ),
    "invoke": Command(
        "send a request to the endpoint, and print the answer",
        "Send a request and print its answer; which archive answered, and how long it took, go to "
        "stderr. It is sent once: what AWS refuses is told, not tried again. `python -m "
        "ensemble_tools request` writes requests. Exit code 1 where it is refused.",
        _add_invoke_options,
    ),
    "rollback": Command(
        "go back to the configuration that the endpoint had before",
        "Update the endpoint, blue/green, to the configuration that it had before. A second "
        "rollback goes one step further. The next `up` deploys what CONFIG.toml says. With "
        "--archive, a name means the archive that it meant before, and nothing else changes.",
        _add_rollback_options,
        _FINISHED_BY_NEXT,
    ),
    "archives": Command(
        "list archives by their names, with sizes and ages; delete what no name means",
        "List the archives of endpoint.archives: what each name means now and meant before, sizes "
        "and ages. --prune deletes those that `put` brought and that no name means or meant, as "
        "aliases.json has it, but for those that a model of this endpoint has alone.",
        _add_archives_options,
    ),
    "down": Command(
        "remove everything that `up` made, and say what stays",
        "Remove the endpoint, its autoscaling, its alarms, and all its configurations and models. "
        "Archives, images, logs and the role stay: it says how they go.",
        _add_change_options,
        _FINISHED_BY_NEXT,
    ),
    "render": Command(
        "print the endpoint as a CloudFormation template",
        "Print a CloudFormation template, in JSON, with what `up` makes: for those who deploy by "
        "stacks. AWS is not asked. Either a stack has an endpoint, or `up`: `up`, `rollback` and "
        "`down` do not touch one that a stack made.",
        _add_render_options,
    ),
    "policy": Command(
        "print the least rights of IAM: the role's, yours, a tenant's",
        "Print policies of IAM, in JSON, with nothing that is not needed. trust: who may take the "
        "endpoint's role. role: what it may do. deploy: what these commands need. tenant NAME: to "
        "have the archives of one name asked, and no others. Without any of these: the first "
        "three. AWS is not asked.",
        _add_policy_options,
    ),
}
