"""An exchange as a line of SageMaker's data-capture files, and the folder it goes to. No I/O."""

from __future__ import annotations

import time
import uuid
from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any
from urllib.parse import quote

import orjson

from container.telemetry.capture.hiding import ColumnHider, NotUnderstood
from serve.invoke.compressed_bodies import inflate_whole, is_compressed
from serve.invoke.headers import BINARY_MEDIA_TYPE, HEADER_SIZE_PARAMETER, read_headers
from serve.telemetry.captures import LARGEST, CapturedExchange
from serve.telemetry.invocation_record import read_inference_id, target_model
from serve.triton.connection import Headers

#: Characters of an archive's name in a path, as a metric's label has them; of one folder's name.
_LONGEST_TARGET, _LONGEST_FOLDER = 256, 230
#: Of decoding and encoding: what is no UTF-8 keeps its bytes, so that no two names become one.
_NO_UTF8 = "surrogateescape"
#: Characters of a caller's id that are written.
_LONGEST_ID = 256


def write_line(exchange: CapturedExchange, hider: ColumnHider | None) -> bytes:
    """The line, its end included; hider: None where every column may be written.

    Raises NotUnderstood where a column is to be hidden and nobody can say where it is, BodyTooLarge
    for a compressed body that is larger than LARGEST once it is inflated, else BadRequest.
    """
    metadata = {
        "eventId": str(uuid.uuid4()),
        "inferenceTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(exchange.at)),
    }
    if inference_id := read_inference_id(exchange.headers):
        metadata["inferenceId"] = inference_id[:_LONGEST_ID]
    data = {
        "endpointInput": _describe("INPUT", exchange.headers, exchange.body, hider),
        "endpointOutput": _describe("OUTPUT", exchange.answer_headers, exchange.answer, hider),
    }
    if (headers := exchange.candidate_headers) is not None:
        data["candidateOutput"] = _describe("OUTPUT", headers, exchange.candidate_answer, hider)
    record = {
        "captureData": data,
        "eventMetadata": metadata,
        "eventVersion": "0",
    }
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def name_folder(endpoint: str, variant: str, exchange: CapturedExchange) -> str:
    """<endpoint>/<variant>/<target model>/<yyyy>/<mm>/<dd>/<hh>, in UTC.

    The target is the archive's name as SageMaker passes it on, else the model's. Where a candidate
    answers otherwise, the variant is <variant>=candidate: who replays a variant's requests has none
    of them twice.
    """
    named = target_model(exchange.headers, _NO_UTF8)
    target = _quote_path(named) or _quote_path(exchange.model_name)
    hour = time.strftime("%Y/%m/%d/%H", time.gmtime(exchange.at))
    variant += "" if exchange.candidate_headers is None else "=candidate"
    return "/".join(filter(None, (_quote_path(endpoint), _quote_path(variant), target, hour)))


@lru_cache(1024)
def _quote_path(name: str) -> str:
    """A path of folders, whatever a caller wrote: none that leads out, or that no disk takes.

    A name that is cut, or has slashes that no path has, ends with a hash of the whole, so that no
    two share a folder.
    """
    parts = name[:_LONGEST_TARGET].split("/")
    folders = [quote(it, safe=" @+=,", errors=_NO_UTF8) for it in parts]
    path = "/".join(
        (it if it.strip(".") else it.replace(".", "%2E"))[:_LONGEST_FOLDER] for it in folders if it
    )
    is_whole = len(name) <= _LONGEST_TARGET and all(
        0 < len(it) <= _LONGEST_FOLDER for it in folders
    )
    if path and not is_whole:
        path += f"~{blake2b(name.encode(errors=_NO_UTF8), digest_size=8).hexdigest()}"
    return path


def _describe(
    mode: str, headers: Headers, pieces: Sequence[bytes], hider: ColumnHider | None
) -> dict[str, Any]:
    body = b"".join(inflate_whole(pieces, LARGEST) if is_compressed(headers) else pieces)
    content_type = _find_content_type(headers)
    _, json_size = read_headers(headers, [body])  # as the request was read
    is_binary = json_size is not None
    if hider is not None:
        size = len(body) if json_size is None else json_size
        if not size:  # one tensor, and no word about it
            raise NotUnderstood("no JSON")
        text, tensors = hider.hide(body[:size], body[size:])
        body = text + tensors
        if is_binary:
            parameter = f"{HEADER_SIZE_PARAMETER.decode()}={len(text)}"
            content_type = f"{BINARY_MEDIA_TYPE.decode()};{parameter}"
    data, encoding = _encode(body, is_binary)
    return {
        "observedContentType": content_type,
        "mode": mode,
        "data": data,
        "encoding": encoding,
    }


def _find_content_type(headers: Headers) -> str:
    """The first one, by which the request was read."""
    values = (value for name, value in headers if name == b"content-type" and value)
    return next(values, b"application/json").decode("utf-8", "replace")


def _encode(body: bytes, is_binary: bool) -> tuple[str, str]:
    """Callers' media types say little: what is no binary request was read as JSON."""
    if not is_binary:
        try:
            return body.decode(), "JSON"
        except UnicodeDecodeError:
            pass
    return b64encode(body).decode(), "BASE64"
