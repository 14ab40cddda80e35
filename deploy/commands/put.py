"""`put CONFIG.toml ARCHIVE…`: archives come to where the endpoint loads them from."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from deploy.commands.options import add_config, add_dry_run, open_account, say, say_beside, teller
from deploy.config.config import Config
from deploy.config.reading import read_config
from deploy.orderly_end import orderly_end
from deploy.quantities import show_bytes
from deploy.telling import progress_on

if TYPE_CHECKING:
    from deploy.archives.putting import Put


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`put` and its options."""
    parser = commands.add_parser(
        "put",
        help="check archives, bring them to S3, and give them their names",
        description="Check archives by the rules of a load, pack those that are folders, and bring "
        "them to endpoint.archives. Each lies under its digest, NAME/DIGEST.tar.gz: new content is "
        "a new archive, which running instances load at the next request for it. NAME means the "
        "new one from then on, for `invoke` and in aliases.json; `rollback --archive NAME` goes "
        "back. What is there is not sent again. One archive that would be refused stops all, "
        "before anything is sent.",
    )
    add_config(parser)
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
    add_dry_run(parser)
    parser.set_defaults(run=run, interrupted="what came to S3 stays: the same command finishes it")


def run(options: argparse.Namespace) -> int:
    """Until all names mean their archives."""
    # What an archive is checked by: --help, which needs none of it, takes half the time without.
    from deploy.archives.putting import put
    from deploy.archives.sources import find_sources

    config = read_config(options.config)
    sources = find_sources(options.paths, options.name, say_beside)
    account = open_account(config, options)
    with orderly_end(), progress_on(sys.stderr) as tell:
        done = put(account, config, sources, teller(account), tell, check=not options.no_check)
    if not account.dry_run:
        for line in _report(config, options.config, done):
            say(line)
    return 0


def _report(config: Config, path: Path, done: tuple[Put, ...]) -> Iterator[str]:
    """What each name means now, and how it is asked."""
    file, single = shlex.quote(str(path)), config.endpoint.single_model
    if single is None and len(done) > 1:
        sent = sum(one.sent for one in done)
        size = show_bytes(sum(one.size for one in done))
        yield f"{len(done)} archives, {size}: {sent} uploaded, {len(done) - sent} were there"
        yield f"  python -m deploy invoke {file} --model NAME --request FILE"
        return
    for one in done:
        yield f"{one.name}  {one.target_model}  {show_bytes(one.size)}"
        if single is None:
            yield f"  python -m deploy invoke {file} {_write_model(one.name)} --request FILE"
        elif one.name != single:
            yield f"  not served: endpoint.single_model is {single}"
        elif one.meant == one.target_model:
            yield f"  python -m deploy invoke {file} --request FILE"
        else:
            yield f"  python -m deploy up {file}  # the endpoint takes it over, blue/green"


def _write_model(name: str) -> str:
    """The option, which takes a name that begins like one only behind an equals sign."""
    return f"--model{'=' if name.startswith('-') else ' '}{shlex.quote(name)}"
