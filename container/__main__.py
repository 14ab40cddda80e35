"""python -m container serve: the container's one program, and docker's entry point."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

from container.constants import Constants
from container.settings.reading import UNITS, format_settings_table
from ensemble_tools.command_start import start_command
from ensemble_tools.signals import heeded, reader_is_gone

#: What an image sets for the libraries of its models. Ours read it when they are imported: of
#: protobuf Merlin's images choose the slow one, and another image one that ours does not have.
MODELS_ALONE = ("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION",)


def as_program(name: str) -> int:
    """Run the program under the name by which it was called; its exit code."""
    return main(program=name)


def main(
    arguments: Sequence[str] | None = None,
    program: str = "python -m container",
    constants: Constants | None = None,
) -> int:
    """Run the program; its exit code. constants: None for the container's own."""
    parser = _make_parser(program)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(
            f"unrecognized arguments: {' '.join(unknown)}; settings come from environment "
            f"variables, which `{program} settings` lists"
        )
    if options.command == "settings":
        try:
            print(f"{UNITS}\n\n{format_settings_table()}", flush=True)
        except BrokenPipeError:
            return reader_is_gone()
        return 0
    # Until the container listens to signals itself; as process 1 it has no default action.
    for number in heeded():
        signal.signal(number, lambda *_: sys.exit(0))
    environment = dict(os.environ)
    for name in MODELS_ALONE:
        os.environ.pop(name, None)
    from container.entrypoint import serve  # it takes a tenth of a second

    return serve(environment, constants)


def _make_parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="A SageMaker serving container for NVIDIA Merlin models.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "serve",
        help="start the SageMaker API and tritonserver, and run until SIGTERM",
        description=(
            "Start the SageMaker container API (port 8080) and a supervised tritonserver. All "
            f"settings come from environment variables; `{program} settings` lists them."
        ),
        epilog=(
            "Exit codes: 0 stopped by SIGTERM or SIGINT, 1 it could not start or tritonserver "
            "could not be kept alive (the last line of the log says why), 2 misuse."
        ),
    )
    commands.add_parser(
        "settings", help="print the table of environment variables, their effects and defaults"
    )
    return parser


if __name__ == "__main__":
    start_command("python -m container", "server")
    sys.exit(main())
