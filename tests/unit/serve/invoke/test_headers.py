"""Headers there and back, and where JSON ends: property tests, since callers send anything."""

from __future__ import annotations

import gzip
import time
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.errors import BadRequest, BodyTooLarge
from serve.invoke.headers import (
    MOST_INFLATED,
    inflated,
    is_compressed,
    make_response_headers,
    read_headers,
    read_json_header_size,
    write_headers,
)
from serve.limit import Limit
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


BODY = b'{"inputs":[]}' + b"\0" * 100
GZIPPED = gzip.compress(BODY, mtime=0)


def whole_of(body: list[bytes], **limits: Any) -> list[bytes]:
    """What inflated answers with after its last step."""
    steps = inflated(body, **limits)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            pieces: list[bytes] = end.value
            return pieces


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("body", "whole"),
    [
        (gzip.compress(BODY, mtime=0), BODY),
        (zlib.compress(BODY), BODY),  # whatever the header calls it
        (gzip.compress(BODY, mtime=0) + gzip.compress(b"more", mtime=0), BODY + b"more"),
        (gzip.compress(BODY * 90_000, 1, mtime=0), BODY * 90_000),
    ],
    ids=["gzip", "zlib", "two members", "10 MB"],
)
@pytest.mark.parametrize("cut", [1, 7, 10_000, 10_000_000])
def test_inflated_bodies(body: bytes, whole: bytes, cut: int) -> None:
    """The same whatever pieces it came in."""
    pieces = [body[at : at + cut] for at in range(0, len(body), cut)]
    assert b"".join(whole_of(pieces)) == whole


@given(st.binary(max_size=300), st.integers(0, 9), st.lists(st.integers(1, 50), min_size=1))
def test_any_bytes_come_back_from_their_compression(
    body: bytes, level: int, cuts: list[int]
) -> None:
    """However they are cut."""
    packed = gzip.compress(b"-" + body, level)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(packed[at : at + cut])
        at += cut
    assert b"".join(whole_of([*pieces, packed[at:]])) == b"-" + body


@pytest.mark.parametrize(
    "body",
    [
        BODY,
        raw_deflate(BODY),
        gzip.compress(b"", mtime=0),
        zlib.compress(b""),
        b"\x1f\x8b",
        b"x",
        GZIPPED[:-1],
        GZIPPED[:-8],
        GZIPPED[:-60],
        GZIPPED + b"x",
        zlib.compress(BODY) + b"\x1f",
        GZIPPED * 2 + b"\0",
    ],
)
def test_bodies_that_do_not_inflate(body: bytes) -> None:
    """Refused: tritonserver would take most for a request without inputs and answer 200."""
    with pytest.raises(BadRequest, match="the body"):
        whole_of([body])


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


def test_many_gzip_members() -> None:
    """Each costs a state of its own: a hundred pass, more are refused."""
    member = gzip.compress(b"x", mtime=0)
    assert b"".join(whole_of([member * 100])) == b"x" * 100
    with pytest.raises(BadRequest, match="gzip members"):
        whole_of([gzip.compress(b"", mtime=0) * 100_000])


def test_a_limit_names_its_setting() -> None:
    """So that who meets it knows what to raise."""
    with pytest.raises(BodyTooLarge) as refused:
        whole_of([zlib.compress(b"ab")], most=Limit(1, "SERVE_THE_LARGEST"))
    assert str(refused.value) == (
        "the body: found more once it is inflated, expected at most 1 bytes (SERVE_THE_LARGEST)"
    )


def test_what_is_inflated_is_counted_before_it_is_kept() -> None:
    """Whoever counts the bytes can refuse them; a bomb then ends after its first steps."""
    bomb = gzip.compress(b"\0" * 50_000_000, 9)
    seen: list[int] = []

    def grown(size: int) -> None:
        seen.append(size)
        if size > 1_000_000:
            raise LookupError("enough")

    with pytest.raises(LookupError):
        whole_of([bomb], grown=grown)
    assert seen == sorted(seen)
    assert seen[-1] < 1_200_000


@pytest.mark.parametrize("encoding", [b"br", b"GZIP", b"x-gzip", b"gzip, deflate", b"zstd" * 99])
def test_encodings_that_tritonserver_does_not_know(encoding: bytes) -> None:
    """Refused here: its own answer is a 415 without a word, or a 501."""
    with pytest.raises(BadRequest, match=r"Content-Encoding.*expected gzip, deflate or identity"):
        is_compressed([(b"content-encoding", encoding)])


def test_what_may_take_long_is_known_before() -> None:
    """So that it can be done elsewhere than on the event loop."""
    assert is_compressed([(b"content-encoding", b"gzip")])
    assert is_compressed([(b"content-encoding", b"deflate")])
    assert not is_compressed([(b"content-encoding", b"identity")])
    assert not is_compressed([(b"content-encoding", b"")])
    assert not is_compressed([(b"content-type", b"gzip")])


def test_tritonserver_inflates_nothing() -> None:
    """The header does not go on: the body is inflated before."""
    assert request_headers([(b"content-encoding", b"gzip")], [b"{}"]) == [_JSON_TYPE]


@pytest.mark.parametrize("over", [0, 1])
def test_a_bomb_costs_no_more_than_its_bound(over: int) -> None:
    """A body of 1:1000 is inflated for MOST_INFLATED bytes at the most."""
    packer = zlib.compressobj(9)
    block = b"\0" * (1 << 20)
    blocks = MOST_INFLATED >> 20
    packed = [*(packer.compress(block) for _ in range(blocks)), packer.compress(b"\0" * over)]
    bomb = b"".join([*packed, *(packer.compress(block) for _ in range(over * blocks * 4))])
    bomb += packer.flush()
    started = time.process_time()
    if over:
        with pytest.raises(BodyTooLarge, match="once it is inflated"):
            whole_of([bomb])
    else:
        assert sum(map(len, whole_of([bomb]))) == MOST_INFLATED
    assert time.process_time() - started < 5  # 0.1 s here
