"""A sample of random JSON requests; `make fuzz-json` sends any number (tests/json_requests)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pytest

from tests.json_requests.compare import compare
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


# Each by itself: pytest would start the containers anew for each pair of the two.
@pytest.mark.parametrize(
    "triton",
    [
        pytest.param(triton, marks=() if triton == NEWEST else pytest.mark.thorough)
        for triton in TRITONS
    ],
    indirect=True,
)
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=() if first < SHORT_COUNT else pytest.mark.thorough)
        for first in range(0, COUNT, 100)
    ],
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
