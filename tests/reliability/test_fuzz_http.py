"""Random requests neither kill nor mislead: the short form of `make fuzz-http`, and its oracle."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.reliability.corpus.hostile_requests import body, tensor
from tests.reliability.fuzz_http import fuzz, judge, smaller
from tests.reliability.random_requests import Case, Request, case, from_json
from tests.reliability.reading import Must, Reading, Tensor, read
from tests.reliability.wire import Answer
from tests.support.protocol import BINARY

REQUESTS = 3000
SEED = 11


@pytest.mark.thorough
def test_three_thousand_requests(tmp_path: Path) -> None:
    """tritonserver lives, no caller gets a 5xx, and the values are those that were sent."""
    found, _ = fuzz(tmp_path, SEED, 0, REQUESTS)
    assert found.failures == (), found.text()


# -- the reading


@pytest.mark.parametrize(
    ("content", "must"),
    [
        (body(tensor("FP32", [2], [1, 2.5])), "take"),
        (body(tensor("BYTES", [1], ["é"]), id="7"), "take"),
        (body(tensor("FP32", [3], [1, 2])), "refuse"),
        (body(tensor("FP32", [1 << 62], [1, 2])), "refuse"),
        (body(tensor("BYTES", [1], [1])), "refuse"),
        (body(tensor("FP16", [1], [1])), "refuse"),
        (body(tensor("FP32", [1, 1], [1])), "refuse"),
        (body(tensor("FP32", [1], [1]), parameters=5), "refuse"),
        (body(tensor("FP32", [1], [1]), parameters={"sequence_id": 5}), "either"),
        (body(tensor("INT64", [1], [1.0])), "either"),
        (b'{"inputs": [], "inputs": []}', "either"),
        (b"[" * 100_000, "refuse"),
        (b"", "refuse"),
    ],
)
def test_what_a_request_says(content: bytes, must: Must) -> None:
    """What the protocol says is right must be taken, what it says is wrong refused."""
    assert read([], content, 1).must == must


def test_values_are_read_in_both_forms() -> None:
    """The same tensor in JSON and in the binary form is the same."""
    plain = read([], body(tensor("FP32", [2], [1, 0.1])), 1)
    head = json.dumps(
        {
            "inputs": [
                {
                    "name": "IN_FP32",
                    "datatype": "FP32",
                    "shape": [2],
                    "parameters": {"binary_data_size": 8},
                }
            ]
        }
    ).encode()
    content = struct.pack("<2f", 1, 0.1)
    media = ("Content-Type", f"{BINARY};json-header-size={len(head)}")
    assert read([media], head + content, 1).outputs == plain.outputs
    assert plain.outputs == {"OUT_FP32": Tensor("FP32", (2,), content)}


# -- the judge


def _answer(data: list[float], status: int = 200) -> Answer:
    output = {"name": "OUT_FP32", "datatype": "FP32", "shape": [len(data)], "data": data}
    return Answer(
        status,
        {"content-type": "application/json"},
        json.dumps({"outputs": [output]} if status == 200 else {"error": "no"}).encode(),
    )


def test_the_judge_tells_lies_from_the_truth() -> None:
    """Another value, a 5xx, a refusal of what is right, a taking of what is wrong: all are told."""
    right = read([], body(tensor("FP32", [2], [1, 2])), 1)
    assert judge(right, _answer([1, 2])) is None
    assert judge(right, _answer([1, 3])) == "wrong values"
    assert judge(right, _answer([1, 2], 500)) == "a 500"
    assert judge(right, _answer([1, 2], 400)) == "refused what is right"
    wrong = Reading("refuse", "for a reason")
    assert judge(wrong, _answer([1, 2])) == "took what is wrong (for a reason)"
    assert judge(wrong, _answer([1, 2], 400)) is None
    plain = Answer(400, {"content-type": "text/plain"}, b"no")
    assert "not the contract's" in str(judge(wrong, plain))


# -- cases


def test_a_case_is_made_again() -> None:
    """From its seed and number, and from what is kept of it."""
    for number in range(300):
        one = case(3, number)
        assert case(3, number) == one
        assert from_json(json.loads(json.dumps(one.as_json()))) == one


def test_a_case_is_made_smaller() -> None:
    """Requests, headers and parts of the JSON that the failure does not need are left out."""
    culprit = body(tensor("FP32", [2], [1, 2]), parameters=5)
    innocent = Request(body=body(tensor("FP32", [1], [1])))
    whole = Case(0, "odd", (innocent, Request(headers=(("A", "b"),), body=culprit), innocent))
    less = smaller(whole, lambda one: any(b'"parameters": 5' in each.body for each in one.requests))
    assert [(each.headers, each.body) for each in less.requests] == [((), b'{"parameters": 5}')]
