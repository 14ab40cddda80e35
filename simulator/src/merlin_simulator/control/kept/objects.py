"""moto's S3 objects with their bytes in files of a shelf, and what a record of one says.

moto has the whole of an object in memory while it is made of parts, copied or sent: of 150 MB a
process grew to 736 MB. Its class of objects and that of uploads are therefore replaced by these,
for as long as a shelf is in use. The release of moto is pinned in requirements.
"""

from __future__ import annotations

import codecs
import datetime
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moto.s3 import models, utils

from merlin_simulator.control.kept.shelf import PIECE, Fresh, Mapped, Shelf, Window, open_mapped

if TYPE_CHECKING:
    from moto.s3.models import FakeBucket

ACCOUNT = "123456789012"
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
def stored_on(shelf: Shelf) -> Iterator[None]:
    """Whatever moto's S3 is given lies on this shelf, until the end of the block."""
    classes = models.FakeKey, models.FakeMultipart
    models.FakeKey = type("StoredKey", (_StoredKey,), {"shelf": shelf})
    models.FakeMultipart = type("StoredMultipart", (_StoredMultipart,), {"shelf": shelf})
    try:
        yield
    finally:
        models.FakeKey, models.FakeMultipart = classes


class _OfParts(str):
    """A checksum of the checksums of an upload's parts."""


class _StoredKey(models.FakeKey):  # type: ignore[misc]
    """An object whose value is a file. shelf: where it lies."""

    shelf: Shelf
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
    def value(self) -> bytes | Mapped:
        assert self.path is not None
        return self.path.read_bytes() if self.contentsize <= PIECE else open_mapped(self.path)

    @value.setter
    def value(self, value: bytes | str | Fresh | Mapped | Window) -> None:
        old, fresh = self.path, _fresh(self.shelf, value)
        self.path, self.contentsize = fresh.path, fresh.size
        if old is not None:
            self.shelf.drop(old)

    @property
    def etag(self) -> str:
        if self._etag is None:
            assert self.path is not None
            self._etag = _md5(self.path)
        return f'"{self._etag}"'

    def dispose(self, garbage: bool = False) -> None:
        if not self.disposed and self.path is not None:
            self.shelf.drop(self.path)
        super().dispose(False)


class _StoredMultipart(models.FakeMultipart):  # type: ignore[misc]
    """An upload whose parts are joined from file to file."""

    shelf: Shelf

    def complete(
        self, body: Iterable[tuple[int, str]]
    ) -> tuple[Fresh, str, tuple[str, str, int] | None]:
        parts = list(self._checked(body))
        if not parts:
            raise models.MalformedXML
        whole = self.shelf.write(piece for part in parts for piece in _pieces(part.path))
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

    def _checksum(self, parts: list[Any], whole: Fresh) -> tuple[str, str, int] | None:
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
    """What is kept of an object as it is now."""
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


def make_key(backend: Any, bucket: FakeBucket, record: dict[str, Any], kept: Fresh) -> None:
    """Put the object of a record into moto's bucket."""
    key = models.FakeKey(
        name=record["key"],
        bucket_name=record["bucket"],
        value=kept,
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
        [[[one.id, one.uri, one.display_name] for one in grant.grantees], grant.permissions]
        for grant in acl.grants
    ]


def _acl(grants: list[Any] | None) -> Any:
    if grants is None:
        return None
    return models.FakeAcl(
        [
            models.FakeGrant([models.FakeGrantee(*one) for one in grantees], permissions)
            for grantees, permissions in grants
        ]
    )


def _fresh(shelf: Shelf, value: bytes | str | Fresh | Mapped | Window) -> Fresh:
    if isinstance(value, Fresh):
        return value
    if isinstance(value, str):
        value = value.encode()
    return shelf.write([value] if isinstance(value, bytes | bytearray) else value)


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for piece in _pieces(path):
        digest.update(piece)
    return digest.hexdigest()
