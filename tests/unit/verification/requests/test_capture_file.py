"""Requests in data capture: read as they were sent, or refused with their line."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from container.telemetry.capture.hiding import ColumnHider
from container.telemetry.capture.lines import write_line
from container.telemetry.capture.spool import Spool
from ensemble_tools.answers.exchange import TensorRequest
from ensemble_tools.answers.tensors import Tensor, encode_strings
from serve.telemetry.captures import CapturedExchange
from tests.support.captures import make_record, write_capture
from verification.__main__ import main as verify_main
from verification.compare_command import main as compare_main
from verification.errors import RequestsUnusable
from verification.request_command import main as request_main
from verification.requests.capture_file import read_capture
from verification.requests.request_bodies import make_binary, make_json
from verification.requests.request_file import read_requests

REQUEST = TensorRequest(
    "r",
    {
        "ids": Tensor("INT64", np.array([[1], [2**60]])),
        "names": Tensor("BYTES", encode_strings(["é".encode(), b""]).reshape(2, 1)),
        "scores": Tensor("FP32", np.array([[0.1], [-0.0]], np.float32)),
    },
)
JSON, BINARY = make_json(REQUEST), make_binary(REQUEST)
RECORD = json.dumps(make_record(JSON.content))
TWICE = b'{"inputs": [%b]}' % b",".join(
    2 * [b'{"name": "x", "datatype": "INT64", "shape": [1], "data": [1]}']
)
#: As SageMaker's documentation shows one.
CSV = (
    '{"captureData":{"endpointInput":{"observedContentType":"text/csv","mode":"INPUT","data":'
    '"132,25,113.2,96","encoding":"CSV"},"endpointOutput":{"observedContentType":"text/csv; '
    'charset=utf-8","mode":"OUTPUT","data":"0.01076381653547287","encoding":"CSV"}},'
    '"eventMetadata":{"eventId":"6aaee7a1","inferenceTime":"2019-11-20T19:48:06Z"},'
    '"eventVersion":"0"}'
)


def change_input(**members: Any) -> str:
    """RECORD with other members of endpointInput."""
    record = make_record(JSON.content)
    record["captureData"]["endpointInput"] |= members
    return json.dumps(record)


def assert_same(found: TensorRequest, expected: TensorRequest) -> None:
    """Names, data types, shapes and values."""
    assert {n: str(t) for n, t in found.tensors.items()} == {
        n: str(t) for n, t in expected.tensors.items()
    }
    for name, tensor in expected.tensors.items():
        assert (found.tensors[name].array == tensor.array).all(), name


def test_json_and_binary_of_several_hours(tmp_path: Path) -> None:
    """Both forms give the tensors that were sent; hours come in their order, packed or not."""
    late = write_capture(tmp_path, [make_record(JSON.content)], hour="2026/11/26/10")
    first = write_capture(
        tmp_path, [make_record(BINARY.content, BINARY.content_type), make_record(JSON.content)]
    )
    packed = late.with_name("01.jsonl.gz")
    packed.write_bytes(gzip.compress(f"{RECORD}\n".encode()))
    late.with_name(".02.jsonl.part").write_text("what is being written")
    found = read_requests(tmp_path)
    assert [request.title for request in found] == [
        f"line 1 of {first.name}",
        f"line 2 of {first.name}",
        f"line 1 of {late.name}",
        f"line 1 of {packed.name}",
    ]
    for request in found:
        assert_same(request, REQUEST)


def test_what_the_container_writes(tmp_path: Path) -> None:
    """Its own lines, of both forms, and with a column that is not to be written."""
    lines = []
    for body, hider in ((JSON, None), (BINARY, None), (BINARY, ColumnHider(["ids"]))):
        content_type = [(b"content-type", body.content_type.encode())]
        exchange = CapturedExchange(1e9, "m", content_type, [body.content], len(body.content))
        exchange.keep_answer([], [b'{"outputs": []}'])
        lines.append(write_line(exchange, hider))
    file = write_capture(tmp_path, [])
    file.write_bytes(b"".join(lines))
    as_json, binary, hidden = read_requests(tmp_path)
    assert_same(as_json, REQUEST)
    assert_same(binary, REQUEST)
    ids = hidden.tensors["ids"]
    assert str(ids) == str(REQUEST.tensors["ids"])
    assert not (ids.array == REQUEST.tensors["ids"].array).any()
    others = {name: tensor for name, tensor in hidden.tensors.items() if name != "ids"}
    assert_same(TensorRequest("r", {**others, "ids": REQUEST.tensors["ids"]}), REQUEST)


def test_a_content_type_that_is_written_otherwise(tmp_path: Path) -> None:
    """In any case, with spaces and quotes: the container takes it, and captures have it so."""
    media_type, size = BINARY.content_type.split(";json-header-size=")
    record = make_record(BINARY.content, f'{media_type.title()}; JSON-Header-Size="{size}"')
    (found,) = read_requests(write_capture(tmp_path, [record]))
    assert_same(found, REQUEST)


def test_json_that_sagemaker_wrote_in_base64(tmp_path: Path) -> None:
    """So it does with media types that nobody has told it are JSON."""
    record = make_record(JSON.content, "application/octet-stream")
    (found,) = read_requests(write_capture(tmp_path, [record]))
    assert_same(found, REQUEST)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("hello", "it is no JSON"),
        ('{"inputs": []}', "no captureData in an object of inputs; expected JSON Lines of data"),
        ("[1]", "no captureData in [1]"),
        (RECORD.replace("endpointInput", "other"), "a record without endpointInput (other, "),
        (CSV, "endpointInput in the encoding 'CSV'; expected JSON or BASE64"),
        (change_input(encoding="BASE64"), "data of endpointInput that are no BASE64"),
        (change_input(data={"inputs": []}), "with the data an object of inputs; expected the body"),
        (json.dumps(make_record(b"no JSON")), "the request is no JSON"),
        (json.dumps(make_record(b'{"text": "a"}')), "no list `inputs` in it"),
        (json.dumps(make_record(TWICE)), "two inputs 'x'; expected a request of the v2 protocol"),
        (change_input(data=JSON.content.decode().replace('"INT64"', "{}")), "the datatype {}"),
        (json.dumps(make_record(BINARY.content[:-1], BINARY.content_type)), "its data do not fit"),
        (json.dumps(make_record(b"", BINARY.content_type)), "the request is no JSON"),
        (json.dumps(make_record(b"", f"{BINARY.content_type}x")), "without a number json-header"),
    ],
)
def test_a_line_that_is_no_request(tmp_path: Path, line: str, sentence: str) -> None:
    """File and line are named, what was found, and what was expected."""
    file = write_capture(tmp_path, [])
    file.write_text(f"{RECORD}\n{line}\n")
    with pytest.raises(RequestsUnusable) as refused:
        read_requests(tmp_path)
    assert str(refused.value).startswith(f"{file}: line 2")
    assert sentence in str(refused.value)


def test_a_record_that_is_cut_off(tmp_path: Path) -> None:
    """At the end of a file, or of a packed one."""
    file = write_capture(tmp_path, [])
    file.write_text(f"{RECORD}\n{RECORD[:-9]}")
    with pytest.raises(RequestsUnusable, match="line 2: a record that is cut off at the end of"):
        read_requests(file)
    packed = file.with_name("p.jsonl.gz")
    packed.write_bytes(gzip.compress(RECORD.encode())[:-9])
    with pytest.raises(RequestsUnusable, match="it cannot be unpacked"):
        read_requests(packed)


def test_files_that_are_still_being_written(tmp_path: Path) -> None:
    """Of the directory, or of one that comes with its first file: how many, and when they close."""
    spool = Spool(tmp_path, 10**9)
    for hour in ("09", "10"):
        spool.append(f"shop/AllTraffic/m.tar.gz/2026/11/26/{hour}", [f"{RECORD}\n".encode()])
    model = tmp_path / "shop/AllTraffic/m.tar.gz"
    two = "; 2 files are still being written there, and close after two minutes or at the contain"
    one = "; 1 file is still being written there, and closes after two minutes or at the container"
    for path, sentence in (
        (tmp_path, f"a directory without a *.jsonl file{two}"),
        (model, f"there is no such file or directory{two}"),
        (model / "2026/11/26/10", f"there is no such file or directory{one}"),
    ):
        with pytest.raises(RequestsUnusable) as refused:
            read_requests(path)
        assert str(refused.value).startswith(f"{path}: {sentence}")
    with pytest.raises(RequestsUnusable, match="no such file or directory; expected a file of JS"):
        read_requests(model.with_name("other.tar.gz"))
    spool.close()
    assert len(read_requests(model)) == 2


def test_a_capture_of_another_name(tmp_path: Path) -> None:
    """Its first line says it; of a file that has one record, too."""
    file = tmp_path / "capture.json"
    for records in (1, 2):
        file.write_text(f"{RECORD}\n" * records)
        assert [it.title for it in read_requests(file)] == [
            f"line {number} of capture.json" for number in range(1, records + 1)
        ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("s3://b/p", "s3://b/p is no path; copy it first: aws s3 sync s3://b/p DIR"),
        ("https://host/r.json", "https://host/r.json is no path; download it first"),
        ("", "the path is empty; expected a file of JSON, or a data capture: NAME.jsonl"),
    ],
)
@pytest.mark.parametrize("main", [verify_main, compare_main, request_main])
def test_an_address_is_no_path(
    main: Callable[[list[str]], int],
    text: str,
    sentence: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command says so, and how it becomes one."""
    with pytest.raises(SystemExit, match="2"):
        main(["old", *(["new"] if main is compare_main else []), "--requests", text])
    assert f"argument --requests: {sentence}" in capsys.readouterr().err


def test_directories_that_have_no_requests_of_one_archive(tmp_path: Path) -> None:
    """Empty, with what is no file, with an empty file, or with requests of several archives."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(RequestsUnusable, match=r"a directory without a \*.jsonl file"):
        read_requests(tmp_path)
    write_capture(tmp_path, [], "a.tar.gz")
    with pytest.raises(RequestsUnusable, match="no record in it"):
        read_requests(tmp_path)
    write_capture(tmp_path, [make_record(JSON.content)], "b.tar.gz")
    found = "requests of 2 target models or variants"
    expected = f"{found}; expected those of one: name its directory, such as "
    with pytest.raises(RequestsUnusable) as refused:
        read_requests(tmp_path)
    one = tmp_path / "shop/AllTraffic/a.tar.gz"
    assert str(refused.value) == f"{tmp_path}: {expected}{one}"
    assert len(read_requests(one.with_name("b.tar.gz"))) == 1


def test_what_would_take_all_the_memory(tmp_path: Path) -> None:
    """A line without an end in a small packed file, and more requests than are kept."""
    bomb = tmp_path / "bomb.jsonl.gz"
    with gzip.open(bomb, "wb", compresslevel=1) as file:
        for _ in range(101):
            file.write(bytes(1_000_000))
    with pytest.raises(RequestsUnusable, match="line 1: more than 100 MB in one line"):
        read_requests(bomb)
    several = write_capture(tmp_path, [make_record(JSON.content)] * 3)
    with pytest.raises(RequestsUnusable, match="MB of requests; expected fewer"):
        list(read_capture(several, 2 * len(RECORD) + 2))
