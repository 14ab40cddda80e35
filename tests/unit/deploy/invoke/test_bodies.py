"""A request's Content-Type, found out of its bytes."""

from __future__ import annotations

import json
import re

import pytest

from deploy.errors import Refused
from deploy.invoke.bodies import BINARY_TYPE, JSON_TYPE, find_header_size, make_body

DATA = b"\x20\x00}\xff"


def head(size: int = len(DATA), name: str = "a") -> bytes:
    """Of a body with one binary tensor."""
    parameters = {"binary_data_size": size}
    tensor = {"name": name, "datatype": "INT32", "shape": [1], "parameters": parameters}
    return json.dumps({"inputs": [tensor]}, ensure_ascii=False).encode()


@pytest.mark.parametrize("content", [b'{"inputs": []}', b'\n {"text": "a"}\n\n'])
def test_json_is_json(content: bytes) -> None:
    """Also with blanks around it; it is sent as it is."""
    body = make_body(content, "it", None, None)
    assert (body.content, body.content_type) == (content, JSON_TYPE)


@pytest.mark.parametrize("name", ["a", "größe }\\"])
@pytest.mark.parametrize("blanks", [b"", b"  \n"])
def test_tensors_begin_where_their_sizes_say(name: str, blanks: bytes) -> None:
    """A tensor's first byte may be a blank, the JSON may have blanks behind it, in any letters."""
    first = head(name=name) + blanks
    body = make_body(first + DATA, "it", None, None)
    assert body.content_type == f"{BINARY_TYPE};json-header-size={len(first)}"


def test_what_was_asked_for_is_taken() -> None:
    """A type is not looked into, unless it is the binary one without a size; a size is a size."""
    assert make_body(b"x", "it", "text/csv", None).content_type == "text/csv"
    sized = f"{BINARY_TYPE};json-header-size=3"
    assert make_body(b"xyz", "it", sized, None).content_type == sized
    assert find_header_size(make_body(head() + DATA, "it", BINARY_TYPE, None).content_type) == len(
        head()
    )
    assert find_header_size(make_body(b"{}123", "it", None, 2).content_type) == 2


@pytest.mark.parametrize(
    ("content", "size", "words"),
    [
        (b"", None, "begins with no JSON object"),
        (b"user,item", None, "begins with no JSON object"),
        (b"[1]", None, "begins with no JSON object"),
        (b"[" * 100_000, None, "begins with no JSON object"),
        (head() + DATA[:-1], None, "found 3 bytes behind the JSON, expected 4"),
        (head() + b"\x01" + DATA, None, "found 5 bytes behind the JSON, expected 4"),
        (b'{"inputs": [1, {"parameters": 1}]}x', None, "found 1 bytes behind the JSON, expected 0"),
        (b"{}", 3, "found 2 bytes, expected --header-size to be one of them"),
    ],
)
def test_what_nobody_could_read(content: bytes, size: int | None, words: str) -> None:
    """It is refused before it is sent, with the file's name."""
    with pytest.raises(Refused, match=f"^request.bin.*{re.escape(words)}"):
        make_body(content, "request.bin", None, size)


@pytest.mark.parametrize(
    ("content_type", "size"),
    [
        (f"{BINARY_TYPE};json-header-size=12", 12),
        (f'{BINARY_TYPE}; JSON-Header-Size = "12"', 12),
        (f"{BINARY_TYPE};json-header-size=x", None),
        (JSON_TYPE, None),
        ("", None),
    ],
)
def test_size_of_an_answers_json(content_type: str, size: int | None) -> None:
    """As its Content-Type has it."""
    assert find_header_size(content_type) == size
