"""A captured day: read in its order, sent with its gaps, planned from; or refused with its line."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from merlin_simulator.plan_command.files import UnusableFile
from merlin_simulator.plan_command.traffic import read_trace
from merlin_simulator.replay.asking import Runtime
from merlin_simulator.replay.capture import (
    CapturedAsking,
    CapturedRequest,
    UnusableCapture,
    read_capture,
    schedule_capture,
)
from merlin_simulator.replay.load import Load
from merlin_simulator.replay.settings import Settings
from simulator.tests.unit.replay.fake_endpoint import FakeEndpoint, serving
from tests.support.captures import JSON_TYPE, make_record, write_capture
from tests.support.clock import Clock

BINARY_TYPE = "application/vnd.sagemaker-triton.binary+json;json-header-size=4"


def ask(number: int) -> bytes:
    """What the fake endpoint answers."""
    ids = {"name": "IDS", "datatype": "INT64", "shape": [2], "data": [number, 0]}
    return json.dumps({"inputs": [ids]}).encode()


@pytest.fixture
def day(tmp_path: Path) -> Path:
    """Three requests of a in two hours, the last beside one of shop/b."""
    late = "2026-11-26T10:00:01Z"
    write_capture(tmp_path, [make_record(ask(3), at=late)], "shop/b.tar.gz", "2026/11/26/10")
    write_capture(tmp_path, [make_record(ask(2), at=late)], "a.tar.gz", "2026/11/26/10")
    first = [make_record(ask(n), at=f"2026-11-26T09:59:{59 - n}Z") for n in (0, 1)]
    file = write_capture(tmp_path, [], "a.tar.gz")
    lines = "".join(f"{json.dumps(record)}\n" for record in first)
    file.with_name("packed.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    return tmp_path


def test_a_day_in_its_order(day: Path) -> None:
    """By time, whatever file they lie in; those of one whole second are spread over it."""
    assert read_capture(day) == [
        CapturedRequest(0.0, "a.tar.gz", ask(1), JSON_TYPE),
        CapturedRequest(1.0, "a.tar.gz", ask(0), JSON_TYPE),
        CapturedRequest(3.0, "a.tar.gz", ask(2), JSON_TYPE),
        CapturedRequest(3.5, "shop/b.tar.gz", ask(3), JSON_TYPE),
    ]


def test_times_with_milliseconds_stay_as_they_are(tmp_path: Path) -> None:
    """As the form allows; two at one moment are sent together."""
    times = ("09:00:00.250", "09:00:00.750", "09:00:00.750")
    records = [make_record(b"head1234", BINARY_TYPE, f"2026-11-26T{time}Z") for time in times]
    file = write_capture(tmp_path, records, "m%20n")
    found = read_capture(file)
    assert [request.at for request in found] == [0.0, 0.5, 0.5]
    assert {(it.target_model, it.body, it.content_type) for it in found} == {
        ("m n.tar.gz", b"head1234", BINARY_TYPE)
    }


async def test_gaps_are_kept(day: Path, clock: Clock) -> None:
    """Each is sent at its time over the speed, to its model, as it came."""
    settings, schedule = schedule_capture(Settings(speed=0.01), read_capture(day))
    assert (settings.models, settings.duration_s) == (2, 350.0)
    assert schedule.names == ("a", "shop/b")
    assert schedule.shares == (0.75, 0.25)
    endpoint = FakeEndpoint()
    async with serving(endpoint) as url:
        runtime = Runtime(url, "replay")
        targets = [f"{name}.tar.gz" for name in schedule.names]
        load = Load(runtime, CapturedAsking(read_capture(day)), targets, 9)
        running = asyncio.create_task(load.run(schedule.arrivals, asyncio.Event()))
        try:
            for due in (0, 100, 300, 350):
                clock.advance(max(0.0, due - load.elapsed - 1))
                before = len(endpoint.asked)
                await asyncio.sleep(0)
                assert len(endpoint.asked) == before, "sent too early"
                await clock.until(partial(_has_asked, endpoint, before + 1), 5)
            await asyncio.wait_for(running, 60)
        finally:
            await runtime.close()
    assert endpoint.asked == [
        *(("a.tar.gz", number) for number in (1, 0, 2)),
        ("shop/b.tar.gz", 3),
    ]
    assert [sample.due for sample in load.samples] == [0.0, 100.0, 300.0, 350.0]
    assert all(round(sample.sent - sample.due, 3) >= 0 for sample in load.samples)
    assert {sample.error for sample in load.samples} == {None}


def _has_asked(endpoint: FakeEndpoint, count: int) -> bool:
    return len(endpoint.asked) >= count


def test_a_plan_takes_it_as_trace(day: Path) -> None:
    """With the times and models of the day; bodies are not needed."""
    trace = read_trace(day)
    assert (trace.times, trace.models) == ([0.0, 1.0, 3.0, 3.5], [0, 0, 0, 1])
    assert trace.names == ["a.tar.gz", "shop/b.tar.gz"]
    packed = day / "shop/AllTraffic/a.tar.gz/2026/11/26/09/packed.jsonl.gz"
    packed.write_bytes(gzip.compress(b"no record\n"))
    with pytest.raises(UnusableFile, match=r"packed\.jsonl\.gz:1: found no JSON"):
        read_trace(day / "shop/AllTraffic/a.tar.gz/2026/11/26")


RECORD = make_record(ask(0))
LINE = json.dumps(RECORD)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("time,target_model", ":2: found no JSON"),
        ('{"inputs": []}', ":2: found a table without captureData or eventMetadata"),
        ("[]", ":2: found a list of 0 without captureData"),
        (LINE.replace("2026-11-26T09:00:00Z", "noon"), "found inferenceTime 'noon', expected a"),
        (LINE.replace("endpointInput", "none"), ":2: found a record without endpointInput"),
        (LINE.replace('"encoding": "JSON"', '"encoding": "XML"'), "found the encoding 'XML', exp"),
        (LINE.replace('"encoding": "JSON"', '"encoding": "BASE64"'), "found data that are no BAS"),
        (LINE.replace("application/json", "a\\nb"), "found observedContentType 'a\\nb'"),
        (LINE.replace("2026-", "1926-"), "found requests of more than 30 years"),
    ],
)
def test_a_line_that_is_no_record(tmp_path: Path, line: str, sentence: str) -> None:
    """File and line."""
    file = write_capture(tmp_path, [RECORD])
    file.write_text(f"{LINE}\n{line}\n")
    with pytest.raises(UnusableCapture) as refused:
        read_capture(tmp_path)
    assert str(refused.value).startswith(str(tmp_path))
    assert sentence in str(refused.value)


def test_files_that_are_not_whole(tmp_path: Path) -> None:
    """The last record of a file, and a packed file."""
    file = write_capture(tmp_path, [RECORD])
    file.write_text(LINE[:-5])
    with pytest.raises(UnusableCapture, match=":1: found a record that is cut off at the end of"):
        read_capture(file)
    file.write_text("")
    with pytest.raises(UnusableCapture, match="found no record"):
        read_capture(file)
    packed = file.with_suffix(".jsonl.gz")
    packed.write_bytes(gzip.compress(LINE.encode())[:-4])
    with pytest.raises(UnusableCapture, match="found what gzip cannot unpack"):
        read_capture(packed)


def test_folders_that_are_no_endpoints_capture(tmp_path: Path) -> None:
    """No file in it, no hours, two endpoints, a target model that leads out of the folder."""
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(UnusableCapture, match=r"found a directory without a \*.jsonl file"):
        read_capture(tmp_path)
    bare = tmp_path / "bare.jsonl"
    bare.write_text(f"{LINE}\n")
    with pytest.raises(UnusableCapture, match="found no target model in the path, expected <endp"):
        read_capture(bare)
    bare.unlink()
    write_capture(tmp_path / "two", [RECORD], "%2E%2E")
    with pytest.raises(UnusableCapture, match=r"found target model '\.\.', expected an S3 key"):
        read_capture(tmp_path / "two")
    write_capture(tmp_path / "one", [RECORD])
    (tmp_path / "one/shop").rename(tmp_path / "one/other")
    write_capture(tmp_path / "one", [RECORD])
    with pytest.raises(UnusableCapture, match="of the endpoints other and shop, expected those"):
        read_capture(tmp_path / "one")
    (found,) = read_capture(tmp_path / "one/other")
    assert found.target_model == "m.tar.gz"


@pytest.mark.parametrize(
    "capture", ["..", ".", "shop", "shop/AllTraffic", "shop/AllTraffic/t1", "shop/AllTraffic/t1/m"]
)
def test_folders_of_a_target_model(tmp_path: Path, capture: str) -> None:
    """They belong to its name wherever the capture's path ends: AllTraffic tells where."""
    write_capture(tmp_path / "prefix", [RECORD], "t1/m")
    (found,) = read_capture(tmp_path / "prefix" / capture)
    assert found.target_model == "t1/m.tar.gz"


@pytest.mark.parametrize("variant", ["AllTraffic", "AllTraffic=candidate"])
def test_what_candidates_answered_otherwise(tmp_path: Path, variant: str) -> None:
    """It is replayed only where its folder is named: those requests are the variant's, too, or
    were not captured there."""
    write_capture(tmp_path, [RECORD], "t1/m")
    others = tmp_path / "shop/AllTraffic=candidate"
    shutil.copytree(tmp_path / "shop/AllTraffic", others)
    for target_model in ("m", "other"):
        (others / "t1/m").rename(others / "t1" / target_model)
        with pytest.raises(UnusableCapture, match=r"beside callers' .* name AllTraffic, or a copy"):
            read_capture(tmp_path)
    (others / "t1/other").rename(others / "t1/m")
    (found,) = read_capture(tmp_path / "shop" / variant)
    assert found.target_model == "t1/m.tar.gz"


def test_files_that_are_still_being_written(tmp_path: Path) -> None:
    """Of the directory, or of one that comes with its first file: how many, and when they close."""
    folder = "shop/AllTraffic/m/2026/11/26/09"
    for number in range(2):
        file = tmp_path / f".writing-x7c2/{folder}/{number}.jsonl.part"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{LINE}\n")
    two = "; 2 files are still being written there, and close after two minutes or at the contain"
    for path, sentence in (
        (tmp_path, r"found a directory without a \*.jsonl file"),
        (tmp_path / folder, "found no such file or directory"),
    ):
        with pytest.raises(UnusableCapture, match=f"{sentence}{two}"):
            read_capture(path)


def test_paths_that_are_no_capture(tmp_path: Path) -> None:
    """Nothing is there, or something else."""
    with pytest.raises(
        UnusableCapture, match=r"file or directory, expected a data capture: NAME\.js"
    ):
        read_capture(tmp_path / "nope")
    page = tmp_path / "README.md"
    page.write_text("# Captures\n")
    with pytest.raises(UnusableCapture, match=r"README\.md:1: found no JSON .*expected JSON Lines"):
        read_capture(page)


def test_two_archives_of_one_name(tmp_path: Path) -> None:
    """They are not taken for one where the folder that is named is not the one above endpoints."""
    for tenant in ("t1", "t2"):
        write_capture(tmp_path, [RECORD], f"{tenant}/m.tar.gz")
    (tmp_path / "shop/AllTraffic").rename(tmp_path / "shop/v1")
    models = {request.target_model for request in read_capture(tmp_path)}
    assert models == {"t1/m.tar.gz", "t2/m.tar.gz"}
    for below in ("shop", "shop/v1"):
        with pytest.raises(UnusableCapture, match=r"found m\.tar\.gz as .*/t1/m.* and as .*/t2/m"):
            read_capture(tmp_path / below)
