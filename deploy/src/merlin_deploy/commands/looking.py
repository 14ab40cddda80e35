"""The commands that change nothing in AWS: example, status, invoke, render, policy."""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_tools.shipping import printable
from merlin_deploy.account import open_account
from merlin_deploy.commands.command_line import WATCH_S
from merlin_deploy.config.catalog import describe_ami
from merlin_deploy.config.reading import read_config
from merlin_deploy.config.sections import make_example
from merlin_deploy.config.values import archive_name
from merlin_deploy.errors import Refused, Unreachable
from merlin_deploy.invoke import (
    Answer,
    choose_target,
    make_body,
    send,
    stream,
    write_answer,
    write_times,
)
from merlin_deploy.policies import (
    make_deployer_policy,
    make_location,
    make_role_policy,
    make_tenant_policy,
    make_trust_policy,
)
from merlin_deploy.status.collect import gather
from merlin_deploy.status.report import Report, write_document, write_text
from merlin_deploy.template import render as render_template
from merlin_deploy.terminal import say, say_beside, show_bytes

_STDIN = "-"
_CLEAR_SCREEN = "\x1b[H\x1b[2J"
#: Columns of a terminal.
_NARROWEST, _WIDEST = 60, 120


def example(options: argparse.Namespace) -> int:
    """Print a CONFIG.toml."""
    print(make_example(), end="")
    return 0


def render(options: argparse.Namespace) -> int:
    """Print the template; stderr gets what CloudFormation cannot have."""
    config = read_config(options.config)
    rendered = render_template(config, with_role=options.with_role)
    if chosen := describe_ami(config.instances.type, config.instances.ami):
        say_beside(chosen)
    for sentence in rendered.left_out:
        say_beside(f"left out: {sentence}")
    template = json.dumps(rendered.template, indent=2)
    if options.output is None:
        print(template)
        return 0
    try:
        options.output.write_text(f"{template}\n")
    except OSError as error:
        raise Refused(
            f"{options.output}: {error.strerror}; expected a file that can be written (-o)"
        ) from error
    return 0


def policy(options: argparse.Namespace) -> int:
    """Print one document, or an object of several."""
    print(json.dumps(_make_policies(options), indent=2))
    return 0


def _make_policies(options: argparse.Namespace) -> dict[str, Any]:
    config = read_config(options.config)
    location = make_location(config, open_account(config, say).region)
    if options.whom == "tenant":
        try:
            name = archive_name(options.name)
        except ValueError as error:
            shown = "no name" if options.name is None else options.name
            raise Refused(f"tenant: found {shown}, expected {error}") from error
        return make_tenant_policy(config, location, name, aliases=options.aliases)
    if options.name is not None or options.aliases:
        raise Refused(
            f"found {'--aliases' if options.name is None else options.name}, which is about a "
            "tenant's policy: `policy CONFIG.toml tenant NAME` prints one"
        )
    policies = {
        "trust": make_trust_policy(),
        "role": make_role_policy(config, location),
        "deploy": make_deployer_policy(config, location),
    }
    return policies if options.whom is None else policies[options.whom]


def status(options: argparse.Namespace) -> int:
    """Print a report: once, or with --watch until Ctrl-C."""
    config = read_config(options.config)
    account = open_account(config, say)
    report = gather(account, config, minutes=options.minutes)
    if not options.watch:
        print(_show_report(report, options, indent=2))
        return 0
    clear = _CLEAR_SCREEN if sys.stdout.isatty() and not options.json else ""
    try:
        while True:
            print(clear + _show_report(report, options, indent=None), flush=True)
            time.sleep(WATCH_S)
            try:
                report = gather(account, config, minutes=options.minutes)
            except Unreachable as error:  # the next look may reach AWS again
                say_beside(f"{error}; what was shown is old")
    except KeyboardInterrupt:
        return 0


def _show_report(report: Report, options: argparse.Namespace, *, indent: int | None) -> str:
    if options.json:
        return write_document(report, indent=indent)
    if not sys.stdout.isatty():  # lines are as long as they are, for grep
        return printable(write_text(report, columns=None, pictures=False))
    columns = min(_WIDEST, max(_NARROWEST, shutil.get_terminal_size().columns))
    can_draw = "utf" in (sys.stdout.encoding or "").lower()
    return printable(write_text(report, columns=columns, pictures=can_draw))


def invoke(options: argparse.Namespace) -> int:
    """Print the answer; stderr gets who answered, and how long it took."""
    config = read_config(options.config)
    content = _read_request(options.request)
    body = make_body(content, options.request, options.content_type, options.header_size)
    account = open_account(config, say)
    target = choose_target(account, config, options.model, options.target_model)
    archive = target.target_model or config.endpoint.single_model
    summary = f"{archive} by the variant {{}} of {config.endpoint.name}"
    if options.stream:
        if target.target_model is not None:
            raise Refused(
                "--stream is for single-model endpoints: InvokeEndpointWithResponseStream takes "
                "no TargetModel; set endpoint.single_model, or leave --stream out"
            )
        start = time.perf_counter()
        answer = stream(account, target, body)
        say_beside(summary.format(answer.variant))
        _print_parts(answer.parts, start, options.output)
        return 0
    seconds: list[float] = []
    try:
        for number in range(options.repeat):
            start = time.perf_counter()
            whole = send(account, target, body)
            seconds.append(time.perf_counter() - start)
            if number == 0:
                _print_answer(whole, options)
                say_beside(summary.format(whole.variant))
    finally:
        if seconds:
            say_beside(write_times(seconds))
    return 0


def _print_parts(parts: Iterator[bytes], start: float, output: Path | None) -> None:
    """Each as it comes. start: when the request was sent."""
    seconds: list[float] = []
    with _opened(output) as file:
        for part in parts:
            seconds.append(time.perf_counter() - start)
            file.write(part)
            file.flush()
    if seconds:
        first, last = write_times(seconds[:1]), write_times(seconds[-1:])
        say_beside(f"{len(seconds)} parts, the first after {first}, all in {last}")


def _print_answer(answer: Answer, options: argparse.Namespace) -> None:
    if options.output is None:
        text = write_answer(answer.content, answer.content_type, pretty=options.pretty)
        print(printable(text) if sys.stdout.isatty() else text, flush=True)
        return
    with _opened(options.output) as file:
        file.write(answer.content)
    size = show_bytes(len(answer.content))
    say_beside(f"{options.output}: {size} of {answer.content_type}")


@contextlib.contextmanager
def _opened(output: Path | None) -> Iterator[BinaryIO]:
    """A file that an answer is written to; None: stdout."""
    if output is None:
        yield sys.stdout.buffer
        return
    try:
        with output.open("wb") as file:
            yield file
    except OSError as error:
        raise Refused(f"{output}: {error.strerror}; give another --output") from error


def _read_request(request: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if request == _STDIN else Path(request).read_bytes()
    except OSError as error:
        raise Refused(
            f"{request}: {error.strerror}; expected a request, as `python -m ensemble_tools "
            "request` writes one"
        ) from error
