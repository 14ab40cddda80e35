"""moto's buckets kept on disk: their configuration as the calls that made it, their objects.

After a call that changed a bucket, and before it is answered, what has changed of it is written.
Kept are each object's newest version and what was configured of each bucket; not kept are older
versions and uploads that were not completed.
"""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from moto.s3.models import s3_backends

from merlin_simulator.control.kept.objects import ACCOUNT, make_key, make_record
from merlin_simulator.control.kept.shelf import Shelf, no_object
from merlin_simulator.errors import PlatformFailed

_PARTITION = "aws"
#: How the headers begin that a call is made again with; no credentials.
_HEADERS = ("content-type", "x-amz-", "authorization")
_SECRET = "x-amz-security-token"
_SUFFIX = ".json"


@dataclass(frozen=True)
class BucketCall:
    """A call about a bucket or an object in it. key: "" for the bucket itself.

    path and query: as sent; headers: by lower-case name, Authorization without any signature;
    body: of calls about the bucket.
    """

    method: str
    bucket: str
    key: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def aspect(self) -> str:
        """What of the bucket it is about: "policy", "versioning" and so on; "": its creation."""
        asked = dict(parse_qsl(self.query, keep_blank_values=True))
        return "&".join(name if name != "id" else f"id={asked['id']}" for name in sorted(asked))


#: Makes a call again; its status.
MakeCall = Callable[[str, str, str, Mapping[str, str], bytes], int]


class Buckets:
    """Of the state's folder; called from several threads. Raises PlatformFailed on what is damaged.

    shelf: where the objects' bytes are.
    """

    def __init__(self, folder: Path, shelf: Shelf) -> None:
        self._folder, self._shelf, self._lock = folder, shelf, threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)

    def restore(self, call: MakeCall) -> None:
        """Bring all of them back into moto. call: makes a call at moto."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            bucket, calls = path.name.removesuffix(_SUFFIX), _read(path)
            for aspect, kept in calls.items():
                body = base64.b64decode(kept["body"])
                status = call("PUT", kept["path"], kept["query"], kept["headers"], body)
                if status >= 300:
                    what = f"?{aspect}" if aspect else "the bucket's creation"
                    raise PlatformFailed(
                        f"{path} cannot be carried out again ({what}: status {status}): remove it, "
                        "or name another --state."
                    )
            backend = s3_backends[ACCOUNT][_PARTITION]
            for record, kept_bytes in self._shelf.restore(bucket):
                try:
                    make_key(backend, backend.get_bucket(bucket), record, kept_bytes)
                except Exception as error:  # moto's as well: its record may say anything
                    path = self._shelf.path_of(bucket, record["key"])
                    raise no_object(path, error) from error
        self._shelf.sweep()

    def note(self, call: BucketCall) -> None:
        """A call was carried out: keep what it has changed."""
        with self._lock:
            if call.key:
                self._note_object(call.bucket, call.key)
            elif call.method == "POST":
                self._note_objects(call.bucket)
            elif call.method == "PUT":
                self._note_bucket(call)
            elif call.method == "DELETE" and not call.aspect:
                self._path(call.bucket).unlink(missing_ok=True)
                self._shelf.remove_bucket(call.bucket)
            elif call.method == "DELETE":
                calls = _read(self._path(call.bucket))
                calls.pop(call.aspect, None)
                self._write(call.bucket, calls)

    def _note_object(self, bucket: str, key: str) -> None:
        backend = s3_backends[ACCOUNT][_PARTITION]
        found = backend.buckets[bucket].keys.get(key) if bucket in backend.buckets else None
        if getattr(found, "path", None) is None:  # it is gone, or a mark that it was deleted
            self._shelf.remove(bucket, key)
        else:
            self._shelf.put(bucket, key, make_record(backend, found))

    def _note_objects(self, bucket: str) -> None:
        """Several may have changed: those of DeleteObjects, or the one of a form."""
        backend = s3_backends[ACCOUNT][_PARTITION]
        held = backend.buckets[bucket].keys if bucket in backend.buckets else {}
        kept = self._shelf.names(bucket)
        for key in {*kept, *set(held)}:
            path = getattr(held.get(key), "path", None)
            if path is None or path.name != kept.get(key):
                self._note_object(bucket, key)

    def _note_bucket(self, call: BucketCall) -> None:
        path = self._path(call.bucket)
        calls = _read(path) if path.exists() and call.aspect else {}
        calls[call.aspect] = {
            "path": call.path,
            "query": call.query,
            "headers": {
                name: value
                for name, value in call.headers.items()
                if name.startswith(_HEADERS) and name != _SECRET
            },
            "body": base64.b64encode(call.body).decode(),
        }
        self._write(call.bucket, calls)

    def _write(self, bucket: str, calls: Mapping[str, Any]) -> None:
        path = self._path(bucket)
        beside = path.with_name(f".{path.name}.new")
        beside.write_text(json.dumps(calls))
        os.replace(beside, path)

    def _path(self, bucket: str) -> Path:
        return self._folder / f"{bucket}{_SUFFIX}"


def _read(path: Path) -> dict[str, Any]:
    try:
        calls = json.loads(path.read_text())
        for kept in calls.values():
            base64.b64decode(kept["body"], validate=True)
            if not all(isinstance(kept[name], str) for name in ("path", "query")):
                raise TypeError("path and query must be strings")
            dict(kept["headers"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PlatformFailed(
            f"{path} holds no bucket of this simulator ({type(error).__name__}: {error}): remove "
            "it, or name another --state."
        ) from error
    return dict(calls)
