"""`invoke CONFIG.toml`: one request to the endpoint, and its answer."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from deploy.aws.account import Account
from deploy.commands.options import add_config, open_account, say_beside
from deploy.config.config import Config
from deploy.config.reading import read_config
from deploy.errors import Refused
from deploy.invoke.answers import write_answer
from deploy.invoke.bodies import Body, make_body
from deploy.invoke.choosing import choose_target
from deploy.invoke.refusals import Asked
from deploy.invoke.sending import Answer, send, stream
from deploy.invoke.timing import write_times
from deploy.quantities import show_bytes
from ensemble_tools.errors import printable

_STDIN = "-"
_MOST_REPEATS = 100_000


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`invoke` and its options."""
    parser = commands.add_parser(
        "invoke",
        help="send a request to the endpoint, and print the answer",
        description="Send a request and print its answer; which archive answered, and how long it "
        "took, go to stderr. It is sent once: what AWS refuses is told, not tried again. "
        "`python -m ensemble_tools request` writes requests. Exit code 1 where it is refused.",
    )
    add_config(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", metavar="NAME", help="a name of `put --as`; needless if only one")
    which.add_argument("--target-model", metavar="KEY", help="an archive as TargetModel has it")
    parser.add_argument(
        "--request", required=True, metavar="FILE", help="the request's body; - is stdin"
    )
    parser.add_argument(
        "--content-type", metavar="TYPE", help="of the body; left out: it is found out"
    )
    parser.add_argument(
        "--header-size",
        type=_header_size,
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
        type=_repeats,
        default=1,
        metavar="N",
        help="send it N times, one after the other; the first answer is printed, and p50 and p99",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Until it is answered."""
    config = read_config(options.config)
    content = _read(options.request)
    body = make_body(content, options.request, options.content_type, options.header_size)
    account = open_account(config, options)
    target = choose_target(account, config, options.model, options.target_model)
    asked = Asked(config.endpoint.name, target)
    if options.stream:
        return _stream(account, asked, body, config, options.output)
    return _send(account, asked, body, config, options)


def _send(
    account: Account, asked: Asked, body: Body, config: Config, options: argparse.Namespace
) -> int:
    seconds: list[float] = []
    try:
        for number in range(options.repeat):
            start = time.perf_counter()
            answer = send(account, asked, body)
            seconds.append(time.perf_counter() - start)
            if number == 0:
                _show(answer, options)
                _tell(asked, answer.variant, config)
    finally:
        if seconds:
            say_beside(write_times(seconds))
    return 0


def _stream(account: Account, asked: Asked, body: Body, config: Config, output: Path | None) -> int:
    if asked.target_model is not None:
        raise Refused(
            "--stream is for single-model endpoints: InvokeEndpointWithResponseStream takes no "
            "TargetModel; set endpoint.single_model, or leave --stream out"
        )
    start = time.perf_counter()
    answer = stream(account, asked, body)
    _tell(asked, answer.variant, config)
    seconds: list[float] = []
    with _opened(output) as file:
        for part in answer.parts:
            seconds.append(time.perf_counter() - start)
            file.write(part)
            file.flush()
    if seconds:
        first, last = write_times(seconds[:1]), write_times(seconds[-1:])
        say_beside(f"{len(seconds)} parts, the first after {first}, all in {last}")
    return 0


def _show(answer: Answer, options: argparse.Namespace) -> None:
    if options.output is None:
        words = write_answer(answer.content, answer.content_type, pretty=options.pretty)
        print(printable(words) if sys.stdout.isatty() else words, flush=True)
        return
    with _opened(options.output) as file:
        file.write(answer.content)
    size = show_bytes(len(answer.content))
    say_beside(f"{options.output}: {size} of {answer.content_type}")


def _tell(asked: Asked, variant: str, config: Config) -> None:
    archive = asked.target_model or config.endpoint.single_model
    say_beside(f"{archive} by the variant {variant} of {asked.endpoint_name}")


@contextlib.contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    """To write an answer to; None: stdout."""
    if output is None:
        yield sys.stdout.buffer
        return
    try:
        with output.open("wb") as file:
            yield file
    except OSError as error:
        raise Refused(f"{output}: {error.strerror}; give another --output") from error


def _read(request: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if request == _STDIN else Path(request).read_bytes()
    except OSError as error:
        raise Refused(
            f"{request}: {error.strerror}; expected a request, as `python -m ensemble_tools "
            "request` writes one"
        ) from error


def _header_size(raw: str) -> int | None:
    if raw == "auto":
        return None
    return _whole(raw, "auto, or a number of bytes above 0")


def _repeats(raw: str) -> int:
    return _whole(raw, f"a number from 1 to {_MOST_REPEATS}", _MOST_REPEATS)


def _whole(raw: str, expected: str, most: int = sys.maxsize) -> int:
    value = int(raw) if raw.isdecimal() else 0
    if not 1 <= value <= most:
        raise argparse.ArgumentTypeError(f"found {raw!r}, expected {expected}")
    return value
