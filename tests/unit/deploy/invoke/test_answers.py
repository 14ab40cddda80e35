"""Answers in words."""

from __future__ import annotations

from deploy.invoke.bodies import BINARY_TYPE, write_answer
from deploy.invoke.sending import percentile, write_times

HEAD = b'{"outputs":[{"name":"click","datatype":"FP32","shape":[5,1]}]}'


def test_json_is_printed_as_it_is_or_indented() -> None:
    """--pretty changes no value; what is no JSON is as it was."""
    assert write_answer(b'{"a":1.50}', "application/json", pretty=False) == '{"a":1.50}'
    assert write_answer(b'{"a":[1]}', "application/json", pretty=True).splitlines()[1] == '  "a": ['
    assert write_answer(b"data: 1", "text/event-stream", pretty=True) == "data: 1"


def test_tensors_are_told_by_name_type_and_shape() -> None:
    """Their numbers go to a file."""
    kind = f"{BINARY_TYPE};json-header-size={len(HEAD)}"
    first, second = write_answer(HEAD + bytes(20), kind, pretty=False).splitlines()
    assert first == "click  FP32 [5, 1]"
    assert second.startswith("20 bytes of tensors")


def test_what_is_no_text_is_told_by_its_size() -> None:
    """Bytes would spoil the terminal; an answer of no known form is no error."""
    told = write_answer(b"\xff\x00", "image/png", pretty=True)
    assert told == "2 bytes of image/png; --output FILE keeps them"
    strange = write_answer(b"[]", f"{BINARY_TYPE};json-header-size=2", pretty=False)
    assert "no outputs" in strange


def test_percentiles_are_answers_times() -> None:
    """Nearest rank: each is one that was measured."""
    seconds = [number / 1000 for number in range(1, 101)]
    assert percentile(seconds, 0.5) == 0.05
    assert percentile(seconds, 0.99) == 0.099
    assert percentile([0.1], 0.99) == 0.1
    assert write_times([0.1]) == "100 ms"
    assert write_times([2.0, 0.1, 0.1]) == "3 answers: p50 100 ms, p99 2 s; the first 2 s"
