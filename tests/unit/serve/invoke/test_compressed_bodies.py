"""Compressed bodies: what they inflate to, and what they may cost."""

from __future__ import annotations

import gzip
import time
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.errors import BadRequest, BodyTooLarge
from serve.invoke.compressed_bodies import MOST_INFLATED, inflate, is_compressed
from serve.limit import Limit

BODY = b'{"inputs":[]}' + b"\0" * 100
GZIPPED = gzip.compress(BODY, mtime=0)


def whole_of(body: list[bytes], **limits: Any) -> list[bytes]:
    """What inflate answers with after its last step."""
    steps = inflate(body, **limits)
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


@pytest.mark.slow
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
