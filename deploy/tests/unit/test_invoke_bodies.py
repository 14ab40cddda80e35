"""A request's Content-Type, found out of its bytes; answers as text."""

from __future__ import annotations

import json
import re

import pytest

from merlin_deploy.errors import Refused
from merlin_deploy.invoke import (
    BINARY_TYPE,
    JSON_TYPE,
    find_header_size,
    make_body,
    percentile,
    write_answer,
    write_times,
)

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


HEAD = b'{"outputs":[{"name":"click","datatype":"FP32","shape":[5,1]}]}'


def test_json_is_printed_as_it_is_or_indented() -> None:
    """--pretty changes no value; what is no JSON is as it was."""
    assert write_answer(b'{"a":1.50}', "application/json", pretty=False) == '{"a":1.50}'
    assert write_answer(b'{"a":[1]}', "application/json", pretty=True).splitlines()[1] == '  "a": ['
    assert write_answer(b"data: 1", "text/event-stream", pretty=True) == "data: 1"


def test_tensors_are_told_by_name_type_and_shape() -> None:
    """Their numbers go to a file."""
    kind = f"{BINARY_TYPE};json-header-size={len(HEAD)}"
    first, second = write_answer(HEAD + bytes(20), kind, pretty=False).splitlines()
    assert first == "click  FP32 [5, 1]"
    assert second.startswith("20 bytes of tensors")


def test_what_is_no_text_is_told_by_its_size() -> None:
    """Bytes would spoil the terminal; an answer of no known form is no error."""
    told = write_answer(b"\xff\x00", "image/png", pretty=True)
    assert told == "2 bytes of image/png; --output FILE keeps them"
    strange = write_answer(b"[]", f"{BINARY_TYPE};json-header-size=2", pretty=False)
    assert "no outputs" in strange


def test_percentiles_are_answers_times() -> None:
    """Nearest rank: each is one that was measured."""
    seconds = [number / 1000 for number in range(1, 101)]
    assert percentile(seconds, 0.5) == 0.05
    assert percentile(seconds, 0.99) == 0.099
    assert percentile([0.1], 0.99) == 0.1
    assert write_times([0.1]) == "100 ms"
    assert write_times([2.0, 0.1, 0.1]) == "3 answers: p50 100 ms, p99 2 s; the first 2 s"
