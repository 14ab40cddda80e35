"""One line per event."""

from __future__ import annotations

import asyncio
import io
import logging
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.logs import LineFormatter, configure
from serve.context import bind

log = logging.getLogger("container.test")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the lines go; logging is as before afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    captured = io.StringIO()
    configure("info", captured)
    yield captured
    logging.captureWarnings(False)
    root.handlers[:] = handlers
    root.setLevel(level)


def test_an_event_is_time_level_sentence_fields(stream: io.StringIO) -> None:
    """Time, level, sentence, fields."""
    log.info("model loaded", extra={"took_s": 1.9, "url": "/opt/ml/models/a b"})
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO model loaded took_s=1.9"
        r' url="/opt/ml/models/a b"\n',
        stream.getvalue(),
    )


def test_bound_names_are_on_every_line_inside(stream: io.StringIO) -> None:
    """In the task, in tasks it starts, and not after it."""

    async def deeper() -> None:
        log.info("inside")

    async def scenario() -> None:
        with bind(model_name="m1", target_model="a.tar.gz"), bind(target_model="b.tar.gz"):
            await asyncio.create_task(deeper())
        log.info("outside")

    asyncio.run(scenario())
    inside, outside = stream.getvalue().splitlines()
    assert inside.endswith("inside model_name=m1 target_model=b.tar.gz")
    assert outside.endswith("INFO outside")


def test_tasks_do_not_see_each_others_names(stream: io.StringIO) -> None:
    """Two loads at once each log their own model."""

    async def one(name: str, first: asyncio.Event, second: asyncio.Event) -> None:
        with bind(model_name=name):
            first.set()
            await second.wait()
            log.info("loaded %s", name)

    async def scenario() -> None:
        a, b = asyncio.Event(), asyncio.Event()
        await asyncio.gather(one("a", a, b), one("b", b, a))

    asyncio.run(scenario())
    for line in stream.getvalue().splitlines():
        sentence, _, field = line.partition(" model_name=")
        assert sentence.endswith(f"loaded {field}")


@given(st.text(), st.text())
def test_nothing_makes_a_second_line(sentence: str, value: str) -> None:
    """Whatever a caller sends, one event stays one line of characters that can be written."""
    record = logging.makeLogRecord({"msg": sentence.replace("%", ""), "value": value})
    line = LineFormatter().format(record)
    assert len(line.splitlines()) <= 1
    line.encode("utf-8")


def test_a_traceback_is_a_field(stream: io.StringIO) -> None:
    """It keeps its end, which says what happened."""
    try:
        raise ValueError("x" * 10_000 + "the end")
    except ValueError:
        log.exception("it broke")
    (line,) = stream.getvalue().splitlines()
    assert "traceback=" in line
    assert line.endswith('the end\\n"')


def test_a_sentence_has_an_end(stream: io.StringIO) -> None:
    """Its beginning stays, and its fields."""
    log.error("it failed: %s", "x" * 50_000, extra={"status": 500})
    (line,) = stream.getvalue().splitlines()
    assert "ERROR it failed: xxx" in line
    assert line.endswith("xxx... status=500")
    assert len(line) < 10_000


def test_a_value_that_cannot_be_shown_is_shown_by_its_type(stream: io.StringIO) -> None:
    """A broken __str__ does not lose the event."""

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    log.info("event", extra={"value": Broken()})
    assert stream.getvalue().endswith("event value=<Broken>\n")


def test_uvicorn_joins_and_foreign_debugging_does_not(stream: io.StringIO) -> None:
    """botocore's debug lines hold credentials: they stay off at any level of ours."""
    logging.getLogger("uvicorn.error").setLevel("CRITICAL")  # what a uvicorn before may leave
    configure("debug", stream)
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 1)
    logging.getLogger("botocore.auth").debug("secret")
    logging.getLogger("serve.http.app").debug("ours")
    assert [line.split(" ", 2)[1:] for line in stream.getvalue().splitlines()] == [
        ["INFO", "Started server process [1]"],
        ["DEBUG", "ours"],
    ]
