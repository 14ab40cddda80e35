"""A sample of random JSON requests; `make fuzz-json` sends any number (tests/json_requests)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest

from tests.json_requests.compare import compare, difference
from tests.json_requests.generate import case
from tests.json_requests.served import Ways, served
from tests.support.tritons import NEWEST, TRITONS

SEED = 20
COUNT, SHORT_COUNT = 1000, 300
#: Of each hundred cases, how many are answered and how many are refused, at least.
ANSWERED, REFUSED = 35, 25


@pytest.fixture(scope="module")
def ways(triton: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    """tritonserver, the container that translates all JSON, and one that translates none."""
    with served(tmp_path_factory.mktemp("json-differential"), **triton) as ways:
        yield ways


@pytest.mark.parametrize(
    ("triton", "first"),
    [
        pytest.param(
            triton,
            first,
            marks=() if triton == NEWEST and first < SHORT_COUNT else pytest.mark.thorough,
        )
        for triton in TRITONS
        for first in range(0, COUNT, 100)
    ],
    indirect=["triton"],
)
def test_random_requests(first: int, ways: Ways) -> None:
    """The container refuses what tritonserver refuses, and answers what it answers.

    Made again: python -m tests.json_requests.fuzz --seed SEED --first NUMBER --count 1
    """
    statuses: Counter[int] = Counter()
    for number in range(first, first + 100):
        outcome = compare(case(SEED, number), ways)
        assert outcome.difference is None, f"seed {SEED}, case {number}: {outcome.difference}"
        statuses[outcome.status] += 1
    assert statuses[200] >= ANSWERED
    assert statuses[400] >= REFUSED


def test_planted_differences_are_seen(ways: Ways) -> None:
    """A value, a type, a shape, a name or a header that is not tritonserver's is a difference."""
    request = {
        "inputs": [
            {"name": "IN_FP64", "datatype": "FP64", "shape": [2], "data": [0.5, 0.25]},
            {"name": "IN_BYTES", "datatype": "BYTES", "shape": [1], "data": ["a"]},
        ],
        "outputs": [{"name": "OUT_FP64"}, {"name": "OUT_BYTES"}],
    }
    body = json.dumps(request).encode()
    direct, ours = (way.ask("flat", body, {}) for way in (ways.triton, ways.translating))
    assert difference(direct, ours) is None
    planted = [
        (b"0.25", b"0.25000000000000006"),
        (b"0.5", b"-0.5"),
        (b"0.5,0.25", b"0.25,0.5"),
        (b"0.25", b'"0.25"'),
        (b"0.25", b"NaN"),
        (b"[0.5,0.25]", b"[0.5]"),
        (b'"a"', b'"b"'),
        (b'FP64","shape', b'FP32","shape'),
        (b'"shape":[2]', b'"shape":[1,2]'),
        (b"OUT_BYTES", b"OUT_BITES"),
        (b'"model_version":"1"', b'"model_version":"2"'),
        (b'"model_version":"1",', b""),
        (b'"data"', b'"parameters":{"x":1},"data"'),
        (b'{"name":"OUT_BYTES"', b'{"name":"OUT_BYTES","name":"OUT_BYTES"'),
    ]
    for found, put in planted:
        assert found in ours.body
        changed = replace(ours, body=ours.body.replace(found, put, 1))
        assert difference(direct, changed) is not None, (found, put)
    typed = replace(ours, headers={**ours.headers, "content-type": "application/octet-stream"})
    assert difference(direct, typed) is not None
