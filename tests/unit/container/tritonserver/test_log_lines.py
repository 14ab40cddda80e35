"""Lines of tritonserver's output, read; tests/golden/test_triton_lines.py has the real ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.logs.values import SENTENCE_MAX
from container.tritonserver.log_lines import TritonLine, TritonLines

HEAD = "I1123 05:22:23.712047 28664 model_lifecycle.cc:472] "


def read(*lines: str) -> list[TritonLine]:
    reader = TritonLines()
    return [found for line in lines if (found := reader.read(line))]


@pytest.mark.parametrize(
    ("letter", "level"), [("I", "INFO"), ("W", "WARNING"), ("E", "ERROR"), ("F", "CRITICAL")]
)
def test_levels(letter: str, level: str) -> None:
    """Each letter's, in either format of the head."""
    for head in (f"{letter}1123 05:22:23.712047", f"2026-11-23T05:26:50Z {letter}"):
        (line,) = read(f"{head} 1 a.cc:1] x")
        assert (line.level, line.source, line.logger, line.message) == (
            level,
            "tritonserver",
            "a.cc:1",
            "x",
        )


def test_a_line_of_its_grpc_library() -> None:
    """It has a head of the same kind, with another clock."""
    (line,) = read("E0000 00:00:1732340000.123456     123 tcp_posix.cc:12] no")
    assert (line.level, line.source, line.message) == ("ERROR", "tritonserver", "no")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('"a \\"b\\"\\n\\tc"', 'a "b"\n\tc'),
        ('"a" and "b"', '"a" and "b"'),
        ('"not closed', '"not closed'),
        ('"', '"'),
        ('"bad \\escape"', '"bad \\escape"'),
    ],
)
def test_quotes(words: str, said: str) -> None:
    """Newer versions quote and escape what they say; anything else is taken as it is."""
    assert [line.message for line in read(HEAD + words)] == [said]


def test_lines_below_a_head_that_says_nothing() -> None:
    """They are its own until an empty line; what follows is printed by models again."""
    lines = read("W" + HEAD[1:], "| a table |", "", "printed")
    assert [(line.level, line.source, line.message) for line in lines] == [
        ("WARNING", "tritonserver", "| a table |"),
        ("INFO", "model", "printed"),
    ]


def test_what_it_prints_without_a_head_is_not_a_models() -> None:
    """Where metrics are on and there is no GPU; a model's own words stay its own."""
    lines = read("Error: Failed to initialize NVML", "Error: of a model")
    assert [line.source for line in lines] == ["tritonserver", "model"]


def test_a_model_that_logs() -> None:
    """Through Triton's logger, which tells the model's own file."""
    (line,) = read('W1123 05:22:23.712047 28664 model.py:38] "beware"')
    assert (line.level, line.source, line.logger) == ("WARNING", "model", "model.py:38")


@given(st.text())
def test_whatever_is_printed_is_read(text: str) -> None:
    """With or without a head; and its message is bounded."""
    for line in read(text, HEAD + text, HEAD + f'"{text}"', HEAD, text):
        assert line.message.strip()
        assert line.source in ("tritonserver", "model")


def test_a_message_has_an_end() -> None:
    """As a sentence of ours."""
    (line,) = read(HEAD + "x" * 50_000)
    assert line.message == "x" * SENTENCE_MAX + "..."


def test_who_may_have_printed_a_name() -> None:
    """Lines without a head are searched as what anybody may have printed."""
    asked: list[tuple[str, bool]] = []

    def find(words: str, printed: bool) -> str:
        asked.append((words, printed))
        return "m"

    reader = TritonLines(find)
    lines = [reader.read(line) for line in (HEAD + "a", "b")]
    assert [line.model for line in lines if line] == ["m", "m"]
    assert asked == [("a", False), ("b", True)]
