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

from ensemble_tools.shipping import pack_archive
from merlin_deploy.archives.aliases import (
    Aliases,
    Place,
    change_table,
    make_encryption,
    make_target_model,
    read_aliases,
    read_place,
)
from merlin_deploy.archives.bucket import (
    Stored,
    find_leftovers,
    find_stored,
    has_archive,
    remove_leftover,
)
from merlin_deploy.archives.sources import Checked, Source, check_all, refusal_of_disk
from merlin_deploy.archives.upload import PackedArchive, hash_file, upload, write_copy_line
from merlin_deploy.aws.account import Account
from merlin_deploy.config.sections import Config
from merlin_deploy.errors import MissingRight, NotThere
from merlin_deploy.terminal import Say, Tell, show_bytes, tell_bytes


@dataclass(frozen=True)
class Put:
    """size: in bytes. sent: S3 did not have it before. meant: what its name meant before."""

    name: str
    target_model: str
    size: int
    sent: bool
    meant: str | None


@dataclass(frozen=True)
class Putter:
    """What each archive of one `put` needs. stored, aliases: as they were at its beginning."""

    account: Account
    place: Place
    encryption: Mapping[str, str]
    stored: Mapping[str, Stored]
    aliases: Aliases
    say: Say
    tell: Tell

    def put(self, checked: Checked) -> Put:
        """Pack a folder, and upload the archive unless S3 has it."""
        source = checked.source
        try:
            with self._packed(checked) as file:
                return self._put_file(checked, file)
        except OSError as error:
            raise refusal_of_disk(source, error) from error

    @contextmanager
    def _packed(self, checked: Checked) -> Iterator[Path]:
        """The archive's file; that of a folder lasts as long as the block."""
        if checked.tree is None:
            yield checked.source.path
            return
        done, what, total = 0, f"{checked.source.name}: packing", checked.tree.size

        def advance(count: int) -> None:
            nonlocal done
            done += count
            tell_bytes(self.tell, what, done, total)

        with tempfile.TemporaryDirectory(prefix="put-") as directory:
            path = Path(directory) / "archive.tar.gz"
            with path.open("wb") as file:
                pack_archive(checked.tree, file, advance)
            yield path

    def _put_file(self, checked: Checked, file: Path) -> Put:
        source = checked.source
        digest, size = hash_file(file, f"{source.name}: reading", self.tell)
        target = make_target_model(source.name, digest)
        sent = not has_archive(self.stored, self.aliases, target, size, datetime.now(timezone.utc))
        if sent:
            archive = PackedArchive(file, size, digest, target, source.path, self.encryption)
            self._show_commands(checked, archive)
            self._upload(archive)
        self._remove_leftovers(target)
        state = "uploaded" if sent else "is there"
        self.say(f"{source.name}: {target}, {show_bytes(size)}, {state}")
        return Put(source.name, target, size, sent, self.aliases.find(source.name))

    def _show_commands(self, checked: Checked, archive: PackedArchive) -> None:
        """Say the command lines that do the same, with --dry-run."""
        file = checked.source.path
        if checked.tree is not None:
            file = Path(f"{checked.source.name}.tar.gz")
            words = ["pack", str(checked.source.path), "-o", str(file)]
            self.account.show(f"python -m ensemble_tools {shlex.join(words)}")
        self.account.show(write_copy_line(self.place, archive, file))

    def _upload(self, archive: PackedArchive) -> None:
        try:
            upload(self.account, self.place, archive, self.tell)
        except NotThere:
            # Another `put` of the same content ended first, and removed this upload as a leftover.
            name = archive.target_model.partition("/")[0]
            stored = find_stored(self.account, self.place, name).get(archive.target_model)
            if stored is None or stored.size != archive.size:
                raise

    def _remove_leftovers(self, target: str) -> None:
        """S3 has the archive now: nobody needs another upload of it."""
        try:
            for leftover in find_leftovers(self.account, self.place, target):
                remove_leftover(self.account, self.place, leftover)
                self.say(f"{target}: an upload that was cut off was removed")
        except MissingRight as error:
            self.say(f"{target}: uploads that were cut off stay: {error}")


def put_archives(
    account: Account,
    config: Config,
    sources: Sequence[Source],
    say: Say,
    tell: Tell,
    *,
    check: bool = True,
) -> tuple[Put, ...]:
    """Put all sources, in their order. tell: told of each step's progress. Raises DeployError."""
    place = read_place(config.endpoint.archives)
    # Before any work: it tells of a missing bucket or right.
    stored: dict[str, Stored] = {}
    for source in sources:
        stored |= find_stored(account, place, source.name)
    aliases = read_aliases(account, place)
    encryption = make_encryption(config.encryption.archives_key)
    putter = Putter(account, place, encryption, stored, aliases, say, tell)
    done = []
    for checked in check_all(sources, config, check=check, tell=lambda line: tell(line, 0.0)):
        for note in checked.notes:
            say(f"{checked.source.name}: note: {note}")
        done.append(putter.put(checked))

    def name_all(table: Aliases) -> Aliases:
        for put in done:
            table = table.with_target(put.name, put.target_model)
        return table

    change_table(account, place, name_all, encryption)
    return tuple(done)
