"""Headers there and back, and where JSON ends: property tests, since callers send anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.errors import BadRequest
from serve.invoke.headers import (
    make_response_headers,
    read_headers,
    read_json_header_size,
    write_headers,
)
from serve.triton.connection import Headers

BINARY = b"application/vnd.sagemaker-triton.binary+json"
HEADER = b"inference-header-content-length"
_JSON_TYPE = (b"content-type", b"application/json")


def request_headers(headers: Headers, body: list[bytes]) -> Headers:
    """Those that a request is sent to tritonserver with."""
    return write_headers(*read_headers(headers, body))


def content_type(size: object, before: str = "") -> tuple[bytes, bytes]:
    value = size if isinstance(size, bytes) else str(size).encode()
    return b"content-type", BINARY + b";" + before.encode() + b"json-header-size=" + value


@given(value=st.binary(max_size=40), length=st.integers(0, 300))
def test_any_bytes_as_size_pass_or_are_refused(value: bytes, length: int) -> None:
    """Only plain digits up to the body's length pass, and they arrive as that number."""
    try:
        sent = request_headers([content_type(value)], [b"x" * length])
    except BadRequest:
        return
    [got] = [text for name, text in sent if name == HEADER]
    assert 0 <= int(got) <= length
    assert got == b"%d" % int(got)


@given(size=st.integers(0, 500), pieces=st.lists(st.binary(max_size=50), max_size=8))
def test_a_size_passes_up_to_the_length_of_all_pieces(size: int, pieces: list[bytes]) -> None:
    """However the body was cut; one more is refused."""
    length = sum(map(len, pieces))
    if size <= length:
        assert (HEADER, b"%d" % size) in request_headers([content_type(size)], pieces)
    else:
        with pytest.raises(BadRequest, match=f"{size}, more than the {length} bytes"):
            request_headers([content_type(size)], pieces)


@given(st.binary(max_size=80))
def test_no_content_type_makes_another_error(value: bytes) -> None:
    """Any bytes as Content-Type, and any as its parameters."""
    for text in (value, BINARY + b";" + value, BINARY + value):
        said = ""
        try:
            request_headers([(b"content-type", text)], [b"{}"])
        except BadRequest as error:
            said = str(error)
        assert "\n" not in said


@pytest.mark.parametrize(
    "value",
    [
        b"-1",
        b"+1",
        b"x",
        b"99999999999",
        b"9" * 5000,
        b"",
        b"1.0",
        b"1e1",
        b"0x1",
        b"1_0",
        "١".encode(),
        b" ",
        b"1 1",
        b'""',
        b"1,1",
        b"\xb2",
    ],
)
def test_sizes_that_are_none(value: bytes) -> None:
    """Refused with what was found, on one short line."""
    with pytest.raises(BadRequest, match="json-header-size") as refused:
        request_headers([content_type(value)], [b"{}"])
    assert len(str(refused.value)) < 250


@pytest.mark.parametrize(
    "value",
    [
        BINARY + b";json-header-size=2",
        BINARY + b" ; json-header-size = 2 ",
        BINARY.upper() + b";JSON-HEADER-SIZE=2",
        BINARY + b';charset=utf-8;json-header-size="2"',
        BINARY + b";json-header-size=0002;x",
    ],
)
def test_spellings_of_the_media_type(value: bytes) -> None:
    """Case, blanks, quotes and other parameters do not matter (RFC 9110 8.3)."""
    assert read_json_header_size(value) == 2
    assert request_headers([(b"content-type", value)], [b"{}"]) == [
        (b"content-type", b"application/octet-stream"),
        (HEADER, b"2"),
    ]


@pytest.mark.parametrize("value", [BINARY, BINARY + b";json-header-size=1;json-header-size=1"])
def test_the_size_stands_there_once(value: bytes) -> None:
    """Without it, or with two, nobody knows where JSON ends."""
    with pytest.raises(BadRequest, match="one whole number"):
        read_json_header_size(value)


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/json;json-header-size=x",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data; boundary=x",
        b"",
    ],
)
def test_other_media_types_become_json(content_type: bytes) -> None:
    """The size is a parameter of one media type only, and tritonserver sees no other type but JSON.

    A form of 5 MB, as `curl -d` would send it, kills tritonserver.
    """
    headers: Headers = [(b"content-type", content_type)]
    assert request_headers(headers, [b"{}"]) == [_JSON_TYPE]


def test_hop_by_hop_headers_stay_on_their_hop() -> None:
    """RFC 9110 7.6.1, also those that any of several Connection headers names; the rest passes."""
    dropped = {
        b"host",
        b"content-length",
        b"transfer-encoding",
        b"te",
        b"trailer",
        b"upgrade",
        b"keep-alive",
        b"expect",
        b"proxy-authorization",
        b"proxy-connection",
        HEADER,
        b"x-one",
        b"x-two",
        b"x-three",
        b"x-serve-access",
    }
    kept: Headers = [
        (b"x-amzn-sagemaker-custom-attributes", b"a=b"),
        (b"accept-encoding", b"gzip"),
        (b"x-twice", b"1"),
        (b"x-twice", b"2"),
    ]
    connection = [(b"connection", b"X-One, x-TWO"), (b"connection", b",x-three,, close")]
    headers = [*((name, b"1") for name in dropped), *connection, *kept]
    assert request_headers(headers, [b"{}"]) == [*kept, _JSON_TYPE]
    returned = make_response_headers([*headers, (b"server", b"x"), (b"date", b"x")])
    assert returned == [(b"content-type", BINARY + b";json-header-size=1"), *kept]


def test_answers_have_a_content_type() -> None:
    """Triton's own; JSON when it gives none (some versions do not)."""
    assert make_response_headers([]) == [(b"content-type", b"application/json")]
    stream = [(b"content-type", b"text/event-stream")]
    assert make_response_headers(stream) == stream


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        (b"gzip", b"gzip"),
        (b"deflate, gzip;q=0.5", b"deflate"),
        (b"GZIP;q=1e999", b"gzip"),
        (b"gzip;q=1e-999", b"gzip"),
        (b"*;q=1e999,gzip", b"gzip"),
        (b"br, gzip ; q=1", b"gzip"),
        (b"*;q=1e999", None),
        (b"gzip;q=0", None),
        (b"gzip; q=0.000, br", None),
        (b"", None),
        (b"identity", None),
        (b";;,,;q=", None),
        (b"x" * 5000, None),
    ],
)
def test_accept_encoding_in_our_own_words(value: bytes, sent: bytes | None) -> None:
    """tritonserver dies of weights that no double holds; it is told one encoding, or none."""
    expected = [] if sent is None else [(b"accept-encoding", sent)]
    assert request_headers([(b"accept-encoding", value)], [b"{}"]) == [*expected, _JSON_TYPE]


def test_tritonserver_inflates_nothing() -> None:
    """The header does not go on: the body is inflated before."""
    assert request_headers([(b"content-encoding", b"gzip")], [b"{}"]) == [_JSON_TYPE]
