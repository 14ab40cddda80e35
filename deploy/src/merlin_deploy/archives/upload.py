"""Upload one archive to S3, in one call or in parts.

One part goes after the other: the uplink is the limit, or gzip before it. All bytes that are sent
are hashed, and the upload is completed only if the hash is that of the key: no archive ever lies
under another one's digest, even if the file changes during the upload. boto3's own transfer
completes whatever it has sent.

S3 checks the CRC-32 of each part. It has to be told the algorithm at the start, and all checksums
again at the end ("Checking object integrity" in S3's guide). boto3's transfer does so by itself;
its calls do not.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from botocore.exceptions import BotoCoreError, ClientError

from merlin_deploy.archives.aliases import Place
from merlin_deploy.aws.account import Account
from merlin_deploy.aws.answers import require_members
from merlin_deploy.errors import Refused
from merlin_deploy.terminal import Tell, tell_bytes

_MIB = 1024 * 1024
#: Of a part; S3 takes 5 MiB and more, and 10,000 of them.
PART = 8 * _MIB
_MOST_PARTS = 10_000
_CHECKSUM = "CRC32"
#: Seconds for aborting an upload after an error: perhaps nothing answers any more.
_ABORT_S = 5.0


@dataclass(frozen=True)
class PackedArchive:
    """A file to upload as an archive. digest: its SHA-256, in hex. given: the argument that it was
    made of, for messages. encryption: as make_encryption makes it."""

    file: Path
    size: int
    digest: str
    target_model: str
    given: Path
    encryption: Mapping[str, str]


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


def upload(account: Account, place: Place, archive: PackedArchive, tell: Tell) -> None:
    """Return once S3 has all of it; after an error S3 has nothing. Raises DeployError, OSError."""
    named = {"Bucket": place.bucket, "Key": place.archive_key(archive.target_model)}
    if account.dry_run:
        return
    with archive.file.open("rb") as source:
        if archive.size > PART:
            _upload_parts(account, named, archive, source, tell)
            return
        body = source.read(archive.size + 1)
        _require_unchanged(archive, hashlib.sha256(body).hexdigest())
        account.change("s3", "PutObject", **named, Body=body, **archive.encryption)


def write_copy_line(place: Place, archive: PackedArchive, file: Path) -> str:
    """The command line of the AWS CLI that does the same."""
    url = place.archive_url(archive.target_model)
    words = ["aws", "s3", "cp", str(file), url]
    if "SSEKMSKeyId" in archive.encryption:
        words += ["--sse", "aws:kms", "--sse-kms-key-id", archive.encryption["SSEKMSKeyId"]]
    return shlex.join(words)


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
        for number, body in enumerate(_pieces(source, archive.size), 1):
            digest.update(body)
            part = {"PartNumber": number, f"Checksum{_CHECKSUM}": _crc32(body)}
            answer = account.change("s3", "UploadPart", **upload_of, **part, Body=body)
            require_members(answer, "s3:UploadPart", "ETag")
            parts.append({**part, "ETag": answer["ETag"]})
            done += len(body)
            tell_bytes(tell, f"{archive.target_model}: uploading", done, archive.size)
        _require_unchanged(archive, digest.hexdigest())
        account.change(
            "s3", "CompleteMultipartUpload", **upload_of, MultipartUpload={"Parts": parts}
        )


def _pieces(source: IO[bytes], size: int) -> Iterator[bytes]:
    """Up to one byte more than size, so that the hash shows whether the file has grown."""
    length, left = max(PART, -(-size // _MOST_PARTS)), size + 1
    while left > 0 and (piece := source.read(min(length, left))):
        left -= len(piece)
        yield piece


def _crc32(body: bytes) -> str:
    """In base64, as S3 writes it."""
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
