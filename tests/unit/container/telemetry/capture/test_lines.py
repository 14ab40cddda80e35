"""A request and its answer as a line of SageMaker's data-capture form, and where it goes."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from typing import Any

import pytest

from container.telemetry.capture.hiding import ColumnHider, NotUnderstood
from container.telemetry.capture.lines import name_folder, write_line
from serve.errors import BadRequest, BodyTooLarge
from serve.invoke.headers import read_headers
from serve.telemetry.captures import LARGEST, CapturedExchange
from tests.support.protocol import BINARY, binary, infer, sized

#: 2026-11-26T09:00:00.750Z
AT = 1795683600.75
JSON_TYPE = (b"content-type", b"application/json")
TARGET_HEADER = b"x-amzn-sagemaker-target-model"
REQUEST, ANSWER = json.dumps(infer([1])).encode(), b'{"outputs":[]}'


def exchange(
    body: bytes = REQUEST, answer: bytes = ANSWER, *headers: tuple[bytes, bytes], model: str = "m"
) -> CapturedExchange:
    """One that was answered in JSON."""
    captured = CapturedExchange(AT, model, [*headers], [body[:5], body[5:]], len(body))
    captured.keep_answer([JSON_TYPE], [answer])
    return captured


def read(captured: CapturedExchange, hider: ColumnHider | None = None) -> dict[str, Any]:
    """What the line says; it is one."""
    line = write_line(captured, hider)
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    found: dict[str, Any] = json.loads(line)
    return found


def test_sagemakers_form() -> None:
    """Every field as Model Monitor's documentation has it."""
    found = read(exchange(REQUEST, ANSWER, JSON_TYPE, (b"x-amzn-sagemaker-inference-id", b"i-1")))
    event = found["eventMetadata"].pop("eventId")
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", event)
    assert found == {
        "captureData": {
            "endpointInput": {
                "observedContentType": "application/json",
                "mode": "INPUT",
                "data": REQUEST.decode(),
                "encoding": "JSON",
            },
            "endpointOutput": {
                "observedContentType": "application/json",
                "mode": "OUTPUT",
                "data": ANSWER.decode(),
                "encoding": "JSON",
            },
        },
        "eventMetadata": {"inferenceTime": "2026-11-26T09:00:00Z", "inferenceId": "i-1"},
        "eventVersion": "0",
    }


def test_lines_in_a_body_do_not_end_the_line() -> None:
    """Nor do the separators that only some take for ends of lines."""
    body = json.dumps(infer([1]), indent=1).encode() + "\r\n\u2028\x85".encode()
    assert read(exchange(body))["captureData"]["endpointInput"]["data"] == body.decode()


def test_binary_tensors_are_in_base64() -> None:
    """With the media type that says where the JSON ends; so is what is no UTF-8."""
    body, size = binary([1, 2])
    head = (b"content-type", sized(size).encode())
    found = read(exchange(body, b"\xff", head))["captureData"]
    assert found["endpointInput"]["encoding"] == found["endpointOutput"]["encoding"] == "BASE64"
    assert b64decode(found["endpointInput"]["data"]) == body
    assert found["endpointInput"]["observedContentType"] == sized(size)


def test_a_candidates_answer() -> None:
    """It stands beside the model's, in a folder that no requests of callers are in."""
    captured = exchange()
    assert name_folder("shop", "a", captured) == "shop/a/m/2026/11/26/09"
    captured.candidate_headers, captured.candidate_answer = [JSON_TYPE], [b'{"outputs"', b":[1]}"]
    assert name_folder("shop", "a", captured) == "shop/a=candidate/m/2026/11/26/09"
    data = read(captured)["captureData"]
    assert data["endpointOutput"]["data"] == ANSWER.decode()
    assert data["candidateOutput"] == {**data["endpointOutput"], "data": '{"outputs":[1]}'}


def test_compressed_bodies_are_written_inflated() -> None:
    """No field of the form says that they are compressed."""
    head = (b"content-encoding", b"gzip")
    found = read(exchange(gzip.compress(REQUEST), ANSWER, head, JSON_TYPE))
    assert found["captureData"]["endpointInput"]["data"] == REQUEST.decode()
    with pytest.raises(BodyTooLarge):
        read(exchange(gzip.compress(bytes(LARGEST + 1)), ANSWER, head))


def test_hidden_columns() -> None:
    """Of requests and answers; the size of a binary request's JSON is what it is now."""
    secret = b'{"outputs":[{"name":"IN","datatype":"FP32","shape":[1],"data":[2.5]}]}'
    body, size = binary([2.5])
    head = (b"content-type", sized(size).upper().encode())
    found = read(exchange(body, secret, head), ColumnHider(["IN"]))["captureData"]
    assert "2.5" not in found["endpointOutput"]["data"]
    media, _, written = found["endpointInput"]["observedContentType"].partition(
        ";json-header-size="
    )
    data = b64decode(found["endpointInput"]["data"])
    assert media == BINARY
    assert json.loads(data[: int(written)])["inputs"][0]["name"] == "IN"
    assert data[int(written) :] == bytes(4)


def test_hidden_columns_of_a_candidates_answer() -> None:
    """Also of one that is compressed, and beside outputs that the model has not; nothing of the
    request is written where they cannot be hidden."""
    outputs = b'{"outputs":[{"name":"OUT","datatype":"FP32","shape":[1],"data":[2.5]}, %b]}' % (
        b'{"name":"more","datatype":"FP32","shape":[1],"data":[3.5]}'
    )
    captured, hider = exchange(), ColumnHider(["OUT"])
    captured.candidate_headers = [JSON_TYPE, (b"content-encoding", b"gzip")]
    captured.candidate_answer = [gzip.compress(outputs)]
    written = read(captured, hider)["captureData"]["candidateOutput"]["data"]
    assert [it["data"] for it in json.loads(written)["outputs"]] == [[0], [3.5]]
    captured.candidate_answer = [gzip.compress(b"no JSON")]
    with pytest.raises(NotUnderstood):
        read(captured, hider)


@pytest.mark.parametrize(
    "captured",
    [
        exchange(b"no JSON"),
        exchange(REQUEST, b"no JSON"),
        exchange(b"1234", ANSWER, (b"content-type", sized(0).encode())),
    ],
    ids=["request", "answer", "a tensor alone"],
)
def test_what_cannot_be_hidden_is_not_written(captured: CapturedExchange) -> None:
    """It may have the column in it."""
    read(captured)
    with pytest.raises(NotUnderstood):
        read(captured, ColumnHider(["user_id"]))


def test_a_size_that_is_none() -> None:
    """Nobody knows where its tensors begin."""
    with pytest.raises(BadRequest):
        read(exchange(REQUEST, ANSWER, (b"content-type", sized("x").encode())), ColumnHider(["a"]))


@pytest.mark.parametrize(
    ("target", "folder"),
    [
        ("shop-a.tar.gz", "shop-a.tar.gz"),
        ("tenants/shop a.tar.gz", "tenants/shop a.tar.gz"),
        ("", "m"),
        ("//", "m"),
        ("../../etc/x", "%2E%2E/%2E%2E/etc/x"),
        ("etc/./x", "etc/%2E/x"),
        ("a\nb\0\\c:*", "a%0Ab%00%5Cc%3A%2A"),
        ("ü.tar.gz", "%C3%BC.tar.gz"),
        ("\udcfc.tar.gz", "%FC.tar.gz"),  # in Latin-1
        ("\udcf6.tar.gz", "%F6.tar.gz"),
        ("...", "%2E%2E%2E"),
        ("....", "%2E%2E%2E%2E"),
    ],
)
def test_folders(target: str, folder: str) -> None:
    """One for each target model and hour, in UTC, whatever a caller calls his target."""
    head = (TARGET_HEADER, target.encode(errors="surrogateescape"))
    assert name_folder("shop", "a/b", exchange(REQUEST, ANSWER, head)) == (
        f"shop/a/b/{folder}/2026/11/26/09"
    )


def test_folders_of_names_with_slashes_to_spare() -> None:
    """Archives with keys of their own have folders of their own."""
    names = ("a/b", "/a/b", "a//b", "a/b/", "//a/b", "a" + "/" * 200 + "b")
    folders = {
        name_folder("shop", "v", exchange(REQUEST, ANSWER, (TARGET_HEADER, name.encode())))
        for name in names
    }
    assert len(folders) == len(names)
    assert "shop/v/a/b/2026/11/26/09" in folders
    assert all(all(folder.split("/")) for folder in folders)


@pytest.mark.parametrize("letter", ["x", "\u4e2d", "x/"])
def test_folders_of_long_names(letter: str) -> None:
    """Two that begin alike have folders of their own, whose names a disk takes."""
    folders = set()
    for ending in ("a", "b"):
        head = (TARGET_HEADER, f"{letter * 200}{ending}.tar.gz".encode())
        folders.add(name_folder("shop", "v", exchange(REQUEST, ANSWER, head)))
    assert len(folders) == 2
    assert all(len(part) <= 255 for folder in folders for part in folder.split("/"))


def test_two_content_types() -> None:
    """The first one says what the body is, as for whoever read the request."""
    data, size = binary([1.5])
    headers = (b"content-type", sized(size).encode()), JSON_TYPE
    assert read_headers([*headers], [data])[1] == size
    found = read(exchange(data, ANSWER, *headers))["captureData"]["endpointInput"]
    assert found["observedContentType"] == sized(size)
    assert b64decode(found["data"]) == data
