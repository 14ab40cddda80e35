"""What each command does and prints: a function of its name, which returns the exit code."""

from __future__ import annotations

import argparse
import contextlib
import json
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_tools.shipping import printable
from merlin_deploy.account import Account, open_account
from merlin_deploy.archives.aliases import read_aliases, read_store
from merlin_deploy.archives.bucket import (
    Row,
    Standing,
    find_prunable,
    find_stored,
    go_back,
    make_rows,
    prune_archives,
)
from merlin_deploy.archives.proof import Proof, check_options, find_report
from merlin_deploy.archives.put import Put, put_archives
from merlin_deploy.archives.sources import find_sources
from merlin_deploy.cleanup import clean_up_at_end
from merlin_deploy.config.catalog import describe_ami
from merlin_deploy.config.reading import read_config
from merlin_deploy.config.sections import Config, make_example
from merlin_deploy.config.values import archive_name
from merlin_deploy.desired import make_desired
from merlin_deploy.endpoint.changes import bring_up, list_what_stays, roll_back, take_down
from merlin_deploy.endpoint.resources import find_facts, find_single_archives
from merlin_deploy.endpoint.state import Job
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
from merlin_deploy.terminal import Say, progress_on, say, say_beside, show_bytes, show_duration

_STDIN = "-"
_CLEAR_SCREEN = "\x1b[H\x1b[2J"
#: Columns of a terminal.
_NARROWEST, _WIDEST = 60, 120


def push(options: argparse.Namespace) -> int:
    """Print the line of CONFIG.toml on stdout once the registry has the image."""
    from merlin_deploy.engine import Engine  # the Docker SDK: no other command needs it
    from merlin_deploy.push import push_image

    tell = say if options.dry_run else say_beside
    engine = Engine()
    account = Account(options.region, tell, dry_run=options.dry_run)
    with clean_up_at_end():
        pushed = push_image(
            account,
            engine,
            options.image,
            tell,
            partial(progress_on, sys.stderr),
            repository=options.repository,
            tag=options.tag,
            registry=options.registry,
        )
    if pushed is not None:
        say_beside("CONFIG.toml, section [endpoint]:")
        say(f'image = "{pushed}"')
    return 0


def put(options: argparse.Namespace) -> int:
    """Print what each name means once the table of aliases says so."""
    config = read_config(options.config)
    sources = find_sources(options.paths, options.name, say_beside)
    proof = _read_proof(options, len(sources))
    account = open_account(config, say, dry_run=options.dry_run)
    with clean_up_at_end(), progress_on(sys.stderr) as tell:
        done = put_archives(
            account,
            config,
            sources,
            _choose_say(account),
            tell,
            check=not options.no_check,
            proof=proof,
        )
    if not account.dry_run:
        for line in _report_put(config, shlex.quote(str(options.config)), done):
            say(line)
    return 0


def _read_proof(options: argparse.Namespace, archives: int) -> Proof | None:
    """The comparison that is asked for. archives: how many are put. Raises Refused."""
    if options.compared_with is None:
        if options.requests is not None or options.compare_options:
            raise Refused(
                "found --requests or a measure without an archive to compare with: name it with "
                "--compared-with, as `current` or as a file of this machine"
            )
        return None
    if options.requests is None:
        raise Refused(
            "--compared-with asks both archives the same requests: name their file with --requests"
        )
    if archives > 1:
        raise Refused(
            f"--compared-with is for one archive, and found {archives}; put each by itself, with "
            "requests that it answers"
        )
    is_current = options.compared_with == Standing.CURRENT.value
    if not is_current and not Path(options.compared_with).exists():
        raise Refused(
            f"--compared-with: there is no file and no folder {options.compared_with!r}; expected "
            f"{Standing.CURRENT.value}, which is what the name means now, or an archive of this "
            "machine"
        )
    if options.compare_options:
        check_options(options.compare_options)
    return Proof(
        None if is_current else Path(options.compared_with),
        (f"--requests={options.requests}", *options.compare_options),
    )


def up(options: argparse.Namespace) -> int:
    """Return once the endpoint serves by what CONFIG.toml says."""
    config = read_config(options.config)
    if chosen := describe_ami(config.instances.type, config.instances.ami):
        say_beside(chosen)
    account = open_account(config, say, dry_run=options.dry_run)
    desired = make_desired(config, find_facts(account, config, say))
    bring_up(_start(account, config, options), desired, keep=config.deployment.keep)
    if not account.dry_run:
        say(f"endpoint {config.endpoint.name} is in service in {account.region}")
    return 0


def rollback(options: argparse.Namespace) -> int:
    """Return once the former configuration serves, or a name means its former archive."""
    config = read_config(options.config)
    account = open_account(config, say, dry_run=options.dry_run)
    if options.archive is not None:
        return _go_back(account, config, options)
    roll_back(_start(account, config, options), config)
    if not account.dry_run:
        say(f"endpoint {config.endpoint.name} is in service as before")
    return 0


def archives(options: argparse.Namespace) -> int:
    """List archives, or delete those that nobody needs."""
    config = read_config(options.config)
    account = open_account(config, say, dry_run=options.dry_run)
    store = read_store(config.endpoint.archives)
    urls = find_single_archives(account, config.endpoint.name)
    served = frozenset(url.removeprefix(store.archives_url) for url in urls)
    if options.prune:
        gone = prune_archives(account, store, served, _choose_say(account), options.min_age)
        if not account.dry_run:
            say(f"{show_bytes(gone)} were deleted" if gone else "no archive was to go")
        return 0
    rows = make_rows(read_aliases(account, store), find_stored(account, store), served)
    for line in _write_table(rows, datetime.now(timezone.utc), options.min_age):
        say(line)
    return 0


def down(options: argparse.Namespace) -> int:
    """Return once the endpoint is gone, and all that led to it."""
    config = read_config(options.config)
    account = open_account(config, say, dry_run=options.dry_run)
    take_down(_start(account, config, options))
    if not account.dry_run:
        for line in list_what_stays(config):
            say(line)
    return 0


def _start(account: Account, config: Config, options: argparse.Namespace) -> Job:
    return Job(account, config.endpoint.name, _choose_say(account), options.timeout)


def _choose_say(account: Account) -> Say:
    """Says what was done. With --dry-run nothing was: the account says the calls instead."""
    return (lambda line: None) if account.dry_run else say


def _report_put(config: Config, file: str, done: tuple[Put, ...]) -> Iterator[str]:
    """Print which archive each name means now, and the command that invokes it."""
    single = config.endpoint.single_model
    if single is None and len(done) > 1:
        sent = sum(archive.sent for archive in done)
        size = show_bytes(sum(archive.size for archive in done))
        yield f"{len(done)} archives, {size}: {sent} uploaded, {len(done) - sent} were there"
        yield f"  python -m deploy invoke {file} --model NAME --request FILE"
        return
    for archive in done:
        yield f"{archive.name}  {archive.target_model}  {show_bytes(archive.size)}"
        if single is None:
            # A name that begins like an option is taken only behind an equals sign.
            sign = "=" if archive.name.startswith("-") else " "
            model = f"--model{sign}{shlex.quote(archive.name)}"
            yield f"  python -m deploy invoke {file} {model} --request FILE"
        elif archive.name != single:
            yield f"  not served: endpoint.single_model is {single}"
        elif archive.meant == archive.target_model:
            yield f"  python -m deploy invoke {file} --request FILE"
        else:
            yield f"  python -m deploy up {file}  # the endpoint takes it over, blue/green"


def _go_back(account: Account, config: Config, options: argparse.Namespace) -> int:
    before, now = go_back(account, config, options.archive)
    if not account.dry_run:
        say(f"{options.archive} means {now} again, no longer {before}")
        if report := find_report(account, read_store(config.endpoint.archives), before):
            say(report)
        if config.endpoint.single_model == options.archive:
            file = shlex.quote(str(options.config))
            say(f"  python -m deploy up {file}  # the endpoint takes it over, blue/green")
    return 0


def _write_table(rows: Sequence[Row], now: datetime, least_age: timedelta) -> Iterator[str]:
    cells = [("NAME", "ARCHIVE", "SIZE", "AGE", "")]
    name = ""
    for row in rows:
        size, age = "is gone", ""
        if row.stored is not None:
            size = show_bytes(row.stored.size)
            age = show_duration(max(0.0, (now - row.stored.modified).total_seconds()))
        shown = row.name if row.name != name else ""
        cells.append((shown, row.target_model, size, age, row.standing.value))
        name = row.name
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()
    there = [row.stored.size for row in rows if row.stored is not None]
    yield f"{len(there)} archive{'' if len(there) == 1 else 's'}, {show_bytes(sum(there))}"
    prunable = [archive.size for archive in find_prunable(rows, now, least_age)]
    if prunable:
        yield f"--prune deletes {len(prunable)} of them, {show_bytes(sum(prunable))}"


def example(options: argparse.Namespace) -> int:
    """Print a CONFIG.toml."""
    print(make_example(), end="")
    return 0


def render(options: argparse.Namespace) -> int:
    """Print the template; stderr gets what CloudFormation cannot have."""
    config = read_config(options.config)
    template = render_template(config, with_role=options.with_role)
    if chosen := describe_ami(config.instances.type, config.instances.ami):
        say_beside(chosen)
    for sentence in template["Metadata"]["LeftOut"]:
        say_beside(f"left out: {sentence}")
    document = json.dumps(template, indent=2)
    if options.output is None:
        print(document)
        return 0
    try:
        options.output.write_text(f"{document}\n")
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
    if options.watch is None:
        print(_show_report(report, options, indent=2))
        return 0
    clear = _CLEAR_SCREEN if sys.stdout.isatty() and not options.json else ""
    try:
        while True:
            print(clear + _show_report(report, options, indent=None), flush=True)
            time.sleep(options.watch)
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
