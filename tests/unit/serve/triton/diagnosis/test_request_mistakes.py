"""tritonserver's sentences about requests, and ours in their place."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from serve.triton.diagnosis.request_mistakes import explain_refusal, find_wrong_value

INPUTS = {"user": True, "item": True, "hint": False}
REQUEST = json.dumps(
    {"inputs": [{"name": "user", "datatype": "INT64", "shape": [1], "data": ["a"]}]}
).encode()


def explained(message: str, said: bytes = REQUEST, inputs: dict[str, bool] = INPUTS) -> str:
    return explain_refusal(message, [said[:9], said[9:]], lambda: inputs, "TYPE=stream").said


@pytest.mark.parametrize(
    ("got", "missing", "said"),
    [
        ("'user'", "['item']", "found nothing for 'item'"),
        ("", "['user','item']", "found nothing for 'user', 'item'"),
        ("'x','item','user','hint'", "]", "found 'x', which the model has not"),
        ("'x'", "['user','item']", "found 'x', which the model has not, and nothing for 'user', "),
    ],
)
def test_names_of_inputs(got: str, missing: str, said: str) -> None:
    """Those that are too many are named, too; optional ones are not asked for."""
    message = (
        f"expected 2 inputs but got 1 inputs for model 'm'. Got input(s) [{got}], but missing "
        f"required input(s) {missing}. Please provide all required input(s)."
    )
    for prefix in ("", "[request id: 7] "):
        answer = explained(prefix + message)
        assert said in answer
        assert answer.startswith("the inputs: ")
        assert answer.endswith("; expected 'user', 'item', 'hint'")
    assert explained(message, inputs={}) == message


def test_one_unknown_input() -> None:
    """tritonserver names the first one alone, so that nothing is said of those that lack."""
    message = "unexpected inference input 'usr' for model 'm'"
    assert explained(message) == (
        "the inputs: found 'usr', which the model has not; expected 'user', 'item', 'hint'"
        "; did you mean 'user'?"
    )
    assert explained(message, inputs={}) == message


@pytest.mark.parametrize(
    ("outputs", "behind"),
    [(("click", "buy"), "; expected one of 'click', 'buy'; did you mean 'click'?"), ((), "")],
)
def test_an_unknown_output(outputs: tuple[str, ...], behind: str) -> None:
    message = "unexpected inference output 'clik' for model 'm'"
    found = explain_refusal(message, [], lambda: INPUTS, "", lambda: outputs)
    assert found.said == message + behind


@pytest.mark.parametrize("name", ["\ufeffuser", "User", "user ", "usre"])
def test_what_was_meant(name: str) -> None:
    """A name like one of the model's; a table's first column brings a byte order mark with it."""
    said = explained(f"unexpected inference input '{name}' for model 'm'")
    assert said.endswith("; did you mean 'user'?")
    assert ("; a byte order mark stands in front of '\\ufeffuser'" in said) is ("\ufeff" in name)


def test_a_value() -> None:
    message = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"
    assert explained(message).startswith("the input 'user': found \"a\" at data[0], expected whole")
    assert explained(message, b"no JSON") == message
    assert explained(message, REQUEST + b" " * 300_000) == message


def test_a_decoupled_model() -> None:
    said = explained("HTTP end point doesn't support models with decoupled transaction policy")
    assert said.endswith("; TYPE=stream makes an endpoint that answers in streams")


def test_what_a_log_has_of_a_value() -> None:
    """Not the value."""
    message = "Unable to parse 'data': attempt to access JSON non-signed-integer as signed-integer"
    found = explain_refusal(message, [REQUEST.replace(b'"a"', b'"4111"')], lambda: INPUTS, "")
    assert '"4111"' in found.said
    assert "4111" not in found.logged
    assert "'user'" in found.logged


def test_what_callers_write_takes_no_time() -> None:
    """Ids and names stand in tritonserver's messages, and may hold its own words."""
    words = "] expected 1 inputs but got 1 inputs for model 'a'. Got input(s) ["
    began = time.thread_time()
    for message in (
        f"[request id: {words * 1000}] inference input 'x' data-type is 'INT32'",
        f"expected 1 inputs but got 1 inputs for model 'm'. Got input(s) [{words * 1000}",
        f"unexpected inference input '{'x' * 60_000}",
        "[request id: " + "] " * 30_000,
    ):
        assert explained(message) == message
    assert time.thread_time() - began < 0.05


@pytest.mark.parametrize("message", ["boom", "", "ValueError: Unable to parse 'data': x"])
def test_other_words_stay(message: str) -> None:
    assert explained(message) == message


def body(*inputs: tuple[str, Any]) -> bytes:
    given = [
        {"name": f"i{number}", "shape": [1], "datatype": data_type, "data": data}
        for number, (data_type, data) in enumerate(inputs)
    ]
    return json.dumps({"inputs": given}).encode()


@pytest.mark.parametrize(
    ("data_type", "wrong", "expected"),
    [
        ("INT64", "a", 'found "a" at data[1], expected whole numbers (INT64)'),
        ("INT8", 1.5, "found 1.5 at data[1], expected whole numbers (INT8)"),
        ("INT32", True, "found true at data[1], expected whole numbers (INT32)"),
        ("INT64", 1 << 63, "found 9223372036854775808 at data[1]"),
        ("UINT16", -1, "found -1 at data[1], expected whole numbers from 0 on (UINT16)"),
        ("FP32", None, "found null at data[1], expected numbers (FP32)"),
        ("FP64", "x" * 100, f'found "{"x" * 39}… at data[1], expected numbers (FP64)'),
        ("BOOL", 1, "found 1 at data[1], expected true or false (BOOL)"),
        ("BYTES", 3, "found 3 at data[1], expected strings (BYTES)"),
    ],
)
def test_the_first_wrong_value(data_type: str, wrong: object, expected: str) -> None:
    """With its input and its place; what comes before it is right."""
    right = {"BOOL": True, "BYTES": "s"}.get(data_type, 7)
    found = find_wrong_value(body(("FP32", [1, 2.5]), (data_type, [right, wrong, "later"])))
    assert found is not None
    assert found.said.startswith(f"the input 'i1': {expected}")
    assert found.logged.startswith("the input 'i1': found another value at data[1], expected ")


def test_lists_in_lists() -> None:
    found = find_wrong_value(body(("INT8", [[1], [[]], [2, None]])))
    assert found is not None
    assert "found null at data[2][1]," in found.said


def test_a_deep_one_takes_no_longer() -> None:
    """The work is that of the values, not of them times their depth; the place is cut."""
    data: Any = [*range(20_000), "x"]
    for _ in range(90):
        data = [data]
    began = time.thread_time()
    found = find_wrong_value(body(("INT64", data)))
    assert time.thread_time() - began < 0.2
    assert found is not None
    assert found.said == (
        "the input 'i0': found \"x\" at data[0][0][0][0]…, expected whole numbers (INT64)"
    )


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{", b'{"inputs": 3}', b'{"inputs": [3]}', b'{"inputs": [{}]}', b"[" * 100_000],
)
def test_what_is_no_request(text: bytes) -> None:
    """Others say what is wrong with it."""
    assert find_wrong_value(text) is None


def test_nothing_wrong() -> None:
    """Nor with types that are not known here."""
    fine = body(("INT64", [1]), ("FP32", [1, 2.5]), ("BOOL", [True]), ("FP16", ["?"]))
    assert find_wrong_value(fine) is None
