"""Payloads that are refused before tritonserver is asked."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

import pytest

from tests.support.protocol import (
    BINARY,
    binary,
    complaint,
    sized,
)
from tests.unit.container.assembled.conftest import WITNESS
from tests.unit.container.assembled.played import Played

_BODY, _SIZE = binary([1, 2])


def _pieces(body: bytes, length: int = 7) -> Iterator[bytes]:
    yield from (body[start : start + length] for start in range(0, len(body), length))


@pytest.mark.parametrize(
    "content_type",
    [
        BINARY,
        *map(sized, ["-1", "x", "99999999999", "9" * 30, "", "%20", "1.0", "1e2", "0x10", "+5"]),
        sized(len(_BODY) + 1),
        f"{sized(_SIZE)};json-header-size={_SIZE}",
        f"{BINARY};header-size={_SIZE}",
        sized(2**31),
        sized(2**63),
        sized(2**64 + _SIZE),
    ],
)
@pytest.mark.parametrize("encoding", ["identity", "gzip", "deflate"])
def test_bad_sizes(content_type: str, encoding: str, container: Played) -> None:
    """A size of the JSON part that cannot be right is a 400 that names the parameter."""
    encoded = {"gzip": gzip.compress(_BODY), "deflate": zlib.compress(_BODY)}.get(encoding, _BODY)
    headers = {} if encoding == "identity" else {"Content_Encoding": encoding}
    answer = container.invoke(WITNESS, encoded, Content_Type=content_type, **headers)
    assert answer.status_code == 400, answer.text
    assert "json-header-size" in complaint(answer)


@pytest.mark.parametrize("size", [1, _SIZE - 1, _SIZE + 1, len(_BODY)])
def test_sizes_that_cut_elsewhere(size: int, container: Played) -> None:
    """A size within the body that cuts it at the wrong place is the caller's fault too."""
    answer = container.invoke(WITNESS, _BODY, Content_Type=sized(size))
    assert answer.status_code == 400, answer.text
    complaint(answer)


@pytest.mark.parametrize("content_type", ["application/json", sized(_SIZE)])
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize(
    "body",
    [
        b"not compressed at all",
        gzip.compress(_BODY, mtime=0)[:-60],
        gzip.compress(_BODY, mtime=0)[:12],
        gzip.compress(b"", mtime=0),
        zlib.compress(b""),
    ],
)
def test_broken_compression(
    body: bytes, encoding: str, content_type: str, container: Played
) -> None:
    """A body that does not inflate is the caller's fault."""
    answer = container.invoke(WITNESS, body, Content_Type=content_type, Content_Encoding=encoding)
    assert answer.status_code == 400, answer.text
    complaint(answer)


@pytest.mark.parametrize("content_type", ["application/json", sized(0), sized(_SIZE)])
@pytest.mark.parametrize("chunked", [False, True])
def test_empty_body(content_type: str, chunked: bool, container: Played) -> None:
    """An empty body is a 400 that says what was expected."""
    body: bytes | Iterator[bytes] = _pieces(b"") if chunked else b""
    answer = container.invoke(WITNESS, body, Content_Type=content_type)
    assert answer.status_code == 400
    assert "v2 protocol" in complaint(answer)
