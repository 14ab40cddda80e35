"""python -m simulator replay: traffic on many copies of a model, and a report about it."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from merlin_simulator.commands import arguments
from merlin_simulator.interrupts import INTERRUPTED, leaving_at_once
from merlin_simulator.measuring.quantities import read_capacity
from merlin_simulator.replay.settings import (
    OWN_ENDPOINT,
    Interrupted,
    ReplayError,
    Settings,
    read_capture_path,
)
from merlin_simulator.rules import CacheSetting

_EPILOG = """\
Archives are named model-001.tar.gz and so on, with as many digits as the last one has; model-001 is
the most popular. Without --model each holds a small Python model that answers its own name, so that
each answer is checked against the model that was asked. With --model, each answer is compared with
expected.json beside the request, or with the same model's first answer. Where answers are drawn by
chance, "drawn" in expected.json says of which outputs there: {"ordered_ids": "candidate_ids"}.

Exit code: 0 when all planned requests were sent and every answer was right, 1 when not, 2 for a
wrong command line, 130 after Ctrl-C, which writes a report of what was measured until then.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The subcommand `replay`; options.run(options) does it and returns the exit code."""
    parser = subparsers.add_parser(
        "replay",
        help="send traffic to many copies of a model, and write a report",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_traffic(parser.add_argument_group("traffic"))
    _add_models(parser.add_argument_group("models"))
    _add_endpoint(parser.add_argument_group("endpoint"))
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FOLDER",
        default=Path("replay-report"),
        help="for report.html, report.json and logs/ (default: replay-report)",
    )
    parser.set_defaults(run=run, error=parser.error)


def run(options: argparse.Namespace) -> int:
    """The replay that the options ask for; what keeps it from being done is said on stderr."""
    with leaving_at_once():
        # `up` and `s3` need not wait for its libraries.
        from merlin_simulator.replay.run import NOT_GOOD, make_archives, replay

    settings = _settings(options)
    # Before the traffic, too, SIGTERM clears away what was made.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if options.archives_only:
            make_archives(settings, options.archives_only)
            return 0
        return replay(settings, options.report)
    except (ReplayError, OSError) as error:
        print(f"replay: {error}", file=sys.stderr)
        return INTERRUPTED if isinstance(error, Interrupted) else NOT_GOOD


def _settings(options: argparse.Namespace) -> Settings:
    if bool(options.endpoint_url) != bool(options.endpoint_name):
        options.error("found one of --endpoint-url and --endpoint-name, expected both or neither")
    if options.request and not options.model:
        options.error("found --request without --model, which it is sent to; give both")
    if options.capture:
        _check_capture(options)
    elif options.speed != 1.0:
        options.error("found --speed without --capture, whose speed it is; give both")
    given = options.endpoint_url
    if given and (options.instances or options.memory or options.disk or options.cache):
        options.error(
            "--instances, --memory, --disk and --cache are for an endpoint that the replay starts"
        )
    return Settings(
        options.models,
        options.zipf,
        options.rps,
        options.duration,
        options.seed,
        options.outstanding,
        options.instances or 1,
        options.memory,
        options.disk,
        options.model,
        options.request,
        options.cache,
        options.capture,
        options.speed,
        given and given.rstrip("/"),
        options.endpoint_name or OWN_ENDPOINT,
    )


def _check_capture(options: argparse.Namespace) -> None:
    default = Settings()
    refused = {
        "--models": options.models != default.models,
        "--zipf": options.zipf != default.zipf,
        "--rps": options.rps != default.rps,
        "--duration": options.duration != default.duration_s,
        "--seed": options.seed != default.seed,
        "--request": options.request,
        "--archives-only": options.archives_only,
    }
    if found := [option for option, is_given in refused.items() if is_given]:
        options.error(f"found {found[0]} with --capture, which says what is asked and when")
    if options.endpoint_url and options.model:
        options.error("found --model with --endpoint-url, whose archives --capture is sent to")


def _add_traffic(group: argparse._ArgumentGroup) -> None:
    default = Settings()
    for option, read, value, metavar, text in (
        ("--models", arguments.count, default.models, "N", "how many archives"),
        (
            "--zipf",
            arguments.at_least(0.0),
            default.zipf,
            "S",
            "exponent of their popularity, 0: all alike",
        ),
        (
            "--rps",
            arguments.at_least(1e-3),
            default.rps,
            "RATE",
            "requests a second on average, with Poisson arrivals",
        ),
        (
            "--duration",
            arguments.at_least(1e-3),
            default.duration_s,
            "SECONDS",
            "how long requests are sent",
        ),
        ("--seed", int, default.seed, "S", "fixes which model is asked when"),
        (
            "--outstanding",
            arguments.count,
            default.outstanding,
            "N",
            "requests that may wait for an answer at once; those due beyond that are not sent, "
            "and counted",
        ),
    ):
        text = f"{text} (default: %(default)s)"
        group.add_argument(option, type=read, default=value, metavar=metavar, help=text)
    group.add_argument(
        "--capture",
        type=arguments.keep_sentence(read_capture_path),
        metavar="FILE|DIR",
        help="send the requests of a data capture with the gaps between them, in the place of "
        "drawn ones: DIR/<endpoint>/<variant>/<target model>/yyyy/mm/dd/hh/*.jsonl (or "
        "*.jsonl.gz), of all models and hours. They go to the archives of --model or "
        "--endpoint-url, and answers are not compared; without either, archives of the replay's "
        "own have those names and are asked at those times",
    )
    group.add_argument(
        "--speed",
        type=arguments.at_least(1e-3),
        default=default.speed,
        metavar="X",
        help="of a capture: 24 sends a day's requests in an hour (default: %(default)s)",
    )


def _add_models(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--model",
        type=arguments.folder,
        metavar="FOLDER",
        help="a Triton model repository, as Ensemble.export writes it; a folder with such a one as "
        "repository/, beside its request.json; or a folder of several of either kind, which copies "
        "then take turns with. With --capture: the folder of the captured archives, NAME.tar.gz",
    )
    add(
        "--request",
        type=Path,
        metavar="FILE",
        help="the request for all models, as JSON (default: of each model request.json beside the "
        "repository or in it; `python -m ensemble_tools request` writes one)",
    )
    add(
        "--archives-only",
        type=Path,
        metavar="FOLDER",
        help="make the archives there, for an endpoint that is started by other means; no traffic",
    )


def _add_endpoint(group: argparse._ArgumentGroup) -> None:
    add, room = group.add_argument, arguments.keep_sentence(_check_capacity)
    add("--instances", type=arguments.count, metavar="N", help="containers (default: 1)")
    add("--memory", type=room, metavar="SIZE", help="of each instance: 4GB")
    add("--disk", type=room, metavar="SIZE", help="of each instance, for archives: 20GB")
    add(
        "--cache",
        choices=[setting.value for setting in CacheSetting],
        help="ModelCacheSetting (default: Enabled)",
    )
    add(
        "--endpoint-url",
        metavar="URL",
        help="an endpoint of this simulator that runs already, with the archives in its store",
    )
    add("--endpoint-name", metavar="NAME", help="its name")


def _check_capacity(text: str) -> str:
    """As it was written, which `up` reads once more."""
    read_capacity(text)
    return text
