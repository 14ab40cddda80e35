"""Bodies of requests and answers, and the Content-Type that says what they are. No I/O.

A body is JSON, or JSON followed by the tensors' bytes (docs/contract.md). In the second case the
Content-Type must say where the JSON ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from merlin_deploy.errors import Refused
from merlin_deploy.terminal import show_bytes

JSON_TYPE = "application/json"
BINARY_TYPE = "application/vnd.sagemaker-triton.binary+json"
_PARAMETER = "json-header-size"
_BLANKS = b" \t\r\n"


@dataclass(frozen=True)
class Body:
    """What InvokeEndpoint sends."""

    content: bytes
    content_type: str


def make_body(
    content: bytes, where: str, content_type: str | None, header_size: int | None
) -> Body:
    """content_type and header_size: the caller's; None: find out.

    where: the bytes' file, for messages. Raises Refused.
    """
    if content_type is not None and not _lacks_size(content_type):
        return Body(content, content_type)
    if header_size is not None:
        if not 0 < header_size <= len(content):
            raise Refused(
                f"{where}: found {len(content)} bytes, expected --header-size to be one of them; "
                "leave it out, and it is found out"
            )
        return _make_binary(content, header_size, content_type)
    json_part = _read_json(content)
    if json_part is None:
        raise Refused(
            f"{where} begins with no JSON object; expected a request of the v2 protocol, as "
            "`python -m ensemble_tools request` writes one, or a --content-type that says what it "
            "is"
        )
    head, size = json_part
    if content_type is None and not content[size:].strip(_BLANKS):
        return Body(content, JSON_TYPE)
    return _make_binary(content, _find_size(head, size, content, where), content_type)


def find_header_size(content_type: str) -> int | None:
    """How many bytes of a body are its JSON; None if all are."""
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        digits = value.strip().strip('"')
        if name.strip().lower() == _PARAMETER and digits.isdecimal():
            return int(digits)
    return None


def _make_binary(content: bytes, size: int, content_type: str | None) -> Body:
    return Body(content, f"{content_type or BINARY_TYPE};{_PARAMETER}={size}")


def _lacks_size(content_type: str) -> bool:
    media = content_type.partition(";")[0].strip().lower()
    return media == BINARY_TYPE and find_header_size(content_type) is None


def _read_json(content: bytes) -> tuple[Mapping[str, Any], int] | None:
    """The JSON object at a body's beginning, and where it ends."""
    # latin-1: one character for each byte, so that places in the text are places in the bytes.
    text = content.decode("latin-1")
    start = len(text) - len(text.lstrip(_BLANKS.decode()))
    try:
        head, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return (head, end) if isinstance(head, dict) else None


def _find_size(head: Mapping[str, Any], end: int, content: bytes, where: str) -> int:
    """Where the JSON ends: blanks may follow it, and then the bytes that its inputs announce."""
    announced = _count_announced(head)
    size = len(content) - announced
    if size < end or content[end:size].strip(_BLANKS):
        raise Refused(
            f"{where}: found {len(content) - end} bytes behind the JSON, expected {announced}, "
            "which is what the binary_data_size of its inputs announce"
        )
    return size


def _count_announced(head: Mapping[str, Any]) -> int:
    inputs = head.get("inputs")
    total = 0
    for tensor in inputs if isinstance(inputs, list) else ():
        parameters = tensor.get("parameters") if isinstance(tensor, dict) else None
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        total += size if isinstance(size, int) and size > 0 else 0
    return total


def write_answer(content: bytes, content_type: str, *, pretty: bool) -> str:
    """Text as it is; tensors by name, type and shape; other bytes by their number."""
    size = find_header_size(content_type)
    if size is not None:
        return "\n".join(_describe_tensors(content, size))
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"{show_bytes(len(content))} of {content_type}; --output FILE keeps them"
    return _indent(text) if pretty else text


def _indent(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _describe_tensors(content: bytes, size: int) -> Iterator[str]:
    try:
        outputs = json.loads(content[:size])["outputs"]
        for output in outputs:
            shape = ", ".join(map(str, output["shape"]))
            yield f"{output['name']}  {output['datatype']} [{shape}]"
    except (ValueError, KeyError, TypeError) as error:
        yield f"its JSON has no outputs ({error}); --output FILE keeps it"
        return
    yield f"{show_bytes(len(content) - size)} of tensors; --output FILE keeps the answer"
