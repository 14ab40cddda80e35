"""A day's requests from files of data capture, as SageMaker and containers write them: JSON Lines.

A file is <endpoint>/<variant>/<target model>/<yyyy/mm/dd/hh>/NAME.jsonl, and each line a record:
eventMetadata.inferenceTime says when, captureData.endpointInput has the request's body.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import groupby, islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from merlin_simulator.measuring.values import LEAST, MOST_MODELS, MOST_SECONDS, shown
from merlin_simulator.replay.copies import SUFFIX
from merlin_simulator.replay.load import Arrival, Schedule
from merlin_simulator.replay.settings import ReplayError, Settings

#: SageMaker takes 25 MB, and answers with as much, both written in BASE64.
_MOST_LINE_BYTES = 100_000_000
#: Of all bodies, which are kept in memory, and of all records.
_MOST_BODY_BYTES, _MOST_RECORDS = 2_000_000_000, 10_000_000
_A_CAPTURE = 'expected JSON Lines of data capture, {"captureData": …, "eventMetadata": …}'
_HOUR = re.compile(r"/[0-9]{4}/[0-9]{2}/[0-9]{2}/[0-9]{2}/[^/]+\Z")
_ENDINGS = (".jsonl", ".jsonl.gz")
#: Files that a container still writes, below this folder of its capture.
_WRITING, _UNCLOSED = ".writing-*", "*.jsonl.part"
#: Behind a variant's name: requests that its candidates answered otherwise, which it may have, too.
_OTHERWISE = "=candidate"
#: The variant's name where nobody chose another.
_USUAL_VARIANTS = ("AllTraffic", f"AllTraffic{_OTHERWISE}")


class UnusableCapture(ReplayError):
    """A file is no data capture, or not one that can be replayed. line: from 1 on."""

    def __init__(self, path: Path, subject: str, line: int | None = None) -> None:
        self.path, self.subject, self.line = path, subject, line
        super().__init__(f"{path}{'' if line is None else f':{line}'}: {subject}")


@dataclass(frozen=True, slots=True)
class CapturedRequest:
    """A request, due at so many seconds after the first one."""

    at: float
    target_model: str
    body: bytes = b""
    content_type: str = ""


def is_capture(path: Path) -> bool:
    """Whether the path says so: a directory, or NAME.jsonl, or NAME.jsonl.gz."""
    return path.is_dir() or path.name.endswith(_ENDINGS)


def read_capture(path: Path, *, bodies: bool = True) -> list[CapturedRequest]:
    """All requests below a directory, or of one file, by time. Raises UnusableCapture."""
    requests: list[CapturedRequest] = []
    endpoints: set[str] = set()
    folders: dict[str, Path] = {}
    size = 0
    files = _list_files(path)
    _check_variants(path, files)
    for file in files:
        endpoint, target_model = _find_target_model(path, file)
        endpoints.add(endpoint)
        if len(endpoints) > 1:
            subject = f"found requests of the endpoints {' and '.join(sorted(endpoints))}"
            raise UnusableCapture(path, f"{subject}, expected those of one: name its folder")
        folder = file.absolute().parents[4]
        if folders.setdefault(target_model, folder) != folder:
            subject = f"found {target_model} as {folders[target_model]} and as {folder}"
            expected = "expected one: name the folder that has <endpoint>/, with one variant in it"
            raise UnusableCapture(path, f"{subject}, {expected}")
        for number, line in enumerate(_read_lines(file), 1):
            requests.append(_read_record(file, number, line, target_model, bodies=bodies))
            size += len(requests[-1].body)
            if size > _MOST_BODY_BYTES or len(requests) > _MOST_RECORDS:
                subject = f"found more than {_MOST_BODY_BYTES / 1e9:g} GB or {_MOST_RECORDS:,}"
                raise UnusableCapture(path, f"{subject} requests, expected fewer: name fewer hours")
    if not requests:
        raise UnusableCapture(path, f"found no record, {_A_CAPTURE}")
    if len({request.target_model for request in requests}) > MOST_MODELS:
        raise UnusableCapture(path, f"found more than {MOST_MODELS:,} target models")
    requests = list(_spread(sorted(requests, key=lambda request: request.at)))
    if requests[-1].at > MOST_SECONDS:
        raise UnusableCapture(path, "found requests of more than 30 years, expected fewer")
    return requests


def _spread(requests: Sequence[CapturedRequest]) -> Iterator[CapturedRequest]:
    """Count from the first one. SageMaker writes whole seconds: those of one come evenly in it."""
    start = requests[0].at
    whole = all(request.at.is_integer() for request in requests)
    for at, group in groupby(requests, key=lambda request: request.at):
        together = list(group)
        gap = 1 / len(together) if whole else 0.0
        for number, request in enumerate(together):
            yield replace(request, at=at - start + number * gap)


def _list_files(path: Path) -> list[Path]:
    if not path.exists():
        expected = "expected a data capture: NAME.jsonl, NAME.jsonl.gz or a directory of them"
        found_none = _add_unclosed("found no such file or directory", path)
        raise UnusableCapture(path, f"{found_none}, {expected}")
    if not path.is_dir():
        return [path]
    found = (file for file in path.rglob("*.jsonl*") if file.name.endswith(_ENDINGS))
    files = sorted(file for file in found if file.is_file())
    if not files:
        found_none = _add_unclosed("found a directory without a *.jsonl file", path)
        raise UnusableCapture(path, f"{found_none}, {_A_CAPTURE}")
    return files


def _check_variants(path: Path, files: Sequence[Path]) -> None:
    """No request is to be sent twice."""
    kinds = {any(name.endswith(_OTHERWISE) for name in file.absolute().parts) for file in files}
    if len(kinds) > 1:
        found = f"found what candidates answered otherwise (…{_OTHERWISE}) beside callers' requests"
        expected = f"expected one of both: name AllTraffic, or a copy without …{_OTHERWISE}"
        raise UnusableCapture(path, f"{found}, {expected}")


def _add_unclosed(found: str, path: Path) -> str:
    """Where no capture was found, with how many of its files a container still writes."""
    place = path.absolute()
    unclosed = [
        *place.rglob(_UNCLOSED),
        *(
            file
            for root in place.parents
            for writing in root.glob(_WRITING)
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


def _find_target_model(capture: Path, file: Path) -> tuple[str, str]:
    """(endpoint, target model), by the folders below that of the capture.

    Where it is not the folder of all, a folder AllTraffic is the variant's; without one the
    endpoint is empty, and the target model is one folder.
    """
    if _HOUR.search(str(file.absolute())) is None:
        for line in islice(_read_lines(file), 1):  # it may be no capture at all
            _read_record(file, 1, line, "", bodies=False)
        expected = "expected <endpoint>/<variant>/<target model>/yyyy/mm/dd/hh/NAME.jsonl"
        raise UnusableCapture(file, f"found no target model in the path, {expected}")
    folder = file.absolute().parents[4]
    root = capture.absolute()
    below = folder.relative_to(root).parts if folder.is_relative_to(root) else ()
    parts = _find_parts(folder.parts) or below
    endpoint, name = (parts[0], "/".join(parts[2:])) if len(parts) > 2 else ("", folder.name)
    target_model = unquote(name)
    if {"", ".", ".."} & {*target_model.split("/")}:
        raise UnusableCapture(file, f"found target model {shown(target_model)}, expected an S3 key")
    return endpoint, f"{target_model.removesuffix(SUFFIX)}{SUFFIX}"


def _find_parts(folders: Sequence[str]) -> Sequence[str]:
    """From the endpoint's on, where one of the folders is surely the variant's."""
    for number, folder in enumerate(folders[2:-1], 2):
        if folder in _USUAL_VARIANTS:
            return folders[number - 1 :]
    return ()


def _read_lines(path: Path) -> Iterator[bytes]:
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            while line := file.readline(_MOST_LINE_BYTES + 1):
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UnusableCapture(
            path, f"found what gzip cannot unpack ({error}), expected a whole file"
        ) from error
    except OSError as error:
        raise UnusableCapture(path, f"found no readable file ({error.strerror})") from error


def _read_record(
    path: Path, number: int, line: bytes, target_model: str, *, bodies: bool
) -> CapturedRequest:
    if len(line) > _MOST_LINE_BYTES:
        subject = f"found a line of more than {_MOST_LINE_BYTES / 1e6:g} MB, {_A_CAPTURE}"
        raise UnusableCapture(path, subject, number)
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        subject = f"found no JSON ({error}), {_A_CAPTURE}"
        if line.startswith(b"{") and not line.endswith(b"\n"):
            subject = "found a record that is cut off at the end of the file, expected whole ones"
        raise UnusableCapture(path, subject, number) from error
    data, event = (
        record.get(key) if isinstance(record, dict) else None
        for key in ("captureData", "eventMetadata")
    )
    if not isinstance(data, dict) or not isinstance(event, dict):
        subject = f"found {shown(record)} without captureData or eventMetadata, {_A_CAPTURE}"
        raise UnusableCapture(path, subject, number)
    time = event.get("inferenceTime")
    at = read_date(time) if isinstance(time, str) else math.nan
    if not math.isfinite(at):
        subject = f"found inferenceTime {shown(time)}, expected a time as 2026-11-25T09:30:00Z"
        raise UnusableCapture(path, subject, number)
    if not bodies:
        return CapturedRequest(at, target_model)
    try:
        body, content_type = _read_body(data.get("endpointInput"))
    except ValueError as error:
        raise UnusableCapture(path, str(error), number) from error
    return CapturedRequest(at, target_model, body, content_type)


def _read_body(request: Any) -> tuple[bytes, str]:
    """(the body, its Content-Type); raises ValueError with a sentence."""
    if not isinstance(request, dict):
        raise ValueError("found a record without endpointInput, expected the request: capture it")
    encoding, data, content_type = (
        request.get(key) for key in ("encoding", "data", "observedContentType")
    )
    if encoding not in ("JSON", "CSV", "BASE64"):
        raise ValueError(f"found the encoding {shown(encoding)}, expected JSON, CSV or BASE64")
    if not isinstance(data, str):
        raise ValueError(f"found the data {shown(data)}, expected a string")
    if not isinstance(content_type, str) or not content_type.isprintable():
        raise ValueError(f"found observedContentType {shown(content_type)}, expected a type")
    try:
        body = base64.b64decode(data, validate=True) if encoding == "BASE64" else data.encode()
    except ValueError as error:
        raise ValueError(f"found data that are no {encoding} ({error})") from error
    return body, content_type


def schedule_capture(
    settings: Settings, requests: Sequence[CapturedRequest]
) -> tuple[Settings, Schedule]:
    """When each is sent, by the gaps between them over settings.speed; and what that amounts to."""
    counts = Counter(request.target_model for request in requests).most_common()
    ranks = {target_model: rank for rank, (target_model, _) in enumerate(counts)}
    arrivals = tuple(
        Arrival(number, request.at / settings.speed, ranks[request.target_model])
        for number, request in enumerate(requests)
    )
    duration = max(arrivals[-1].at, LEAST)
    amount = replace(
        settings, models=len(counts), rps=len(arrivals) / duration, duration_s=duration
    )
    names = tuple(target_model.removesuffix(SUFFIX) for target_model, _ in counts)
    return amount, Schedule(names, tuple(count / len(requests) for _, count in counts), arrivals)


def read_date(text: str) -> float:
    """Seconds since 1970 of a time in ISO 8601, in UTC where it has no zone; else NaN."""
    try:
        parsed = datetime.fromisoformat(text.replace("Z", "+00:00"))
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        return math.nan


class CapturedAsking:
    """Requests as they came. Their answers are not judged: `verify` and `compare` do that."""

    def __init__(self, requests: Sequence[CapturedRequest]) -> None:
        self._requests = requests

    def request(self, model: int, number: int) -> tuple[bytes, str]:
        """That of the number."""
        return self._requests[number].body, self._requests[number].content_type

    def fault(self, model: int, number: int, answer: bytes) -> str | None:
        """None."""
        return None
