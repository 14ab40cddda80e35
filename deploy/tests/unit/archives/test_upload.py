"""An upload in parts, against S3's rules for checksums, which the local control plane lacks."""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from merlin_deploy.account import Account
from merlin_deploy.archives.aliases import Place
from merlin_deploy.archives.put import PART, PackedArchive, upload


class S3:
    """One upload, as S3 takes it. checksums: of its parts, in base64; whole: all bytes."""

    def __init__(self) -> None:
        self.algorithm: str | None = None
        self.checksums: list[str] = []
        self.whole = b""
        self.completed = False

    def answer(self, request: Any, **_: Any) -> AWSResponse:
        """In the place of the network."""
        headers = {name.lower(): _text(value) for name, value in request.headers.items()}
        if request.method == "PUT":
            self._take_part(headers, _bytes(request.body))
            return _answer(request.url, b"", ETag=f'"{len(self.checksums)}"')
        if request.url.endswith("?uploads"):
            self.algorithm = headers.get("x-amz-checksum-algorithm")
            return _answer(request.url, b"<R><UploadId>u</UploadId></R>")
        said = re.findall(r"<ChecksumCRC32>(.*?)</ChecksumCRC32>", request.body.decode())
        assert said == self.checksums, "each part's checksum must be said"
        self.completed = True
        return _answer(request.url, b"<R><ETag>e</ETag></R>")

    def _take_part(self, headers: dict[str, str], body: bytes) -> None:
        assert self.algorithm == "CRC32", "Checksum Type mismatch occurred, expected: null"
        right = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()
        assert headers["x-amz-checksum-crc32"] == right
        self.checksums.append(right)
        self.whole += body


class _Raw:
    """An answer's body, as botocore streams it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> list[bytes]:
        """In one piece."""
        return [self._body]


def _answer(url: str, body: bytes, **headers: str) -> AWSResponse:
    return AWSResponse(url, 200, headers, _Raw(body))


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _bytes(body: Any) -> bytes:
    return bytes(body) if isinstance(body, (bytes, bytearray)) else bytes(body.read())


def test_parts_have_checksums_as_s3_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The algorithm is said when it begins, each part's checksum with it, and all at the end."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")
    account, s3 = Account("us-east-1", print), S3()
    account.client("s3").meta.events.register("before-send.s3", s3.answer)
    content, file = bytes(PART) + b"the rest", tmp_path / "a.tar.gz"
    file.write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    archive = PackedArchive(file, len(content), digest, "a/1.tar.gz", file, {})
    told: list[float] = []
    upload(account, Place("models", "shop/"), archive, lambda _, share: told.append(share))
    assert s3.completed
    assert s3.whole == content
    assert len(s3.checksums) == 2
    assert told == [PART / len(content), 1.0]
