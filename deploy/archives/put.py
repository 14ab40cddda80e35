"""`put`: check and pack archives, upload each under its digest, and give them their names.

The table of aliases is written last, and once: a call that stops earlier has changed nothing that
requests see. What it has uploaded is not sent again by a call within the hour (bucket.py).
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from deploy.archives.aliases import (
    Aliases,
    Place,
    change_table,
    make_target_model,
    read_place,
    read_table,
)
from deploy.archives.bucket import Stored, find_leftovers, find_stored, has_archive, remove_leftover
from deploy.archives.sources import Checked, Source, check_all, completes_configs, refusal_of_disk
from deploy.archives.upload import Parcel, hash_file, make_encryption, upload, write_copy_line
from deploy.aws.account import Account
from deploy.config.sections import Config
from deploy.errors import MissingRight, NotThere
from deploy.terminal import Bytes, Say, Tell, show_bytes
from ensemble_tools.packing.writing import write_archive


@dataclass(frozen=True)
class Put:
    """size: in bytes. sent: it was not there before. meant: what its name meant before."""

    name: str
    target_model: str
    size: int
    sent: bool
    meant: str | None


def put_archives(
    account: Account,
    config: Config,
    sources: Sequence[Source],
    say: Say,
    tell: Tell,
    *,
    check: bool = True,
) -> tuple[Put, ...]:
    """In the order of the sources. tell: of each step's progress. Raises DeployError."""
    place = read_place(config.endpoint.archives)
    # First of all, so that a bucket or a right that lacks is told before any work.
    stored = {
        target: one
        for source in sources
        for target, one in find_stored(account, place, source.name).items()
    }
    before = read_table(account, place).aliases
    strict = not completes_configs(config)
    checked = check_all(sources, strict=strict, check=check, tell=lambda words: tell(_Step(words)))
    done = []
    for one in checked:
        for note in one.notes:
            say(f"{one.source.name}: note: {note}")
        done.append(_bring(account, config, place, one, stored, before, say, tell))
    targets = {one.name: one.target_model for one in done}
    change_table(account, place, lambda now: _with_targets(now, targets), _encryption(config))
    return tuple(done)


@dataclass(frozen=True)
class _Step:
    """Something whose share is not known."""

    words: str
    share: float = 0.0

    def in_words(self) -> str:
        return self.words


def _with_targets(aliases: Aliases, targets: Mapping[str, str]) -> Aliases:
    for name, target in targets.items():
        aliases = aliases.with_target(name, target)
    return aliases


def _encryption(config: Config) -> Mapping[str, str]:
    return make_encryption(config.encryption.archives_key)


def _bring(
    account: Account,
    config: Config,
    place: Place,
    checked: Checked,
    stored: Mapping[str, Stored],
    before: Aliases,
    say: Say,
    tell: Tell,
) -> Put:
    """One archive, packed where it is a folder."""
    source = checked.source
    with _told(source), _packed(checked, tell) as file:
        digest, size = hash_file(file, f"{source.name}: reading", tell)
        target = make_target_model(source.name, digest)
        parcel = Parcel(file, size, digest, target, source.path, _encryption(config))
        now = datetime.now(timezone.utc)
        sent = not has_archive(stored, before, target, size, now)
        if sent:
            _show(account, place, checked, parcel)
            _send(account, place, parcel, tell)
        _clear_leftovers(account, place, target, say)
    say(f"{source.name}: {target}, {show_bytes(size)}, {'uploaded' if sent else 'is there'}")
    return Put(source.name, target, size, sent, before.find(source.name))


@contextmanager
def _packed(checked: Checked, tell: Tell) -> Iterator[Path]:
    """The archive's file; of a folder it is there for as long as the block lasts."""
    if checked.tree is None:
        yield checked.source.path
        return
    done, name, tree = [0], checked.source.name, checked.tree

    def advance(count: int) -> None:
        done[0] += count
        tell(Bytes(f"{name}: packing", done[0], tree.size))

    with tempfile.TemporaryDirectory(prefix="put-") as directory:
        file = Path(directory) / "archive.tar.gz"
        with file.open("wb") as writing:
            write_archive(tree, writing, advance)
        yield file


@contextmanager
def _told(source: Source) -> Iterator[None]:
    """What the disk does not give, in a sentence."""
    try:
        yield
    except OSError as error:
        raise refusal_of_disk(source, error) from error


def _show(account: Account, place: Place, checked: Checked, parcel: Parcel) -> None:
    """With dry_run the command lines that come to the same."""
    file = checked.source.path
    if checked.tree is not None:
        file = Path(f"{checked.source.name}.tar.gz")
        words = ["pack", str(checked.source.path), "-o", str(file)]
        account.show(f"python -m ensemble_tools {shlex.join(words)}")
    account.show(write_copy_line(place, parcel, file))


def _send(account: Account, place: Place, parcel: Parcel, tell: Tell) -> None:
    try:
        upload(account, place, parcel, tell)
    except NotThere:
        # Another `put` of the same content was done first, and has cleared this upload away.
        name = parcel.target_model.partition("/")[0]
        found = find_stored(account, place, name).get(parcel.target_model)
        if found is None or found.size != parcel.size:
            raise


def _clear_leftovers(account: Account, place: Place, target: str, say: Say) -> None:
    """Of uploads of this archive: it is there, so that nobody needs another one."""
    try:
        for one in find_leftovers(account, place, target):
            remove_leftover(account, place, one)
            say(f"{target}: an upload that was cut off was removed")
    except MissingRight as error:
        say(f"{target}: uploads that were cut off stay: {error}")
