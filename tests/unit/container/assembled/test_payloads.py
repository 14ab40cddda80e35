"""In which form payloads reach tritonserver, and which are refused before it is asked."""

from __future__ import annotations

import gzip
import json
import socket
import zlib
from collections.abc import Iterator

import pytest

from tests.support.protocol import (
    BINARY,
    binary,
    complaint,
    infer,
    sized,
    values,
)
from tests.unit.container.assembled.conftest import WITNESS
from tests.unit.container.assembled.container_on_fake import ContainerOnFake

#: For an answer that must come.
WAIT_S = 60.0
_JSON = json.dumps(infer([1, 2])).encode()
_BODY, _SIZE = binary([1, 2])


def _pieces(body: bytes, length: int = 7) -> Iterator[bytes]:
    yield from (body[start : start + length] for start in range(0, len(body), length))


def _sent(container: ContainerOnFake) -> tuple[dict[str, str], int]:
    """The headers and the number of bytes of what tritonserver was asked last."""
    last = container.asked("infer")[-1]
    headers, size = last["headers"], last["size"]
    assert isinstance(headers, dict)
    assert isinstance(size, int)
    return headers, size


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/octet-stream",
        "text/csv",
        "application/x-nonsense;;=",
        "",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        None,
    ],
)
def test_json_whatever_the_type(content_type: str | None, container: ContainerOnFake) -> None:
    """It is sent on as JSON, and the answer is JSON; a large form would kill tritonserver."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    url = f"/models/{WITNESS}/invoke"
    request = container.http.build_request("POST", url, content=_JSON, headers=headers)
    assert request.headers.get("content-type") == content_type
    answer = container.http.send(request)
    assert values(answer) == [4.0, 5.0]
    assert answer.headers["content-type"] == "application/json"
    assert _sent(container)[0]["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("body", "length", "content_type"),
    [
        (_JSON, 7, "application/json"),
        (_BODY, 7, sized(_SIZE)),
        (_JSON + b" " * (700_000 - len(_JSON)), 1, "application/json"),
    ],
    ids=["JSON", "binary", "700,000 chunks"],
)
def test_chunks(body: bytes, length: int, content_type: str, container: ContainerOnFake) -> None:
    """A body goes on in one piece, with its length: many tiny chunks end some tritonservers."""
    head = f"POST /models/{WITNESS}/invoke HTTP/1.1\r\nHost: c\r\nConnection: close\r\n"
    head += f"Content-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(it), it) for it in _pieces(body, length))
    with socket.create_connection(("127.0.0.1", container.port), timeout=WAIT_S) as connection:
        connection.sendall(head.encode() + chunks + b"0\r\n\r\n")
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ")
    headers, size = _sent(container)
    assert "transfer-encoding" not in headers
    assert headers["content-length"] == str(size) == str(len(body))


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
def test_bad_sizes(content_type: str, encoding: str, container: ContainerOnFake) -> None:
    """A size of the JSON part that cannot be right is a 400 that names the parameter."""
    encoded = {"gzip": gzip.compress(_BODY), "deflate": zlib.compress(_BODY)}.get(encoding, _BODY)
    headers = {} if encoding == "identity" else {"Content_Encoding": encoding}
    answer = container.invoke(WITNESS, encoded, Content_Type=content_type, **headers)
    assert answer.status_code == 400, answer.text
    assert "json-header-size" in complaint(answer)


@pytest.mark.parametrize("size", [1, _SIZE - 1, _SIZE + 1, len(_BODY)])
def test_sizes_that_cut_elsewhere(size: int, container: ContainerOnFake) -> None:
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
    body: bytes, encoding: str, content_type: str, container: ContainerOnFake
) -> None:
    """A body that does not inflate is the caller's fault."""
    answer = container.invoke(WITNESS, body, Content_Type=content_type, Content_Encoding=encoding)
    assert answer.status_code == 400, answer.text
    complaint(answer)


@pytest.mark.parametrize("content_type", ["application/json", sized(0), sized(_SIZE)])
@pytest.mark.parametrize("chunked", [False, True])
def test_empty_body(content_type: str, chunked: bool, container: ContainerOnFake) -> None:
    """An empty body is a 400 that says what was expected."""
    body: bytes | Iterator[bytes] = _pieces(b"") if chunked else b""
    answer = container.invoke(WITNESS, body, Content_Type=content_type)
    assert answer.status_code == 400
    assert "v2 protocol" in complaint(answer)
