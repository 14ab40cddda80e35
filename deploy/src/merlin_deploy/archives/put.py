"""`put`: check and pack archives, upload each under its digest, and give them their names.

The table of aliases is written last, and once: a call that stops earlier has changed nothing that
requests see. What it has uploaded is not sent again by a call within the hour (bucket.py).

One part of an archive goes after the other: the uplink is the limit, or gzip before it. All bytes
that are sent are hashed, and the upload is completed only if the hash is that of the key: no
archive ever lies under another one's digest, even if the file changes during the upload. boto3's
own transfer completes whatever it has sent.

S3 checks the CRC-32 of each part. It has to be told the algorithm at the start, and all checksums
again at the end ("Checking object integrity" in S3's guide). boto3's transfer does so by itself;
its calls do not.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from botocore.exceptions import BotoCoreError, ClientError

from ensemble_tools.shipping import pack_archive
from merlin_deploy.account import Account, require_members
from merlin_deploy.archives.aliases import (
    Aliases,
    ArchiveStore,
    change_table,
    make_encryption,
    make_target_model,
    read_aliases,
    read_store,
)
from merlin_deploy.archives.bucket import (
    Stored,
    find_leftovers,
    find_stored,
    has_archive,
    remove_leftover,
)
from merlin_deploy.archives.proof import Proof, Prover
from merlin_deploy.archives.sources import Source, check_all, refusal_of_disk
from merlin_deploy.config.sections import Config
from merlin_deploy.errors import MissingRight, NotThere, Refused
from merlin_deploy.terminal import Say, Tell, show_bytes, tell_bytes

_MIB = 1024 * 1024
#: Of a part; S3 takes 5 MiB and more, and 10,000 of them.
PART = 8 * _MIB
_MOST_PARTS = 10_000
_CHECKSUM = "CRC32"
#: Seconds for aborting an upload after an error: perhaps nothing answers any more.
_ABORT_S = 5.0


@dataclass(frozen=True)
class PackedArchive:
    """A file to upload as an archive."""

    file: Path
    size: int
    digest: str  # its SHA-256, in hex
    target_model: str
    given: Path  # the argument that it was made of, for messages
    encryption: Mapping[str, str]  # as make_encryption makes it


def hash_file(file: Path, what: str, tell: Tell) -> tuple[str, int]:
    """SHA-256 in hex, and the number of bytes. what: for `tell`. Raises OSError."""
    digest, done = hashlib.sha256(), 0
    with file.open("rb") as source:
        total = file.stat().st_size
        while piece := source.read(_MIB):
            digest.update(piece)
            done += len(piece)
            tell_bytes(tell, what, done, total)
    return digest.hexdigest(), done


def upload(account: Account, store: ArchiveStore, archive: PackedArchive, tell: Tell) -> None:
    """Return once S3 has all of it; after an error S3 has nothing. Raises DeployError, OSError."""
    named = {"Bucket": store.bucket, "Key": store.archive_key(archive.target_model)}
    if account.dry_run:
        return
    with archive.file.open("rb") as source:
        if archive.size > PART:
            _upload_parts(account, named, archive, source, tell)
            return
        body = source.read(archive.size + 1)
        _require_unchanged(archive, hashlib.sha256(body).hexdigest())
        account.change("s3", "PutObject", **named, Body=body, **archive.encryption)


def write_copy_line(store: ArchiveStore, archive: PackedArchive, file: Path) -> str:
    """The command line of the AWS CLI that does the same."""
    url = store.archive_url(archive.target_model)
    arguments = ["aws", "s3", "cp", str(file), url]
    if "SSEKMSKeyId" in archive.encryption:
        arguments += ["--sse", "aws:kms", "--sse-kms-key-id", archive.encryption["SSEKMSKeyId"]]
    return shlex.join(arguments)


def _upload_parts(
    account: Account,
    named: Mapping[str, str],
    archive: PackedArchive,
    source: IO[bytes],
    tell: Tell,
) -> None:
    answer = account.change(
        "s3",
        "CreateMultipartUpload",
        **named,
        ChecksumAlgorithm=_CHECKSUM,
        **archive.encryption,
    )
    require_members(answer, "s3:CreateMultipartUpload", "UploadId")
    upload_of = {**named, "UploadId": answer["UploadId"]}
    with _aborted_unless_done(account, upload_of):
        digest, parts, done = hashlib.sha256(), [], 0
        for number, body in enumerate(_read_pieces(source, archive.size), 1):
            digest.update(body)
            part = {"PartNumber": number, f"Checksum{_CHECKSUM}": _compute_crc32(body)}
            answer = account.change("s3", "UploadPart", **upload_of, **part, Body=body)
            require_members(answer, "s3:UploadPart", "ETag")
            parts.append({**part, "ETag": answer["ETag"]})
            done += len(body)
            tell_bytes(tell, f"{archive.target_model}: uploading", done, archive.size)
        _require_unchanged(archive, digest.hexdigest())
        account.change(
            "s3", "CompleteMultipartUpload", **upload_of, MultipartUpload={"Parts": parts}
        )


def _read_pieces(source: IO[bytes], size: int) -> Iterator[bytes]:
    """Up to one byte more than size, so that the hash shows whether the file has grown."""
    length, left = max(PART, -(-size // _MOST_PARTS)), size + 1
    while left > 0 and (piece := source.read(min(length, left))):
        left -= len(piece)
        yield piece


def _compute_crc32(body: bytes) -> str:
    """The checksum in base64, as S3 writes it."""
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def _require_unchanged(archive: PackedArchive, digest: str) -> None:
    if digest != archive.digest:
        raise Refused(
            f"{archive.given} was changed while it was uploaded; nothing of it was kept: put it "
            "again once it is written"
        )


@contextmanager
def _aborted_unless_done(account: Account, upload_of: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except BaseException:
        client = account.client("s3", attempts=1, read_s=_ABORT_S)
        # The next `put` aborts it otherwise.
        with suppress(ClientError, BotoCoreError):
            client.abort_multipart_upload(**upload_of)
        raise


@dataclass(frozen=True)
class Put:
    """An archive that was put."""

    name: str
    target_model: str
    size: int  # in bytes
    sent: bool  # S3 did not have it before
    meant: str | None  # the archive that its name meant before


@dataclass(frozen=True)
class Putter:
    """Uploads the archives of one `put`."""

    account: Account
    store: ArchiveStore
    encryption: Mapping[str, str]
    stored: Mapping[str, Stored]  # as it was at the beginning
    aliases: Aliases  # as well
    say: Say
    tell: Tell
    prover: Prover | None  # of the proof that is asked for

    def put(self, source: Source) -> Put:
        """Pack a folder, and upload the archive unless S3 has it."""
        try:
            with self._packed(source) as file:
                return self._put_file(source, file)
        except OSError as error:
            raise refusal_of_disk(source, error) from error

    @contextmanager
    def _packed(self, source: Source) -> Iterator[Path]:
        """The archive's file; that of a folder lasts as long as the block."""
        if source.tree is None:
            yield source.path
            return
        done, what, total = 0, f"{source.name}: packing", source.tree.size

        def advance(count: int) -> None:
            nonlocal done
            done += count
            tell_bytes(self.tell, what, done, total)

        with tempfile.TemporaryDirectory(prefix="put-") as directory:
            path = Path(directory) / "archive.tar.gz"
            with path.open("wb") as file:
                pack_archive(source.tree, file, advance)
            yield path

    def _put_file(self, source: Source, file: Path) -> Put:
        digest, size = hash_file(file, f"{source.name}: reading", self.tell)
        target = make_target_model(source.name, digest)
        if self.prover is not None:
            meant = self.aliases.find(source.name)
            self.prover.prove(source.name, meant, target, file, source.path)
        sent = not has_archive(self.stored, self.aliases, target, size, datetime.now(timezone.utc))
        if sent:
            archive = PackedArchive(file, size, digest, target, source.path, self.encryption)
            self._show_commands(source, archive)
            self._upload(archive)
        self._remove_leftovers(target)
        state = "uploaded" if sent else "is there"
        self.say(f"{source.name}: {target}, {show_bytes(size)}, {state}")
        return Put(source.name, target, size, sent, self.aliases.find(source.name))

    def _show_commands(self, source: Source, archive: PackedArchive) -> None:
        """Say the command lines that do the same, with --dry-run."""
        file = source.path
        if source.tree is not None:
            file = Path(f"{source.name}.tar.gz")
            arguments = ["pack", str(source.path), "-o", str(file)]
            self.account.show(f"python -m ensemble_tools {shlex.join(arguments)}")
        self.account.show(write_copy_line(self.store, archive, file))

    def _upload(self, archive: PackedArchive) -> None:
        try:
            upload(self.account, self.store, archive, self.tell)
        except NotThere:
            # Another `put` of the same content ended first, and removed this upload as a leftover.
            name = archive.target_model.partition("/")[0]
            stored = find_stored(self.account, self.store, name).get(archive.target_model)
            if stored is None or stored.size != archive.size:
                raise

    def _remove_leftovers(self, target: str) -> None:
        """S3 has the archive now: nobody needs another upload of it."""
        try:
            for leftover in find_leftovers(self.account, self.store, target):
                remove_leftover(self.account, self.store, leftover)
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
    proof: Proof | None = None,
) -> tuple[Put, ...]:
    """Put all sources, in their order. tell: told of each step's progress. Raises DeployError.

    proof: what the only source has to hold.
    """
    store = read_store(config.endpoint.archives)
    # Before any work: it tells of a missing bucket or right.
    stored: dict[str, Stored] = {}
    for source in sources:
        stored |= find_stored(account, store, source.name)
    aliases = read_aliases(account, store)
    encryption = make_encryption(config.encryption.archives_key)
    prover = None
    if proof is not None:
        prover = Prover(proof, account, config, store, encryption, stored, say, tell)
    putter = Putter(account, store, encryption, stored, aliases, say, tell, prover)
    done = []
    for source in check_all(sources, config, check=check, tell=lambda line: tell(line, 0.0)):
        for note in source.notes:
            say(f"{source.name}: note: {note}")
        done.append(putter.put(source))

    def name_all(table: Aliases) -> Aliases:
        for put in done:
            if proof is not None and proof.old is None:
                _require_compared(put, table.find(put.name))
            table = table.with_target(put.name, put.target_model)
        return table

    change_table(account, store, name_all, encryption)
    return tuple(done)


def _require_compared(put: Put, meant: str | None) -> None:
    """Raises Refused if the name means another archive by now than the one of the comparison."""
    if meant not in (put.meant, put.target_model):
        raise Refused(
            f"{put.name} means {meant} by now, and {put.target_model} was compared with "
            f"{put.meant}; the same command compares it with {meant}"
        )
