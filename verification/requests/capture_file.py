"""Requests in files of data capture, as SageMaker and the container write them: JSON Lines.

A file is <endpoint>/<variant>/<target model>/<yyyy/mm/dd/hh>/NAME.jsonl, and each line a record:
captureData.endpointInput has the body of a request, as text or in BASE64.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from container.telemetry.capture.spool import PART_SUFFIX, SUFFIX, WRITING
from serve.errors import BadRequest
from serve.invoke.headers import BINARY_MEDIA_TYPE, read_json_header_size, read_media_type
from verification.errors import RequestsUnusable

#: SageMaker takes 25 MB, and answers with as much, both written in BASE64.
_MOST_LINE_BYTES = 100_000_000
#: Of all files together, unpacked: as tensors they take four times that of memory.
_MOST_BYTES = 500_000_000
_A_CAPTURE = (
    'JSON Lines of data capture, {"captureData": {"endpointInput": {"data": …, "encoding": …}}}'
)
_HOUR = re.compile(r"/[0-9]{4}/[0-9]{2}/[0-9]{2}/[0-9]{2}/[^/]+\Z")
_ENDINGS = (SUFFIX, f"{SUFFIX}.gz")
_UNCLOSED = f"*{SUFFIX}{PART_SUFFIX}"
_MOST_SHOWN = 60


@dataclass(frozen=True)
class CapturedRequest:
    """The body of a request, and where it was found."""

    path: Path
    where: str
    body: bytes
    #: Of the JSON in front of binary tensors; the whole body where there are none.
    head_size: int


def is_capture(path: Path) -> bool:
    """A directory, or NAME.jsonl, or NAME.jsonl.gz; or a file whose first line is a record."""
    return path.is_dir() or path.name.endswith(_ENDINGS) or _begins_with_record(path)


def read_capture(path: Path, most_bytes: int = _MOST_BYTES) -> Iterator[CapturedRequest]:
    """All requests of a file, or of a directory's files hour by hour; raises RequestsUnusable."""
    files = _list_files(path)
    _check_target_models(path, files)
    left, are_there = most_bytes, False
    for file in files:
        for number, line in enumerate(_read_lines(file), 1):
            left -= len(line)
            if left < 0:
                found = f"more than {most_bytes / 1e6:g} MB of requests"
                raise RequestsUnusable(path, "", found, "fewer: name the directory of one hour")
            yield _read_record(file, f"line {number}", line)
            are_there = True
    if not are_there:
        raise RequestsUnusable(path, "", "no record in it", _A_CAPTURE)


def _begins_with_record(path: Path) -> bool:
    if not path.is_file():  # a pipe is read once
        return False
    try:
        with path.open("rb") as file:
            record = json.loads(file.readline(_MOST_LINE_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and "captureData" in record


def add_unclosed(found: str, path: Path) -> str:
    """Where no capture was found, with how many of its files a container still writes."""
    place = path.absolute()
    unclosed = [
        *place.rglob(_UNCLOSED),
        *(
            file
            for root in place.parents
            for writing in root.glob(f"{WRITING}*")
            for file in (writing / place.relative_to(root)).rglob(_UNCLOSED)
        ),
    ]
    if not unclosed:
        return found
    files = "1 file is" if len(unclosed) == 1 else f"{len(unclosed)} files are"
    close = "closes" if len(unclosed) == 1 else "close"
    return (
        f"{found}; {files} still being written there, and {close} after two minutes or at the "
        "container's end (of a killed one: when the next one starts there)"
    )


def _list_files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = (file for file in path.rglob(f"*{SUFFIX}*") if file.name.endswith(_ENDINGS))
    files = sorted(file for file in found if file.is_file())
    if not files:
        none = add_unclosed("a directory without a *.jsonl file", path)
        raise RequestsUnusable(path, "", none, _A_CAPTURE)
    return files


def _check_target_models(path: Path, files: list[Path]) -> None:
    """One archive does not answer the requests of another."""
    directories = {file.parents[4] for file in files if _HOUR.search(str(file.absolute()))}
    if len(directories) > 1:
        found = f"requests of {len(directories)} target models or variants"
        expected = f"those of one: name its directory, such as {min(directories)}"
        raise RequestsUnusable(path, "", found, expected)


def _read_lines(path: Path) -> Iterator[bytes]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            while line := file.readline(_MOST_LINE_BYTES + 1):
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        found = f"it cannot be unpacked ({error})"
        raise RequestsUnusable(path, "", found, "a whole file, packed by gzip") from error
    except OSError as error:
        found = f"it cannot be read ({error.strerror})"
        raise RequestsUnusable(path, "", found, _A_CAPTURE) from error


def _read_record(path: Path, where: str, line: bytes) -> CapturedRequest:
    if len(line) > _MOST_LINE_BYTES:
        found = f"more than {_MOST_LINE_BYTES / 1e6:g} MB in one line"
        raise RequestsUnusable(path, where, found, _A_CAPTURE)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        if line.startswith(b"{") and not line.endswith(b"\n"):
            found = "a record that is cut off at the end of the file"
            expected = "whole records: copy the file again, or take this line out"
            raise RequestsUnusable(path, where, found, expected) from error
        raise RequestsUnusable(path, where, f"it is no JSON ({error})", _A_CAPTURE) from error
    data = record.get("captureData") if isinstance(record, dict) else None
    if not isinstance(data, dict):
        found = f"no captureData in {_show(record)}"
        raise RequestsUnusable(path, where, found, _A_CAPTURE)
    request = data.get("endpointInput")
    if not isinstance(request, dict):
        found = f"a record without endpointInput ({', '.join(data)[:_MOST_SHOWN]})"
        raise RequestsUnusable(path, where, found, "the request: capture the input, too")
    body = _read_body(path, where, request)
    content_type = str(request.get("observedContentType")).encode(errors="replace")
    if read_media_type(content_type) != BINARY_MEDIA_TYPE:
        return CapturedRequest(path, where, body, len(body))
    try:
        return CapturedRequest(path, where, body, read_json_header_size(content_type))
    except BadRequest as error:
        found = "binary tensors, and an observedContentType without a number json-header-size"
        expected = "the number of bytes of JSON in front of them"
        raise RequestsUnusable(path, where, found, expected) from error


def _read_body(path: Path, where: str, request: dict[str, Any]) -> bytes:
    encoding, data = request.get("encoding"), request.get("data")
    if encoding not in ("JSON", "BASE64"):
        found = f"endpointInput in the encoding {_show(encoding)}"
        expected = "JSON or BASE64, in which requests of the v2 protocol are captured"
        raise RequestsUnusable(path, where, found, expected)
    if not isinstance(data, str):
        found = f"endpointInput with the data {_show(data)}"
        raise RequestsUnusable(path, where, found, "the body of the request in a string")
    try:
        return base64.b64decode(data, validate=True) if encoding == "BASE64" else data.encode()
    except ValueError as error:
        found = f"data of endpointInput that are no {encoding} ({error})"
        raise RequestsUnusable(path, where, found, "the body of the request") from error


def _show(content: Any) -> str:
    shown = f"an object of {', '.join(content)}" if isinstance(content, dict) else repr(content)
    return f"{shown[:_MOST_SHOWN]}…" if len(shown) > _MOST_SHOWN else shown
