"""One JSON object per event."""

from __future__ import annotations

import json
import logging
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.logs.json_lines import RESERVED, JsonFormatter
from container.logs.values import FIELD_MAX, SENTENCE_MAX
from serve.log_context import bind
from tests.unit.container.logs.conftest import Written

log = logging.getLogger("container.test")


def read(record: logging.LogRecord) -> dict[str, Any]:
    line = JsonFormatter().format(record)
    assert line.isascii()
    assert line.isprintable()
    found: dict[str, Any] = json.loads(line)
    return found


def test_an_event(written: Written) -> None:
    """Time, level, source, logger, message, then what is bound and the fields, with their types."""
    written.configure("info", "json")
    with bind(model_name="m1"):
        log.info("model %s", "loaded", extra={"took_s": 1.94321987, "cold": True, "left": None})
    (line,) = written.lines
    found = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("time"))
    assert list(found.items()) == [
        ("level", "INFO"),
        ("source", "container"),
        ("logger", "container.test"),
        ("message", "model loaded"),
        ("model_name", "m1"),
        ("took_s", 1.94322),
        ("cold", True),
    ]


class Broken:
    def __str__(self) -> str:
        raise RuntimeError


class Text(str):
    """Not quite a str."""


VALUES = st.one_of(
    st.text(),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.binary(),
    st.sampled_from([Broken(), Text("x"), 10**5000, {}, [Broken()], "\ud800\x00\x85\u2028", 1j]),
)


@given(st.text(), VALUES, st.sampled_from(["value", *sorted(RESERVED - {"message"})]))
def test_whatever_is_logged_is_one_object(sentence: str, value: object, name: str) -> None:
    """With the five members that every object has, each a text of its own."""
    record = logging.makeLogRecord({"msg": sentence, "name": "a", name: value})
    found = read(record)
    assert all(isinstance(found[member], str) for member in RESERVED)
    assert found["source"] == "container"
    assert found["logger"] == "a"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, 1),
        (2**53 + 1, str(2**53 + 1)),
        (1.5, 1.5),
        (math.inf, "inf"),
        (math.nan, "nan"),
        (Broken(), "<Broken>"),
        (10**5000, "<int>"),
        ("é\n", "é\n"),
        ("a\ud800", "a\\ud800"),
        (b"\xff", "b'\\xff'"),
        ({"a": 1}, "{'a': 1}"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values(value: object, shown: object) -> None:
    """Numbers stay numbers where every reader can hold them; the rest is shown in words."""
    assert read(logging.makeLogRecord({"value": value}))["value"] == shown


def test_bounds() -> None:
    """A message keeps its beginning, a value its end: as in the text form."""
    found = read(logging.makeLogRecord({"msg": "ab" * 50_000, "value": "x" * 50_000 + "end"}))
    assert found["message"] == ("ab" * SENTENCE_MAX)[:SENTENCE_MAX] + "..."
    assert found["value"] == "..." + "x" * (FIELD_MAX - 3) + "end"


def test_a_traceback_is_a_field(written: Written) -> None:
    """With its ends of lines as JSON writes them."""
    written.configure("info", "json")
    try:
        raise ValueError("the end")
    except ValueError:
        log.exception("it broke")
    (line,) = written.lines
    assert json.loads(line)["traceback"].endswith("ValueError: the end\n")
