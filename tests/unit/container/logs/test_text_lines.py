"""One line per event, as text."""

from __future__ import annotations

import asyncio
import logging
import re

from hypothesis import given
from hypothesis import strategies as st

from container.logs.text_lines import LineFormatter
from serve.log_context import bind
from tests.unit.container.logs.conftest import Written

log = logging.getLogger("container.test")


def test_an_event_is_time_level_sentence_fields(written: Written) -> None:
    """Time, level, sentence, fields."""
    log.info("model loaded", extra={"took_s": 1.9, "url": "/opt/ml/models/a b"})
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO model loaded took_s=1.9"
        r' url="/opt/ml/models/a b"\n',
        written.text,
    )


def test_bound_names_are_on_every_line_inside(written: Written) -> None:
    """In the task, in tasks it starts, and not after it."""

    async def deeper() -> None:
        log.info("inside")

    async def scenario() -> None:
        with bind(model_name="m1", target_model="a.tar.gz"), bind(target_model="b.tar.gz"):
            await asyncio.create_task(deeper())
        log.info("outside")

    asyncio.run(scenario())
    inside, outside = written.lines
    assert inside.endswith("inside model_name=m1 target_model=b.tar.gz")
    assert outside.endswith("INFO outside")


def test_tasks_do_not_see_each_others_names(written: Written) -> None:
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
    for line in written.lines:
        sentence, _, field = line.partition(" model_name=")
        assert sentence.endswith(f"loaded {field}")


@given(st.text(), st.text())
def test_nothing_makes_a_second_line(sentence: str, value: str) -> None:
    """Whatever a caller sends, one event stays one line of characters that can be written."""
    record = logging.makeLogRecord({"msg": sentence.replace("%", ""), "value": value})
    line = LineFormatter().format(record)
    assert len(line.splitlines()) <= 1
    line.encode("utf-8")


def test_a_traceback_is_a_field(written: Written) -> None:
    """It keeps its end, which says what happened."""
    try:
        raise ValueError("x" * 10_000 + "the end")
    except ValueError:
        log.exception("it broke")
    (line,) = written.lines
    assert "traceback=" in line
    assert line.endswith('the end\\n"')


def test_a_sentence_has_an_end(written: Written) -> None:
    """Its beginning stays, and its fields."""
    log.error("it failed: %s", "x" * 50_000, extra={"status": 500})
    (line,) = written.lines
    assert "ERROR it failed: xxx" in line
    assert line.endswith("xxx... status=500")
    assert len(line) < 10_000


def test_a_value_that_cannot_be_shown_is_shown_by_its_type(written: Written) -> None:
    """A broken __str__ does not lose the event."""

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError

    log.info("event", extra={"value": Broken()})
    assert written.text.endswith("event value=<Broken>\n")


def test_uvicorn_joins_and_foreign_debugging_does_not(written: Written) -> None:
    """botocore's debug lines hold credentials: they stay off at any level of ours."""
    logging.getLogger("uvicorn.error").setLevel("CRITICAL")  # what a uvicorn before may leave
    written.configure("debug")
    logging.getLogger("uvicorn.error").info("Started server process [%d]", 1)
    logging.getLogger("botocore.auth").debug("secret")
    logging.getLogger("serve.http.app").debug("ours")
    assert [line.split(" ", 2)[1:] for line in written.lines] == [
        ["INFO", "Started server process [1]"],
        ["DEBUG", "ours"],
    ]


def test_arguments_that_do_not_fit_lose_no_event() -> None:
    """Its words are written as they stand in the code."""
    record = logging.makeLogRecord({"msg": "%d models", "args": ("many",)})
    assert LineFormatter().format(record).endswith(" %d models (with arguments that do not fit)")


def test_why_stands_behind_what(written: Written) -> None:
    """The field `sentence` is for programs alone; truths are written as JSON has them."""
    log.info("refused", extra={"sentence": "it broke", "cold": True})
    assert written.text.endswith("INFO refused: it broke cold=true\n")
