"""S3 on the disk: buckets and objects, in the place of moto's."""

from __future__ import annotations

import codecs
import datetime
import hashlib
import json
import mmap
import os
import threading
import urllib.parse
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moto.s3 import models, utils
from moto.s3.models import s3_backends

from merlin_simulator.errors import ACCOUNT, PlatformFailed

#: Values up to this size are handed out as bytes, and longer ones are read in pieces of it.
PIECE = 1024 * 1024
_RECORD = ".json"
#: Of a quoted key, so much is in a file's name: file systems take 255 bytes.
_LONGEST_NAME = 200


def no_object(path: Path, error: Exception) -> PlatformFailed:
    """The error for a file that is no record."""
    return PlatformFailed(
        f"{path} holds no object of this simulator ({type(error).__name__}: {error}): "
        "remove it, or name another --state."
    )


class WrittenFile:
    """A file that was just written: whoever is given it may keep it."""

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size

    def __len__(self) -> int:
        return self.size


class MappedFile(mmap.mmap):
    """A file's bytes, read as they are asked for; see open_mapped."""

    def __iter__(self) -> Iterator[bytes]:  # type: ignore[override]
        return _pieces(self, 0, len(self))

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, slice):
            return super().__getitem__(key)
        start, stop, _ = key.indices(len(self))
        if stop - start <= PIECE:
            return super().__getitem__(key)
        return MappedSlice(self, start, stop)


class MappedSlice:
    """Some of a file's bytes in the middle."""

    def __init__(self, whole: MappedFile, start: int, stop: int) -> None:
        self._whole, self._start, self._stop = whole, start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def __iter__(self) -> Iterator[bytes]:
        return _pieces(self._whole, self._start, self._stop)


def _pieces(whole: MappedFile, start: int, stop: int) -> Iterator[bytes]:
    """Pages that were read are let go of at once: a process is not as large as what it sends."""
    for begin in range(start, stop, PIECE):
        yield bytes(whole[begin : min(begin + PIECE, stop)])
        whole.madvise(mmap.MADV_DONTNEED)


def open_mapped(path: Path) -> MappedFile:
    """The file's bytes; it is not empty. They stay readable while it is removed."""
    with path.open("rb") as file:
        return MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)


class ObjectFolder:
    """A folder of bytes and of records. keeps: whether there are records; False: none is written.

    Called from several threads.
    """

    def __init__(self, folder: Path, keeps: bool) -> None:
        self._bytes, self._records, self._keeps = folder / "bytes", folder / "objects", keeps
        self._lock, self._closed = threading.Lock(), False
        #: By bucket and key, the file that a record names; these; and those that wait to be free.
        self._named: dict[str, dict[str, str]] = {}
        self._in_use: set[str] = set()
        self._waiting: set[str] = set()
        for needed in (self._bytes, self._records):
            needed.mkdir(parents=True, exist_ok=True)

    def write(self, pieces: Iterable[bytes]) -> WrittenFile:
        """A new file with these bytes."""
        path = self._bytes / uuid.uuid4().hex
        with path.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        return WrittenFile(path)

    def drop(self, path: Path) -> None:
        """Nobody needs these bytes any more, but for a record that is replaced or removed soon."""
        with self._lock:
            if self._closed or path.name in self._in_use:
                self._waiting.add(path.name)
            else:
                self._remove(path.name)

    def put(self, bucket: str, key: str, record: dict[str, Any]) -> None:
        """Keep what is known of an object; its member "bytes" names a file of this folder."""
        if not self._keeps:
            return
        path = self.path_of(bucket, key)
        path.parent.mkdir(exist_ok=True)
        beside = path.with_name(f".{uuid.uuid4().hex}.new")
        beside.write_text(json.dumps({**record, "bucket": bucket, "key": key}))
        with self._lock:
            os.replace(beside, path)
            self._name(bucket, key, record["bytes"])

    def remove(self, bucket: str, key: str) -> None:
        """There is no such object any more."""
        if not self._keeps:
            return
        path = self.path_of(bucket, key)
        with self._lock:
            path.unlink(missing_ok=True)
            self._name(bucket, key, None)

    def names(self, bucket: str) -> dict[str, str]:
        """Of the records of a bucket: each key and the name of its file."""
        with self._lock:
            return dict(self._named.get(bucket, {}))

    def restore(self) -> Iterator[tuple[dict[str, Any], WrittenFile]]:
        """Each object's record with its bytes. Raises PlatformFailed with the file's name."""
        for path in sorted(self._records.glob(f"*/*{_RECORD}")):
            try:
                record = json.loads(path.read_text())
                bytes_path = self._bytes / Path(record["bytes"]).name
                size, known = bytes_path.stat().st_size, record["size"]
                if path != self.path_of(record["bucket"], record["key"]):
                    raise ValueError("its name is not that of its key")
                if size != known:
                    raise ValueError(f"{bytes_path} has {size} bytes instead of {known}")
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise no_object(path, error) from error
            self._name(record["bucket"], record["key"], bytes_path.name)
            yield record, WrittenFile(bytes_path)

    def close(self) -> None:
        """From now on what moto lets go of stays on the disk."""
        self._closed = True

    def sweep(self) -> None:
        """After restoring: what was being written when the last simulator ended is removed."""
        for path in self._bytes.iterdir():
            if path.name not in self._in_use:
                path.unlink()
        for path in self._records.glob("*/.*.new"):
            path.unlink()

    def _name(self, bucket: str, key: str, bytes_name: str | None) -> None:
        named = self._named.setdefault(bucket, {})
        before = named.pop(key, None)
        if before is not None:
            self._in_use.discard(before)
        if bytes_name is not None:
            named[key] = bytes_name
            self._in_use.add(bytes_name)
        if before is not None and before != bytes_name and before in self._waiting:
            self._remove(before)

    def _remove(self, name: str) -> None:
        self._waiting.discard(name)
        (self._bytes / name).unlink(missing_ok=True)

    def path_of(self, bucket: str, key: str) -> Path:
        """Where the record of an object is."""
        quoted = urllib.parse.quote(key, safe="")
        if len(quoted) > _LONGEST_NAME:
            digest = uuid.uuid5(uuid.NAMESPACE_URL, key).hex
            quoted = f"{quoted[: _LONGEST_NAME - len(digest)]}{digest}"
        return self._records / bucket / f"{quoted}{_RECORD}"


if TYPE_CHECKING:
    from moto.s3.models import FakeBucket

_COMPOSITE = "COMPOSITE"
#: What moto's objects have beside their metadata, tags and bytes, by their own names for it.
_PLAIN = (
    "encryption",
    "kms_key_id",
    "bucket_key_enabled",
    "lock_mode",
    "lock_legal_status",
    "lock_until",
    "checksum_value",
    "checksum_type",
    "checksum_parts",
    "checksum_algorithm",
    "website_redirect_location",
)


@contextmanager
def stored_on(object_folder: ObjectFolder) -> Iterator[None]:
    """Whatever moto's S3 is given lies in this folder, until the end of the block."""
    classes = models.FakeKey, models.FakeMultipart
    models.FakeKey = type("StoredKey", (_StoredKey,), {"object_folder": object_folder})
    models.FakeMultipart = type(
        "StoredMultipart", (_StoredMultipart,), {"object_folder": object_folder}
    )
    try:
        yield
    finally:
        models.FakeKey, models.FakeMultipart = classes


class _OfParts(str):
    """A checksum of the checksums of an upload's parts."""


class _StoredKey(models.FakeKey):  # type: ignore[misc]
    """An object whose value is a file."""

    object_folder: ObjectFolder
    path: Path | None = None
    _etag: str | None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        # Its upload's parts are gone: a part is asked of it as of an object that was put at once.
        super().__init__(*arguments, **{**named, "multipart": None})

    @property
    def checksum_algorithm(self) -> str | None:
        """None where moto copied a checksum of parts, which is not that of the copy's bytes."""
        copied = isinstance(self.checksum_value, _OfParts) and self.checksum_type != _COMPOSITE
        return None if copied else self._algorithm

    @checksum_algorithm.setter
    def checksum_algorithm(self, algorithm: str | None) -> None:
        self._algorithm = algorithm

    @property
    def value(self) -> bytes | MappedFile:
        assert self.path is not None
        return self.path.read_bytes() if self.contentsize <= PIECE else open_mapped(self.path)

    @value.setter
    def value(self, value: bytes | str | WrittenFile | MappedFile | MappedSlice) -> None:
        old, fresh = self.path, _fresh(self.object_folder, value)
        self.path, self.contentsize = fresh.path, fresh.size
        if old is not None:
            self.object_folder.drop(old)

    @property
    def etag(self) -> str:
        if self._etag is None:
            assert self.path is not None
            self._etag = _md5(self.path)
        return f'"{self._etag}"'

    def dispose(self, garbage: bool = False) -> None:
        if not self.disposed and self.path is not None:
            self.object_folder.drop(self.path)
        super().dispose(False)


class _StoredMultipart(models.FakeMultipart):  # type: ignore[misc]
    """An upload whose parts are joined from file to file."""

    object_folder: ObjectFolder

    def complete(
        self, body: Iterable[tuple[int, str]]
    ) -> tuple[WrittenFile, str, tuple[str, str, int] | None]:
        parts = list(self._checked(body))
        if not parts:
            raise models.MalformedXML
        whole = self.object_folder.write(
            piece for part in parts for piece in _file_pieces(part.path)
        )
        etags = b"".join(codecs.decode(part.etag.strip('"'), "hex") for part in parts)
        etag = f"{hashlib.md5(etags, usedforsecurity=False).hexdigest()}-{len(parts)}"
        checksum = self._checksum(parts, whole)
        self.dispose()
        return whole, etag, checksum

    def _checked(self, body: Iterable[tuple[int, str]]) -> Iterator[Any]:
        last = None
        for number, etag in body:
            part = self.parts.get(number)
            if part is None or part.etag.strip('"') != etag.strip('"'):
                raise models.InvalidPart
            if last is not None and last.contentsize < models.S3_UPLOAD_PART_MIN_SIZE:
                raise models.EntityTooSmall
            yield part
            last = part

    def _checksum(self, parts: list[Any], whole: WrittenFile) -> tuple[str, str, int] | None:
        """Its kind, its value and of how many parts it is; None where none was asked for."""
        if not self.metadata.get("x-amz-checksum-algorithm"):
            return None
        builder = models.MultipartChecksumBuilder(
            self.metadata.get("x-amz-checksum-algorithm"),
            self.metadata.get("x-amz-checksum-type"),
        )
        algorithm = builder.checksum_algorithm
        if builder.checksum_type == _COMPOSITE:
            for part in parts:
                builder.addPart(part.value)
            kind, value, count = builder.build()
            return kind, _OfParts(value), count
        body = open_mapped(whole.path) if whole.size else b""
        return builder.checksum_type, utils.compute_checksum(body, algorithm).decode(), 1


def make_record(backend: Any, key: Any) -> dict[str, Any]:
    """The record of an object as it is now."""
    return {
        "bytes": key.path.name,
        "size": key.contentsize,
        "etag": key.etag.strip('"'),
        "version": key._version_id,
        "storage": key.storage_class,
        "modified": key.last_modified.isoformat(),
        "metadata": dict(key.metadata),
        "tags": backend.tagger.get_tag_dict_for_resource(key.arn),
        "grants": _grants(key.acl),
        **{name: getattr(key, name, None) for name in _PLAIN},
    }


def make_key(backend: Any, bucket: FakeBucket, record: dict[str, Any], value: WrittenFile) -> None:
    """Put the object of a record into moto's bucket."""
    key = models.FakeKey(
        name=record["key"],
        bucket_name=record["bucket"],
        value=value,
        account_id=backend.account_id,
        region_name=backend.region_name,
        storage=record["storage"],
        etag=record["etag"],
        is_versioned=bucket.is_versioned,
        version_id=record["version"],
    )
    key.last_modified = datetime.datetime.fromisoformat(record["modified"])
    key.set_metadata(dict(record["metadata"]), replace=True)
    key.set_acl(_acl(record["grants"]))
    for name in _PLAIN:
        setattr(key, name, record[name])
    if key.checksum_type == _COMPOSITE:
        key.checksum_value = _OfParts(key.checksum_value)
    bucket.keys.setlist(key.name, [key])
    if record["tags"]:
        backend.put_object_tagging(key, record["tags"])


def _grants(acl: Any) -> list[Any] | None:
    """Of an access control list: each grant's grantees and permissions."""
    if acl is None:
        return None
    return [
        [
            [[grantee.id, grantee.uri, grantee.display_name] for grantee in grant.grantees],
            grant.permissions,
        ]
        for grant in acl.grants
    ]


def _acl(grants: list[Any] | None) -> Any:
    if grants is None:
        return None
    return models.FakeAcl(
        [
            models.FakeGrant([models.FakeGrantee(*grantee) for grantee in grantees], permissions)
            for grantees, permissions in grants
        ]
    )


def _fresh(
    object_folder: ObjectFolder, value: bytes | str | WrittenFile | MappedFile | MappedSlice
) -> WrittenFile:
    if isinstance(value, WrittenFile):
        return value
    if isinstance(value, str):
        value = value.encode()
    return object_folder.write([value] if isinstance(value, bytes | bytearray) else value)


def _file_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for piece in _file_pieces(path):
        digest.update(piece)
    return digest.hexdigest()


_PARTITION = "aws"


class Objects:
    """Those of moto's buckets, kept in a folder; called from several threads."""

    def __init__(self, object_folder: ObjectFolder) -> None:
        self._object_folder, self._lock = object_folder, threading.Lock()

    def restore(self) -> None:
        """Bring all of them back into moto's buckets. Raises PlatformFailed on what is damaged."""
        backend = s3_backends[ACCOUNT][_PARTITION]
        for record, kept_bytes in self._object_folder.restore():
            try:
                make_key(backend, backend.get_bucket(record["bucket"]), record, kept_bytes)
            except Exception as error:  # moto's as well: its record may say anything
                path = self._object_folder.path_of(record["bucket"], record["key"])
                raise no_object(path, error) from error
        self._object_folder.sweep()

    def note(self, bucket: str, key: str) -> None:
        """An object may have changed: keep what moto has of it now."""
        with self._lock:
            self._note(bucket, key)

    def note_all(self, bucket: str) -> None:
        """Several may have changed: those of DeleteObjects, the one of a form, or all of them."""
        with self._lock:
            objects, names = self._of(bucket), self._object_folder.names(bucket)
            for key in {*names, *set(objects)}:
                path = getattr(objects.get(key), "path", None)
                if path is None or path.name != names.get(key):
                    self._note(bucket, key)

    def _note(self, bucket: str, key: str) -> None:
        now = self._of(bucket).get(key)
        if getattr(now, "path", None) is None:  # it is gone, or a mark that it was deleted
            self._object_folder.remove(bucket, key)
        else:
            self._object_folder.put(bucket, key, make_record(s3_backends[ACCOUNT][_PARTITION], now))

    def _of(self, bucket: str) -> Any:
        buckets = s3_backends[ACCOUNT][_PARTITION].buckets
        return buckets[bucket].keys if bucket in buckets else {}
